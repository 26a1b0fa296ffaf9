import numpy as np
import pytest
from harness import numpy_mixture
from scipy import stats

import steincheck as sc
from steincheck.perturbation import barker, metropolis, perturb
from steincheck.perturbation.maps import (
    JumpKernel,
    States,
    jump_maps,
    run_compiled,
    run_steps,
    skip_rejections,
    transition,
)

UNEQUAL = ([[-2.0], [3.0], [9.0]], [[[0.5]], [[2.0]], [[1.0]]], [0.2, 0.5, 0.3])


def test_golden_trajectories_and_acceptance(golden):
    """The research code's walk with its pairs and uniforms, step by step."""
    arrays, target = golden
    maps = jump_maps(arrays["means"], arrays["covs"])
    kernel = JumpKernel(target, maps, arrays["mh_thetas"], len(arrays["mh_pair_index"]))
    x = arrays["mh_traj"][:, 0]
    states = States(x, target.log_density(x.reshape(-1, target.dim)).reshape(x.shape[:2]))
    for step, index in enumerate(arrays["mh_pair_index"]):
        pairs = arrays["mh_pairs"][index].T
        log_u = np.log(arrays["mh_uniform"][step])
        states = transition(kernel, states, tuple(pairs), log_u)
        np.testing.assert_allclose(states.log_alpha, arrays["mh_log_accept"][step], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(states.x, arrays["mh_traj"][:, step + 1], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(states.x, arrays["sp_X"][1:], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("accept", [metropolis, barker])
@pytest.mark.parametrize("theta", [0.7, 1.0, 1.3])
def test_detailed_balance_by_quadrature(accept, theta):
    """p(x) alpha_ij(x) dx = p(y) alpha_ji(y) dy with y = h(x | i, j), for every pair, unequal covariances."""
    target = numpy_mixture(*UNEQUAL)
    maps = jump_maps(np.array(UNEQUAL[0]), np.array(UNEQUAL[1]))
    x = np.linspace(-25, 35, 4001)[None, :, None]
    scale = np.array([theta])
    for i in range(3):
        for j in set(range(3)) - {i}:
            pair = (np.full(4001, i), np.full(4001, j))
            y = maps(x, scale, *pair)
            lp, lq = target.log_density(x[0]), target.log_density(y[0])
            jacobian = maps.log_jacobian(i, j)
            np.testing.assert_allclose(maps(y, scale, pair[1], pair[0]), x, atol=1e-10)
            assert np.gradient(y[0, :, 0], x[0, :, 0])[5] == pytest.approx(np.exp(jacobian), rel=1e-8)
            there = lp + accept(lq - lp + jacobian)
            back = lq + accept(lp - lq - jacobian) + jacobian
            np.testing.assert_allclose(there, back, rtol=1e-10, atol=1e-10)


def test_rules_of_acceptance_in_the_log_domain():
    log_t = np.array([-1e4, -3.0, 0.0, 2.0, 1e4, -np.inf])
    np.testing.assert_allclose(metropolis(log_t), [-1e4, -3, 0, 0, 0, -np.inf])
    np.testing.assert_allclose(np.exp(barker(log_t[1:4])), np.exp(log_t[1:4]) / (1 + np.exp(log_t[1:4])))
    assert barker(log_t[:1])[0] == pytest.approx(-1e4)
    assert barker(log_t[5:])[0] == -np.inf
    for rule in (metropolis, barker):  # rho(t) = t rho(1/t)
        np.testing.assert_allclose(rule(log_t[:5]), log_t[:5] + rule(-log_t[:5]))


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
