"""The Gaussian-Bernoulli restricted Boltzmann machine."""

import numpy as np
import pytest
from scipy import stats

from steincheck import models
from steincheck.samplers import gibbs_rbm

RBM = (
    np.random.default_rng(3).normal(size=(3, 4)),
    np.array([0.3, -0.2, 0.5]),
    np.array([0.4, -0.6, 0.1, 0.2]),
)


def pearson(counts, chances):
    """p-value of Pearson's test."""
    expected = chances / np.sum(chances) * counts.sum()
    return stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(counts) - 1)


def test_rbm_marginal_is_the_sum_over_hidden_states():
    B, b, c = RBM
    target = models.gb_rbm(B, b, c)
    x = target.sample(50, 1)
    states = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T
    joint = 0.5 * x @ B @ states.T + (x @ b)[:, None] + states @ c - 0.5 * np.sum(x**2, axis=1)[:, None]
    assert target.log_density(x) == pytest.approx(np.logaddexp.reduce(joint, axis=1), abs=1e-12)
    a = 0.5 * x @ B + c
    assert target.score(x) == pytest.approx(b - x + 0.5 * np.tanh(a) @ B.T, abs=1e-12)
    curvature = 0.25 * np.einsum("ij,nj,kj->nik", B, 1 - np.tanh(a) ** 2, B) - np.eye(3)
    assert target.hessian(x) == pytest.approx(curvature, abs=1e-12)


def test_rbm_with_large_fields_does_not_overflow():
    target = models.gb_rbm(1e3 * np.eye(2), c=[500.0, -500.0])
    x = target.sample(5, 1)
    assert np.isfinite(target.log_density(x)).all()
    assert np.isfinite(target.hessian(x)).all()


def component_counts(h):
    return np.bincount((h > 0) @ (1 << np.arange(h.shape[1])), minlength=2 ** h.shape[1])


def mixture_weights(B, b, c):
    """gamma(h) of the paper's eq. for the GB-RBM density, in the order of `component_counts`."""
    states = 2 * ((np.arange(2 ** len(c))[:, None] >> np.arange(len(c))) & 1) - 1
    gamma = np.exp(0.5 * np.sum((0.5 * states @ B.T + b) ** 2, axis=1) + states @ c)
    return gamma / gamma.sum()


@pytest.mark.parametrize("B", [RBM[0], 3 * np.eye(3, 4), np.eye(3)[:, [2, 0, 1]] * [1.0, 5.0, 2.0]])
def test_rbm_draws_have_the_weights_of_the_mixture(B):
    b, c = RBM[1], RBM[2][: B.shape[1]]
    x, h = models.gb_rbm(B, b, c).sample_with_labels(20_000, 41)
    assert pearson(component_counts(h), mixture_weights(B, b, c)) > 1e-5
    z = x - 0.5 * h @ B.T - b
    assert stats.kstest(np.sum(z**2, axis=1), stats.chi2(3).cdf).pvalue > 1e-5
    assert np.abs(z.T @ h / len(h)).max() < 5 / np.sqrt(len(h))


def test_gibbs_sampling_agrees_with_exact_draws():
    B, b, c = 0.6 * RBM[0], RBM[1], RBM[2]
    x, h = gibbs_rbm(B, b, c, n=20_000, burn_in=60, rng=42)
    assert pearson(component_counts(h), mixture_weights(B, b, c)) > 1e-5
    exact = models.gb_rbm(B, b, c).sample(20_000, 43)
    for k in range(3):
        assert stats.ks_2samp(x[:, k], exact[:, k]).pvalue > 1e-5


def test_the_shrunken_model_gives_draws_of_well_separated_modes():
    """The paper's trick: Gibbs at lambda' = 0, then a shift; plain Gibbs keeps its starting weights."""
    B, c = 6 * np.eye(5, 3), np.array([0.6, 0.6, 0.0])
    x, h = gibbs_rbm(0 * B, None, c, n=20_000, burn_in=1, rng=44)
    shifted = x + 0.5 * h @ B.T
    exact, states = models.gb_rbm(B, c=c).sample_with_labels(20_000, 45)
    weights = mixture_weights(B, np.zeros(5), c)
    assert pearson(component_counts(h), weights) > 1e-5
    assert pearson(component_counts(states), weights) > 1e-5
    assert stats.ks_2samp(shifted[:, 0], exact[:, 0]).pvalue > 1e-5
    _, stuck = gibbs_rbm(10 / 6 * B, None, c, n=20_000, burn_in=50, rng=46)
    assert pearson(component_counts(stuck), weights) < 1e-20


def test_large_rbms_without_structure_are_sampled_by_gibbs():
    rng = np.random.default_rng(0)
    B = rng.choice([-1.0, 1.0], size=(10, 17))
    x, h = models.gb_rbm(B).sample_with_labels(50, 1, burn_in=5)
    again, _ = gibbs_rbm(B, None, None, 50, burn_in=5, rng=1)
    assert np.array_equal(x, again)
    assert h.shape == (50, 17)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0],), r"`B` must be a finite matrix"),
        (([[np.inf]],), r"`B` must be a finite matrix"),
        ((np.eye(2), [1.0]), r"`b` must be finite with shape \(2,\)"),
        ((np.eye(2), None, [1.0, np.nan]), r"`c` must be finite with shape \(2,\)"),
    ],
)
def test_rbm_rejects_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.gb_rbm(*arguments)
