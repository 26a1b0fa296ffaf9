import numpy as np
import pytest
from scipy import stats

import steincheck as sc
from steincheck.perturbation import barker, metropolis, perturb
from steincheck.perturbation.maps import JumpKernel, jump_maps
from steincheck.perturbation.runs import run_compiled, run_steps, skip_rejections


@pytest.mark.parametrize("accept", [metropolis, barker])
@pytest.mark.parametrize("way", [run_compiled, skip_rejections])
def test_faster_ways_have_the_distribution_of_single_steps(way, accept):
    """End points of few steps from one start are few: their counts are compared by a chi-square test."""
    shapes = np.array([np.diag([1.0, 2.0]), [[1.5, 0.4], [0.4, 1.0]]])
    means = np.array([[0.0, 0.0], [5.0, 1.0]])
    target = sc.models.gaussian_mixture(means, shapes, [0.6, 0.4])
    x = np.repeat([[0.5, -0.3]], 4000, axis=0)
    log_p = target.log_density(x)
    kernel = JumpKernel(target, jump_maps(means, shapes), np.array([0.9, 1.0]), 6, accept)
    ours, acceptance = way(kernel, x, log_p, np.random.default_rng(0))
    theirs, expected_acceptance = run_steps(kernel, x, log_p, np.random.default_rng(1))
    for k in range(2):
        both = np.concatenate([ours[k], theirs[k]]).round(6)
        _, where = np.unique(both, axis=0, return_inverse=True)
        parts = np.split(where.ravel(), 2)
        table = np.stack([np.bincount(part, minlength=where.max() + 1) for part in parts])
        table = table[:, table.sum(axis=0) >= 20]
        assert table.shape[1] > 1
        assert stats.chi2_contingency(table).pvalue > 1e-5
    # 24,000 steps, at most 6 of them dependent
    assert np.allclose(acceptance, expected_acceptance, atol=5 * np.sqrt(2 * 0.25 * 6 / 24_000))


def test_many_steps_per_pair_of_modes_skip_rejections():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    x = np.random.default_rng(3).normal(-3, 1, size=(2000, 1))
    moved = perturb(x, target, [[-3.0], [3.0]], [1.0, 1.1], n_steps=200, rng=0)
    share = np.mean(moved.samples > 0, axis=(1, 2))  # the chain has forgotten where it began
    assert np.abs(share - 0.5).max() < 4 * np.sqrt(0.25 / 2000)


def test_nan_at_a_proposal_of_a_jax_target_shows_the_point():
    import jax.numpy as jnp

    target = sc.from_jax(lambda x: jnp.where(x[0] < 3, -0.5 * x[0] ** 2, jnp.nan), dim=1)
    modes = (np.array([[0.0], [2.0]]), np.ones((2, 1, 1)))
    with pytest.raises(ValueError, match=r"`log_density` must be finite.*x = \["):
        perturb(np.linspace(-1, 1, 20)[:, None], target, modes, 1.0, n_steps=20, rng=0)
