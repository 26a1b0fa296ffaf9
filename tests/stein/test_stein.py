import _thread
import functools
import io
import signal
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import jax_normal

import steincheck as sc
from steincheck.stein import block_sums
from steincheck.stein import tiles as stein
from steincheck.stein.block_sums import single_suffices, sums_of_block_pairs
from steincheck.stein.kernels import IMQ, RBF, stein_kernel
from steincheck.stein.quadratic import flip_signs
from steincheck.stein.tiles import quadratic_forms

compiled_stein_kernel = jax.jit(stein_kernel, static_argnums=0)


@functools.partial(jax.jit, static_argnums=0)
def compiled_profile(kernel, r2):
    return kernel.profile(r2)


def dense(kernel, x, s):
    """H with zero diagonal, by the definition with explicit differences."""
    with jax.enable_x64(True):
        d = x.shape[1]
        difference = x[:, None] - x[None]
        r2 = np.sum(difference**2, axis=-1)
        phi, first, second = (np.asarray(v) for v in compiled_profile(kernel, r2))
        cross = np.einsum("ijk,ijk->ij", s[:, None] - s[None], difference)
        h = phi * (s @ s.T) - 2 * first * cross - 2 * d * first - 4 * r2 * second
    np.fill_diagonal(h, 0)
    return h


def stack(samples, n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, n, d)) + 3
    return x, -(x - 2) + 0.3 * np.sin(x)


@pytest.mark.parametrize("d", [1, 3, 12])
@pytest.mark.parametrize("kernel", [IMQ(2.0), IMQ(1.0, beta=-0.7), RBF(4.0)], ids=repr)
def test_radial_formula_is_the_stein_operator_on_both_sides(kernel, d):
    """u = s.s' k + s.grad_y k + s'.grad_x k + tr grad_x grad_y k, derivatives by autodiff."""
    rng = np.random.default_rng(d)
    x, y, sx, sy = rng.normal(size=(4, 5, d))
    with jax.enable_x64(True):

        def k(a, b):
            return kernel.profile(jnp.sum((a - b) ** 2))[0]

        def u(a, b, sa, sb):
            trace = jnp.trace(jax.jacfwd(jax.grad(k, 0), 1)(a, b))
            return sa @ sb * k(a, b) + sa @ jax.grad(k, 1)(a, b) + sb @ jax.grad(k, 0)(a, b) + trace

        against_all = jax.vmap(u, in_axes=(None, 0, None, 0))
        expected = jax.jit(jax.vmap(against_all, in_axes=(0, None, 0, None)))(x, y, sx, sy)
        computed = compiled_stein_kernel(kernel, x, sx, y, sy)
    np.testing.assert_allclose(computed, expected, rtol=1e-7, atol=1e-9)


def test_stein_kernel_matches_the_golden_matrix(golden):
    arrays, _ = golden
    x, s = arrays["X"], arrays["score"]
    with jax.enable_x64(True):
        u = np.asarray(compiled_stein_kernel(IMQ(float(arrays["imq_lambda"])), x, s, x, s))
    np.testing.assert_allclose(u, arrays["U_full"], rtol=1e-9, atol=1e-11)


def test_expectation_under_the_target_is_zero():
    """E_P[u(x, X)] = 0 for every x: quadrature in one dimension on a mixture."""
    grid = np.linspace(-14, 14, 20_001)[:, None]
    terms = np.stack([-0.5 * (grid[:, 0] + 2) ** 2, -0.5 * ((grid[:, 0] - 3) / 0.5) ** 2])
    p = np.exp(terms).sum(axis=0)
    score = (np.exp(terms) * np.stack([-(grid[:, 0] + 2), -(grid[:, 0] - 3) / 0.25])).sum(axis=0) / p
    weights = p / p.sum()
    points = slice(5000, 15_000, 500)
    with jax.enable_x64(True):
        for kernel in (IMQ(1.3), RBF(0.8)):
            u = compiled_stein_kernel(kernel, grid[points], score[points, None], grid, score[:, None])
            assert np.abs(np.asarray(u) @ weights).max() < 1e-9 * np.abs(u).max()


@pytest.mark.parametrize("n", [2, 255, 256, 257, 700])
@pytest.mark.parametrize(("samples", "d"), [(1, 2), (4, 1), (3, 12)])
def test_streamed_equals_dense(samples, n, d):
    x, s = stack(samples, n, d)
    weights = np.random.default_rng(1).integers(-1, 3, size=(7, n))
    widths = np.array([0.7, 5.0])
    forms = quadratic_forms(x, s, IMQ(), widths, weights, row_sums=True)
    for k, width in enumerate(widths):
        each = [dense(IMQ(width), x[j], s[j]) for j in range(samples)]
        h = sum(each)
        size = np.abs(h).sum()
        assert forms.total[k] == pytest.approx(h.sum(), rel=1e-10, abs=1e-13 * size)
        np.testing.assert_allclose(
            forms.row_sums[k], [u.sum(axis=1) for u in each], rtol=1e-9, atol=1e-12 * size / n
        )
        np.testing.assert_allclose(
            forms.replicates[k], np.einsum("bi,ij,bj->b", weights, h, weights), rtol=1e-10, atol=1e-13 * size
        )


@pytest.mark.parametrize("tile", [(16, 16), (32, 16), (16, 64), (512, 256), (64, 1024)])
def test_results_do_not_depend_on_the_tile(tile):
    x, s = stack(3, 301, 2)
    weights = np.random.default_rng(2).integers(0, 2, size=(5, 301)) * 2 - 1
    one = quadratic_forms(x, s, RBF(), 2.0, weights, row_sums=True)
    other = quadratic_forms(x, s, RBF(), 2.0, weights, row_sums=True, tile=tile)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * np.abs(a).max())


@pytest.mark.parametrize("row_sums", [False, True])
def test_float32_tiles_move_replicates_by_a_millionth(monkeypatch, row_sums):
    x, s = stack(1, 900, 2)
    weights = np.random.default_rng(3).integers(0, 2, size=(50, 900)) * 2 - 1
    exact = quadratic_forms(x, s, IMQ(), 2.0, weights, row_sums=row_sums)
    monkeypatch.setattr(stein, "MULTIPLY_ADDS_IN_DOUBLE", 0.0)
    single = quadratic_forms(x, s, IMQ(), 2.0, weights, row_sums=row_sums)
    spread = exact.replicates.std()
    assert 0 < np.abs(single.replicates - exact.replicates).max() < 1e-5 * spread
    assert abs(single.total[0] - exact.total[0]) < 1e-6 * spread


def test_a_new_n_compiles_nothing():
    x, s = stack(2, 1001, 3)
    weights = np.ones((9, 1001), dtype=np.int8)
    quadratic_forms(x[:, :1000], s[:, :1000], IMQ(), 2.0, weights[:, :1000])
    sizes = [f._cache_size() for f in (stein._tile, stein._sum, stein._multiply_add, stein._contract)]
    quadratic_forms(x, s, IMQ(), 3.0, weights)
    quadratic_forms(x[:, :300], s[:, :300], IMQ(), 2.5, weights[:, :300])
    assert sizes == [f._cache_size() for f in (stein._tile, stein._sum, stein._multiply_add, stein._contract)]


def test_a_kernel_of_ones_own():
    class Cauchy:
        def profile(self, r2):
            q = 1 / (1 + r2)
            return q, -(q**2), 2 * q**3

    x, s = stack(1, 50, 2)
    forms = quadratic_forms(x, s, Cauchy(), 1.0)
    assert forms.total[0] == pytest.approx(dense(Cauchy(), x[0], s[0]).sum(), rel=1e-11)
    assert forms.replicates.shape == (1, 0)


def test_far_from_the_origin_nothing_is_lost():
    """The expanded squared distance of high dimensions is taken about the centre of the draws."""
    x, s = stack(1, 200, 20)
    near = quadratic_forms(x, s, IMQ(), 20.0).total[0]
    far = quadratic_forms(x + 1e6, s, IMQ(), 20.0).total[0]
    assert far == pytest.approx(near, rel=1e-7)


def repeated(n, d, copies):
    """A stack of one sample whose last draws repeat the first, and the number that identical draws share."""
    x, s = stack(1, n, d)
    x[:, n - copies :] = x[:, :copies]
    s[:, n - copies :] = s[:, :copies]
    identity = np.arange(n)
    identity[n - copies :] = np.arange(copies)
    return x, s, identity


@pytest.mark.parametrize("d", [2, 12])
def test_pairs_of_identical_draws_are_left_out(d):
    x, s, identity = repeated(300, d, 20)
    weights = np.random.default_rng(4).integers(-1, 2, size=(5, 300))
    h = dense(IMQ(3.0), x[0], s[0])
    h[identity[:, None] == identity] = 0
    forms = quadratic_forms(x, s, IMQ(), 3.0, weights, identity=identity, row_sums=True)
    np.testing.assert_allclose(forms.row_sums[0, 0], h.sum(axis=1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        forms.replicates[0], np.einsum("bi,ij,bj->b", weights, h, weights), rtol=1e-9, atol=1e-9
    )
    sums = sums_of_block_pairs(x, s, IMQ(), 3.0, np.arange(300) % 7, identity=identity, single=False)
    member = np.eye(7)[np.arange(300) % 7]
    np.testing.assert_allclose(sums.table[0, 0], member.T @ h @ member, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("samples", "n", "d", "q"), [(1, 700, 2, 13), (3, 301, 12, 301), (2, 1100, 1, 20)])
def test_block_sums_equal_dense_sums(samples, n, d, q):
    x, s = stack(samples, n, d)
    widths = np.array([0.7, 5.0])
    block = np.random.default_rng(5).permutation(n) % q
    member = np.eye(q)[block]
    for single, accuracy in ((False, 1e-12), (True, 1e-6)):
        sums = sums_of_block_pairs(x, s, IMQ(), widths, block, row_sums=True, single=single)
        for k, width in enumerate(widths):
            each = np.array([dense(IMQ(width), x[j], s[j]) for j in range(samples)])
            expected = member.T @ each @ member
            np.testing.assert_allclose(sums.table[k], expected, atol=accuracy * np.abs(expected).max())
            rows = each.sum(axis=(0, 2))
            np.testing.assert_allclose(sums.row_sums[k], rows, atol=accuracy * np.abs(rows).max())


def test_float32_is_used_only_where_it_resolves_the_distances():
    x, s = stack(1, 400, 12)
    near = np.concatenate([x, x + 10], axis=1)
    far = np.concatenate([x, x + 1e4], axis=1)
    slopes = np.concatenate([s, s], axis=1)
    block = np.arange(800) % 10
    assert single_suffices(near, np.array([20.0]))
    assert not single_suffices(far, np.array([20.0]))
    exact = sums_of_block_pairs(near, slopes, IMQ(), 20.0, block, single=False).table
    spread = np.abs(exact).mean()
    assert np.abs(sums_of_block_pairs(near, slopes, IMQ(), 20.0, block).table - exact).max() < 1e-4 * spread


def test_float32_moves_replicates_by_little_even_if_the_bandwidth_is_tiny():
    """Separate modes in ten dimensions, a bandwidth of a thousandth of the squared distances within modes."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(1, 1500, 10)) + rng.choice([-12.0, 12.0], size=(1, 1500, 1))
    s = -(x - np.sign(x) * 12)
    block = rng.permutation(1500) % 100
    signs = rng.choice([-1.0, 1.0], size=(300, 100))
    widths = np.array([0.01, 1.0, 100.0])
    assert single_suffices(x, widths)
    exact, single = (
        flip_signs(
            sums_of_block_pairs(x, s, IMQ(), widths, block, single=single).table, np.bincount(block), signs
        )
        for single in (False, True)
    )
    spread = exact.replicates.std(axis=1)
    assert np.all(np.abs(single.replicates - exact.replicates).max(axis=1) < 1e-3 * spread)
    assert np.all(np.abs(single.statistics - exact.statistics) < 1e-3 * spread)


def test_a_new_n_compiles_no_new_block_tile():
    x, s = stack(1, 900, 3)
    sizes = []
    for n in (600, 900, 750):
        sums_of_block_pairs(x[:, :n], s[:, :n], IMQ(), 2.0, np.arange(n) % 8)
        sizes.append(block_sums._tile._cache_size())
    assert len(set(sizes)) == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "shown"), [(Terminal, True), (io.StringIO, False)])
def test_the_time_left_is_shown_on_a_terminal_and_nothing_in_a_pipe(monkeypatch, stream, shown):
    monkeypatch.setattr(block_sums, "MIN_EVALUATIONS_FOR_PROGRESS", 0)
    monkeypatch.setattr(stein, "MIN_EVALUATIONS_FOR_PROGRESS", 0)
    x, s = stack(1, 600, 3)
    for compute in (
        lambda: sums_of_block_pairs(x, s, IMQ(), 2.0, np.arange(600) % 8),
        lambda: quadratic_forms(x, s, IMQ(), 2.0),
    ):
        monkeypatch.setattr(sys, "stderr", stream())
        compute()
        text = sys.stderr.getvalue()
        assert ("Stein kernel" in text and "left" in text) if shown else not text


def test_a_short_test_shows_no_progress(monkeypatch):
    x, s = stack(1, 600, 3)
    monkeypatch.setattr(sys, "stderr", Terminal())
    sums_of_block_pairs(x, s, IMQ(), 2.0, np.arange(600) % 8)
    assert not sys.stderr.getvalue()


# Python swallows an exception that is raised while garbage is collected: the interrupt is then repeated
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_stops_a_long_pass_at_once_and_leaves_nothing_behind():
    x, s = stack(1, 60_000, 3)
    block = np.arange(60_000) % 100
    before = jax.config.jax_enable_x64
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    ended = threading.Event()

    def interrupt():
        while not ended.wait(0.5):
            _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            sums_of_block_pairs(x, s, IMQ(), 2.0, block)  # takes seconds
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGINT, handler)
    assert jax.config.jax_enable_x64 == before
    few = sums_of_block_pairs(x[:, :700], s[:, :700], IMQ(), 2.0, block[:700])
    expected = dense(IMQ(2.0), x[0, :700], s[0, :700]).sum()
    assert few.table.sum() == pytest.approx(expected, rel=1e-5)


def test_a_collapsed_coordinate_is_told():
    x = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 0.0]
    for test in (sc.fssd_test, sc.ksd_test):
        with pytest.warns(UserWarning, match="coordinate 1 is the same in all draws"):
            test(x, jax_normal(), rng=0)
