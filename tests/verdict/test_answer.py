import functools
import json
import re
from pathlib import Path

import jax.numpy as jnp
import jsonschema
import numpy as np
import pytest
from harness import ar1_chains, quiet_check, standard_normal

import steincheck as sc
from steincheck.verdict import steps

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "verdict.schema.json").read_text())
SCALES = np.array([1e-3, 1.0, 1e3])
ORIGIN = np.zeros((1, 3))  # the mode of `scaled`; tests of the search itself are elsewhere
BOTH = [[-3.0], [3.0]]


@pytest.fixture(scope="module")
def two_modes():
    return sc.models.gaussian_mixture([[-3.0], [3.0]])


@pytest.fixture(scope="module")
def left_only(two_modes):
    return sc.check(np.random.default_rng(0).normal(-3, 1, size=(1000, 1)), two_modes, rng=0)


@pytest.fixture(scope="module")
def good(two_modes):
    return sc.check(two_modes.sample(1000, 1), two_modes, rng=0)


@pytest.fixture(scope="module")
def scaled():
    """Parameters on scales 1e-3, 1 and 1e3."""
    return sc.from_jax(lambda x: -0.5 * jnp.sum((x / SCALES) ** 2), dim=3, names=["tiny", "one", "huge"])


def test_a_missing_mode_is_named(left_only):
    assert left_only.fits is False
    assert left_only.pvalue < 1e-6
    assert left_only.tests["weights"].pvalue < 1e-6
    table = left_only.mode_table
    rare = int(np.argmin(table.observed))
    assert table.n_draws[rare] <= 1  # of 900 normal draws hardly one lies three standard deviations off
    assert table.locations[rare] == pytest.approx(3, abs=0.01)
    assert table.implied[rare] == pytest.approx(0.5, abs=0.02)
    first = left_only.findings[0]
    assert re.match(
        rf"Mode {rare} \(x\[0\] = 3\) is (nearly )?missing: (no draws|0\.1% of the draws), (50|49)\.\d% \(",
        str(first),
    )
    assert first.mode == rare
    assert first.pvalue == pytest.approx(left_only.adjusted_pvalues["weights"], rel=1e-6, abs=0)
    assert first.estimate == pytest.approx(0.5, abs=0.02)
    text = str(left_only)
    assert text.startswith("Misfit found (p < 1e-16). Mode ")
    assert len(text.splitlines()) < 40


def test_draws_that_told_the_search_where_to_begin_are_not_tested(good):
    assert good.n == 1000
    for result in good.tests.values():
        assert (result.n, result.n_tested, len(np.unique(result.tested_rows))) == (1000, 900, 900)
    assert {test["n_tested"] for test in good.to_dict()["tests"].values()} == {900}
    assert "100 held-out draws that started the mode search" in str(good)


@pytest.mark.parametrize("k", range(3))
def test_every_coordinate_is_seen_whatever_its_scale(scaled, k):
    x = np.random.default_rng(k).normal(size=(1000, 3)) * SCALES
    x[:, k] *= 1.3
    verdict = sc.check(x, scaled, modes=ORIGIN, rng=0)
    assert verdict.fits is False
    (finding,) = [finding for finding in verdict.findings if finding.kind == "sd"]
    assert finding.parameters == (scaled.names[k],)
    assert finding.estimate == pytest.approx(x[:, k].std() / SCALES[k], rel=0.01)
    assert "times too large" in finding.text
    assert "weights" not in verdict.tests


def test_weights_that_cannot_be_certified_are_no_pass():
    places = np.repeat([[-3.0], [3.0]], 10, axis=1)
    target = sc.models.gaussian_mixture(places)
    left = target.sample(500, 0, weights=[1, 0])
    nowhere = (places, [np.eye(10), np.diag([1e4, 1e-4] * 5)])  # no draw is mapped to where the second is
    verdict = sc.check(left, target, modes=nowhere, rng=0)
    assert verdict.fits is None
    assert "no draw can be mapped to another mode" in verdict.sentence
    assert str(verdict).count("no draw can be mapped to another mode") == 1
    assert verdict.to_dict()["tests"]["weights"]["pvalue"] is None
    assert "cannot tell" in str(verdict)
    jsonschema.validate(verdict.to_dict(), SCHEMA)
    wrong = sc.check(1.5 * (left + 3) - 3, target, modes=nowhere, rng=0)
    assert wrong.fits is False
    assert any("no draw can be mapped to another mode" in text for text in wrong.not_examined)


@pytest.mark.parametrize(("share", "fits"), [(0.3, None), (0.04, True)])
def test_draws_at_an_unknown_mode_are_no_pass(share, fits):
    weights = [(1 - share) / 2, (1 - share) / 2, share]
    target = sc.models.gaussian_mixture([[0.0], [6.0], [40.0]], [[[1.0]], [[2.0]], [[1.0]]], weights)
    draws = target.sample(1000, rng=3)
    blind = sc.check(draws, target, modes=[[0.0], [6.0]], rng=0)
    assert blind.fits is fits
    text = " ".join(blind.inconclusive_reasons if fits is None else blind.not_examined)
    assert "belong to unknown modes, for example (x[0] = 40)" in text
    whole = sc.check(draws, target, modes=[[0.0], [6.0], [40.0]], rng=0)
    assert whole.fits
    assert "unknown modes" not in " ".join(whole.not_examined)


def test_a_level_out_of_reach_is_said(scaled):
    x = np.random.default_rng(5).normal(size=(100, 3)) * SCALES
    verdict = sc.check(x, scaled, modes=ORIGIN, alpha=1e-6, rng=0)
    assert verdict.fits is None
    assert "cannot reach the level 1e-06" in verdict.sentence


def test_many_draws_are_thinned_for_the_kernel_test_only(two_modes, monkeypatch):
    monkeypatch.setattr(steps, "MAX_KERNEL_DRAWS", 300)
    verdict = sc.check(two_modes.sample(700, 3), two_modes, modes=BOTH, rng=0)
    assert verdict.tests["kernel"].n_tested == 234
    np.testing.assert_array_equal(verdict.tests["kernel"].tested_rows, np.arange(0, 700, 3))
    assert verdict.tests["weights"].n_tested == verdict.tests["moments"].n_tested == verdict.n == 700
    assert any("looked at some of them" in text for text in verdict.not_examined)


def test_a_generator_is_recorded_as_a_seed_that_gives_the_verdict_again(two_modes):
    check = functools.partial(sc.check, two_modes.sample(200, 4), two_modes, modes=BOTH)
    generator = np.random.default_rng(8)
    state = generator.bit_generator.state
    first = check(rng=generator)
    assert generator.bit_generator.state == state  # a stream is spawned, nothing is drawn
    assert check(rng=first.seed).to_json() == first.to_json()
    assert check(rng=generator).seed != first.seed
    assert check().to_json() == check(rng=0).to_json()  # the same draws get the same answer


def test_known_log_densities_are_used_and_verified(two_modes, capsys):
    x = two_modes.sample(200, 4)
    known = two_modes.log_density(x) + 7.0
    check = functools.partial(sc.check, x, two_modes, modes=BOTH)
    told = check(log_density=known, progress=True)
    plain = check()
    assert told.pvalue == pytest.approx(plain.pvalue, rel=1e-9)
    assert plain.evaluations[0].made - told.evaluations[0].made == 195
    assert capsys.readouterr().err.count("steincheck: ") == 4
    with pytest.raises(ValueError, match=r"`log_density` must be that of the target up to a constant"):
        check(log_density=2 * known)
    with pytest.raises(ValueError, match=r"`log_density` must be a finite number per draw, 200"):
        check(log_density=known[:-1])


def test_good_chains_pass_and_an_odd_one_is_named(scaled):
    x = ar1_chains(np.random.default_rng(3), 4, 500, 3, 0.5)
    good = sc.check(x * SCALES, scaled, modes=ORIGIN, rng=0)
    assert good.fits is True
    assert list(good.tests) == ["kernel", "moments", "chains"]
    assert "2000 draws were tested as 4 chains" in str(good)
    x[1] += 1.0
    odd = sc.check(x * SCALES, scaled, modes=ORIGIN, rng=0)
    assert odd.fits is False
    assert "Chain 1 differs from the others" in " ".join(map(str, odd.findings))
    assert good.tests["chains"].pvalue_floor == odd.tests["chains"].pvalue_floor == 0.001
    assert not good.tests["chains"].at_floor
    assert odd.tests["chains"].at_floor
    assert odd.tests["chains"].statistic == -0.001


def test_draws_at_a_hard_edge_cannot_tell():
    """Stein's identity fails where the density ends abruptly: never a misfit."""
    target = sc.Target(
        lambda x: np.where(x[:, 0] < 1.5, -0.5 * x[:, 0] ** 2, -np.inf), lambda x: -x, dim=1, names=["tau"]
    )
    x = np.random.default_rng(0).normal(size=(2000, 1))
    verdict = sc.check(x[x[:, 0] < 1.5][:1000], target, modes=[[0.0]], rng=0)
    assert verdict.fits is None
    assert "transform the parameters" in verdict.advice[0]


def test_a_density_that_grows_without_bound_cannot_be_fitted():
    target = sc.from_jax(lambda x: 0.5 * x[0] ** 2 - 0.5 * x[1] ** 2, dim=2)
    x = np.random.default_rng(0).normal(size=(500, 2))
    verdict = sc.check(x, target, max_evaluations=20_000, rng=0)
    assert verdict.fits is None  # no sample can come from it
    assert "no mode found: the density does not fall off" in verdict.sentence


@pytest.mark.parametrize("name", ["left_only", "good"])
def test_json_follows_the_schema(name, request):
    verdict = request.getfixturevalue(name)
    record = json.loads(verdict.to_json())
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(record, SCHEMA)
    assert record["fits"] is verdict.fits
    assert record["pvalue"] == verdict.pvalue
    assert set(record) == set(SCHEMA["properties"])
    assert set(SCHEMA["properties"]) - set(SCHEMA["required"]) == {"settings"}  # absent from older files


def test_a_lattice_of_modes_is_tested_by_its_displacements():
    target = sc.from_jax(lambda x: jnp.sum(jnp.logaddexp(-0.5 * (x + 3) ** 2, -0.5 * (x - 3) ** 2)), dim=8)
    rng = np.random.default_rng(0)
    sides = np.where(rng.random((800, 8)) < 0.5, -3, 3)
    sides[:, 5] = np.where(rng.random(800) < 0.7, -3, 3)
    x = rng.normal(size=(800, 8)) + sides
    verdict = sc.check(x, target, rng=0)
    assert verdict.fits is False
    assert verdict.findings[0].text == "The mode weights are wrong: too little mass in direction (x[5] +6)"
    jsonschema.validate(verdict.to_dict(), SCHEMA)


def test_impossible_draws_are_found_where_moments_are_not_tested(normal_target):
    """Few draws, slow chains, burn-in left in: a single draw needs neither independence nor many others."""
    rng = np.random.default_rng(0)
    few = rng.normal(size=(90, 2))
    few[50] = 1e6
    walk = np.cumsum(rng.normal(size=(4, 500, 2)), axis=1)
    burning = np.full((4, 500, 2), 20.0)
    for k in range(1, 500):
        burning[:, k] = 0.95 * burning[:, k - 1] + 0.3122 * rng.normal(size=(4, 2))
    for draws in (few, walk, burning):
        verdict = sc.check(draws, normal_target, modes=[[0.0, 0.0]], rng=0)
        assert verdict.fits is False
        assert verdict.findings
        if draws is few:
            assert verdict.findings[0].kind == "impossible draws"


def test_copies_are_no_evidence(normal_target):
    """Equal chains: no verdict, where the tests by themselves would reject most of them."""
    rng = np.random.default_rng(1)
    chains = np.repeat(rng.normal(size=(1, 300, 2)), 4, axis=0)
    verdict = sc.check(chains, normal_target, modes=[[0.0, 0.0]], rng=0)
    assert verdict.fits is None
    assert "chains 0 and 1 are the same" in verdict.sentence
    assert "chains 0 and 1 are the same" not in " ".join(verdict.warnings)  # said once, as a reason
    assert not verdict.tests
    rounded = np.round(rng.normal(size=(1000, 1)), 2)
    one = standard_normal(1)
    assert sc.check(rounded, one, modes=[[0.0]], rng=0).tests


def test_a_misfit_always_has_a_finding():
    """Half a banana: no moment stands out, and the coordinate that is cut is named."""
    target = sc.from_jax(lambda x: -(x[0] ** 2) / 8 - 2 * (x[1] - x[0] ** 2 + 4) ** 2, dim=2)
    rng = np.random.default_rng(0)
    first = np.abs(2 * rng.normal(size=2000))
    x = np.stack([first, first**2 - 4 + 0.5 * rng.normal(size=2000)], axis=1)
    verdict = sc.check(x, target, modes=[[0.0, -4.0]], rng=0)
    assert verdict.fits is False
    assert any("x[0]" in finding.text for finding in verdict.findings)


def test_swapped_axes_are_no_evidence_but_many_short_chains_are(normal_target):
    rng = np.random.default_rng(2)
    x = ar1_chains(rng, 4, 300, 2, 0.9)
    swapped = sc.check(x.swapaxes(0, 1), normal_target, modes=[[0.0, 0.0]], rng=0)
    assert swapped.fits is None
    assert "the axes seem to be swapped" in swapped.sentence
    assert sc.check(x.swapaxes(0, 1), normal_target, modes=[[0.0, 0.0]], independent=True, rng=0).tests
    short = sc.check(rng.normal(size=(100, 10, 2)), normal_target, modes=[[0.0, 0.0]], rng=0)
    assert short.fits is not None
    assert {"kernel", "moments"} <= set(short.tests)


def test_floating_point_errors_of_the_users_setting_stay_inside():
    """A lattice: some modes have draws among those held out only."""
    lattice = sc.Target(
        lambda x: -np.sum(x**2, axis=1) / 18 + 2 * np.sum(np.cos(np.pi * x), axis=1),
        lambda x: -x / 9 - 2 * np.pi * np.sin(np.pi * x),
        dim=2,
    )
    stream = np.random.default_rng(0)
    proposals = 3 * stream.normal(size=(40_000, 2))
    kept = np.log(stream.random(40_000)) < 2 * np.sum(np.cos(np.pi * proposals) - 1, axis=1)
    with np.errstate(all="raise"):
        verdict = quiet_check(proposals[kept][:1000], lattice)
    assert verdict.fits is not False


@pytest.mark.parametrize("alpha", [0.01, 0.001])
def test_small_levels_are_within_reach(alpha):
    target = standard_normal(2)
    draws = np.random.default_rng(0).normal(size=(400, 2))
    assert sc.check(draws, target, modes=[[0.0, 0.0]], alpha=alpha, rng=0).fits is True
    assert sc.check(1.3 * draws, target, modes=[[0.0, 0.0]], alpha=alpha, rng=0).fits is False


def test_a_light_mode_far_away_counts_in_the_errors():
    """Weight .008 at 30 standard deviations: most of the variance is there."""
    target = sc.models.gaussian_mixture([[0.0], [30.0]], weights=[0.992, 0.008])
    check = functools.partial(sc.check, modes=[[0.0], [30.0]], tolerance=0.1, rng=0)
    without = check(np.random.default_rng(2).normal(size=(1000, 1)), target)
    assert without.fits is False
    assert without.accuracy[0].sd == pytest.approx(np.sqrt(1 + 0.992 * 0.008 * 900), rel=0.02)
    assert check(target.sample(4000, 1), target).fits is not False


@pytest.mark.parametrize("outlier", [20.0, 1e10])
def test_a_single_outlier_is_named_and_moves_no_number_of_the_density(outlier):
    x = np.random.default_rng(0).normal(size=(300, 2))
    x[3, 0] = outlier
    verdict = sc.check(x, standard_normal(2), modes=[[0.0, 0.0]], rng=0)
    assert [finding.kind for finding in verdict.findings] == ["impossible draws"]
    assert "row 3" in verdict.sentence
    assert verdict.accuracy[0].sd == pytest.approx(1.0, rel=0.01)
    assert verdict.accuracy[0].draws_sd == pytest.approx(x[:, 0].std())
    assert verdict.advice[0].startswith("inspect the draws named above")


def test_shares_of_the_density_are_right_whatever_the_shape_of_the_draws():
    """Heavy-tailed draws imply wrong shares by themselves; walkers that start at them do not."""
    places = [[-4.0, 0.0], [4.0, 0.0]]
    target = sc.models.gaussian_mixture(places, [np.eye(2), np.eye(2) / 4])
    rng = np.random.default_rng(0)
    left = rng.random(1000) < 0.8
    noise = rng.standard_t(3, size=(1000, 2)) * [1.5, 0.5] * np.where(left, 1.0, 0.5)[:, None]
    draws = np.where(left[:, None], *places) + noise
    verdict = sc.check(draws, target, modes=places, independent=True, rng=0)
    assert verdict.fits is False
    np.testing.assert_allclose(verdict.mode_table.implied, 0.5, atol=0.003)
    assert verdict.findings[0].kind == "mode share"
    assert verdict.advice[1].startswith("check the weighted draws: tests of the shape reject too")
