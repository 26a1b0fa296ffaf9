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
    target, n, steps = two_modes_target(), 8000, 8
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


def state_of(**changes):
    """A chain at 0 of the standard normal, waiting for a proposal; log p(x) = -x^2/2."""
    with jax.enable_x64(True):
        state = samplers._start(normal, jnp.zeros((1, 1)), 2)
        state = jax.tree.map(lambda a: a[0], state)
        return state._replace(**{k: jnp.asarray(v) for k, v in changes.items()})


def normal(x):
    return -0.5 * jnp.sum(x**2)


compiled_propose = jax.jit(samplers._propose, static_argnums=0)


def propose(state, step, *log_uniforms):
    with jax.enable_x64(True):
        steps = jnp.ones((2, 1, 1))
        after = compiled_propose(normal, steps, 10, state, np.array([step]), np.array(log_uniforms))
        return jax.tree.map(np.asarray, after)


def place(x):
    return np.array([x, -0.5 * x**2])


def test_z_is_a_plain_step_drawn_anew_before_every_update():
    """The joint density is p(x) N(z; x, scale^2): z must be accepted uphill and downhill alike."""
    start = state_of(x=place(1.0), centre=place(1.0))
    for step in (-1.0, 2.0):  # up to the mode, down into the tail
        after = propose(start, step, -1e-12, 0.0)  # a uniform so large that a forced move uphill is refused
        assert after.phase == samplers.DOWN
        assert after.log_z == pytest.approx(-0.5 * (1 + step) ** 2)
        assert np.array_equal(after.centre, place(1.0))
    for log_v, block in ((-1e9, 0), (-1e-12, 1)):  # accepted or not, in every block
        before = state_of(
            phase=samplers.DOWN_AGAIN, block=block, x=place(0.5), top=place(1.0), centre=place(1.0), log_z=0.0
        )
        after = propose(before, 1.0, -1e9, log_v)
        assert after.phase == samplers.DRAW_Z
        assert after.block == 1 - block
        assert np.array_equal(after.centre, after.x)


def test_forced_moves_go_down_and_up_with_the_right_probabilities():
    at_one = {"x": place(1.0), "centre": place(1.0)}
    for phase, step, log_chance in (
        (samplers.DOWN, -1.0, -0.5),  # uphill while it should go down: p(1)/p(0)
        (samplers.DOWN, 1.0, 0.0),
        (samplers.UP, 1.0, -1.5),  # downhill while it should go up: p(2)/p(1)
        (samplers.UP, -1.0, 0.0),
        (samplers.DOWN_AGAIN, -1.0, -0.5),
    ):
        state = state_of(phase=phase, **at_one)
        moved = propose(state, step, log_chance - 1e-9, 0.0)
        assert moved.phase == (phase + 1) % 4
        assert moved.tries == 0
        if phase != samplers.DOWN_AGAIN:
            assert moved.centre[0] == 1.0 + step
        if log_chance < 0:
            stayed = propose(state, step, log_chance + 1e-9, 0.0)
            assert stayed.phase == phase
            assert stayed.tries == 1
            assert stayed.centre[0] == 1.0


@pytest.mark.parametrize(
    ("x", "top", "z", "z_star"), [(0.5, 1.5, 0.1, 2.0), (1.5, 0.5, 2.0, 0.1), (1, 2, 0, 1)]
)
def test_the_acceptance_probability_is_the_papers(x, top, z, z_star):
    def p(a):
        return np.exp(-0.5 * a**2)

    ratio = p(top) * min(1, p(x) / p(z)) / (p(x) * min(1, p(top) / p(z_star)))
    state = state_of(
        phase=samplers.DOWN_AGAIN, x=place(x), top=place(top), centre=place(top), log_z=np.log(p(z))
    )
    just_below, just_above = np.log(ratio) - 1e-9, np.log(ratio) + 1e-9
    assert propose(state, z_star - top, -1e9, just_below).x[0] == top
    assert propose(state, z_star - top, -1e9, just_above).x[0] == x


@pytest.mark.slow
def test_ram_agrees_with_exact_draws_of_the_sensor_posterior():
    """Chains from exact draws stay exact, sensor by sensor, though few of them change their mode."""
    target, n = models.sensor_network(), 2000
    x, labels = target.sample_with_labels(n, 5)
    blocks = [[0, 1], [2, 3], [4, 5], [6, 7]]
    chains = repelling_attracting_metropolis(
        models.sensor_log_density, x, 0.1, 5, blocks=blocks, thin=5, rng=6
    )
    y = chains.draws[:, 0]
    assert chains.acceptance.shape == (n, 4)
    assert (chains.acceptance.mean(axis=0) > 0.05).all()
    change = np.column_stack([y - x, target.log_density(y) - target.log_density(x)])
    z = change.mean(axis=0) / change.std(axis=0) * np.sqrt(n)
    assert np.abs(z).max() < 5
    assert np.mean(models.sensor_labels(y) == labels) > 0.5


def test_burn_in_and_thinning_pick_states_of_the_same_chain():
    full = repelling_attracting_metropolis(two_modes, MEANS, 2.0, 60, rng=1)
    some = repelling_attracting_metropolis(two_modes, MEANS, 2.0, 60, burn_in=11, thin=7, rng=1)
    assert full.draws.shape == (2, 60, 2)
    assert np.array_equal(some.draws, full.draws[:, 17::7])
    assert full.acceptance.shape == (2, 1)
    moved = np.any(np.diff(full.draws, axis=1, prepend=MEANS[:, None]) != 0, axis=2)
    assert full.acceptance[:, 0] == pytest.approx(moved.mean(axis=1))


def test_zero_density_is_a_value_and_nan_an_error():
    def half_line(x):
        return jnp.where(x[0] > 0, -x[0], -jnp.inf)

    chains = repelling_attracting_metropolis(half_line, np.full((50, 1), 0.5), 1.0, 400, thin=4, rng=5)
    assert (chains.draws > 0).all()
    assert chains.draws[:, 25:].mean() == pytest.approx(1, abs=0.1)

    def broken(x):
        return jnp.where(x[0] > 3, jnp.nan, -0.5 * x[0] ** 2)

    with pytest.raises(
        ValueError, match=r"`log_density` must not be NaN: in chain \d it is, at the proposal \[[3-9]"
    ):
        repelling_attracting_metropolis(broken, np.zeros((2, 1)), 3.0, 1000, rng=6)


def test_a_hopeless_scale_ends_with_a_warning(monkeypatch):
    monkeypatch.setattr(samplers, "MAX_TRIES", 3)

    def needle(x):
        return -0.5 * jnp.sum((x / 1e-6) ** 2)

    with pytest.warns(UserWarning, match=r"updates were given up: a forced move"):
        chains = repelling_attracting_metropolis(needle, np.zeros(4), 1.0, 200, rng=7)
    assert chains.draws.shape == (1, 200, 4)
    assert 0 < chains.given_up[0] <= 200


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": 0.0}, "`scale` must be positive and finite"),
        ({"scale": [1.0, 1.0, 1.0]}, "`scale` must be positive and finite, one number or 2"),
        ({"blocks": [[0]]}, "`blocks` must hold every coordinate"),
        ({"blocks": [[0, 1], [1]]}, "`blocks` must hold every coordinate"),
        ({"n_iterations": 0}, "`n_iterations` must be a positive integer"),
        ({"burn_in": 10}, "`n_iterations` must exceed `burn_in`"),
        ({"thin": 0}, "`thin` must be a positive integer"),
        ({"x0": [[np.inf, 0.0]]}, "`x0` must be finite"),
        ({"log_density": lambda x: x}, "`log_density` must map one point"),
        ({"log_density": lambda x: jnp.log(-jnp.sum(x**2) - 1)}, "finite at every row of `x0`"),
    ],
)
def test_ram_rejects_bad_input(changes, message):
    arguments = {"log_density": two_modes, "x0": MEANS, "scale": 1.0, "n_iterations": 10} | changes
    with pytest.raises(ValueError, match=message):
        repelling_attracting_metropolis(**arguments)
    with pytest.raises(TypeError, match="`log_density` must be a JAX function"):
        repelling_attracting_metropolis(3, MEANS, 1.0, 10)


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


def test_exact_rbm_draws_need_structure_or_few_hidden_units():
    B = np.random.default_rng(0).normal(size=(5, 17))
    with pytest.raises(ValueError, match="`B` must have orthogonal columns, or at most 16"):
        exact_rbm(B, None, None, 5)
    assert samplers._has_orthogonal_columns(6 * np.eye(5, 9))
    assert samplers._has_orthogonal_columns(np.linalg.qr(B[:, :5])[0] * [1, 20, 3, 4, 5])
    assert not samplers._has_orthogonal_columns(B)


@pytest.mark.parametrize(("n", "burn_in"), [(0, 5), (5, 0), (2.5, 5)])
def test_gibbs_rejects_bad_counts(n, burn_in):
    with pytest.raises(ValueError, match="must be a positive integer"):
        gibbs_rbm(np.eye(2), None, None, n, burn_in=burn_in)
