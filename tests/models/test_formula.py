"""What all models share."""

import pickle

import jax
import numpy as np
import pytest

from steincheck import models
from steincheck.target.evaluation import differences
from steincheck.target.record import _values

PLANE = (
    [[-3.0, 0.0], [3.0, 1.0], [0.0, 5.0]],
    [[[1.0, 0.3], [0.3, 0.5]], [[0.4, -0.2], [-0.2, 2.0]], [[1.0, 0.0], [0.0, 1.0]]],
    [0.5, 0.3, 0.2],
)
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


def test_another_target_of_the_same_shape_compiles_nothing():
    first = models.gaussian_mixture([[0.0], [4.0]])
    first.log_density(np.zeros((5, 1)))
    before = _values._cache_size()
    models.gaussian_mixture([[1.0], [7.0]], 2.0, [0.3, 0.7]).log_density(np.zeros((20, 1)))
    assert _values._cache_size() == before
