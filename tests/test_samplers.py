from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from scipy import stats

from steincheck import models, samplers
from steincheck.samplers import exact_rbm, gibbs_rbm, repelling_attracting_metropolis

MEANS, SCALES, WEIGHTS = np.array([[-2.0, 0.0], [2.0, 1.0]]), np.array([1.0, 0.5]), np.array([0.35, 0.65])


def two_modes(x):
    r2 = jnp.sum((x - MEANS) ** 2, axis=1)
    return logsumexp(np.log(WEIGHTS) - 2 * np.log(SCALES) - 0.5 * r2 / SCALES**2)


def two_modes_target():
    return models.gaussian_mixture(MEANS, SCALES[:, None, None] ** 2 * np.eye(2), WEIGHTS)


@pytest.mark.parametrize(("scale", "blocks"), [(1.0, [[0], [1]]), (3.0, [[0], [1]]), (3.0, None)])
def test_ram_leaves_a_bimodal_density_invariant(scale, blocks):
    """Exact draws in, exact draws out: no mean may move, whether or not the chains have mixed."""
    target, n, steps = two_modes_target(), 4000, 6
    x = target.sample(n, 1)
    chains = repelling_attracting_metropolis(two_modes, x, scale, steps, blocks=blocks, thin=steps, rng=2)
    y = chains.draws[:, 0]
    assert np.mean(np.any(x != y, axis=1)) > 0.6
    assert np.mean((x[:, 0] > 0) != (y[:, 0] > 0)) > 0.05  # modes were exchanged

    def features(x):
        return np.column_stack([target.log_density(x), x, x**2, x[:, 0] > 0, np.abs(target.score(x))])

    moved = features(y) - features(x)
    mean = moved.mean(axis=0)
    hotelling = n * mean @ np.linalg.solve(np.cov(moved.T), mean)
    assert stats.chi2.sf(hotelling, len(mean)) > 1e-5
    edges = np.quantile(target.sample(200_000, 3)[:, 0], np.linspace(0, 1, 13)[1:-1])
    counts = np.bincount(np.digitize(y[:, 0], edges), minlength=12)
    assert stats.chi2.sf(np.sum((counts - n / 12) ** 2) / (n / 12), 11) > 1e-5


def normal(x):
    return -0.5 * jnp.sum(x**2)


@pytest.mark.parametrize("sign", [1, -1])
def test_forced_moves_have_the_density_of_an_accepted_step(sign):
    """From 1 of the standard normal: p(step) ~ N(step; 1, 1) min(1, (p(step)/p(1))^sign)."""
    with jax.enable_x64(True):
        move = partial(samplers._forced_move, normal, jnp.ones((1, 1)))
        keys = jax.random.split(jax.random.key(0), 20_000)
        found = jax.vmap(lambda key: move(key, jnp.ones(1), -0.5, sign))(keys)
    assert np.all(found.made)
    grid = np.linspace(-8, 10, 20_001)
    density = stats.norm.pdf(grid - 1) * np.minimum(1, np.exp(sign * 0.5 * (1 - grid**2)))
    cumulative = np.cumsum(density) / density.sum()
    assert stats.kstest(np.asarray(found.x[:, 0]), lambda x: np.interp(x, grid, cumulative)).pvalue > 1e-4


def test_burn_in_and_thinning_pick_states_of_the_same_chain():
    full = repelling_attracting_metropolis(two_modes, MEANS, 2.0, 60, rng=1)
    some = repelling_attracting_metropolis(two_modes, MEANS, 2.0, 60, burn_in=11, thin=7, rng=1)
    assert full.draws.shape == (2, 60, 2)
    assert np.array_equal(some.draws, full.draws[:, 17::7])
    assert full.acceptance.shape == (2, 1)
    moved = np.any(np.diff(full.draws, axis=1, prepend=MEANS[:, None]) != 0, axis=2)
    assert full.acceptance[:, 0] == pytest.approx(moved.mean(axis=1))


def test_points_of_density_0_or_nan_are_never_accepted():
    def half_line(x):
        return jnp.where(x[0] > 0, -x[0], -jnp.inf)

    chains = repelling_attracting_metropolis(half_line, np.full((50, 1), 0.5), 1.0, 400, thin=4, rng=5)
    assert (chains.draws > 0).all()
    assert chains.draws[:, 25:].mean() == pytest.approx(1, abs=0.1)

    def broken(x):
        return jnp.where(x[0] > 3, jnp.nan, -0.5 * x[0] ** 2)

    chains = repelling_attracting_metropolis(broken, np.zeros((2, 1)), 3.0, 200, rng=6)
    assert (chains.draws <= 3).all()


def test_a_hopeless_scale_ends(monkeypatch):
    monkeypatch.setattr(samplers, "MAX_TRIES", 3)

    def needle(x):
        return -0.5 * jnp.sum((x / 1e-6) ** 2)

    chains = repelling_attracting_metropolis(needle, np.zeros(4), 1.0, 200, rng=7)
    assert chains.draws.shape == (1, 200, 4)
    assert np.all(chains.draws == 0)


def test_gibbs_draws_the_joint_density():
    """Weights of the components, and x within each of them, against exact draws."""
    B, b, c = np.array([[1.5, -0.5], [0.5, 1.0]]), np.array([0.3, -0.2]), np.array([0.4, -0.6])
    x, h = gibbs_rbm(B, b, c, n=40_000, burn_in=40, rng=1)
    y, g = exact_rbm(B, b, c, 40_000, rng=2)
    code = np.array([1, 2])
    table = [np.bincount((s > 0) @ code, minlength=4) for s in (h, g)]
    assert stats.chi2_contingency(table).pvalue > 1e-5
    for k in range(4):
        mine, other = x[(h > 0) @ code == k], y[(g > 0) @ code == k]
        assert stats.ks_2samp(mine[:, 0], other[:, 0]).pvalue > 1e-5


def test_columns_are_orthogonal_up_to_rounding():
    B = np.random.default_rng(0).normal(size=(5, 17))
    assert samplers.has_orthogonal_columns(6 * np.eye(5, 9))
    assert samplers.has_orthogonal_columns(np.linalg.qr(B[:, :5])[0] * [1, 20, 3, 4, 5])
    assert not samplers.has_orthogonal_columns(B)
