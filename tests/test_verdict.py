import json
import re
from pathlib import Path

import jax.numpy as jnp
import jsonschema
import numpy as np
import pytest

import steincheck as sc
from steincheck import verdict as module
from steincheck.chains import looks_dependent
from steincheck.modes.search import Modes
from steincheck.result import ModeTable
from steincheck.stein.kernels import IMQ
from steincheck.verdict import coordinate_misfit, holm

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "verdict.schema.json").read_text())
SCALES = np.array([1e-3, 1.0, 1e3])


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
    assert left_only.local.pvalue > 0.05  # the shape of the draws is right
    assert left_only.weights.pvalue < 1e-6
    rare = int(np.argmin(left_only.modes.observed))
    assert left_only.modes.counts[rare] == 1  # of 1000 normal draws one lies three deviations off
    assert left_only.modes.locations[rare] == pytest.approx(3, abs=0.01)
    assert left_only.modes.implied[rare] == pytest.approx(0.5, abs=0.02)
    assert left_only.findings[0].startswith(
        f"Mode {rare} is all but missing: 0.1% of the draws, the density says"
    )
    assert len(left_only.findings) == 2
    text = str(left_only)
    assert text.startswith("The draws do not fit the density: misfit found at level 0.05 (p < 1e-16).\n")
    assert len(text.splitlines()) < 40


def test_no_misfit_is_never_called_a_proof(good):
    assert good.fits is True
    assert good.sentence.startswith("No misfit found at level 0.05 (p = ")
    assert good.findings == ()
    assert good.why == ""
    text = str(good)
    for words in (
        "inside the modes",
        "weights of the modes",
        "Not examined",
        "modes that neither",
        "assume independent",
    ):
        assert words in text
    assert f"seed 0, steincheck {sc.__version__}" in text
    np.testing.assert_allclose(good.modes.observed.sum(), 1)


def test_the_level_is_divided_between_the_tests(good):
    raw = {"local": good.local.pvalue, "weights": good.weights.pvalue}
    assert good.adjusted == holm(raw)
    assert good.pvalue == min(1.0, 2 * min(raw.values()))


@pytest.mark.parametrize(
    ("raw", "adjusted"),
    [
        ([0.01], [0.01]),
        ([0.04, 0.03], [0.06, 0.06]),
        ([0.5, 0.6, 0.9], [1.0, 1.0, 1.0]),
        ([0.001, 0.02, 0.9], [0.003, 0.04, 0.9]),
    ],
)
def test_holm(raw, adjusted):
    names = "abc"[: len(raw)]
    result = holm(dict(zip(names, raw, strict=True)))
    assert [result[name] for name in names] == pytest.approx(adjusted)


@pytest.mark.parametrize("k", range(3))
def test_every_coordinate_is_seen_whatever_its_scale(scaled, k):
    x = np.random.default_rng(k).normal(size=(1000, 3)) * SCALES
    x[:, k] *= 1.3
    verdict = sc.check(x, scaled, rng=0)
    assert verdict.fits is False
    assert verdict.findings == (f"The fit inside the modes is wrong, most in {scaled.names[k]}",)
    assert verdict.weights is None


def test_without_the_modes_the_small_coordinate_is_not_seen(scaled):
    seen = 0
    for seed in range(10):
        x = np.random.default_rng(seed).normal(size=(1000, 3)) * SCALES
        x[:, 0] *= 1.3
        seen += sc.ksd_test(x, scaled, n_resamples=199, check_score=False, rng=seed).reject()
    assert seen <= 4  # as often as at a fit, 5 %; more than 4 of 10 with probability 6e-5


def test_one_mode_leaves_the_weights_unexamined(scaled):
    x = np.random.default_rng(5).normal(size=(500, 3)) * SCALES
    verdict = sc.check(x, scaled, rng=0)
    assert verdict.fits is True
    assert verdict.weights is None
    assert verdict.pvalue == verdict.local.pvalue
    assert any("weights of the modes" in text for text in verdict.not_examined)
    assert len(verdict.modes) == 1
    assert verdict.coordinates["names"] == ["tiny", "one", "huge"]


def test_coordinates_add_up_to_the_discrepancy(scaled):
    x = np.random.default_rng(1).normal(size=(300, 3)) * SCALES * 1.1
    whole = sc.ksd_test(x, scaled, kernel=IMQ(2.0), precondition=np.diag(SCALES**2), n_resamples=19, rng=0)
    forms = module.coordinate_forms(x / SCALES, scaled.score(x) * SCALES, IMQ(2.0), np.ones((1, 300)))
    assert forms.sum() / (300 * 299) == pytest.approx(whole.statistic, rel=1e-9)


def test_coordinates_without_misfit_are_quiet(scaled):
    alarms = 0
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=(300, 3)) * SCALES
        alarms += np.sum(np.array(coordinate_misfit(x, scaled, SCALES, rng=seed)["pvalue"]) <= 0.05)
    assert alarms <= 12  # of 60; more with probability 1e-5


def test_few_draws_cannot_tell_unless_they_are_plainly_wrong(two_modes):
    few = sc.check(two_modes.sample(30, 0), two_modes, rng=0)
    assert few.fits is None
    assert few.sentence.startswith("Cannot tell whether the draws fit the density: 30 draws are too few")
    wrong = np.random.default_rng(0).normal(-1, 1, size=(30, 1))
    assert sc.check(wrong, two_modes, rng=0).fits is False


@pytest.mark.filterwarnings("ignore:cannot tell")
def test_weights_that_cannot_be_certified_are_no_pass(two_modes):
    left = np.random.default_rng(0).normal(-3, 1, size=(500, 1))
    nowhere = ([[-3.0], [30.0]], [[[1.0]], [[1.0]]])  # no draw could be at the second
    verdict = sc.check(left, two_modes, modes=nowhere, rng=0)
    assert verdict.fits is None
    assert verdict.sentence.startswith(
        "Cannot tell whether the draws fit the density: the weights of the modes"
    )
    assert verdict.adjusted["local"] == pytest.approx(
        min(1, 2 * verdict.local.pvalue)
    )  # still one of two tests
    assert verdict.to_dict()["weights"]["pvalue"] is None
    assert "cannot tell" in str(verdict)
    jsonschema.validate(verdict.to_dict(), SCHEMA)
    wrong = sc.check(1.5 * left, two_modes, modes=nowhere, rng=0)
    assert wrong.fits is False
    assert any("weights of the modes could not be tested" in text for text in wrong.not_examined)


def test_a_mode_that_exchanges_nothing_is_no_pass(two_modes):
    """Two modes compare well, a third with a fifth of the mass is out of reach."""
    table = ModeTable(
        np.zeros((3, 1)), np.array([5, 5, 0]), np.array([0.5, 0.5, 0]), np.array([0.5, 0.5, np.nan]),
        np.zeros((3, 2)), np.zeros((3, 2)), ("as expected",) * 2 + ("not examined",),
    )  # fmt: skip
    modes = Modes(np.zeros((3, 1)), np.ones((3, 1, 1)), np.log([0.4, 0.4, 0.2]), np.zeros(3))
    assert module._apart(modes, table) == [2]
    light = Modes(np.zeros((3, 1)), np.ones((3, 1, 1)), np.log([0.5, 0.5, 1e-6]), np.zeros(3))
    assert module._apart(light, table) == []


@pytest.mark.parametrize(("sign", "word"), [(1, "large"), (-1, "small")])
def test_a_trend_of_the_weights_is_said(sign, word):
    rank = np.arange(8)[:, None]
    places = sign * (7.0 * rank + 0.3 * rank**2)
    target = sc.models.gaussian_mixture(places, np.tile([[[1.0]], [[2.0]]], (4, 1, 1)))
    draws = target.sample(2000, rng=0, weights=0.125 + 0.006 * (np.arange(8) - 3.5))
    verdict = sc.check(draws, target, modes=places, rng=0)
    assert verdict.findings == (
        "The weights of the modes are wrong, though no mode by itself stands out: too many draws at modes "
        f"with a {word} x[0]",
    )


@pytest.mark.parametrize(("share", "fits"), [(0.3, None), (0.04, True)])
@pytest.mark.filterwarnings("ignore:only .* of the draws could be at another mode")
def test_draws_at_an_unknown_mode_are_no_pass(share, fits):
    weights = [(1 - share) / 2, (1 - share) / 2, share]
    target = sc.models.gaussian_mixture([[0.0], [6.0], [40.0]], [[[1.0]], [[2.0]], [[1.0]]], weights)
    draws = target.sample(1000, rng=3)
    blind = sc.check(draws, target, modes=[[0.0], [6.0]], rng=0)
    assert blind.fits is fits
    text = blind.why if fits is None else " ".join(blind.not_examined)
    assert "modes that are not known could not be tested" in text
    assert "lie at such modes, one is (40)" in text
    assert 0 < int(text.split("tested: ")[1].split()[0]) < 50
    whole = sc.check(draws, target, modes=[[0.0], [6.0], [40.0]], rng=0)
    assert whole.fits
    assert "not known could" not in " ".join(whole.not_examined)


def test_a_level_out_of_reach_is_said(scaled):
    x = np.random.default_rng(5).normal(size=(100, 3)) * SCALES
    verdict = sc.check(x, scaled, alpha=1e-6, rng=0)
    assert verdict.fits is None
    assert "cannot reach the level 1e-06" in verdict.why


def test_many_draws_are_thinned_for_the_quadratic_test_only(two_modes, monkeypatch):
    monkeypatch.setattr(module, "LOCAL_DRAWS", 300)
    verdict = sc.check(two_modes.sample(700, 3), two_modes, rng=0)
    assert verdict.local.n == 300
    assert verdict.weights.n == verdict.n == 700
    assert any("random 300 of the 700 draws" in text for text in verdict.not_examined)


def test_the_seed_reproduces_whatever_was_given(two_modes):
    x = two_modes.sample(200, 4)
    first = sc.check(x, two_modes, rng=np.random.default_rng(8))
    again = sc.check(x, two_modes, rng=np.random.default_rng(8))
    from_seed = sc.check(x, two_modes, rng=first.seed)
    assert first.to_json() == again.to_json() == from_seed.to_json()
    unseeded = sc.check(x, two_modes)
    assert sc.check(x, two_modes, rng=unseeded.seed).to_json() == unseeded.to_json()
    assert unseeded.seed != first.seed
    found = module.search_modes(x, two_modes, seed=first.seed)
    assert sc.check(x, two_modes, modes=found, rng=first.seed).to_json() == first.to_json()


def test_chains_are_recognised(two_modes):
    rng = np.random.default_rng(0)
    x = np.empty((500, 1))
    state = -3.0
    for k in range(500):
        state = -3 + 0.9 * (state + 3) + rng.normal(0, np.sqrt(1 - 0.9**2))
        x[k] = state
    with pytest.warns(UserWarning, match="successive draws are correlated"):
        verdict = sc.check(x, two_modes, rng=0)
    assert any("thin the chain" in text for text in verdict.warnings)


def test_chains_that_take_turns_are_recognised(two_modes):
    rng = np.random.default_rng(0)
    x = np.empty((100, 16))
    state = rng.normal(size=16)
    for row in x:
        state = 0.95 * state + rng.normal(0, np.sqrt(1 - 0.95**2), size=16)
        row[:] = state
    with pytest.warns(UserWarning, match=r"draws (16|32|48) apart are correlated"):
        sc.check(x.reshape(-1, 1) - 3, two_modes, rng=0)


def test_independent_draws_are_not_taken_for_chains():
    rng = np.random.default_rng(1)
    for n, d in [(50, 3), (300, 50), (5000, 10)]:
        for _ in range(20):
            assert looks_dependent(rng.standard_t(3, size=(n, d))) is None


def test_a_chain_that_stood_still_gets_a_verdict(two_modes):
    x = np.random.default_rng(0).normal(-3, 1, size=(500, 1))
    x[50:450] = x[49]
    with pytest.warns(UserWarning, match="400 of 500 draws repeat others"):
        verdict = sc.check(np.random.default_rng(1).permutation(x), two_modes, rng=0)
    assert verdict.fits is False


def test_the_weights_out_of_reach_of_the_level_are_no_pass():
    target = sc.models.gaussian_mixture([[-6.0], [6.0], [18.0]], weights=[0.497, 0.497, 0.006])
    draws = target.sample(1000, rng=0, weights=[0.9, 0.1, 0.0])
    verdict = sc.check(draws, target, modes=[[-6.0], [6.0], [18.0]], alpha=0.0019, rng=0)
    assert verdict.weights.pvalue == 0.001
    assert verdict.fits is None
    assert "the test of the weights of the modes cannot reach the level 0.0019" in verdict.why


@pytest.mark.parametrize("name", ["left_only", "good"])
def test_json_follows_the_schema(name, request):
    verdict = request.getfixturevalue(name)
    record = json.loads(verdict.to_json())
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(record, SCHEMA)
    assert record["fits"] is verdict.fits
    assert record["pvalue"] == verdict.pvalue
    assert set(record) == set(SCHEMA["required"])


def test_modes_may_be_given(two_modes):
    x = two_modes.sample(400, 6)
    verdict = sc.check(x, two_modes, modes=[[-3.0], [3.0]], rng=0)
    np.testing.assert_array_equal(verdict.modes.locations, [[-3.0], [3.0]])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": 0}, ValueError, "`alpha` must lie strictly between 0 and 1"),
        ({"bounds": (1, -1)}, ValueError, "`bounds` must be finite with low < high"),
        ({"modes": [[0.0, 1.0]]}, ValueError, "`modes` must have shape"),
        ({"rng": "seed"}, TypeError, "`rng` must be a non-negative int"),
        ({"draws": np.zeros((5, 2))}, ValueError, r"`draws` must have shape \(n, 1\)"),
        ({"target": np.sum}, TypeError, "`target` must be a steincheck.Target"),
    ],
)
def test_bad_input(two_modes, options, error, message):
    arguments = {"draws": np.arange(10.0), "target": two_modes} | options
    with pytest.raises(error, match=message):
        sc.check(**arguments)


def test_a_wrong_score_is_an_error_not_a_verdict():
    wrong = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: x, dim=1)
    with pytest.raises(ValueError, match="`score` disagrees"):
        sc.check(np.random.default_rng(0).normal(size=(100, 1)), wrong, rng=0)


@pytest.mark.slow
def test_the_level_of_the_whole(two_modes):
    """500 good samples: alarms are binomial with at most alpha, above 45 with probability 1e-4."""
    rng = np.random.default_rng(2)
    alarms = sum(
        sc.check(two_modes.sample(300, rng), two_modes, modes=[[-3.0], [3.0]], rng=rng).fits is False
        for _ in range(500)
    )
    assert alarms <= 45


@pytest.mark.filterwarnings(
    "ignore:there are more than max_modes", "ignore:the modes are part of a larger lattice"
)
def test_a_lattice_of_modes_is_tested_by_its_displacements():
    target = sc.from_jax(lambda x: jnp.sum(jnp.logaddexp(-0.5 * (x + 3) ** 2, -0.5 * (x - 3) ** 2)), dim=8)
    rng = np.random.default_rng(0)
    sides = np.where(rng.random((800, 8)) < 0.5, -3, 3)
    sides[:, 5] = np.where(rng.random(800) < 0.7, -3, 3)
    x = rng.normal(size=(800, 8)) + sides
    verdict = sc.check(x, target, rng=0)
    assert verdict.fits is False
    assert verdict.modes is None
    assert verdict.findings == (
        "The weights of the modes are wrong: more draws should lie farther on along (x[5] +6)",
    )
    assert any("lattice" in text for text in verdict.not_examined)
    jsonschema.validate(verdict.to_dict(), SCHEMA)
    assert "lattice too large" in sc.report.render(verdict, x, target)


def test_the_example_of_the_readme_prints_what_it_says(capsys):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    code, printed = re.search(r"```python\n(.*?)```\n\n```\n(.*?)  \.\.\.\n```", text, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out.startswith(printed)
