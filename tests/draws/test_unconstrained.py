import jax.numpy as jnp
import numpy as np
import pytest
from harness import normal_log_density

import steincheck as sc
from steincheck.draws import to_unconstrained
from steincheck.draws.unconstrained import read_as_parameters


@pytest.mark.parametrize("door", ["find_modes", "witness"])
def test_searches_and_pictures_read_what_the_tests_read(door):
    """A positive parameter on its own scale, by name; its logarithm is the coordinate of the target."""
    target = sc.Target(
        normal_log_density,
        lambda u: -u,
        dim=2,
        names=["log tau", "mu"],
        constrained_names=["tau", "mu"],
        constrain=lambda u: np.column_stack([np.exp(u[:, 0]), u[:, 1]]),
        unconstrain=lambda x: np.column_stack([np.log(x[:, 0]), x[:, 1]]),
    )
    u = np.random.default_rng(0).normal(size=(40, 2))
    columns = {"mu": u[:, 1], "tau": np.exp(u[:, 0])}

    def outcome(draws):
        if door == "find_modes":
            return sc.find_modes(target, draws=draws, rng=0).locations
        return getattr(sc.plot, door)(draws, target, rng=0).collections[0].get_offsets()

    expected = outcome(u)
    for draws in (columns, sc.as_draws(columns), u.reshape(2, 20, 2), [u[:10], u[10:]]):
        np.testing.assert_allclose(outcome(draws), expected, rtol=1e-9, atol=1e-9)


def gamma_target(names):
    """mu of a normal and sigma of a Gamma(9) distribution; the coordinates are mu and log sigma."""
    return sc.from_jax(
        lambda u: -0.5 * u[0] ** 2 + 9 * u[1] - jnp.exp(u[1]),
        dim=2,
        names=names,
        constrained_names=("mu", "sigma"),
        constrain=lambda u: np.stack([u[:, 0], np.exp(u[:, 1])], axis=1),
        unconstrain=lambda c: np.stack([c[:, 0], np.log(c[:, 1])], axis=1),
    )


def test_an_array_of_parameters_is_suspected():
    rng = np.random.default_rng(0)
    draws = np.stack([rng.normal(size=300), rng.gamma(9, size=300)], axis=1)
    by_name = {"mu": draws[:, 0], "sigma": draws[:, 1]}
    target = gamma_target(["mu", "log_sigma"])
    other = read_as_parameters(draws, target)
    assert other.parameters == ("sigma",)
    assert other.gain > 100
    (warning,) = to_unconstrained(draws, target).warnings
    assert "but if it holds sigma itself" in warning
    with pytest.warns(UserWarning, match="sigma itself|negligible probability") as caught:
        sc.moment_test(draws, target, modes=[[0.0, np.log(9)]], rng=0)
    assert str(caught[0].message) == warning
    assert to_unconstrained(by_name, gamma_target(["mu", "sigma"])).warnings  # names that say nothing
    assert to_unconstrained(target.unconstrain(draws), target).warnings == ()
    assert to_unconstrained(by_name, target).warnings == ()


def test_weights_stay_with_the_draws():
    target = gamma_target(["mu", "log_sigma"])
    columns = {"sigma": np.array([1.0, 2.0]), "mu": np.zeros(2), "log_weight": np.log([1.0, 3.0])}
    draws = to_unconstrained(columns, target)
    np.testing.assert_allclose(draws.weight, [0.25, 0.75])
    np.testing.assert_allclose(draws.values[:, 1], np.log([1, 2]))
