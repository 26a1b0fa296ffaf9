"""`result.settings` are the arguments of a test: they run it again, and are text only in JSON."""

import inspect
import json
import pickle
import warnings

import numpy as np
import pytest

import steincheck as sc

MODES = [[-3.0, 0.0], [3.0, 0.0]]
BOUNDS = [(-8.0, 8.0), (-6.0, 6.0)]
FEW = {"n_resamples": 99}
KERNEL = {"kernel": sc.RBF(2.0), "precondition": [[2.0, 0.3], [0.3, 1.0]], "bootstrap": sc.wild}
JUMPS = {"modes": MODES, "theta": [0.8, 1.2], "n_steps": 4, "accept": sc.barker}
ONE_JUMP = JUMPS | {"theta": 0.8}
AGGREGATED = FEW | {"n_level_resamples": 99}
CASES = [
    ("ksd_test", FEW | KERNEL | {"check_score": False}),
    ("pksd_test", FEW | KERNEL | ONE_JUMP),
    ("spksd_test", FEW | KERNEL | JUMPS),
    ("ospksd_test", FEW | KERNEL | JUMPS | {"train_fraction": 0.3}),
    (
        "ksdagg_test",
        AGGREGATED
        | KERNEL
        | {"kernel": sc.RBF(), "bandwidths": [0.5, 2.0], "bandwidth_weights": [0.3, 0.7], "alpha": 0.1},
    ),
    ("pksdagg_test", AGGREGATED | KERNEL | JUMPS | {"kernel": sc.RBF(), "bandwidths": "paper"}),
    ("fssd_test", FEW | {"n_locations": 3, "train_fraction": 0.4}),
    ("fssd_test", FEW | {"locations": [[0.0, 0.0], [1.0, 1.0]], "bandwidth": 3.0}),
    ("flux_test", {}),
    ("flux_test", FEW | {"modes": MODES, "variant": "exact", "anchors": 2}),
    ("moment_test", FEW | {"modes": MODES, "check_score": False}),
]


@pytest.fixture(scope="module")
def mixture():
    return sc.models.gaussian_mixture(MODES)


def same(first, again):
    return again.pvalue == first.pvalue and again.statistic == first.statistic and again.n == first.n


@pytest.mark.parametrize(("name", "options"), CASES)
def test_settings_run_the_test_again(name, options, mixture):
    test = getattr(sc, name)
    draws = mixture.sample(150, 1, weights=[0.6, 0.4])
    generator = np.random.default_rng(2)
    generator.spawn(2)
    first = test(draws, mixture, rng=generator, **options)
    restored = pickle.loads(pickle.dumps(first))
    for _ in range(2):
        assert same(first, test(draws, mixture, **restored.settings))
    arguments = set(inspect.signature(test).parameters) - {"draws", "target", "perturbation"}
    assert set(first.settings) == arguments
    assert json.loads(first.to_json())["settings"].keys() == arguments


@pytest.mark.parametrize(
    ("name", "options", "n_tested"),
    [
        ("ksd_test", FEW, 150),
        ("pksd_test", FEW, 130),  # 20 start the mode search
        ("spksd_test", FEW | JUMPS, 150),
        ("ospksd_test", FEW | JUMPS | {"train_fraction": 0.4}, 90),
        ("ksdagg_test", AGGREGATED, 150),
        ("pksdagg_test", AGGREGATED, 130),
        ("fssd_test", FEW, 120),
        ("flux_test", {}, 130),
        ("moment_test", FEW, 130),
    ],
)
def test_results_count_the_draws_given_and_say_which_were_tested(name, options, n_tested, mixture):
    draws = mixture.sample(150, 1)
    result = getattr(sc, name)(draws, mixture, rng=0, **options)
    assert (result.n, result.n_tested) == (150, n_tested)
    if n_tested == 150:
        assert result.tested_rows is None
        assert "n = 150, d = 2" in str(result)
    else:
        assert len(np.unique(result.tested_rows)) == n_tested
        assert (np.diff(result.tested_rows) > 0).all()
        assert f"n = 150, {n_tested} tested, d = 2" in str(result)
    if name == "flux_test":
        assert (result.mode_of_draw[np.setdiff1d(np.arange(150), result.tested_rows)] == -1).all()
        at_modes = result.modes.locations[result.mode_of_draw[result.tested_rows], 0]
        assert np.mean(at_modes * draws[result.tested_rows, 0] > 0) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", dict(CASES))
def test_settings_run_the_test_of_chains_again(name, mixture):
    test = getattr(sc, name)
    rng = np.random.default_rng(3)
    chains = mixture.sample(800, rng).reshape(4, 200, 2)
    jumps = ONE_JUMP if name == "pksd_test" else JUMPS
    known = inspect.signature(test).parameters
    options = {option: value for option, value in (AGGREGATED | jumps).items() if option in known}
    with warnings.catch_warnings(action="ignore"):
        first = test(chains, mixture, rng=rng, **options)
        again = test(chains, mixture, **first.settings)
    assert first.chains is not None
    assert same(first, again)


@pytest.mark.parametrize(
    "options",
    [
        {"modes": MODES, "alpha": 0.1, "independent": True},
        {"bounds": BOUNDS, "check_score": False, "max_evaluations": 3000},
    ],
)
def test_settings_of_a_verdict_run_it_again(options, mixture):
    draws = mixture.sample(400, 1, weights=[0.7, 0.3])
    given = {name: np.array(value) if name == "modes" else value for name, value in options.items()}
    first = sc.check(draws, mixture, rng=np.random.default_rng(2), **given)
    given.get("modes", np.zeros(1))[:] = 9.0  # what the user changes later is not recorded
    arguments = set(inspect.signature(sc.check).parameters) - {"draws", "target", "progress", "log_density"}
    assert set(first.settings) == arguments
    restored = pickle.loads(pickle.dumps(first))
    written = json.loads(first.to_json())
    for settings in (first.settings, restored.settings, written["settings"]):
        assert sc.check(draws, mixture, **settings).to_json() == first.to_json()
    assert all(not result.settings for result in first.tests.values())
    assert all(not record["settings"] for record in written["tests"].values())


@pytest.mark.parametrize("name", ["pksd_test", "spksd_test", "ospksd_test", "pksdagg_test"])
def test_a_given_perturbation_is_in_the_settings(name, mixture):
    test = getattr(sc, name)
    draws = mixture.sample(150, 1)
    moved = sc.perturb(draws, mixture, MODES, 0.8, n_steps=5, rng=0)
    first = test(draws, mixture, perturbation=moved, rng=3, **FEW)
    assert first.settings["perturbation"] is moved
    assert same(first, test(draws, mixture, **first.settings))
    assert json.loads(first.to_json())["settings"]["perturbation"] == repr(moved)


def test_too_few_replicates_for_a_rejection_are_warned_of(mixture):
    for test in (sc.ksd_test, sc.fssd_test):
        with pytest.warns(UserWarning, match="with `n_resamples` = 9 no p-value can be below 0.1"):
            result = test(mixture.sample(150, 1), mixture, n_resamples=9, rng=0)
        assert any("`n_resamples` = 9" in text for text in result.warnings)
        assert result.inconclusive()


@pytest.mark.parametrize("name", ["ksd_test", "fssd_test", "moment_test", "check"])
def test_ten_seeds_say_the_same_of_the_same_draws(name, mixture):
    """Correct draws, and the same shifted by one standard deviation: no seed may change the answer."""
    options = {"modes": MODES} if name in ("moment_test", "check") else FEW
    draws = mixture.sample(300, 0)
    for wrong in (False, True):
        found = [getattr(sc, name)(draws + wrong, mixture, rng=seed, **options) for seed in range(10)]
        assert {result.pvalue <= 0.05 for result in found} == {wrong}
        if name == "check":
            assert {verdict.fits for verdict in found} == {not wrong}
