import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from harness import (
    ar1_chains,
    assert_level,
    assert_power,
    assert_uniform,
    autoregressive,
    quiet_check,
    standard_normal,
)
from scipy import stats

import steincheck as sc
from steincheck._series import index_in_chain, lagged_products, normal_scores
from steincheck.aggregate import collection
from steincheck.chains import agreement, autocorrelation_time, convergence, cut_blocks, looks_dependent
from steincheck.chains.blocks import autocovariance, block_signs, block_sums
from steincheck.chains.order import chain_faults, invalidating_faults, rounding_step, stuck_chains
from steincheck.stein.kernels import IMQ
from steincheck.stein.resampling import chain_blocks

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "convergence.json").read_text())


def labelled_chains(rng, n_chains, length, dim, correlation):
    """AR(1) chains one below the other, (n_chains * length, dim), and the chain of each draw."""
    x = ar1_chains(rng, n_chains, length, dim, correlation)
    return x.reshape(-1, dim), np.repeat(np.arange(n_chains), length)


def test_autocovariance_by_its_definition():
    rng = np.random.default_rng(0)
    h = rng.normal(size=60).cumsum()
    chain = np.repeat([0, 1, 2], [30, 20, 10])
    parts = np.split(h - h.mean(), [30, 50])
    direct = [sum(np.sum(part[: len(part) - k] * part[k:]) for part in parts) / 60 for k in range(10)]
    np.testing.assert_allclose(autocovariance(h, chain)[:10], direct, rtol=1e-10)
    assert len(autocovariance(h, chain)) == 30
    np.testing.assert_allclose(autocovariance(h)[0], h.var())


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_autocorrelation_time_of_ar1(rho):
    x, chain = labelled_chains(np.random.default_rng(1), 4, 50_000, 1, rho)
    truth = max(1.0, (1 + rho) / (1 - rho))
    assert autocorrelation_time(x[:, 0], chain) == pytest.approx(truth, rel=0.1)


def test_chains_that_disagree_count_as_slow():
    x, chain = labelled_chains(np.random.default_rng(2), 4, 500, 2, 0.0)
    x[chain == 0, 1] += 2.0
    times = autocorrelation_time(x, chain)
    assert times[0] < 1.5
    assert times[1] > 50
    assert autocorrelation_time(np.ones(100)) == 1.0


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: f"{case['chains']}x{case['length']}")
def test_ess_and_rhat_are_those_of_arviz(case):
    rng = np.random.default_rng(case["seed"])
    x = autoregressive(rng.normal(size=(case["chains"], case["length"])).T, case["rho"]).T
    x[0] += case["shift"]
    if case["digits"]:
        x = np.round(x, case["digits"])
    found = convergence(x.reshape(-1, 1), np.repeat(np.arange(case["chains"]), case["length"]))
    assert found.ess_bulk[0] == pytest.approx(case["ess_bulk"], rel=1e-9)
    assert found.ess_tail[0] == pytest.approx(case["ess_tail"], rel=1e-9)
    assert convergence(x[:, :, None]).ess_bulk[0] == found.ess_bulk[0]
    if case["rhat"] is not None:
        assert found.rhat[0] == pytest.approx(case["rhat"], rel=1e-9)


def test_convergence_of_odd_chains():
    x = np.random.default_rng(0).normal(size=(303, 2))
    chain = np.repeat([0, 1], [200, 103])
    x[:, 1] = 3.0
    found = convergence(x, chain)
    even = convergence(np.concatenate([x[:103], x[200:]]), np.repeat([0, 1], 103))
    assert found.rhat[0] == even.rhat[0]
    assert np.isnan(found.rhat[1])
    assert found.ess_bulk[1] == 204
    assert np.isnan(convergence(x[:6], np.repeat([0, 1], 3)).ess_bulk).all()
    still = np.concatenate([np.zeros((50, 1)), np.ones((50, 1))])
    assert convergence(still, np.repeat([0, 1], 50)).rhat[0] == np.inf


@pytest.mark.parametrize(("chains", "length"), [(1, 1000), (4, 15_000)])
def test_the_autocorrelation_time_of_long_chains_does_not_grow_with_their_length(chains, length):
    """Beyond 4000 evenly spaced draws it was at least their spacing: 15 for these of 60,000 draws."""
    x, chain = labelled_chains(np.random.default_rng(0), chains, length, 1, 7 / 9)
    bandwidths = collection(x, None, evenly=True)[::3]  # as in `check`
    tau = chain_blocks(chain, None, [(x[None], -x[None])], IMQ(), bandwidths).autocorrelation_time
    assert 0.6 * 8 < tau < 1.5 * 8


@pytest.mark.parametrize(
    ("lengths", "tau", "parts"),
    [
        ([250] * 4, 1.0, [5] * 4),
        ([250] * 4, 9.0, [3] * 4),
        ([1000] * 4, 60.0, [2] * 4),
        ([4000], 18.0, [20]),
        ([4000], 57.0, [8]),
        ([300, 100], 1.0, [15, 5]),
        ([250] * 12, 1.0, [1] * 12),
        ([25] * 40, 11.0, [1] * 40),
    ],
)
def test_blocks(lengths, tau, parts):
    chain = np.repeat(np.arange(len(lengths)), lengths)
    blocks = cut_blocks(tau, chain)
    assert blocks.enough
    assert blocks.remedy == ""
    assert blocks.n_blocks == sum(parts)
    assert blocks.effective_sample_size == pytest.approx(sum(lengths) / tau)
    assert np.all(np.diff(blocks.label) >= 0)
    owners = [np.unique(chain[blocks.label == block]) for block in range(blocks.n_blocks)]
    assert [len(owner) for owner in owners] == [1] * blocks.n_blocks
    assert np.bincount(np.concatenate(owners)).tolist() == parts
    sizes = np.bincount(blocks.label)
    for k, part in enumerate(parts):
        own = sizes[[owner[0] == k for owner in owners]]
        assert own.max() - own.min() <= 1
        assert own.max() <= lengths[k] / part + 1


def test_too_few_blocks_say_how_much_longer():
    blocks = cut_blocks(50.0, np.repeat(np.arange(4), 250))
    assert not blocks.enough
    assert "draws is about 20 " in blocks.remedy
    longer = cut_blocks(50.0, np.repeat(np.arange(4), int(250 * blocks.times_longer) + 1))
    assert longer.enough
    assert 1.9 < blocks.times_longer < 2.3
    assert 6.5 < cut_blocks(70.0, np.zeros(700, dtype=int)).times_longer < 7.8
    assert "run the chain about" in cut_blocks(70.0, np.zeros(700, dtype=int)).remedy
    assert cut_blocks(1.0, np.repeat([0, 1], [1000, 1000])).enough


def test_one_long_chain_among_short_ones_is_no_eight_blocks():
    chain = np.repeat(np.arange(8), [1000, *[20] * 7])
    assert not cut_blocks(90.0, chain).enough
    assert cut_blocks(5.0, chain).enough


def test_many_chains_are_blocks_or_groups_of_chains():
    chain = np.repeat(np.arange(250), 4)
    blocks = cut_blocks(3.0, chain)
    assert blocks.n_blocks == 100
    assert all(len(np.unique(blocks.label[chain == k])) == 1 for k in range(250))


def test_signs_of_few_blocks_are_all_patterns():
    signs = block_signs(8, 5, np.random.default_rng(0))
    assert signs.shape == (127, 8)
    every = {tuple(row) for row in signs} | {tuple(-row) for row in signs} | {(1,) * 8, (-1,) * 8}
    assert every == set(itertools.product((1, -1), repeat=8))
    assert block_signs(11, 5, np.random.default_rng(0)).shape == (1023, 11)
    many = block_signs(12, 5000, np.random.default_rng(0))
    assert many.shape == (5000, 12)
    assert np.abs(many.mean(axis=0)).max() < 6 / np.sqrt(5000)
    assert set(np.unique(many)) == {-1, 1}


def test_block_sums():
    values = np.arange(12.0).reshape(6, 2)
    label = np.array([0, 0, 1, 2, 2, 2])
    direct = [values[label == k].sum(axis=0) for k in range(3)]
    np.testing.assert_array_equal(block_sums(values, label), direct)


@pytest.mark.slow
def test_block_signs_keep_the_level_of_a_mean_where_signs_per_draw_do_not():
    rng = np.random.default_rng(3)
    by_block, by_draw = [], []
    for _ in range(300):
        x, chain = labelled_chains(rng, 4, 250, 1, 0.5)
        h = x[:, 0]
        blocks = cut_blocks(autocorrelation_time(h, chain), chain)
        sums = block_sums(h, blocks.label)
        null = np.abs(block_signs(blocks.n_blocks, 499, rng) @ sums)
        alone = np.abs((2.0 * rng.integers(2, size=(499, len(h))) - 1) @ h)
        total = abs(sums.sum())
        by_block.append((1 + np.sum(null >= total)) / 500)
        by_draw.append((1 + np.sum(alone >= total)) / 500)
    assert_level(by_block, exact=True)
    assert_power(by_draw, 0.2)


@pytest.mark.parametrize(("n", "d"), [(30, 1), (100, 3), (400, 20), (3000, 5)])
def test_independent_draws_do_not_look_dependent(n, d):
    rng = np.random.default_rng(4)
    for _ in range(40):
        x = rng.standard_cauchy(size=(n, d))
        assert looks_dependent(x, -np.log1p(x**2).sum(axis=1)) is None
    assert looks_dependent(np.ones((n, d))) is None


def test_false_alarms_of_dependence_are_rare():
    rng = np.random.default_rng(5)
    alarms = sum(looks_dependent(rng.exponential(size=(60, 4))) is not None for _ in range(2000))
    assert stats.binomtest(alarms, 2000, 1e-4, alternative="greater").pvalue > 1e-4


@pytest.mark.parametrize(
    ("rho", "dim", "words"), [(0.4, 3, "successive draws"), (-0.4, 1, "in a"), (0.9, 2, "successive draws")]
)
def test_chains_look_dependent(rho, dim, words):
    for seed in range(20):
        x, _ = labelled_chains(np.random.default_rng(seed), 1, 500, dim, rho)
        assert words in str(looks_dependent(x, names=["a", "b", "c"][:dim]))


def test_a_slow_direction_that_is_no_axis_is_seen():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1000, 20))
        x[:, 0] = labelled_chains(rng, 1, 1000, 1, 0.95)[0][:, 0]
        turn, _ = np.linalg.qr(rng.normal(size=(20, 20)))
        assert looks_dependent(x @ turn) is not None


def test_the_log_density_shows_what_the_draws_hide():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        radius = np.exp(0.5 * labelled_chains(rng, 1, 1000, 1, 0.7)[0])
        angle = rng.normal(size=(1000, 5))
        x = radius * angle / np.linalg.norm(angle, axis=1, keepdims=True)
        assert looks_dependent(x) is None
        assert looks_dependent(x, -radius[:, 0]).where == "the log density"


def test_interleaved_chains_look_dependent():
    x, _ = labelled_chains(np.random.default_rng(0), 16, 100, 1, 0.95)
    found = looks_dependent(x.reshape(16, 100).T.reshape(-1, 1))
    assert found.lag % 16 == 0
    assert f"draws {found.lag} apart" in str(found)
    assert found.pvalue < 1e-3


def test_repeats_and_faulty_chains():
    x, chain = labelled_chains(np.random.default_rng(6), 4, 100, 2, 0.5)
    assert not invalidating_faults(x, None)
    assert chain_faults(x, chain) == []
    still = x.copy()
    still[150:190] = still[150]
    (fault,) = chain_faults(still, chain)
    assert fault.startswith("chain 1 is stuck from draw 50 to draw 89: running it longer will not help")
    assert stuck_chains(still, chain) == [(1, 50, 89)]
    assert invalidating_faults(still, None)
    same = x.copy()
    same[300:] = same[100:200]
    assert chain_faults(same, chain) == [
        "chains 1 and 3 are the same in 100 of 100 draws: were they started with the same seed?"
    ]
    stuck = x.copy()
    stuck[:100, 1] = 0.5
    assert chain_faults(stuck, chain, ["a", "b"]) == ["b never changes in chain 0"]


def stein_features(x):
    return np.concatenate([-x, 1 - x**2], axis=1)


@pytest.mark.slow
def test_agreement_keeps_its_level():
    rng = np.random.default_rng(7)
    pvalues = []
    for k in range(300):
        x, chain = labelled_chains(rng, 4, (250, 400)[k % 2], 3, (0.0, 0.6)[k % 2])
        pvalues.append(agreement(stein_features(x), chain, rng=rng, n_resamples=199).pvalue)
    assert_level(pvalues, exact=True)
    assert_uniform(pvalues)


def test_agreement_sees_an_odd_chain_and_burn_in():
    rng = np.random.default_rng(8)
    odd = []
    early = []
    for _ in range(40):
        x, chain = labelled_chains(rng, 4, 250, 5, 0.5)
        found = agreement(stein_features(x + 0.4 * (chain == 2)[:, None]), chain, rng=rng)
        odd.append(found.pvalue <= 0.01 and found.odd_chain == 2 and found.between_pvalue <= 0.01)
        way = rng.normal(size=(4, 5))
        way *= 3 / np.linalg.norm(way, axis=1, keepdims=True)
        time = np.tile(np.arange(250), 4)
        x, _ = labelled_chains(rng, 4, 250, 5, 0.5)
        started = x + way[chain] * np.maximum(0, 1 - time / 25)[:, None]
        found = agreement(stein_features(started), chain, rng=rng)
        early.append(found.pvalue <= 0.01 and found.start_pvalue <= 0.01)
    assert np.mean(odd) > 0.6
    assert np.mean(early) > 0.6


def test_agreement_returns_its_null_distribution():
    rng = np.random.default_rng(12)
    chain = np.repeat(np.arange(4), 250)
    found = agreement(rng.normal(size=(1000, 2)), chain, rng=rng, n_resamples=199)
    assert found.statistic == -min(found.between_pvalue, found.start_pvalue)
    assert found.null_distribution.shape == (199,)
    as_large = np.sum(found.null_distribution >= found.statistic - 1e-9)
    assert found.pvalue == (1 + as_large) / 200


def test_agreement_is_a_result_as_that_of_a_verdict():
    x, chain = labelled_chains(np.random.default_rng(13), 4, 250, 2, 0.5)
    found = agreement(x, chain, n_resamples=99)  # a seed is not needed
    assert isinstance(found, sc.result.AgreementResult)
    assert (found.n, found.dim, found.chains.n_chains) == (1000, 2, 4)
    assert found.inconclusive(0.005)
    assert str(found).startswith("agreement of the chains: ")
    with pytest.raises(TypeError, match="positional"):
        agreement(x, chain, 0)


def test_agreement_of_a_single_chain_and_of_many():
    rng = np.random.default_rng(9)
    x, chain = labelled_chains(rng, 1, 2000, 2, 0.5)
    drifting = x + np.linspace(0, 1, 2000)[:, None]
    found = agreement(stein_features(drifting), chain, rng=rng)
    assert found.pvalue <= 0.01
    assert found.n_blocks == found.chains.n_blocks >= 8
    early = x + 3 * np.maximum(0, 1 - np.arange(2000) / 200)[:, None]
    assert agreement(stein_features(early), chain, rng=rng).start_pvalue <= 0.02
    x, chain = labelled_chains(rng, 30, 100, 2, 0.0)
    assert agreement(stein_features(x + (chain == 4)[:, None]), chain, rng=rng).odd_chain == 4
    x, chain = labelled_chains(rng, 4, 50, 2, 0.99)
    with pytest.warns(UserWarning, match="run the chains about 2.9 times as long"):
        found = agreement(stein_features(x), chain, rng=rng)
    assert np.isnan(found.pvalue)
    assert "reason: the effective sample size" in str(found)


def test_agreement_does_not_depend_on_units_or_constant_features():
    x, chain = labelled_chains(np.random.default_rng(10), 4, 250, 3, 0.3)
    features = stein_features(x)
    scaled = np.concatenate([features * 10.0 ** np.arange(-3, 3), np.ones((1000, 1))], axis=1)
    one = agreement(features, chain, rng=np.random.default_rng(0)).pvalue
    assert agreement(scaled, chain, rng=np.random.default_rng(0)).pvalue == pytest.approx(one, abs=0.01)


@pytest.mark.slow
def test_agreement_keeps_its_level_with_more_features_than_blocks():
    rng = np.random.default_rng(14)
    chain = np.repeat(np.arange(4), 250)
    samples = (rng.normal(size=(1000, 300)) for _ in range(20))
    assert_level([agreement(x, chain, n_resamples=99, rng=rng).pvalue for x in samples], (0.05, 0.2))


def test_chains_of_very_different_lengths_are_told_to_grow_alike():
    """One long chain beside short ones is one block, however long they all run."""
    blocks = cut_blocks(50.0, np.repeat([0, 1, 2], [1000, 10, 10]), max_blocks=3)
    assert not blocks.enough
    assert blocks.remedy.startswith("the chains differ too much in length")


def test_a_coordinate_that_never_changes_has_no_step():
    assert rounding_step(np.full(10, 0.3)) == 0.0
    assert rounding_step(np.array([0.0, 1.0, np.pi])) == 0.0


def test_chains_of_one_value_agree():
    """Whitening leaves nothing; the chains are stuck, but they do not differ."""
    found = agreement(np.ones((400, 2)), np.repeat(np.arange(4), 100), rng=np.random.default_rng(0))
    assert found is None or not found.pvalue <= 0.05


X = np.random.default_rng(0).normal(size=(40, 2))
TWO = np.repeat([0, 1], 20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: autocorrelation_time("banana"), "`h` must be an array of real numbers"),
        (lambda: autocorrelation_time(None), "`h` must be"),
        (lambda: autocorrelation_time([[1.0], [1.0, 2.0]]), "`h` must be"),
        (lambda: autocorrelation_time(np.full(9, np.nan)), "`h` must be finite"),
        (lambda: autocorrelation_time(1e300 * X), "`h` must be finite and of size at most 1e[+]140"),
        (lambda: autocorrelation_time(np.zeros((2, 3, 4))), "`h` must have shape"),
        (lambda: autocorrelation_time([]), "`h` must have shape"),
        (lambda: autocorrelation_time(X, TWO[:5]), r"`chain` must have shape \(40,\)"),
        (lambda: autocorrelation_time(X, TWO[::-1]), "`chain` must be the chain of each draw, 0, 1"),
        (lambda: autocorrelation_time(X, TWO / 2), "`chain` must be the chain"),
        (lambda: autocorrelation_time(X, 2 * TWO), "`chain` must be the chain"),
        (lambda: autocorrelation_time(X, np.where(TWO, np.inf, 0)), "`chain` must be the chain"),
        (lambda: cut_blocks("3", TWO), "`tau`"),
        (lambda: cut_blocks(0.0, TWO), "`tau` must be positive"),
        (lambda: cut_blocks([3.0, 4.0], TWO), "`tau` must be one number"),
        (lambda: cut_blocks(3.0, None), "`chain` must be the chain"),
        (lambda: cut_blocks(3.0, TWO, max_blocks=0), "`max_blocks` must be a positive integer"),
        (lambda: cut_blocks(3.0, TWO, min_blocks=1.5), "`min_blocks`"),
        (lambda: cut_blocks(3.0, TWO, cut_every="a"), "`cut_every`"),
        (lambda: convergence(X[:, 0], TWO), "`draws` must have shape"),
        (lambda: convergence(X + np.nan, TWO), "`draws` must be finite"),
        (lambda: convergence(X + np.nan), "`draws` must be finite"),
        (lambda: agreement("banana", TWO), "`features` must be"),
        (lambda: agreement(X, TWO + 1), "`chain` must be the chain"),
        (lambda: agreement(X, np.repeat([0, 1], [1, 39])), "`chain` must give every chain at least 2"),
        (lambda: agreement(X, TWO, rng="seed"), "`rng`"),
        (lambda: agreement(X, TWO, n_resamples=0), "`n_resamples`"),
        (lambda: agreement(X, TWO, n_resamples=10**6), "`n_resamples` must be at most 100000"),
        (lambda: looks_dependent(None), "`values` must be"),
        (lambda: looks_dependent(X[:, 0]), "`values` must have shape"),
        (lambda: looks_dependent(X, X), r"`log_density` must have shape \(40,\)"),
        (lambda: looks_dependent(X, np.full(40, np.nan)), "`log_density` must be finite"),
        (lambda: looks_dependent(X, names="ab"), "`names` must be"),
        (lambda: looks_dependent(X, names=["a"]), "`names` must name 2 coordinates, got 1"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_lists_small_integers_and_seeds_are_taken():
    times = autocorrelation_time(X, TWO)
    np.testing.assert_array_equal(autocorrelation_time(X.tolist(), TWO.tolist()), times)
    chain = np.repeat(np.arange(200), 3)
    wide = cut_blocks(1.0, chain)
    np.testing.assert_array_equal(cut_blocks(1.0, chain.astype(np.uint8)).label, wide.label)
    x, chain = labelled_chains(np.random.default_rng(0), 4, 250, 2, 0.5)
    seeded = agreement(x, chain, rng=7)
    assert seeded.pvalue == agreement(x, chain, rng=np.random.SeedSequence(7)).pvalue
    generator = np.random.default_rng(7)
    state = generator.bit_generator.state
    first = agreement(x, chain, rng=generator)
    assert generator.bit_generator.state == state  # a stream is spawned, nothing is drawn
    assert first.pvalue == agreement(x, chain, **first.settings).pvalue
    assert set(first.settings) == {"n_resamples", "rng"}


def test_a_tiny_autocorrelation_time_cuts_as_often_as_may_be():
    assert cut_blocks(1e-300, TWO).n_blocks == cut_blocks(0.01, TWO).n_blocks == 20


@pytest.mark.parametrize("offset", [0.5, 3 / 8])
def test_normal_scores_are_quantiles_of_mean_ranks(offset):
    x = np.random.default_rng(3).integers(5, size=(4, 9)).astype(float)
    ranks = stats.rankdata(x).reshape(x.shape)
    expected = stats.norm.ppf((ranks - offset) / (x.size + 1 - 2 * offset))
    np.testing.assert_allclose(normal_scores(x, offset=offset), expected, rtol=1e-13, atol=1e-15)


def test_lagged_products_are_those_of_sums():
    x = np.random.default_rng(4).normal(size=(3, 8))
    expected = sum(np.correlate(row, row, mode="full")[7:] for row in x)
    np.testing.assert_allclose(lagged_products(x), expected, rtol=1e-12, atol=1e-12)


def test_places_within_chains_of_any_length():
    np.testing.assert_array_equal(index_in_chain(np.array([0, 0, 1, 2, 2, 2])), [0, 1, 0, 0, 1, 2])


@pytest.mark.parametrize(("walkers", "steps"), [(32, 60), (4, 250)])
def test_interleaved_chains_are_no_misfit(walkers, steps):
    """As emcee's flattened chains are."""
    flattened = ar1_chains(np.random.default_rng(5), walkers, steps, 2, 0.95).swapaxes(0, 1).reshape(-1, 2)
    target = standard_normal(2)
    verdict = quiet_check(flattened, target, modes=[[0.0, 0.0]])
    assert verdict.fits is None
    assert f"as where {walkers} chains are interleaved" in verdict.sentence
    with pytest.warns(UserWarning, match="no p-value is valid for one chain"):
        sc.ksd_test(flattened, target, rng=0)
