"""A score against finite differences, noisy ones included; edges and jumps, where Stein's identity fails."""

from contextlib import nullcontext
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from harness import gaussian, normal_log_density, quiet_check

import steincheck as sc
from steincheck.target import discontinuity, log_density_at, score_warnings


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        ([1.0, 1.0, 1.0], None),
        ([-1.0, -1.0, -1.0], "the sign is reversed"),
        ([1.0, 1.2, 1.0], r"(?s)^(?!.*coordinate [02]).*coordinate 1 \(b\)"),
    ],
)
def test_a_wrong_score_is_described_on_all_scales(factor, message):
    scale = np.array([1e-3, 1.0, 1e3])
    normal = gaussian(np.diag(scale**2), names=["a", "b", "c"])
    target = replace(normal, score=lambda x: factor * normal.score(x))
    x = np.random.default_rng(2).normal(size=(100, 3)) * scale
    with nullcontext() if message is None else pytest.raises(ValueError, match=message):
        score_warnings(target, x)


@pytest.mark.parametrize("kind", ["outlier", "narrow and far apart", "float32"])
def test_a_correct_score_is_not_accused(kind):
    rng = np.random.default_rng(0)
    if kind == "outlier":
        target = sc.from_jax(lambda x: -2 * jnp.sum(jnp.log1p(x**2 / 3)), dim=1)
        x = rng.standard_t(3, size=(1000, 1))
        x[0] = 1e5
    elif kind == "narrow and far apart":
        target = sc.from_jax(
            lambda x: jnp.logaddexp(*(-2.5 * jnp.log1p(((x[0] - m) / 0.05) ** 2 / 4) for m in (-1e3, 1e3))),
            dim=1,
        )
        x = 1000 * np.sign(rng.normal(size=(500, 1))) + 0.05 * rng.standard_t(4, size=(500, 1))
    else:
        target = sc.Target(lambda x: (normal_log_density(x) - 10).astype(np.float32), lambda x: -x, dim=2)
        x = rng.normal(size=(500, 2))
    score_warnings(target, x)
    wrong = sc.Target(target.log_density, lambda x: 1.5 * target.score(x), dim=target.dim)
    with pytest.raises(ValueError, match="`score` disagrees"):
        score_warnings(wrong, x)


def test_a_right_score_is_right_whatever_the_farthest_draw():
    """At 1 the score of Cauchy's distribution is stationary: a long step looks right to second order."""
    target = sc.Target(lambda x: -np.log1p(x[:, 0] ** 2), lambda x: -2 * x / (1 + x**2), dim=1)
    draws = np.concatenate([[1.0], np.linspace(-3, 3, 28), [4947.0]])[:, None]
    score_warnings(target, draws)
    wrong = sc.Target(target.log_density, lambda x: -2.01 * x / (1 + x**2), dim=1)
    assert len(score_warnings(wrong, draws)) == 1


@pytest.mark.parametrize("dim", [1, 3, 30])
def test_noise_of_the_log_density_is_no_fault_of_the_score(dim):
    """A differential equation solved to 1e-6."""
    noise = np.random.default_rng(1)
    evaluations = []

    def log_density(x):
        evaluations.append(len(x))
        return normal_log_density(x) + 1e-6 * noise.normal(size=len(x))

    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=(100, dim))
        evaluations.clear()
        assert score_warnings(sc.Target(log_density, np.negative, dim=dim), x) == []
        assert sum(evaluations) <= 105
        for wrong in (np.positive, lambda x: 0.7 - x):
            with pytest.raises(ValueError, match="`score` disagrees"):
                score_warnings(sc.Target(log_density, wrong, dim=dim), x)


def test_a_log_density_that_is_solved_to_few_digits_is_a_warning():
    """Its error of .01 turns over every 0.3 sd: the score is exact, the differences are 3 % off."""

    def log_density(x):
        return normal_log_density(x) + 0.01 * np.sin(x / 0.3).sum(axis=1)

    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=(100, 3))
        (warning,) = score_warnings(sc.Target(log_density, np.negative, dim=3), x)
        assert "by up to" in warning
        for wrong in (np.positive, lambda x: 0.7 - x, lambda x: -1.2 * x):
            with pytest.raises(ValueError, match="`score` disagrees"):
                score_warnings(sc.Target(log_density, wrong, dim=3), x)


def rng(seed=0):
    return np.random.default_rng(seed)


def found(log_density, x, seed=0):
    target = sc.Target(log_density, dim=x.shape[1])
    return discontinuity(target, x, log_density_at(target, x), rng(seed))


def stepped(x):
    """Seven times as high on the right."""
    return normal_log_density(x) + np.where(x[:, 0] > 0, 2.0, 0.0)


@pytest.mark.parametrize("right_share", [0.5, 0.881])
def test_a_jump_inside_the_density_is_neither_a_fit_nor_a_misfit(right_share):
    x = rng(1).normal(size=(600, 2))
    x[:, 0] = np.abs(x[:, 0]) * np.where(rng(2).random(600) < right_share, 1, -1)
    for seed in range(30):
        gap = found(stepped, x, seed)
        assert abs(gap.x[0]) < 1e-9
        assert gap.drop == pytest.approx(2.0, abs=1e-6)
    verdict = quiet_check(x, sc.Target(stepped, np.negative, dim=2), max_evaluations=20_000)
    assert verdict.fits is None
    assert "the density jumps by a factor of 7.39 near (x[0] = " in verdict.sentence
    assert "kernel" not in verdict.tests
    assert "moments" not in verdict.tests


@pytest.mark.parametrize("floor", [-np.inf, -1e10, -1e300, -1e5, -20.0])
def test_an_edge_is_seen_whatever_is_returned_beyond_it(floor):
    x = rng(3).exponential(size=(500, 1))
    gap = found(lambda x: np.where(x[:, 0] > 0, -x[:, 0], floor), x)
    assert abs(gap.x[0]) < 1e-9
    normal = rng(4).normal(size=(900, 1))
    normal = normal[normal[:, 0] > -1][:500]
    gap = found(lambda x: np.where(x[:, 0] > -1, -0.5 * x[:, 0] ** 2, floor), normal)
    assert gap.x[0] == pytest.approx(-1)


def correlated(gap=1e-10):
    z = rng(7).normal(size=(500, 2))
    x = np.sqrt(1 - gap / 2) * z[:, :1] + np.sqrt(gap / 2) * z[:, 1:] * [1, -1]
    inverse = np.linalg.inv(np.array([[1, 1 - gap], [1 - gap, 1]]))
    return lambda x: -0.5 * np.einsum("ni,ij,nj->n", x, inverse, x), x


def funnel():
    v = 3 * rng(8).normal(size=(500, 1))
    x = np.concatenate([v, np.exp(v / 2) * rng(9).normal(size=(500, 5))], axis=1)
    return (
        lambda x: (
            -(x[:, 0] ** 2) / 18 - 0.5 * np.sum(x[:, 1:] ** 2, axis=1) * np.exp(-x[:, 0]) - 2.5 * x[:, 0]
        ),
        x,
    )


def banana():
    x = rng(10).normal(size=(500, 2))
    x[:, 1] = 0.01 * x[:, 1] + x[:, 0] ** 2
    return lambda x: -0.5 * x[:, 0] ** 2 - 0.5 * ((x[:, 1] - x[:, 0] ** 2) / 0.01) ** 2, x


def gamma(shape):
    return lambda x: np.where(x > 0, (shape - 1) * np.log(np.maximum(x, 1e-300)) - x, -np.inf)[:, 0]


CONTINUOUS = {
    "normal": lambda: (normal_log_density, rng(13).normal(size=(500, 2))),
    "correlation 1 - 1e-10": correlated,
    "funnel": funnel,
    "banana": banana,
    "Laplace about 1e14": lambda: (
        lambda x: -np.abs(x - 1e14).sum(axis=1),
        1e14 + rng(14).laplace(size=(500, 3)),
    ),
    "Cauchy": lambda: (lambda x: -np.log1p(x**2).sum(axis=1), rng(15).standard_cauchy(size=(500, 2))),
    "gamma, 0 at its edge": lambda: (gamma(5.0), rng(16).gamma(5, size=(500, 1))),
    "inverse gamma": lambda: (
        lambda x: np.where(x > 0, -2 * np.log(np.abs(x)) - 1 / np.abs(x), -np.inf)[:, 0],
        1 / rng(16).gamma(1, size=(4000, 1)),
    ),
    "0 in the middle": lambda: (
        lambda x: np.log(np.abs(x[:, 0]) + 1e-300) - 0.5 * x[:, 0] ** 2,
        rng(17).choice([-1, 1], size=(500, 1)) * np.sqrt(2 * rng(18).exponential(size=(500, 1))),
    ),
    "single precision": lambda: (
        lambda x: normal_log_density(x.astype(np.float32) - 1000),
        1000 + rng(19).normal(size=(500, 2)),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_steep_densities_have_neither_edge_nor_jump(name):
    log_density, x = CONTINUOUS[name]()
    for seed in range(3):
        assert found(log_density, x, seed) is None


@pytest.mark.parametrize("floor", [-np.inf, -1e10, -1e300, -1e5])
@pytest.mark.parametrize("shape", [1.5, 2.0, 2.5])
def test_the_power_as_which_a_density_vanishes_is_estimated(shape, floor):
    """A gamma density vanishes as x to the power shape - 1."""
    inside = gamma(shape)

    def log_density(x):
        return np.where(x[:, 0] > 0, inside(np.abs(x)), floor)

    edge = found(log_density, rng(23).gamma(shape, size=(2000, 1)))
    assert abs(edge.x[0]) < 1e-9
    assert edge.exponent == pytest.approx(shape - 1, abs=0.15)


def test_an_edge_that_is_no_coordinate_is_seen():
    """A half plane x + y < 1, with a density that vanishes as the distance, and three other coordinates."""
    gap = rng(24).gamma(2, size=2000)
    x = rng(25).normal(size=(2000, 5))
    x[:, 1] = 1 - gap - x[:, 0]

    def log_density(x):
        gap = 1 - x[:, 0] - x[:, 1]
        height = np.log(np.maximum(gap, 1e-300)) - gap
        return np.where(gap > 0, height, -np.inf) + normal_log_density(np.delete(x, 1, axis=1))

    edge = found(log_density, x)
    assert edge.x[:2].sum() == pytest.approx(1, abs=1e-9)
    assert edge.exponent == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("late", ["raises", "nan"])
def test_a_function_that_fails_late_is_not_taken_for_an_edge(late):
    calls = [0]

    def log_density(x):
        calls[0] += len(x)
        if calls[0] > 300 and late == "raises":
            raise ValueError("lost")
        return normal_log_density(x) * (np.nan if calls[0] > 300 else 1.0)

    draws = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.raises(ValueError, match=r"`log_density` (fails .*lost|must be finite at every point)"):
        sc.ksd_test(draws, sc.Target(log_density, np.negative, dim=2), rng=0)


def test_edges_and_jumps_cost_few_evaluations():
    """No point is evaluated twice: 250 for edges, 64 lines of 13 and their parts for jumps."""
    x = rng(28).normal(size=(1000, 10))
    made = []
    found(lambda x: made.append(len(x)) or normal_log_density(x), x)
    assert sum(made) - 1005 < 2500


def test_single_tests_warn_of_a_jump():
    with pytest.warns(
        UserWarning, match="the density jumps by a factor of 7.39 near x = .*wrong ones accepted"
    ):
        sc.ksd_test(rng(6).normal(size=(300, 2)), sc.Target(stepped, np.negative, dim=2), rng=0)
