"""The same posterior in four packages: one density, one score, one way to the parameters and back."""

import numpy as np
import pytest

from .posteriors import DATA

pytestmark = pytest.mark.adapters

PACKAGES = ("numpyro", "pymc", "stan")


@pytest.fixture(params=list(DATA))
def posterior(request):
    return request.param


def points(dim, n=20):
    return np.random.default_rng(5).normal(size=(n, dim))


def assert_equal_up_to_a_constant(one, two):
    np.testing.assert_allclose(one - one[0], two - two[0], atol=1e-8, rtol=1e-9)


@pytest.mark.parametrize("package", ["numpyro", "torch", "pymc"])
def test_density_and_score_agree_with_stan(package, posterior, target_of):
    if (package, posterior) == ("pymc", "regression"):
        pytest.skip("PyMC's coordinates of a simplex are others")
    stan, other = target_of("stan", posterior), target_of(package, posterior)
    x = points(stan.dim)
    assert_equal_up_to_a_constant(stan.log_density(x), other.log_density(x))
    np.testing.assert_allclose(stan.score(x), other.score(x), rtol=1e-6, atol=1e-6)


def test_pymc_agrees_with_stan_through_another_transformation_of_the_simplex(target_of):
    """PyMC's coordinates v of the simplex are not Stan's u: p(u) = p(v) |dv/du|."""
    stan, pymc = target_of("stan", "regression"), target_of("pymc", "regression")
    x = points(stan.dim)

    def other(x):
        return pymc.unconstrain(stan.constrain(x))

    def slopes(x, step=1e-5):
        moves = step * np.eye(stan.dim)
        ahead, behind = (other((x[:, None] + s * moves).reshape(-1, stan.dim)) for s in (1, -1))
        return ((ahead - behind) / (2 * step)).reshape(len(x), stan.dim, stan.dim)  # [i, j, k]: dv_k / du_j

    jacobian = np.linalg.slogdet(slopes(x))[1]
    assert_equal_up_to_a_constant(stan.log_density(x), pymc.log_density(other(x)) + jacobian)
    h = 1e-4 * np.eye(stan.dim)
    bend = [(np.linalg.slogdet(slopes(x + e))[1] - np.linalg.slogdet(slopes(x - e))[1]) / 2e-4 for e in h]
    chained = np.einsum("ijk,ik->ij", slopes(x), pymc.score(other(x))) + np.array(bend).T
    np.testing.assert_allclose(stan.score(x), chained, rtol=1e-6, atol=2e-6)


def test_parameters_are_the_same_in_all_packages(posterior, target_of):
    stan = target_of("stan", posterior)
    values = stan.constrain(points(stan.dim))
    for package in PACKAGES:
        target = target_of(package, posterior)
        assert target.constrained_names == stan.constrained_names
        assert target.names == stan.names
        x = target.unconstrain(values)
        np.testing.assert_allclose(target.unconstrain(target.constrain(x)), x, atol=1e-10)
        np.testing.assert_allclose(target.constrain(target.unconstrain(values)), values, rtol=1e-9)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(("column", "value"), [("w[0]", 0.7), ("cut[0]", 9.0), ("w[1]", -0.1)])
def test_draws_outside_the_support_are_named(package, column, value, target_of):
    target = target_of(package, "regression")
    values = target.constrain(points(target.dim))
    values[[4, 7], target.constrained_names.index(column)] = value
    with pytest.raises(ValueError, match=r"2 of 20 rows do not, rows \[4, 7\] .*; at row 4"):
        target.unconstrain(values)


@pytest.mark.parametrize("package", [*PACKAGES, "torch"])
def test_absurd_points_leave_the_other_rows_alone(package, target_of):
    target = target_of(package, "schools")
    x = points(target.dim)
    expected = target.log_density(x)
    absurd = x.copy()
    absurd[3] = 1e300
    absurd[5] = np.nan
    with np.errstate(all="ignore"):
        found = target.log_density(absurd)
        slope = target.score(absurd)
    good = np.setdiff1d(np.arange(len(x)), [3, 5])
    np.testing.assert_array_equal(found[good], expected[good])
    np.testing.assert_array_equal(slope[good], target.score(x)[good])
    assert not np.isfinite(found[[3, 5]]).any()
