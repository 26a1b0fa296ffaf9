import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from harness import jax_normal
from scipy import stats

import steincheck as sc
from steincheck.result.table import _cell
from steincheck.verdict.compare import largest_effect, tv_of_correlation, tv_of_scale, tv_of_shift


@pytest.fixture(scope="module")
def target():
    """Correlation .9, parameters a and b."""
    precision = np.linalg.inv([[1, 0.9], [0.9, 1]])
    return sc.Target(
        lambda x: -0.5 * np.einsum("ni,ij,nj->n", x, precision, x),
        lambda x: -x @ precision,
        dim=2,
        names=["a", "b"],
    )


@pytest.fixture(scope="module")
def comparison(target):
    rng = np.random.default_rng(0)
    exact = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=4000)
    chains = exact.reshape(4, 1000, 2)
    mean_field = rng.normal(size=(1000, 2)) * np.sqrt(1 - 0.9**2)
    samples = {"mean field": mean_field, "shifted": np.add(exact[:1000], 0.3), "chains": chains}
    return sc.compare(samples, target, modes=[[0.0, 0.0]], rng=0)


def test_samples_are_ordered_by_the_size_of_their_misfit(comparison):
    assert list(comparison.verdicts) == ["chains", "shifted", "mean field"]
    table = comparison.table
    assert table["sample"] == list(comparison.verdicts)
    assert table["misplaced"][0] < 0.05
    assert table["misplaced"][1] == pytest.approx(tv_of_shift(0.3), abs=0.04)
    assert table["misplaced"][2] == pytest.approx(tv_of_correlation(0.0, 0.9), abs=0.1)
    assert table["worst"][2].startswith("correlation of a and b")
    assert table["n"] == [4000, 1000, 1000]
    assert 3000 < table["ess"][0] < 6000


def test_the_table_in_text_html_and_data(comparison):
    assert "mean field" in str(comparison)
    assert repr(comparison).startswith("<Comparison: ")
    record = json.loads(comparison.to_json())
    assert list(record["verdicts"]) == list(comparison.verdicts)
    assert comparison._repr_html_().count("<tr>") == 4
    assert set(comparison.table.to_dict()) == set(comparison.table.columns)
    with pytest.raises(KeyError, match="no column 'size'; the columns are sample, misplaced"):
        comparison.table["size"]


def test_pandas_is_named_where_it_is_missing(comparison, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        comparison.to_pandas()


def test_samples_must_have_names(target):
    with pytest.raises(TypeError, match="`samples` must map names to draws, got list"):
        sc.compare([np.zeros((100, 2))], target)


@pytest.mark.parametrize("size", [0.3, 2.0])
def test_distances_of_gaussians_against_quadrature(size):
    grid = np.linspace(-20, 20, 200_001)

    def distance(one, two):
        return 0.5 * np.trapezoid(np.abs(one - two), grid)

    standard = stats.norm.pdf(grid)
    assert tv_of_shift(-size) == pytest.approx(distance(standard, stats.norm.pdf(grid, size)), abs=1e-6)
    assert tv_of_scale(size) == pytest.approx(distance(standard, stats.norm.pdf(grid, 0, size)), abs=1e-6)


@pytest.mark.parametrize(("one", "two"), [(0.0, 0.9), (-0.03, -0.9), (0.5, 0.6), (0.3, 0.3)])
def test_distance_of_correlations_against_quadrature(one, two):
    grid = np.linspace(-8, 8, 641)
    points = np.stack(np.meshgrid(grid, grid), axis=-1)
    densities = [stats.multivariate_normal([0, 0], [[1, r], [r, 1]]).pdf(points) for r in (one, two)]
    expected = 0.5 * np.abs(densities[0] - densities[1]).sum() * (grid[1] - grid[0]) ** 2
    assert tv_of_correlation(one, two) == pytest.approx(expected, abs=1e-3)


def test_the_summary_has_one_row_per_parameter(comparison):
    table = comparison.verdicts["chains"].summary()
    assert table["parameter"] == ["a", "b"]
    assert np.all(np.array(table["ess_bulk"]) > 3000)
    np.testing.assert_allclose(table["r_hat"], 1, atol=0.01)
    narrow = comparison.verdicts["mean field"].summary()
    np.testing.assert_allclose(narrow["sd_factor"], np.sqrt(1 - 0.9**2), atol=0.15)
    assert np.isnan(narrow["r_hat"]).all()
    assert max(narrow["pvalue"]) < 0.05


def test_parameters_on_their_own_scale_in_findings_and_summary():
    log_scale = sc.Target(
        lambda u: np.sum(3 * u - np.exp(u), axis=1),
        lambda u: 3 - np.exp(u),
        dim=1,
        names=["log tau"],
        constrained_names=["tau"],
        constrain=np.exp,
        unconstrain=np.log,
    )
    tau = np.random.default_rng(0).gamma(3, size=1000)
    verdict = sc.check({"tau": 2 * tau}, log_scale, modes=[[np.log(3)]], rng=0)
    finding = next(finding for finding in verdict.findings if finding.kind == "location")
    assert finding.parameters == ("tau",)
    assert str(finding).startswith("tau is ")
    assert "times too large" in str(finding)
    assert verdict.mode_descriptions == ("tau = 3",)
    summary = verdict.summary()
    assert (summary["parameter"], summary["scale"]) == (["tau"], ["log"])
    assert summary["mean"][0] == pytest.approx(2 * tau.mean())


def test_every_draw_has_a_mode_the_held_out_too():
    far = sc.models.gaussian_mixture([[-5.0], [5.0]])
    x = far.sample(600, 0)
    verdict = sc.check(x, far, max_evaluations=5000, rng=0)
    side = verdict.modes.locations[verdict.mode_of_draw, 0]
    assert (np.sign(side) == np.sign(x[:, 0])).all()


def test_verdicts_and_results_in_notebooks(comparison):
    page = comparison.verdicts["mean field"]._repr_html_()
    for words in ("What to do", "a and b", "<details>", "sd_factor"):
        assert words in page
    assert "<script" not in page
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    result = sc.flux_test(target.sample(300, 0), target, modes=[[-3.0], [3.0]], rng=0)
    assert "share of the density" in result._repr_html_()
    assert "<svg" in result._repr_html_()


def test_wrong_weights_are_an_effect_and_no_size_is_said():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    x = target.sample(600, 0, weights=[0.8, 0.2])
    table = sc.compare({"wrong": x}, target, modes=[[-3.0], [3.0]], rng=0).table
    assert table["worst"][0] == "share of mode 1: 22%, should be 50%"
    assert table["misplaced"][0] == pytest.approx(0.28, abs=0.01)
    assert tv_of_scale(1.0) == 0.0
    verdict = sc.check(x, target, modes=[[-3.0], [3.0]], rng=0)
    nothing = largest_effect(replace(verdict, tests={}, adjusted_pvalues={}))
    assert nothing.words == "no size known"
    assert np.isnan(nothing.misplaced)


def test_cells_of_a_table_in_words():
    assert [_cell(value) for value in (None, True, np.False_, np.nan, 1234.5, 0.5, "x")] == [
        "-", "yes", "no", "-", "1234", "0.500", "x",
    ]  # fmt: skip


def test_compare_names_what_is_wrong():
    x = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="`samples` must hold at least one sample"):
        sc.compare({}, jax_normal())
    with pytest.raises(TypeError, match="no option `foo`; those of check are modes, bounds, alpha"):
        sc.compare({"a": x}, jax_normal(), foo=1)
    with pytest.raises(ValueError, match="sample 'b': `draws` must have shape"):
        sc.compare({"b": x[:, :1]}, jax_normal(), modes=[[0.0, 0.0]])
