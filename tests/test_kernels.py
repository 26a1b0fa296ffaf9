import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steincheck as sc
from steincheck.stein.kernels import IMQ, RBF, median_bandwidth

KERNELS = [IMQ(2.5), IMQ(0.3, beta=-0.8), RBF(1.7)]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_profile_holds_the_derivatives_of_phi(kernel):
    with jax.enable_x64(True):
        for r2 in (0.0, 0.1, 3.0, 50.0):
            value, first, second = (float(v) for v in kernel.profile(jnp.float64(r2)))
            h = 1e-5
            reach = [float(kernel.profile(jnp.float64(r2 + k * h))[0]) for k in (0, 1, 2, 3)]
            slope = (-11 * reach[0] + 18 * reach[1] - 9 * reach[2] + 2 * reach[3]) / (6 * h)
            assert value == pytest.approx(reach[0], rel=1e-15)
            assert first == pytest.approx(slope, rel=1e-6)
            h = 1e-3
            up = [float(kernel.profile(jnp.float64(r2 + k * h))[1]) for k in (0, 1, 2, 3)]
            assert second == pytest.approx(
                (-11 * up[0] + 18 * up[1] - 9 * up[2] + 2 * up[3]) / (6 * h), rel=1e-5
            )


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


def test_constant_draws_have_no_bandwidth():
    with pytest.raises(ValueError, match="`draws` must not be constant"):
        median_bandwidth(np.ones((10, 2)))


def test_text_is_no_bandwidth_and_no_beta():
    with pytest.raises(TypeError, match="`bandwidth` must be a positive number or None, got 'median'"):
        RBF("median")
    with pytest.raises(ValueError, match=r"`bandwidth` must be one number, got shape \(2,\)"):
        RBF(np.ones(2))
    with pytest.raises(ValueError, match=r"`beta` must lie in \(-1, 0\), got '-0.5'"):
        IMQ(beta="-0.5")


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.inf, np.nan, np.array(-1.0)])
def test_bad_bandwidth(bandwidth):
    with pytest.raises(ValueError, match="`bandwidth` must be positive"):
        IMQ(bandwidth)
    with pytest.raises(ValueError, match="`bandwidth` must be positive"):
        RBF(bandwidth)


def test_bad_beta_and_missing_bandwidth():
    with pytest.raises(ValueError, match="`beta` must lie in"):
        IMQ(1.0, beta=0.5)
    with pytest.raises(ValueError, match="`bandwidth` is not set"):
        RBF().profile(1.0)


def test_a_profile_must_return_three_arrays_of_the_shape_of_r2(normal_target):
    class TwoParts:
        def profile(self, r2):
            return r2, r2

    with pytest.raises(ValueError, match=r"phi, phi', phi'' in the shape of r2, for shape \(2, 3\)"):
        sc.ksd_test(np.random.default_rng(0).normal(size=(50, 2)), normal_target, kernel=TwoParts(), rng=0)
