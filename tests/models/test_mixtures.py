"""The paper's models: what they share; mixtures of Gaussians, of t and bananas, the Boltzmann machine."""

import pickle

import jax
import numpy as np
import pytest
from harness import PLANE, mixture_log_density
from scipy import stats

from steincheck import models
from steincheck.target.evaluation import differences

RBM = (
    np.random.default_rng(3).normal(size=(3, 4)),
    np.array([0.3, -0.2, 0.5]),
    np.array([0.4, -0.6, 0.1, 0.2]),
)
EVERY_MODEL = {
    "gaussian": lambda: models.gaussian_mixture(*PLANE),
    "t_banana": lambda: models.t_banana_mixture(6, rng=0),
    "sensors": models.sensor_network,
    "rbm": lambda: models.gb_rbm(*RBM),
}


@pytest.fixture(params=EVERY_MODEL)
def model(request):
    return EVERY_MODEL[request.param]()


def test_score_and_hessian_agree_with_differences(model):
    x = model.sample(40, 1)
    coarse, fine = (differences(model.log_density, x, np.full(model.dim, h)).central for h in (4e-5, 2e-5))
    assert model.score(x) == pytest.approx((4 * fine - coarse) / 3, rel=1e-6, abs=1e-6)
    moves = 1e-6 * np.eye(model.dim)
    numeric = np.stack([model.score(x + m) - model.score(x - m) for m in moves], axis=2) / 2e-6
    assert np.abs(model.hessian(x) - numeric).max() < 1e-6 * np.abs(numeric).max()


def test_a_batch_of_any_size_gives_the_same_values(model):
    x = model.sample(3000, 2)
    x = np.concatenate([x, x + 0.01, x - 0.01])
    whole, scores = model.log_density(x), model.score(x)
    for n in (0, 1, 2, 300, 8193):
        assert model.log_density(x[:n]) == pytest.approx(whole[:n], rel=1e-12, abs=1e-11)
        assert model.score(x[:n]).shape == (n, model.dim)
    assert model.score(x[:300]) == pytest.approx(scores[:300], rel=1e-9, abs=1e-9)
    assert model.hessian(x[:65]).shape == (65, model.dim, model.dim)
    with pytest.raises(ValueError, match="`x`"):
        model.score(np.ones((4, model.dim + 1)))
    assert whole.dtype == np.float64
    assert not jax.config.jax_enable_x64


def test_sampling_is_reproducible_and_takes_any_rng(model):
    first, again = model.sample(30, 5), model.sample(30, np.random.default_rng(5))
    assert np.array_equal(first, again)
    assert first.shape == (30, model.dim)
    assert not np.array_equal(first, model.sample(30, 6))
    x, labels = model.sample_with_labels(30, 5)
    assert np.array_equal(x, first)
    assert len(labels) == 30
    assert isinstance(model, models.ModelTarget)
    assert pickle.loads(pickle.dumps(model)).sample_with_labels(30, 5).labels.shape == labels.shape
    with pytest.raises(ValueError, match="`n` must be a positive integer"):
        model.sample(0, 1)


def pearson(counts, chances):
    """p-value of Pearson's test."""
    expected = chances / np.sum(chances) * counts.sum()
    return stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(counts) - 1)


def test_gaussian_mixture_agrees_with_the_golden_numbers(golden):
    arrays, _ = golden
    target = models.gaussian_mixture(arrays["means"], arrays["covs"], arrays["weights"])
    assert target.log_density(arrays["X"]) == pytest.approx(arrays["logp"], abs=1e-11)
    assert target.score(arrays["X"]) == pytest.approx(arrays["score"], abs=1e-11)


def test_draws_of_a_gaussian_mixture():
    means, covariances, weights = (np.array(a) for a in PLANE)
    target = models.gaussian_mixture(means, covariances, weights)
    x, labels = target.sample_with_labels(30_000, 11)
    assert pearson(np.bincount(labels), weights) > 1e-5
    for k in range(3):
        z = (x[labels == k] - means[k]) @ np.linalg.inv(np.linalg.cholesky(covariances[k])).T
        assert stats.kstest(np.sum(z**2, axis=1), stats.chi2(2).cdf).pvalue > 1e-5
        assert np.abs(z.mean(axis=0)).max() < 4.5 / np.sqrt(len(z))
        assert abs(np.mean(z[:, 0] * z[:, 1])) < 4.5 / np.sqrt(len(z))
    _, labels = target.sample_with_labels(3000, 12, weights=[0.0, 0.25, 0.75])
    counts = np.bincount(labels, minlength=3)
    assert counts[0] == 0
    assert pearson(counts[1:], np.array([0.25, 0.75])) > 1e-5


def test_t_banana_mixture_is_the_papers_formula():
    """Component by component with SciPy's t density in d = 50, at draws and between the modes."""
    d, weights = 50, np.arange(1.0, 21) / 210
    target = models.t_banana_mixture(d, rng=4, weights=weights)
    means = np.random.default_rng(4).uniform(-20, 20, size=(20, d))
    x = np.concatenate([target.sample(60, 1), np.random.default_rng(2).uniform(-20, 20, size=(20, d)), means])
    bent = x.copy()
    bent[:, 1] += 0.003 * x[:, 0] ** 2 - 0.3
    shapes = [0.1 * np.sqrt(d) * np.eye(d)] * 10 + [np.diag([100.0] + [1.0] * (d - 1))] * 10
    terms = [
        np.log(w) + stats.multivariate_t(mean, shape, df=7).logpdf(bent if k >= 10 else x)
        for k, (w, mean, shape) in enumerate(zip(weights, means, shapes, strict=True))
    ]
    assert target.log_density(x) == pytest.approx(np.logaddexp.reduce(terms, axis=0), abs=1e-10)


def test_draws_of_the_t_banana_mixture():
    d = 10
    target = models.t_banana_mixture(d, rng=4)
    means = np.random.default_rng(4).uniform(-20, 20, size=(20, d))
    x, labels = target.sample_with_labels(20_000, 3)
    assert pearson(np.bincount(labels, minlength=20), np.ones(20)) > 1e-5
    for banana in (False, True):
        mine = (labels >= 10) == banana
        y = x[mine].copy()
        scale = np.full(d, np.sqrt(0.1 * np.sqrt(d)))
        if banana:
            y[:, 1] += 0.003 * y[:, 0] ** 2 - 0.3
            scale = np.array([10.0] + [1.0] * (d - 1))
        z = (y - means[labels[mine]]) / scale
        # |z|^2 / d of a multivariate t is F(d, df); each coordinate is a t
        assert stats.kstest(np.mean(z**2, axis=1), stats.f(d, 7).cdf).pvalue > 1e-5
        assert stats.kstest(z[:, 0], stats.t(7).cdf).pvalue > 1e-5
        assert stats.kstest(z[:, 1], stats.t(7).cdf).pvalue > 1e-5
    same = models.t_banana_mixture(d, rng=4, weights=np.arange(1.0, 21) / 210)
    other = target.sample(50, 8, weights=np.arange(1.0, 21) / 210)
    assert np.array_equal(same.sample(50, 8), other)


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


@pytest.mark.parametrize("covariances", [None, 2.5, np.diag([1.0, 3.0])])
def test_shared_covariances(covariances):
    matrix = np.eye(2) * (1.0 if covariances is None else covariances)
    target = models.gaussian_mixture(PLANE[0], covariances, PLANE[2])
    x = target.sample(50, 1)
    reference, score = mixture_log_density(np.array(PLANE[0]), [matrix] * 3, PLANE[2])
    assert target.log_density(x) == pytest.approx(reference(x), abs=1e-11)
    assert target.score(x) == pytest.approx(score(x), abs=1e-11)
