import numpy as np
import pytest
from harness import ar1_chains, labelled_chains, quiet_check, standard_normal
from scipy import signal, stats

from steincheck.chains.order import equal_chains, find_dependence, order_facts, repeats, stuck_chains


def independent_draws(rng, n, d, kind, correlation):
    """Independent draws with heavy tails, skewness or two modes, two coordinates nearly equal."""
    x = rng.normal(size=(n, d))
    if kind == "t":
        x /= np.sqrt(rng.chisquare(2, size=(n, 1)) / 2)
    if kind == "skew":
        x = np.exp(1.5 * x)
    if kind == "modes":
        x += rng.choice([-10.0, 10.0], size=(n, 1))
    if d > 1:
        x[:, 1] = correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1]
    return x


def interleaved_walkers(rng, n_walkers, length, dim):
    """Flattened draws of the stretch move of Goodman and Weare on a standard normal, as emcee's are."""
    x = rng.normal(size=(n_walkers, dim))
    out = np.empty((length, n_walkers, dim))
    for row in out:
        for half in (0, 1):
            moving = np.arange(half, n_walkers, 2)
            partner = x[rng.choice(np.arange(1 - half, n_walkers, 2), len(moving))]
            stretch = (1 + rng.random(len(moving))) ** 2 / 2
            proposal = partner + stretch[:, None] * (x[moving] - partner)
            gain = 0.5 * np.sum(x[moving] ** 2 - proposal**2, axis=1)
            taken = np.log(rng.random(len(moving))) < (dim - 1) * np.log(stretch) + gain
            x[moving] = np.where(taken[:, None], proposal, x[moving])
        row[:] = x
    return out.reshape(-1, dim)


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.99999, 0.999999])
@pytest.mark.parametrize("kind", ["normal", "t", "skew", "modes"])
def test_independent_draws_are_rarely_called_dependent(kind, correlation):
    """At most 1 in 10,000; docs/theory/chains.md has the rates over more samples."""
    rng = np.random.default_rng(4)
    alarms = total = 0
    for n, d, count in ((100, 1, 500), (100, 3, 500), (300, 10, 200), (1000, 3, 300), (1000, 50, 20)):
        for _ in range(count):
            x = independent_draws(rng, n, d, kind, correlation)
            alarms += find_dependence(x, -np.sum(x**2, axis=1)) is not None
        total += count
    assert stats.binomtest(alarms, total, 1e-4, alternative="greater").pvalue > 1e-4


def test_three_coordinates_of_which_two_are_nearly_equal_are_no_interleaved_chains():
    rng = np.random.default_rng(5)
    samples = (independent_draws(rng, 1000, 3, "normal", 0.999999) for _ in range(150))
    assert not any(find_dependence(x) for x in samples)


@pytest.mark.parametrize(("rho", "dim"), [(0.4, 3), (-0.4, 1), (0.9, 2), (0.999, 1)])
def test_a_chain_is_called_one_chain(rho, dim):
    for seed in range(20):
        x, _ = labelled_chains(np.random.default_rng(seed), 1, 1000, dim, rho)
        found = find_dependence(x)
        assert found.lag == 1
        assert not found.interleaved


def test_a_chain_that_oscillates_is_not_interleaved():
    noise = np.random.default_rng(0).normal(size=(1200, 2))
    x = signal.lfilter([1.0], [1.0, -2 * 0.95 * np.cos(np.pi / 3), 0.95**2], noise, axis=0)[200:]
    assert not find_dependence(x).interleaved


def test_a_slow_direction_that_is_no_axis_is_seen():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1000, 20))
        x[:, 0] = labelled_chains(rng, 1, 1000, 1, 0.95)[0][:, 0]
        turn, _ = np.linalg.qr(rng.normal(size=(20, 20)))
        assert find_dependence(x @ turn) is not None


def test_the_log_density_shows_what_the_draws_hide():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        radius = np.exp(0.5 * labelled_chains(rng, 1, 1000, 1, 0.7)[0])
        angle = rng.normal(size=(1000, 5))
        x = radius * angle / np.linalg.norm(angle, axis=1, keepdims=True)
        assert find_dependence(x) is None
        assert find_dependence(x, -radius[:, 0]).series == "log density"


@pytest.mark.parametrize(("n_walkers", "length", "dim"), [(8, 100, 2), (32, 60, 5), (100, 20, 2)])
def test_interleaved_walkers_are_found(n_walkers, length, dim):
    for seed in range(10):
        found = find_dependence(interleaved_walkers(np.random.default_rng(seed), n_walkers, length, dim))
        assert found.interleaved
        assert found.lag % n_walkers == 0


@pytest.mark.parametrize(("walkers", "steps"), [(32, 60), (4, 250)])
def test_interleaved_chains_are_no_misfit(walkers, steps):
    flattened = ar1_chains(np.random.default_rng(5), walkers, steps, 2, 0.95).swapaxes(0, 1).reshape(-1, 2)
    verdict = quiet_check(flattened, standard_normal(2), modes=[[0.0, 0.0]])
    assert verdict.fits is None
    assert f"{walkers} chains seem to be interleaved" in verdict.sentence


def test_facts_about_chains():
    x, chain = labelled_chains(np.random.default_rng(6), 4, 100, 2, 0.5)
    assert order_facts(x, chain, None) == (None, (), (), None)
    still = x.copy()
    still[150:190] = still[150]
    assert stuck_chains(still, chain) == ((1, 50, 89),)
    assert repeats(still).n_repeats == 39
    np.testing.assert_array_equal(repeats(still).atom, still[150])
    assert order_facts(still, chain, None).repeats is None  # a rejection is no repeat
    same = x.copy()
    same[300:] = same[100:200]
    assert equal_chains(same, chain) == ((1, 3, 100, 100),)
    assert order_facts(same, chain, None).repeats.atom is None


def test_a_few_repeats_do_not_matter():
    x = np.random.default_rng(7).normal(size=(100, 1))
    x[95:] = x[:5]
    assert repeats(x) is None  # the variance is 1.1 times that of independent draws
    x[90:] = x[:10]
    assert repeats(x).n_repeats == 10
