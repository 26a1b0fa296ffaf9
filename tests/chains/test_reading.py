import json
from pathlib import Path

import numpy as np
import pytest
from harness import ar1_chains, assert_level, autoregressive, labelled_chains, quiet_check, standard_normal
from scipy import signal, stats

import steincheck as sc
from experiments.guard_study import KINDS, independent_draws
from steincheck._whitening import normal_scores
from steincheck.chains.reading import (
    convergence,
    equal_chains,
    find_dependence,
    read_sample,
    stuck_chains,
    values_per_draw,
)

MODES = [[-3.0, 0.0], [3.0, 0.0]]
THETA = [0.8, 1.2]
AGGREGATED = {"n_resamples": 200, "n_level_resamples": 200, "bandwidths": [0.5, 2.0]}
SHAPE = {
    "ksd_test": {"n_resamples": 199},
    "ksdagg_test": AGGREGATED,
    "moment_test": {"n_resamples": 199, "modes": [[0.0, 0.0]]},
    "fssd_test": {"n_resamples": 199, "n_locations": 5},
}
WEIGHTS = {
    "pksd_test": {"n_resamples": 199, "modes": MODES},
    "spksd_test": {"n_resamples": 199, "modes": MODES, "theta": THETA},
    "ospksd_test": {"n_resamples": 199, "modes": MODES, "theta": THETA},
    "pksdagg_test": AGGREGATED | {"modes": MODES, "theta": THETA},
    "flux_test": {"modes": MODES},
}
OPTIONS = SHAPE | WEIGHTS
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "convergence.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_independent_draws_are_rarely_called_dependent(kind):
    """At most 1 in 10,000; docs/theory/chains.md has the rates over more samples."""
    rng = np.random.default_rng(4)
    alarms = total = 0
    for n, d, count in ((100, 1, 170), (100, 3, 170), (300, 10, 70), (1000, 3, 100), (1000, 50, 7)):
        for correlation in (0.0, 0.99999, 0.999999) * count:
            x = independent_draws(kind, d, correlation, n, rng)
            alarms += find_dependence(x, -np.sum(x**2, axis=1)) is not None
            total += 1
    assert stats.binomtest(alarms, total, 1e-4, alternative="greater").pvalue > 1e-4


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


@pytest.mark.parametrize(("walkers", "steps"), [(32, 60), (4, 250)])
def test_interleaved_chains_are_no_misfit(walkers, steps):
    flattened = ar1_chains(np.random.default_rng(5), walkers, steps, 2, 0.95).swapaxes(0, 1).reshape(-1, 2)
    verdict = quiet_check(flattened, standard_normal(2), modes=[[0.0, 0.0]])
    assert verdict.fits is None
    assert f"{walkers} chains seem to be interleaved" in verdict.sentence


def test_facts_about_chains():
    x, chain = labelled_chains(np.random.default_rng(6), 4, 100, 2, 0.5)
    assert stuck_chains(x, chain) == equal_chains(x, chain) == ()
    still = x.copy()
    still[150:190] = still[150]
    assert stuck_chains(still, chain) == ((1, 50, 89),)
    same = x.copy()
    same[300:] = same[100:200]
    assert equal_chains(same, chain) == ((1, 3, 100, 100),)


def test_copies_are_groups_and_count_once():
    x = np.random.default_rng(7).normal(size=(100, 1))
    target = standard_normal(1)
    assert read_sample(x, target).group is None
    sample = read_sample(np.concatenate([x, x]), target, independent=True)
    assert sample.effective_size == pytest.approx(100)
    np.testing.assert_array_equal(sample.group[:100], sample.group[100:])
    assert len(np.unique(sample.rows(np.array([0, 100, 1])).group)) == 2


def test_weighted_draws_are_no_chain_whatever_their_order():
    x = np.sort(np.random.default_rng(8).normal(size=(200, 1)), axis=0)
    weight = np.linspace(0.0, 2.0, 200)
    target = standard_normal(1)
    assert read_sample(x, target).chain is not None
    sample = read_sample(x, target, weights=weight)
    assert sample.chain is None
    assert len(sample.x) == 199  # a draw of weight 0 is left out
    assert sample.weight.mean() == pytest.approx(1)
    assert sample.effective_size == pytest.approx(weight.sum() ** 2 / np.sum(weight**2))
    logs = read_sample(x[1:], target, log_weights=np.log(weight[1:]) + 700)
    np.testing.assert_allclose(logs.weight, sample.weight)
    read = sc.as_draws(x, weights=weight)
    np.testing.assert_array_equal(values_per_draw(np.arange(200.0), read, "log_q"), np.arange(1.0, 200.0))


def switching(rng, n_chains, length, correlation, rate):
    """Stationary chains of the two-mode mixture that change mode with probability `rate` at each draw."""
    change = rng.random((n_chains, length)) < rate
    change[:, 0] = rng.random(n_chains) < 0.5
    side = 2.0 * (np.cumsum(change, axis=1) % 2) - 1
    return ar1_chains(rng, n_chains, length, 2, correlation) + side[:, :, None] * [3.0, 0.0]


@pytest.fixture(scope="module")
def normal():
    return sc.models.gaussian_mixture([[0.0, 0.0]])


@pytest.fixture(scope="module")
def mixture():
    return sc.models.gaussian_mixture(MODES)


def run(name, draws, target, **more):
    score = {} if name == "flux_test" else {"check_score": False}
    return getattr(sc, name)(draws, target, **(OPTIONS[name] | score | {"rng": 0} | more))


@pytest.fixture
def chains(normal, mixture):
    """For the name of a test: chains of the right distribution and their target."""

    def make(name, rng=None, length=250):
        rng = np.random.default_rng(1) if rng is None else rng
        if name in SHAPE:
            return ar1_chains(rng, 4, length, 2, 0.8), normal
        return switching(rng, 4, length, 0.6, 0.2), mixture

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_true_chains_are_rejected_as_often_as_the_level_says(name, chains):
    """Of the first ten samples more are rejected where the draws are said to be independent."""
    rng = np.random.default_rng(2)
    rejected, naive = [], []
    for k in range(60):
        x, target = chains(name, rng, 500 if name == "moment_test" else 250)  # it needs longer blocks
        result = run(name, x, target, rng=k)
        rejected.append(result.reject())
        if k < 10:
            naive.append(run(name, x, target, independent=True, rng=k).reject())
    assert_level(rejected)
    assert np.sum(naive) > np.sum(rejected[:10])


@pytest.mark.parametrize("name", OPTIONS)
def test_chains_in_any_form_give_the_same_result(name, chains):
    x, target = chains(name)
    first = run(name, x, target)
    assert first.chains.n_chains == 4
    assert 8 <= first.chains.n_blocks <= 20
    assert "tested as 4 chains" in str(first)
    columns = {"x[0]": x[..., 0], "x[1]": x[..., 1]}
    for other in (list(x), sc.as_draws(columns)):
        assert run(name, other, target).pvalue == first.pvalue
    shorter = run(name, [x[0], x[1], x[2], x[3, :200]], target)
    assert shorter.n < first.n
    assert shorter.chains.n_chains == 4


@pytest.mark.parametrize("name", OPTIONS)
def test_an_array_that_shows_autocorrelation_is_one_chain(name, chains):
    x, target = chains(name, length=1200)
    with pytest.warns(UserWarning, match="were tested as one chain; if they are independent, shuffle them"):
        found = run(name, x[0], target)
    assert found.chains.n_chains == 1
    assert found.pvalue == run(name, x[:1], target).pvalue
    assert any("one chain" in text for text in found.warnings)


@pytest.mark.parametrize("name", OPTIONS)
def test_independent_draws_are_tested_as_before(name, chains):
    x, target = chains(name)
    flat = np.random.default_rng(3).permutation(x.reshape(-1, 2))
    before = run(name, flat, target)
    assert before.chains is None
    assert before.pvalue == run(name, flat, target, independent=True).pvalue
    assert before.pvalue == run(name, flat.reshape(4, 250, 2), target, independent=True).pvalue
    assert before.settings["independent"] is False


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "flux_test"])
def test_chains_that_are_too_short_give_no_pvalue(name, chains):
    _, target = chains(name)
    x = ar1_chains(np.random.default_rng(4), 2, 150, 2, 0.99) + (0 if name in SHAPE else [3.0, 0.0])
    with pytest.warns(
        UserWarning,
        match=r"cannot tell: the effective sample size of the \d+ draws is about \d+ .* times as long",
    ):
        found = run(name, x, target)
    assert np.isnan(found.pvalue)
    assert found.null_distribution is None
    assert not found.reject()
    assert found.inconclusive()


def test_misfit_of_chains_is_found(normal, mixture):
    x = ar1_chains(np.random.default_rng(6), 4, 300, 2, 0.5) + 0.5
    for name in SHAPE:
        assert run(name, x, normal).pvalue < 0.02
    rng = np.random.default_rng(7)
    y = switching(rng, 4, 500, 0.3, 0.3)
    wrong = np.where(
        (y[..., :1] < 0) & (rng.random(y.shape[:2]) < 0.6)[..., None], y + np.array([6.0, 0.0]), y
    )
    for name in WEIGHTS:
        assert run(name, wrong, mixture).pvalue < 0.02


def test_bootstraps_of_single_draws_are_refused_for_chains(chains):
    x, target = chains("ksd_test")
    for name in ("ksd_test", "ksdagg_test"):
        for bootstrap in (sc.wild, sc.multinomial):
            with pytest.raises(ValueError, match="resamples draws one by one, but `draws` are Markov chains"):
                run(name, x, target, bootstrap=bootstrap)

    def signs_of_tenths(n, size, rng):
        return np.repeat(2.0 * rng.integers(2, size=(size, 10)) - 1, n // 10, axis=1)

    own = run("ksd_test", x, target, bootstrap=signs_of_tenths)
    assert own.settings["bootstrap"] is signs_of_tenths
    assert own.chains is None
    assert run("ksd_test", x, target, bootstrap="blocks").pvalue == run("ksd_test", x, target).pvalue


def test_a_chain_that_stands_still_is_not_told_to_run_longer(normal):
    x = ar1_chains(np.random.default_rng(10), 2, 200, 2, 0.3)
    x[0, 20:] = x[0, 20]
    with pytest.warns(UserWarning, match="is stuck"):
        found = run("ksd_test", x, normal)
    assert np.isnan(found.pvalue)
    verdict = sc.check(x, normal, modes=[[0.0, 0.0]], rng=0)
    assert not verdict.fits
    assert "times as long" not in str(verdict)


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: f"{case['chains']}x{case['length']}")
def test_ess_and_rhat_are_those_of_arviz(case):
    rng = np.random.default_rng(case["seed"])
    x = autoregressive(rng.normal(size=(case["chains"], case["length"])).T, case["rho"]).T
    x[0] += case["shift"]
    if case["digits"]:
        x = np.round(x, case["digits"])
    found = convergence(x.reshape(-1, 1), np.repeat(np.arange(case["chains"]), case["length"]))
    assert found[0, 0] == pytest.approx(case["ess_bulk"], rel=1e-9)
    assert found[1, 0] == pytest.approx(case["ess_tail"], rel=1e-9)
    if case["rhat"] is not None:
        assert found[2, 0] == pytest.approx(case["rhat"], rel=1e-9)


def test_convergence_of_odd_chains():
    x = np.random.default_rng(0).normal(size=(303, 2))
    chain = np.repeat([0, 1], [200, 103])
    x[:, 1] = 3.0
    found = convergence(x, chain)
    even = convergence(np.concatenate([x[:103], x[200:]]), np.repeat([0, 1], 103))
    assert found[2, 0] == even[2, 0]
    assert np.isnan(found[2, 1])
    assert found[0, 1] == 204
    assert np.isnan(convergence(x[:6], np.repeat([0, 1], 3))).all()
    still = np.concatenate([np.zeros((50, 1)), np.ones((50, 1))])
    assert convergence(still, np.repeat([0, 1], 50))[2, 0] == np.inf


@pytest.mark.parametrize("offset", [0.5, 3 / 8])
def test_normal_scores_are_quantiles_of_mean_ranks(offset):
    x = np.random.default_rng(3).integers(5, size=(4, 9)).astype(float)
    ranks = stats.rankdata(x).reshape(x.shape)
    expected = stats.norm.ppf((ranks - offset) / (x.size + 1 - 2 * offset))
    np.testing.assert_allclose(normal_scores(x, offset=offset), expected, rtol=1e-13, atol=1e-15)
