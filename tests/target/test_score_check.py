"""The score and the Hessian against finite differences, noisy ones included."""

import jax.numpy as jnp
import numpy as np
import pytest
from harness import normal_log_density, quiet_check, standard_normal

import steincheck as sc
from steincheck.target import check_score, score_warnings


class TestCheckScore:
    scale = np.array([1e-3, 1.0, 1e3])

    def draws(self):
        return np.random.default_rng(2).normal(size=(100, 3)) * self.scale

    def target(self, score):
        return sc.Target(
            lambda x: -0.5 * np.sum((x / self.scale) ** 2, axis=1), score, dim=3, names=["a", "b", "c"]
        )

    def test_a_right_score_passes_on_all_scales(self):
        check_score(self.target(lambda x: -x / self.scale**2), self.draws())

    def test_a_reversed_sign_is_named(self):
        with pytest.raises(ValueError, match="the sign is reversed"):
            check_score(self.target(lambda x: x / self.scale**2), self.draws())

    def test_a_wrong_coordinate_is_named(self):
        wrong = np.array([1.0, 1.02, 1.0])
        with pytest.raises(ValueError, match=r"coordinate 1 \(b\)") as error:
            check_score(self.target(lambda x: -wrong * x / self.scale**2), self.draws())
        assert "coordinate 0" not in str(error.value)
        assert "coordinate 2" not in str(error.value)

    def test_a_forgotten_jacobian_is_found(self):
        # log density of log(y) for y ~ Exp(1) is x - exp(x); the score without the Jacobian lacks the 1
        target = sc.Target(lambda x: x[:, 0] - np.exp(x[:, 0]), lambda x: -np.exp(x), dim=1)
        with pytest.raises(ValueError, match="coordinate 0"):
            check_score(target, np.random.default_rng(3).normal(size=(50, 1)))


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
    check_score(target, x)
    wrong = sc.Target(target.log_density, lambda x: 1.5 * target.score(x), dim=target.dim)
    with pytest.raises(ValueError, match="`score` disagrees"):
        check_score(wrong, x)


def test_a_right_score_is_right_whatever_the_farthest_draw():
    """At 1 the score of Cauchy's distribution is stationary: a long step looks right to second order."""
    target = sc.Target(lambda x: -np.log1p(x[:, 0] ** 2), lambda x: -2 * x / (1 + x**2), dim=1)
    draws = np.concatenate([[1.0], np.linspace(-3, 3, 28), [4947.0]])[:, None]
    check_score(target, draws)
    wrong = sc.Target(target.log_density, lambda x: -2.01 * x / (1 + x**2), dim=1)
    with pytest.raises(ValueError, match="`score` disagrees"):
        check_score(wrong, draws)


@pytest.mark.parametrize("score", [None, np.negative], ids=["no score", "score"])
def test_a_hessian_of_the_wrong_sign_is_named(score):
    def hessian(x):
        return np.broadcast_to(np.eye(2), (len(x), 2, 2))

    wrong = sc.Target(normal_log_density, score, dim=2, hessian=hessian)
    draws = np.random.default_rng(0).normal(size=(50, 2))
    for use in (
        lambda: sc.ksd_test(draws, wrong, rng=0),
        lambda: quiet_check(draws, wrong, modes=[[0.0, 0.0]]),
    ):
        with pytest.raises(ValueError, match=r"`hessian` disagrees .*, column . it is 1, "):
            use()


def test_a_right_hessian_is_not_blamed_for_rounding_or_for_modes_that_are_none():
    def bimodal(x):
        return np.log(np.cosh(3 * x[:, 0])) - 0.5 * x[:, 0] ** 2 - 4.5

    def hessian(x):
        return (9 / np.cosh(3 * x) ** 2 - 1)[:, :, None]

    draws = np.random.default_rng(0).normal(size=(50, 1))
    for constant in (0.0, 1e8):
        right = sc.Target(lambda x, c=constant: bimodal(x) + c, dim=1, hessian=hessian)
        with pytest.warns(UserWarning, match="no score"):
            result = sc.ksd_test(draws, right, rng=0)
        with pytest.warns(UserWarning, match="no score"):
            plain = sc.ksd_test(draws, sc.Target(right.log_density, dim=1), rng=0)
        assert result.pvalue == plain.pvalue
    right = sc.Target(bimodal, dim=1, hessian=hessian)
    with pytest.raises(ValueError, match="`modes` must be local maxima"):
        sc.flux_test(draws, right, modes=[[0.0], [3.0]], rng=0)


def test_a_hessian_is_compared_with_the_score():
    def gaussian(hessian):
        return standard_normal(2, hessian=hessian)

    points = np.random.default_rng(0).normal(size=(20, 2))
    score_warnings(gaussian(lambda x: np.tile(-np.eye(2), (len(x), 1, 1))), points, check=True)
    with pytest.raises(ValueError, match=r"`hessian` disagrees"):
        score_warnings(gaussian(lambda x: np.tile(np.eye(2), (len(x), 1, 1))), points, check=True)
    with pytest.raises(
        ValueError, match=r"`hessian` must return shape \(n, 2, 2\) for n points, got \(2, 2\)"
    ):
        score_warnings(gaussian(lambda x: -np.eye(2)), points, check=True)


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
        check_score(sc.Target(log_density, np.negative, dim=dim), x)
        assert sum(evaluations) <= 105
        for wrong in (np.positive, lambda x: 0.7 - x):
            with pytest.raises(ValueError, match="`score` disagrees"):
                check_score(sc.Target(log_density, wrong, dim=dim), x)


def test_one_wrong_coordinate_of_many_is_named():
    def score(x):
        return -x * np.where(np.arange(50) == 37, 1.1, 1.0)

    x = np.random.default_rng(0).normal(size=(100, 50))
    with pytest.raises(ValueError, match="in coordinate 37: the score is") as error:
        check_score(sc.Target(normal_log_density, score, dim=50), x)
    assert "coordinate 36" not in str(error.value)
