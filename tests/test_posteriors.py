"""The published posteriors of the studies: their samplers have the distribution of their densities."""

import numpy as np
import pytest

import steincheck as sc
from experiments.posteriors import STACK_LOSS, published


@pytest.mark.parametrize("name", ["eight schools", "batting averages", "stack loss"])
def test_draws_are_exact(name):
    """Stein's identity for constant and for linear fields: E s = 0, E x_j s_j = -1."""
    log_density, dim, sample = published(name)
    x = sample(20_000, np.random.default_rng(0))
    assert x.shape == (20_000, dim)
    scores = sc.from_jax(log_density, dim).score(x)
    for features in (scores, (x - x.mean(axis=0)) * scores + 1):
        t = features.mean(axis=0) / features.std(axis=0) * np.sqrt(len(x))
        assert np.abs(t).max() < 5.5


def test_stack_loss_is_the_published_regression():
    design = np.column_stack([np.ones(21), STACK_LOSS[:, :3]])
    found = np.linalg.lstsq(design, STACK_LOSS[:, 3])[0]
    np.testing.assert_allclose(found, [-39.9197, 0.7156, 1.2953, -0.1521], atol=1e-4)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="name must be eight schools"):
        published("nine schools")
