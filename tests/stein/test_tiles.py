import functools

import jax
import numpy as np
import pytest

from steincheck.stein.bootstrap import Resampling
from steincheck.stein.kernels import IMQ
from steincheck.stein.quadratic import flip_signs
from steincheck.stein.tiles import quadratic_forms, single_suffices, sums_of_block_pairs


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


@pytest.mark.parametrize("n", [2, 255, 256, 257, 700])
@pytest.mark.parametrize(("samples", "d"), [(1, 2), (4, 1), (3, 12)])
def test_streamed_equals_dense(samples, n, d):
    x, s = stack(samples, n, d)
    weights = np.random.default_rng(1).integers(-1, 3, size=(7, n))
    weight = None if n == 256 else np.random.default_rng(2).random(n)
    pairs = 1.0 if weight is None else np.outer(weight, weight)
    widths = np.array([0.7, 5.0])
    forms = quadratic_forms(x, s, IMQ(), widths, weights, weight=weight, row_sums=True)
    for k, width in enumerate(widths):
        each = [pairs * dense(IMQ(width), x[j], s[j]) for j in range(samples)]
        h = sum(each)
        size = np.abs(h).sum()
        assert forms.total[k] == pytest.approx(h.sum(), rel=1e-10, abs=1e-13 * size)
        np.testing.assert_allclose(
            forms.row_sums[k], [u.sum(axis=1) for u in each], rtol=1e-9, atol=1e-12 * size / n
        )
        np.testing.assert_allclose(
            forms.replicates[k], np.einsum("bi,ij,bj->b", weights, h, weights), rtol=1e-10, atol=1e-13 * size
        )


def test_float32_products_move_replicates_by_a_millionth():
    x, s = stack(1, 2000, 2)
    weights = np.random.default_rng(3).integers(0, 2, size=(800, 2000)) * 2 - 1  # beyond 3e9 multiply-adds
    single = quadratic_forms(x, s, IMQ(), 2.0, weights)
    exact = quadratic_forms(x, s, IMQ(), 2.0, weights[:50])
    spread = exact.replicates.std()
    assert 0 < np.abs(single.replicates[:, :50] - exact.replicates).max() < 1e-5 * spread
    assert abs(single.total[0] - exact.total[0]) < 1e-5 * spread


def test_more_replicates_than_are_held_at_once():
    x, s = stack(1, 60, 2)
    weights = np.random.default_rng(4).integers(0, 2, size=(2500, 60)) * 2 - 1
    h = dense(IMQ(2.0), x[0], s[0])
    forms = quadratic_forms(x, s, IMQ(), 2.0, weights, row_sums=True)
    np.testing.assert_allclose(forms.replicates[0], np.einsum("bi,ij,bj->b", weights, h, weights), rtol=1e-9)
    np.testing.assert_allclose(forms.row_sums[0, 0], h.sum(axis=1), rtol=1e-9, atol=1e-9)


def test_far_from_the_origin_nothing_is_lost():
    """The expanded squared distance of high dimensions is taken about the centre of the draws."""
    x, s = stack(1, 200, 20)
    near = quadratic_forms(x, s, IMQ(), 20.0).total[0]
    far = quadratic_forms(x + 1e6, s, IMQ(), 20.0).total[0]
    assert far == pytest.approx(near, rel=1e-7)


@pytest.mark.parametrize(("samples", "n", "d", "q"), [(1, 700, 2, 13), (3, 301, 12, 301), (2, 1100, 1, 20)])
def test_block_sums_equal_dense_sums(samples, n, d, q):
    x, s = stack(samples, n, d)
    widths = np.array([0.7, 5.0])
    block = np.random.default_rng(5).permutation(n) % q
    member = np.eye(q)[block]
    weight = None if q == 13 else np.random.default_rng(2).random(n)
    pairs = 1.0 if weight is None else np.outer(weight, weight)
    for single, accuracy in ((False, 1e-12), (True, 1e-6)):
        sums = sums_of_block_pairs(x, s, IMQ(), widths, block, weight=weight, row_sums=True, single=single)
        for k, width in enumerate(widths):
            each = np.array([pairs * dense(IMQ(width), x[j], s[j]) for j in range(samples)])
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
    how = Resampling("blocks", rng.choice([-1.0, 1.0], size=(300, 100)), block)
    widths = np.array([0.01, 1.0, 100.0])
    assert single_suffices(x, widths)
    exact, single = (
        flip_signs(sums_of_block_pairs(x, s, IMQ(), widths, block, single=single).table, how)
        for single in (False, True)
    )
    spread = exact.replicates.std(axis=1)
    assert np.all(np.abs(single.replicates - exact.replicates).max(axis=1) < 1e-3 * spread)
    assert np.all(np.abs(single.statistics - exact.statistics) < 1e-3 * spread)
