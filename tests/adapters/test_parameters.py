"""Parameters and coordinates, without the packages that the adapters adapt."""

from importlib.util import find_spec

import numpy as np
import pytest
from scipy import special

import steincheck as sc
from steincheck.adapters.parameters import Parameters, user_parameters, with_parameters
from steincheck.draws import to_unconstrained
from steincheck.draws.names import element_names


def constrain(u):
    """mu real, tau positive, w a simplex by a softmax, p in (0, 1)."""
    w = special.softmax(np.column_stack([u[:, 2:4], np.zeros(len(u))]), axis=1)
    return np.column_stack([u[:, 0], np.exp(u[:, 1]), w, special.expit(u[:, 4])])


def unconstrain(values):
    logs = np.log(values[:, 2:5])
    return np.column_stack(
        [values[:, 0], np.log(values[:, 1]), logs[:, :2] - logs[:, 2:], special.logit(values[:, 5])]
    )


PARAMETERS = Parameters(("mu", "tau", "w[0]", "w[1]", "w[2]", "p"), 5, constrain, unconstrain)


def made():
    return with_parameters(sc.Target(lambda u: -0.5 * np.sum(u**2, axis=1), dim=5), PARAMETERS)


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(20, 5))


def intervals(u):
    """rho in (-1, 1), s above 2, b below 10; a Cholesky factor of a 3 x 3 correlation matrix by its rows."""
    z = np.tanh(u[:, 3:])
    rest = np.sqrt(1 - z**2)
    one, zero = np.ones(len(u)), np.zeros(len(u))
    second = [z[:, 0], rest[:, 0], zero]
    third = [z[:, 1], rest[:, 1] * z[:, 2], rest[:, 1] * rest[:, 2]]
    edges = [np.tanh(u[:, 0] / 2), 2 + np.exp(u[:, 1]), 10 - np.exp(-u[:, 2])]
    return np.column_stack([*edges, one, zero, zero, *second, *third])


def test_coordinates_are_named_by_the_interval_or_by_the_element_they_begin():
    names = ("rho", "s", "b", *element_names("L", (3, 3)))
    parameters = Parameters(names, 6, intervals, None)
    target = with_parameters(sc.Target(lambda u: -np.sum(u**2, axis=1), dim=6), parameters)
    assert target.names[:3] == ("logit rho in (-1, 1)", "log(s - 2)", "-log(10 - b)")
    assert target.names[3:] == tuple(f"unconstrained L[{index}]" for index in ("1,0", "2,0", "2,1"))
    scales = user_parameters(target)[:3]
    assert [scale.scale for scale in scales] == ["logit", "log", "log"]
    u = np.linspace(-2, 2, 5)
    for j, scale in enumerate(scales):
        columns = np.zeros((5, 6))
        columns[:, j] = u
        np.testing.assert_allclose(scale.values(u), intervals(columns)[:, j], rtol=1e-12)
        slope = (scale.values(u + 1e-6) - scale.values(u - 1e-6)) / 2e-6
        np.testing.assert_allclose(np.exp(scale.log_slope(u)), slope, rtol=1e-8)


def test_rounded_simplices_are_understood_and_others_refused(points):
    values = constrain(points)
    rounded = values.astype(np.float32)
    np.testing.assert_allclose(made().unconstrain(rounded), points, atol=1e-5)
    values[[2, 8], 3] = 0.9
    with pytest.raises(ValueError, match=r"2 of 20 rows do not, rows \[2, 8\] .*; at row 2"):
        made().unconstrain(values)


@pytest.mark.parametrize(
    ("package", "make", "command"),
    [
        ("numpyro", lambda: sc.from_numpyro(lambda: None), r"steincheck\[numpyro\]"),
        ("pymc", lambda: sc.from_pymc(None), r"steincheck\[pymc\]"),
        ("httpstan", lambda: sc.from_stan("parameters { real mu; } model {}"), r"steincheck\[stan\]"),
        ("torch", lambda: sc.from_torch(lambda x: x, 1), r"steincheck\[torch\]"),
        ("arviz", lambda: sc.to_arviz(np.zeros((5, 2))), r"steincheck\[arviz\]"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(package, make, command):
    if find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(ImportError, match=f"pip install '{command}'"):
        make()


def test_named_draws_are_transformed_and_chains_kept(points):
    values = constrain(points).reshape(2, 10, 6)
    by_name = {"p": values[..., 5], "tau": values[..., 1], "w": values[..., 2:5], "mu": values[..., 0]}
    target = made()
    draws = to_unconstrained(by_name | {"extra": values[..., 0]}, target)
    np.testing.assert_allclose(draws.values, points, atol=1e-12)
    assert (draws.n_chains, draws.names) == (2, tuple(target.names))
