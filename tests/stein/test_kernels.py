from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steincheck as sc
from steincheck.stein.kernels import IMQ, RBF, median_bandwidth, stein_kernel_of_columns


@partial(jax.jit, static_argnums=0)
def compiled_stein_kernel(kernel, x, sx, y, sy):
    return stein_kernel_of_columns(kernel, x, sx, y.T, sy.T)


KERNELS = [IMQ(2.5), IMQ(0.3, beta=-0.8), RBF(1.7)]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_profile_holds_the_derivatives_of_phi(kernel):
    def phi(r2):
        return kernel.profile(r2)[0]

    with jax.enable_x64(True):
        for r2 in (0.0, 0.1, 3.0, 50.0):
            _, first, second = kernel.profile(jnp.float64(r2))
            np.testing.assert_allclose(first, jax.grad(phi)(r2), rtol=1e-12)
            np.testing.assert_allclose(second, jax.grad(jax.grad(phi))(r2), rtol=1e-12)


def test_imq_and_rbf_are_the_textbook_formulas():
    with jax.enable_x64(True):
        r2 = jnp.asarray(np.geomspace(1e-12, 1e36, 200))
        np.testing.assert_allclose(IMQ(3.0).profile(r2)[0], (1 + np.asarray(r2) / 3) ** -0.5, rtol=1e-14)
        np.testing.assert_allclose(
            IMQ(3.0, beta=-0.2).profile(r2)[0], (1 + np.asarray(r2) / 3) ** -0.2, rtol=1e-13
        )
        # exp turns the rounding of its argument (up to 700) into a relative error
        np.testing.assert_allclose(RBF(3.0).profile(r2)[0], np.exp(-np.asarray(r2) / 3), rtol=2e-13)


def test_imq_of_distances_beyond_float32_is_zero_not_nan():
    with jax.enable_x64(True):
        assert [float(v) for v in IMQ(1.0).profile(jnp.float64(1e60))] == pytest.approx([0.0, 0.0, 0.0])


def test_median_bandwidth_is_the_median_over_pairs():
    x = np.random.default_rng(0).normal(size=(60, 3))
    pairs = [np.sum((x[i] - x[j]) ** 2) for i in range(60) for j in range(i)]
    assert median_bandwidth(x) == pytest.approx(np.median(pairs), rel=1e-14)


def test_median_bandwidth_of_many_draws_is_close_to_the_law():
    # |x - y|^2 of two standard normals in 2-d is 4 * Exp(1): median 4 log 2; the sample median of half a
    # million pairs of 20,000 draws is within 3 % unless something is wrong
    x = np.random.default_rng(1).normal(size=(20_000, 2))
    assert median_bandwidth(x, rng=0) == pytest.approx(4 * np.log(2), rel=0.03)
    assert median_bandwidth(x, rng=0) == median_bandwidth(x, rng=0)


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.inf, np.nan, np.ones(2)])
@pytest.mark.parametrize("kernel", [IMQ, RBF])
def test_bad_bandwidth(kernel, bandwidth):
    with pytest.raises(ValueError, match=r"`bandwidth` must be (positive|one number)"):
        kernel(bandwidth)


class Cauchy:
    """A kernel that is no dataclass, and takes no bandwidth."""

    def __init__(self, width):
        self.width = width

    def profile(self, r2):
        q = 1 / (1 + r2 / self.width)
        return q, -(q**2) / self.width, 2 * q**3 / self.width**2


class WideCauchy(Cauchy):
    """The same kernel with bandwidths, by a method."""

    def __init__(self, width=None):
        super().__init__(width)
        self.bandwidth = width

    def with_bandwidth(self, bandwidth):
        return WideCauchy(bandwidth)


def test_a_kernel_of_any_class_takes_bandwidths_by_its_method(normal_target):
    x = np.random.default_rng(0).normal(size=(60, 2))
    median = sc.median_bandwidth(x)
    fixed = sc.ksd_test(x, normal_target, kernel=Cauchy(median), rng=0)
    for kernel in (WideCauchy(), WideCauchy(median)):
        result = sc.ksd_test(x, normal_target, kernel=kernel, rng=0)
        assert result.bandwidth == median
        assert result.statistic == pytest.approx(fixed.statistic, rel=1e-12)
    several = sc.ksdagg_test(x, normal_target, kernel=WideCauchy(), bandwidths=[0.1, 10.0], rng=0)
    alone = [sc.ksd_test(x, normal_target, kernel=Cauchy(w), rng=0).statistic for w in (0.1, 10.0)]
    np.testing.assert_allclose(several.statistics, alone, rtol=1e-12)


def test_a_kernel_that_takes_no_bandwidth_is_refused_where_it_would_need_one(normal_target):
    x = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(TypeError, match="`kernel` is given a bandwidth, so it must be a dataclass"):
        sc.ksdagg_test(x, normal_target, kernel=Cauchy(1.0), bandwidths=[0.1, 10.0], rng=0)
    unset = Cauchy(4.0)
    unset.bandwidth = None
    with pytest.raises(TypeError, match="`kernel` is given a bandwidth, so it must be a dataclass"):
        sc.ksd_test(x, normal_target, kernel=unset, rng=0)


def test_a_kernel_must_be_hashable_and_take_traced_bandwidths(normal_target):
    @dataclass
    class Mutable:
        bandwidth: float | None = None
        profile = sc.RBF.profile

    @dataclass(frozen=True)
    class Untraceable:
        bandwidth: float | None = None

        def profile(self, r2):
            return sc.RBF(float(self.bandwidth)).profile(r2)

    x = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(TypeError, match="`kernel` must be hashable, as frozen dataclasses are"):
        sc.ksd_test(x, normal_target, kernel=Mutable(), rng=0)
    with pytest.raises(TypeError, match="`kernel` must have a profile written with jax"):
        sc.ksd_test(x, normal_target, kernel=Untraceable(), rng=0)


def test_a_profile_must_return_three_arrays_of_the_shape_of_r2(normal_target):
    class TwoParts:
        def profile(self, r2):
            return r2, r2

    with pytest.raises(ValueError, match=r"phi, phi', phi'' in the shape of r2, for shape \(2, 3\)"):
        sc.ksd_test(np.random.default_rng(0).normal(size=(50, 2)), normal_target, kernel=TwoParts(), rng=0)


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
