import numpy as np
import pytest
from scipy import special

import steincheck as sc
from steincheck.adapters.parameters import Parameters, with_parameters
from steincheck.adapters.verification import log_jacobian, verify


def constrain(u):
    """mu real, tau positive, w a simplex by a softmax, p in (0, 1)."""
    w = special.softmax(np.column_stack([u[:, 2:4], np.zeros(len(u))]), axis=1)
    return np.column_stack([u[:, 0], np.exp(u[:, 1]), w, special.expit(u[:, 4])])


PARAMETERS = Parameters(
    ("mu", "tau", "w[0]", "w[1]", "w[2]", "p"), ("mu", "tau", "w", "w", "p"), constrain, lambda values: values
)


def without_jacobian(u):
    """mu normal, tau exponential, w Dirichlet(2, 2, 2), p uniform."""
    values = constrain(u)
    return -0.5 * values[:, 0] ** 2 - values[:, 1] + np.log(values[:, 2:5]).sum(axis=1)


def log_density(u):
    values = constrain(u)
    jacobian = np.log(values[:, 1]) + np.log(values[:, 2:5]).sum(axis=1)
    return without_jacobian(u) + jacobian + np.log(values[:, 5]) + np.log1p(-values[:, 5])


def made(log_density):
    return with_parameters(sc.Target(log_density, dim=5), PARAMETERS)


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(20, 5))


def test_the_jacobian_by_differences_is_that_of_the_transformation(points):
    exact = log_density(points) - without_jacobian(points)
    np.testing.assert_allclose(log_jacobian(PARAMETERS, points), exact, atol=1e-7)


def test_a_wrong_sign_and_a_missing_jacobian_are_found():
    differences = sc.target.evaluation.differences
    right = sc.Target(log_density, lambda x: differences(log_density, x).central, dim=5)
    verify(with_parameters(right, PARAMETERS), PARAMETERS, without_jacobian, "Test")
    with pytest.raises(RuntimeError, match="disagrees with Test's own log density: the sign is reversed"):
        verify(made(lambda u: -log_density(u)), PARAMETERS, without_jacobian, "Test")
    with pytest.raises(RuntimeError, match="they differ by more than a constant"):
        verify(made(without_jacobian), PARAMETERS, without_jacobian, "Test")


def test_a_density_without_a_finite_value_near_0_is_mentioned():
    with pytest.warns(UserWarning, match="not finite at any of 3 points near 0"):
        verify(made(lambda u: np.full(len(u), -np.inf)), PARAMETERS, without_jacobian, "Test")


def test_a_density_that_does_not_depend_on_a_coordinate_is_refused():
    """Parameters without a Jacobian that can be compared: one element more than coordinates."""
    doubled = Parameters(
        ("a", "b", "c"), ("a", "b", "b"), lambda u: np.column_stack([u, u[:, 1]]), lambda v: v[:, :2]
    )
    assert log_jacobian(doubled, np.zeros((1, 2))) is None

    def density(u):
        return -0.5 * u[:, 0] ** 2

    with pytest.raises(ValueError, match=r"does not depend on x\[1\], at least far out: it is improper"):
        verify(sc.Target(density, dim=2), doubled, density, "somelib")
