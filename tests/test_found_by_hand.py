"""What went wrong in the hands of users, each as it was found."""

import functools
import json
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ar1_chains, jax_normal, normal_log_density, quiet_check, standard_normal

import steincheck as sc


def test_true_draws_of_a_density_with_a_steep_side_pass_without_a_score():
    gumbel = sc.Target(lambda x: -np.sum(x + np.exp(-x), axis=1), dim=3)
    assert quiet_check(np.random.default_rng(1).gumbel(size=(300, 3)), gumbel).fits


def test_draws_of_a_density_that_ends_abruptly_are_never_called_wrong():
    cut = sc.Target(lambda x: np.where(x[:, 0] < 1.5, -0.5 * x[:, 0] ** 2, -np.inf), np.negative, dim=1)
    for seed in range(8):
        x = np.random.default_rng(seed).normal(size=(900, 1))
        verdict = quiet_check(x[x[:, 0] < 1.5][:300], cut, modes=[[0.0]])
        assert verdict.fits is None
        assert "ends abruptly near (x[0] = 1.5" in verdict.sentence


@pytest.mark.parametrize("seed", range(4))
def test_one_impossible_draw_is_a_finding_also_among_the_held_out_ones(seed):
    x = np.random.default_rng(seed).normal(size=(300, 2))
    row = int(np.random.default_rng(seed + 10).integers(300))
    x[row, 0] = 1e6
    verdict = quiet_check(x, jax_normal())
    assert verdict.fits is False
    assert str(row) in next(f.text for f in verdict.findings if f.kind == "impossible draws")


def test_integers_are_no_draws_of_a_density_and_rounded_draws_may_be():
    wide = sc.from_jax(lambda x: -0.02 * jnp.sum(x**2), 2)
    verdict = quiet_check(
        np.round(5 * np.random.default_rng(0).normal(size=(400, 2))), wide, modes=[[0.0, 0.0]]
    )
    assert verdict.fits is None
    assert "discrete, or rounded too much" in verdict.sentence
    assert quiet_check(
        np.round(np.random.default_rng(0).normal(size=(400, 2)), 2), jax_normal(), modes=[[0.0, 0.0]]
    ).fits


def test_a_right_score_beside_a_kink_is_right():
    laplace = sc.Target(lambda x: -np.abs(x[:, 0]), lambda x: -np.sign(x), dim=1)
    x = np.concatenate([[1e-7, -1e-9], np.random.default_rng(0).laplace(size=50)])[:, None]
    assert sc.check_score(laplace, x, n_points=52).max() < 1e-6
    wrong = sc.Target(lambda x: -np.abs(x[:, 0]), lambda x: -1.5 * np.sign(x), dim=1)
    with pytest.raises(ValueError, match="`score` disagrees"):
        sc.check_score(wrong, x)


def test_a_right_score_is_right_whatever_the_farthest_draw():
    """At 1 the score of Cauchy's distribution is stationary: a long step looks right to second order."""
    target = sc.Target(lambda x: -np.log1p(x[:, 0] ** 2), lambda x: -2 * x / (1 + x**2), dim=1)
    draws = np.concatenate([[1.0], np.linspace(-3, 3, 28), [4947.0]])[:, None]
    assert sc.check_score(target, draws).max() < 1e-3
    wrong = sc.Target(target.log_density, lambda x: -2.01 * x / (1 + x**2), dim=1)
    with pytest.raises(ValueError, match="`score` disagrees"):
        sc.check_score(wrong, draws)


@pytest.mark.parametrize("shape", [(1000, 2), (4, 250, 2)])
def test_draws_given_several_times_are_neither_a_fit_nor_a_misfit(shape):
    """Tiled draws are correlated at the lag of the copies, and were tested as chains."""
    draws = np.tile(np.random.default_rng(0).normal(size=(50, 2)), (20, 1)).reshape(shape)
    verdict = quiet_check(draws, jax_normal(), modes=[[0.0, 0.0]])
    assert verdict.fits is None
    assert "repeat others exactly" in verdict.sentence or "are the same" in verdict.sentence


def test_clipped_draws_are_told_by_the_point_they_share():
    """A density has no atoms, so that order and chains are not to blame."""
    x = np.random.default_rng(3).standard_t(3, size=(1000, 1))
    x[np.random.default_rng(4).permutation(1000)[:25]] = 4.0
    target = sc.Target(lambda x: -2 * np.log1p(x[:, 0] ** 2 / 3), lambda x: -4 * x / (3 + x**2), dim=1)
    verdict = quiet_check(x, target, modes=[[0.0]])
    assert verdict.fits is None
    assert "25 of 1000 draws are identical, [4.]" in verdict.sentence


def test_rejections_of_a_chain_are_no_copies():
    draws = np.repeat(
        np.random.default_rng(1).normal(size=(600, 2)),
        np.random.default_rng(2).geometric(0.4, size=600),
        axis=0,
    )
    verdict = quiet_check(draws[None], jax_normal(), modes=[[0.0, 0.0]])
    assert verdict.fits is not None
    assert "kernel" in verdict.tests


@pytest.mark.parametrize("score", [None, np.negative], ids=["no score", "score"])
def test_a_hessian_of_the_wrong_sign_is_named(score):
    def hessian(x):
        return np.broadcast_to(np.eye(2), (len(x), 2, 2))

    wrong = sc.Target(normal_log_density, score, dim=2, hessian=hessian)
    draws = np.random.default_rng(0).normal(size=(50, 2))
    two = [[0.0, 0.0], [1.0, 1.0]]
    for use in (
        lambda: sc.ksd_test(draws, wrong, rng=0),
        lambda: quiet_check(draws, wrong, modes=[[0.0, 0.0]]),
        lambda: sc.flux_test(draws, wrong, modes=two, rng=0),
        lambda: sc.perturb(draws, wrong, two, [1.0], n_steps=2, rng=0),
    ):
        with pytest.raises(ValueError, match=r"`hessian` disagrees .* \(the sign is reversed\)"):
            use()


def test_a_right_hessian_is_not_blamed_for_rounding_or_for_modes_that_are_none():
    def bimodal(x):
        return np.log(np.cosh(3 * x[:, 0])) - 0.5 * x[:, 0] ** 2 - 4.5

    def hessian(x):
        return (9 / np.cosh(3 * x) ** 2 - 1)[:, :, None]

    draws = np.random.default_rng(0).normal(size=(50, 1))
    for constant in (0.0, 1e8):
        right = sc.Target(lambda x, c=constant: bimodal(x) + c, dim=1, hessian=hessian)
        with pytest.warns(UserWarning, match="no score"):
            result = sc.ksd_test(draws, right, rng=0)
        with pytest.warns(UserWarning, match="no score"):
            plain = sc.ksd_test(draws, sc.Target(right.log_density, dim=1), rng=0)
        assert result.pvalue == plain.pvalue
    right = sc.Target(bimodal, dim=1, hessian=hessian)
    with pytest.raises(ValueError, match="`modes` must be local maxima"):
        sc.flux_test(draws, right, modes=[[0.0], [3.0]], rng=0)


def test_a_log_density_whose_digits_are_lost_is_refused():
    deep = sc.from_jax(lambda x: -1e300 - 0.5 * jnp.sum(x**2), 2)
    with pytest.raises(ValueError, match=r"`log_density` must be smaller: near -1e\+300"):
        quiet_check(np.random.default_rng(0).normal(size=(100, 2)), deep)


def test_a_density_without_finite_mass_gets_no_verdict():
    verdict = quiet_check(
        np.random.default_rng(0).normal(size=(200, 1)), sc.from_jax(lambda x: 0.0 * x[0], 1)
    )
    assert verdict.fits is None
    assert "appears to be improper" in verdict.sentence


MIXING = {
    "draws less their mean": lambda x: normal_log_density(x - x.mean(axis=0)),
    "cumulative sums": lambda x: np.cumsum(normal_log_density(x)),
    "less the largest": lambda x: normal_log_density(x) - normal_log_density(x).max(),
    "less the smallest": lambda x: normal_log_density(x) - normal_log_density(x).min(),
    "weights that sum to 1": lambda x: normal_log_density(x) - np.logaddexp.reduce(normal_log_density(x)),
}


@pytest.mark.parametrize("score", [None, np.negative], ids=["no score", "score"])
@pytest.mark.parametrize("log_density", MIXING.values(), ids=MIXING)
def test_a_log_density_that_mixes_the_points_is_refused(log_density, score):
    mixing = sc.Target(log_density, score, dim=2)
    draws = np.random.default_rng(0).normal(size=(300, 2))
    for test in (quiet_check, functools.partial(sc.ksd_test, rng=0), functools.partial(sc.flux_test, rng=0)):
        with pytest.raises(ValueError, match="`log_density` must give every point a value of its own"):
            test(draws, mixing)


def test_a_log_density_in_single_precision_does_not_mix_the_points():
    rounded = sc.Target(
        lambda x: normal_log_density(x).astype(np.float32) - np.float32(3e4), np.negative, dim=2
    )
    draws = np.random.default_rng(0).normal(size=(300, 2))
    exact = standard_normal(2)
    assert sc.ksd_test(draws, rounded, rng=0).pvalue == sc.ksd_test(draws, exact, rng=0).pvalue


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_do_not_matter(scale):
    target = sc.models.gaussian_mixture([[0.0, 0.0], [1e3 * scale, 0.0]], scale**2)
    modes = [[0.0, 0.0], [1e3 * scale, 0.0]]
    assert quiet_check(target.sample(200, 0), target, modes=modes).fits
    assert quiet_check(target.sample(200, 0, weights=[1, 0]), target, modes=modes).fits is False


def test_the_smallest_possible_pvalue_is_an_upper_bound():
    found = sc.ksd_test(
        np.random.default_rng(0).normal(size=(100, 2)) + 2, jax_normal(), n_resamples=99, rng=0
    )
    assert "(p <= 0.01, " in str(found)
    assert found.at_floor
    assert not sc.ksd_test(
        np.random.default_rng(0).normal(size=(100, 2)), jax_normal(), n_resamples=99, rng=0
    ).at_floor


def test_no_rejection_at_a_level_out_of_reach_is_no_answer():
    found = sc.ksd_test(np.random.default_rng(0).normal(size=(100, 2)), jax_normal(), n_resamples=199, rng=0)
    assert found.answer(0.005) == "no misfit found"
    assert found.answer(0.001) == "cannot tell"
    assert "cannot reach the level 0.001: its smallest p-value is 0.005" in found.summary(0.001)
    far = np.array([[40.0, 0.0], *np.random.default_rng(0).normal(size=(150, 2))])
    with pytest.warns(UserWarning, match="negligible probability"):
        impossible = sc.moment_test(far, jax_normal(), modes=[[0.0, 0.0]], n_resamples=99, rng=0)
    assert impossible.pvalue_floor > 0.001 >= impossible.pvalue  # no replicate is needed for such a draw
    assert not impossible.at_floor
    assert impossible.answer(0.001) == "does not fit: misfit found"
    assert "cannot tell" not in impossible.summary(0.001)


def test_the_smallest_pvalue_of_replicates_is_exact_where_they_have_a_part_of_the_level():
    shifted = sc.moment_test(
        np.random.default_rng(0).normal(size=(200, 2)) + 1,
        jax_normal(),
        modes=[[0.0, 0.0]],
        n_resamples=99,
        rng=0,
    )
    assert shifted.pvalue == pytest.approx(0.01 / 0.98, rel=1e-12)
    assert shifted.at_floor
    means = [[-4.0], [4.0], [14.0]]
    mixture = sc.models.gaussian_mixture(means, weights=[0.5, 0.499, 0.001])
    wrong = mixture.sample(200, 0, weights=[0.8, 0.2, 0.0])
    exact = sc.flux_test(wrong, mixture, modes=means, variant="exact", n_resamples=99, rng=0)
    assert exact.pvalue == pytest.approx(0.01 / 0.98, rel=1e-12)  # a fiftieth is for the rare mode
    assert exact.at_floor


@pytest.mark.parametrize("bootstrap", [sc.wild, "blocks"])
def test_the_smallest_pvalue_of_aggregated_tests_is_attained(bootstrap):
    options = {"bootstrap": bootstrap, "n_resamples": 300, "n_level_resamples": 200, "rng": 0}
    far = sc.ksdagg_test(np.random.default_rng(0).normal(size=(400, 2)) + 2, jax_normal(), **options)
    assert far.pvalue == far.pvalue_floor
    assert far.at_floor
    assert np.ptp(far.pvalues) == 0
    near = sc.ksdagg_test(np.random.default_rng(0).normal(size=(400, 2)), jax_normal(), **options)
    assert not near.at_floor
    assert near.answer(0.9 * near.pvalue_floor) == "cannot tell"


def test_records_are_printed_in_one_short_line():
    target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
    draws = sc.as_draws({"a": target.sample(200, 0)[:, 0], "b": target.sample(200, 0)[:, 1]})
    assert repr(draws) == "<Draws: 200 draws, d = 2, names: a, b>"
    assert repr(sc.as_draws(np.zeros((2, 5, 1)))) == "<Draws: 2 x 5 draws, d = 1>"
    moved = sc.perturb(target.sample(200, 0), target, [[-3.0, 0.0], [3.0, 0.0]], 0.8, n_steps=5, rng=0)
    start = "<Perturbation: 200 draws, d = 2, theta = 0.8"
    assert repr(moved) == f"{start}, 5 steps by metropolis between 2 modes>"
    assert repr(moved.modes) == "<Modes: 2 in 2 dimensions, the highest at (-3, 0)>"
    none = sc.Modes(np.empty((0, 1)), np.empty((0, 1, 1)), np.empty(0), np.empty(0))
    assert repr(none) == "<Modes: 0 in 1 dimension>"
    result = sc.spksd_test(target.sample(200, 0), target, perturbation=moved, n_resamples=99, rng=0)
    text = repr(result)
    assert text.startswith("<SpksdResult: no misfit found at level 0.05 (p = ")
    assert text.endswith(", n = 200, d = 2)>")


@pytest.mark.parametrize("name", [name for name in sc.__all__ if name.endswith("Result")])
def test_every_result_of_a_test_is_printed_in_short(name):
    kind = getattr(sc, name)
    assert not issubclass(kind, sc.GofResult) or kind.__repr__ is sc.GofResult.__repr__


def test_a_collapsed_coordinate_is_told():
    x = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 0.0]
    for test in (sc.fssd_test, sc.ksd_test):
        with pytest.warns(UserWarning, match="coordinate 1 is the same in all draws"):
            test(x, jax_normal(), rng=0)


def test_ospksd_counts_the_tested_draws_only():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    options = {"modes": [[-3.0], [3.0]], "theta": [1.0], "n_steps": 2, "n_resamples": 19, "rng": 0}
    assert sc.ospksd_test(target.sample(80, 0), target, **options).settings["bootstrap"] == "blocks"
    with pytest.warns(UserWarning, match="only 40 draws are tested: below 50 their bootstrap rejects"):
        sc.ospksd_test(target.sample(80, 0), target, bootstrap=sc.multinomial, **options)


def test_ksdagg_says_that_its_bandwidths_depend_on_units():
    small = sc.from_jax(lambda x: -0.5e6 * jnp.sum(x**2), 2)
    x = 1e-3 * np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(UserWarning, match="made for draws of unit scale.*give `precondition`"):
        sc.ksdagg_test(x, small, rng=0)
    sc.ksdagg_test(x, small, precondition=1e-6 * np.eye(2), rng=0)


@pytest.mark.parametrize(
    ("name", "text", "names", "expected"),
    [
        ("a.csv", "# tau,mu\n1,2\n3,4\n", ["mu", "tau"], [[2, 1], [4, 3]]),
        ("a.csv", "0\n0.5\n0.25\n", None, [[0], [0.5], [0.25]]),
        ("a.csv", "0,1\n0.5,0.1\n0.2,0.3\n", None, [[0, 1], [0.5, 0.1], [0.2, 0.3]]),
        ("a.CSV", "1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("a.csv", "a,note,b\n1,x,2\n3,y,4\n", ["a", "b"], [[1, 2], [3, 4]]),
    ],
)
def test_text_is_read_as_it_is_meant(tmp_path, name, text, names, expected):
    (tmp_path / name).write_text(text)
    assert sc.read_draws(tmp_path / name, names=names).values.tolist() == expected


@pytest.mark.parametrize("delimiter", [" ", ",", ";", "\t"])
@pytest.mark.parametrize("header", ["tau,mu", "tau, mu", "tau mu", "tau;mu", "tau\tmu", "tau,mu\nmade today"])
def test_a_header_of_savetxt_names_the_columns_whatever_separates_them(tmp_path, delimiter, header):
    np.savetxt(tmp_path / "h.csv", [[1.5, 2], [3, 4]], delimiter=delimiter, header=header)
    draws = sc.read_draws(tmp_path / "h.csv", names=["mu", "tau"])
    assert draws.values.tolist() == [[2, 1.5], [4, 3]]
    assert draws.warnings == ()


@pytest.mark.parametrize("header", ["tau,mu", "tau mu"])
def test_a_header_of_savetxt_names_the_parameters_of_a_model(tmp_path, header):
    """The command line reads draws of models before it knows which of their names are meant."""
    np.savetxt(tmp_path / "h.csv", [[1.5, 2], [3, 4]], header=header)
    assert sc.read_draws(tmp_path / "h.csv").names == ("tau", "mu")


@pytest.mark.parametrize("header", ["Tau,Mu", "tau,mu,lp", "alpha,beta", "tau = first, mu = second"])
@pytest.mark.parametrize("delimiter", [" ", ","])
def test_names_in_a_comment_that_do_not_fit_are_told(tmp_path, delimiter, header):
    np.savetxt(tmp_path / "h.csv", [[1.5, 2], [3, 4]], delimiter=delimiter, header=header)
    (warning,) = sc.read_draws(tmp_path / "h.csv", names=["mu", "tau"]).warnings
    assert "does not say which column is which of mu, tau: the columns are taken in the order" in warning
    assert sc.read_draws(tmp_path / "h.csv", names=["x", "y"]).values.tolist() == [[1.5, 2], [3, 4]]


def test_underscores_in_numbers_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("1_5,2\n3,4\n")
    with pytest.raises(ValueError, match="1_5"):
        sc.read_draws(tmp_path / "a.csv")


def test_columns_are_taken_by_name():
    class Frame:
        columns = ("b", "a")
        shape = (3, 2)

        def to_series(self, k):
            return self

        def to_numpy(self):
            return np.arange(3.0)

    with pytest.raises(ValueError, match="no column 'c'"):
        sc.as_draws(Frame(), names=["a", "c"])


class Table:
    """Names of columns and nothing that says the shape."""

    columns = ("b", "a")


class ArrayTable(Table):
    def __array__(self, dtype=None, copy=None):
        return np.array([[2.0, 1.0], [4.0, 3.0]])


class IndexedTable(Table):
    def __getitem__(self, name):
        return np.asarray(ArrayTable())[:, self.columns.index(name)]


@pytest.mark.parametrize("table", [ArrayTable(), IndexedTable()])
def test_columns_of_any_table_are_taken_by_name(table):
    assert sc.as_draws(table, names=["a", "b"]).values.tolist() == [[1, 2], [3, 4]]
    assert sc.as_draws([table, table], names=["a", "b"]).lengths.tolist() == [2, 2]
    with pytest.raises(ValueError, match="no column 'c'"):
        sc.as_draws(table, names=["a", "c"])


def test_a_table_without_columns_in_memory_is_refused():
    with pytest.raises(TypeError, match=r"`draws` must hold one column of numbers per name .* got a Table"):
        sc.as_draws(Table())


MODEL = """
import numpy as np
import steincheck as sc
target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=2, names=["\u03b1", "\u65e5"])
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    np.save(tmp_path / "draws.npy", np.random.default_rng(0).normal(size=(120, 2)))

    def call(*arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", "steincheck", *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            timeout=120,
        )

    return call


def test_a_terminal_without_greek_and_a_name_that_is_no_utf8_keep_the_json(run, tmp_path):
    name = os.fsdecode(b"draws-\xff.npy")
    np.save(tmp_path / name, 2 * np.random.default_rng(0).normal(size=(120, 2)))
    done = run(
        *("check", name, "--target", "model.py:target", "--seed", "0", "--json", "out.json"),
        PYTHONIOENCODING="ascii",
        LC_ALL="C",
    )
    assert done.returncode == 1, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"u03b1" in done.stdout
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert written["names"] == ["\u03b1", "\u65e5"]


def test_a_report_shows_every_letter_and_warns_of_none(run, tmp_path):
    name = os.fsdecode(b"draws-\xff.npy")
    np.save(tmp_path / name, np.random.default_rng(0).normal(size=(120, 2)))
    done = run("check", name, "--target", "model.py:target", "--seed", "0", "--report", "out.html")
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    pictures = page[page.index("<svg") : page.rindex("</svg>")]
    assert "\u65e5" in pictures
    assert "\u65e5" in page[page.rindex("</svg>") :]
    assert "draws-\\udcff.npy" in page


def test_an_overlong_name_is_told_in_one_line(run):
    name = "x" * 300 + ".json"
    done = run("test", "ksd", "draws.npy", "--target", "model.py:target", "--json", name)
    assert done.returncode == 2
    assert b"cannot write " + name.encode() in done.stderr.replace(b"\n", b"")
    assert b"Traceback" not in done.stderr


def test_a_density_that_grows_for_ever_has_no_finite_mass_and_no_sizes():
    verdict = quiet_check(
        np.random.default_rng(0).normal(size=(300, 1)),
        sc.Target(lambda x: 0.5 * x[:, 0] ** 2, lambda x: x, dim=1),
    )
    assert verdict.fits is None
    assert "appears to be improper" in verdict.sentence
    assert verdict.tests == {}


@pytest.mark.parametrize("limit", [{"max_evaluations": 1}, {"max_seconds": 1e-9}])
def test_a_search_that_hardly_began_does_not_say_that_the_density_grows(limit):
    with pytest.raises(ValueError, match=f"{next(iter(limit))} was reached before a climb came to rest"):
        sc.find_modes(sc.models.gaussian_mixture([[-3.0, 0], [3.0, 0]]), rng=0, **limit)


def test_starts_so_far_out_that_no_mode_can_be_seen_are_refused():
    target = sc.models.gaussian_mixture([[-3.0, 0], [3.0, 0]])
    with pytest.raises(ValueError, match=r"`starts` must be within 1e\+15 of 0, got 1e\+200"):
        sc.find_modes(target, starts=[[1e200, 0]], rng=0)
    assert len(sc.find_modes(target, starts=[[1e14, 0]], rng=0)) == 2


@pytest.mark.parametrize("test", [sc.pksd_test, sc.spksd_test, sc.ospksd_test, sc.pksdagg_test])
def test_a_perturbation_for_another_target_is_refused(test):
    places = [[-3.0, 0.0], [3.0, 0.0]]
    target = sc.models.gaussian_mixture(places)
    other = sc.models.gaussian_mixture([[-3.0, 1.0], [3.0, 0.0]])
    x = target.sample(100, 0)
    moved = sc.perturb(x, other, places, [1.0], n_steps=5, rng=0)
    with pytest.raises(ValueError, match="`perturbation` must be one for the target of the test"):
        test(x, target, perturbation=moved, rng=0)
    same = sc.Target(lambda x: target.log_density(x) + 5, target.score, dim=2)
    moved = sc.perturb(x, same, places, [0.9, 1.0], n_steps=5, rng=0)
    if test in (sc.spksd_test, sc.pksdagg_test):
        result = test(x, target, perturbation=moved, rng=0)
        assert result.pvalue > 0.001  # the smallest there is; these are draws of the target


def test_a_sampler_that_returns_another_number_of_draws_is_refused():
    def few(n, rng):
        return rng.normal(size=(7, 2))

    with pytest.raises(ValueError, match="`sample` must return n = 50 draws, got 7"):
        sc.calibrate(jax_normal(), few, 50, test=sc.ksd_test, repetitions=2, rng=0)
    with pytest.raises(ValueError, match="`sample` must have shape"):
        sc.calibrate(jax_normal(), lambda n, rng: rng.normal(size=(n, 3)), 50, repetitions=2, rng=0)
    for shape in ((2, 25, 2), (2, 50, 2)):
        chains = functools.partial(_chains, shape)
        assert sc.calibrate(jax_normal(), chains, 50, test=sc.ksd_test, repetitions=2, rng=0).repetitions == 2


def _chains(shape, n, rng):
    return rng.normal(size=shape)


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
    assert np.isfinite(verdict.mode_weights.weights).all()


@pytest.mark.parametrize("projection", ["polar", "3d"])
def test_axes_of_another_kind_are_refused(projection):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = plt.figure()
    with pytest.raises(TypeError, match=f"`ax` must be axes .* got {projection} axes"):
        sc.plot.draws(
            np.random.default_rng(0).normal(size=(10, 2)), ax=figure.add_subplot(projection=projection)
        )
    plt.close(figure)


TOO_LARGE = {
    "bounds": lambda huge: sc.find_modes(jax_normal(), bounds=(-huge, huge), rng=0),
    "starts": lambda huge: sc.find_modes(jax_normal(), starts=[[huge, 0.5]], rng=0),
    "max_seconds": lambda huge: sc.find_modes(jax_normal(), max_seconds=huge, rng=0),
    "cut": lambda huge: sc.find_modes(jax_normal(), cut=huge, rng=0),
    "modes": lambda huge: quiet_check(
        np.random.default_rng(0).normal(size=(60, 2)), jax_normal(), modes=[[huge, 0]]
    ),
    "alpha": lambda huge: quiet_check(
        np.random.default_rng(0).normal(size=(60, 2)), jax_normal(), alpha=huge
    ),
    "theta": lambda huge: sc.perturb(
        np.random.default_rng(0).normal(size=(60, 2)), jax_normal(), [[0.0, 0.0]], [huge], n_steps=2, rng=0
    ),
    "precondition": lambda huge: sc.ksd_test(
        np.random.default_rng(0).normal(size=(60, 2)), jax_normal(), precondition=[[huge, 0], [0, 1]]
    ),
    "bandwidth": lambda huge: sc.IMQ(huge),
    "beta": lambda huge: sc.IMQ(beta=huge),
    "draws": lambda huge: sc.as_draws([[huge, 0.5], [1, 2]]),
}


@pytest.mark.parametrize("argument", TOO_LARGE)
def test_integers_that_no_float_can_hold_are_refused_by_name(argument):
    with pytest.raises(ValueError, match=f"`{argument}` must .*got "):
        TOO_LARGE[argument](10**400)


def test_an_empty_chain_is_named():
    with pytest.raises(ValueError, match="chain 1 of 2 has none"):
        sc.as_draws([np.random.default_rng(0).normal(size=(50, 2)), np.empty((0, 2))])


def test_truth_values_are_no_draws():
    with pytest.raises(TypeError, match=r"`draws` must be .* got an array of dtype bool"):
        sc.as_draws(np.ones((50, 2), dtype=bool))


def test_compare_names_what_is_wrong():
    x = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="`samples` must hold at least one sample"):
        sc.compare({}, jax_normal())
    with pytest.raises(TypeError, match="no option `foo`; those of check are modes, bounds, alpha"):
        sc.compare({"a": x}, jax_normal(), foo=1)
    with pytest.raises(ValueError, match="sample 'b': `draws` must have shape"):
        sc.compare({"b": x[:, :1]}, jax_normal(), modes=[[0.0, 0.0]])


def test_files_of_other_habits_are_read_or_explained(tmp_path):
    def written(text, name="draws.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    for text in ("a|b\n1|2\n3|4\n", "sep=;\na;b\n1;2\n3;4\n", '"sep=,"\na,b\n1,2\n3,4\n'):
        draws = sc.read_draws(written(text))
        assert draws.names == ("a", "b")
        assert draws.values.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="'1D\\+00' is a number in Fortran notation: write E instead of D"):
        sc.read_draws(written("1D+00,2D+00\n3D+00,4D+00\n"))
    with pytest.raises(ValueError, match="line 3, column a: '3D-01' is not a number \\(Fortran"):
        sc.read_draws(written("a,b\n1,2\n3D-01,4\n"))
    named = sc.read_draws(written("chain,a\nc2,1\nc1,2\nc2,3\nc1,4\n"))
    assert named.chain.tolist() == [0, 0, 1, 1]
    assert named.values.ravel().tolist() == [1, 3, 2, 4]
    assert named.warnings == ()
    np.savez(tmp_path / "empty.npz")
    with pytest.raises(ValueError, match=r"empty.npz holds no arrays$"):
        sc.read_draws(tmp_path / "empty.npz")


@pytest.mark.parametrize(("walkers", "steps"), [(32, 60), (4, 250)])
def test_chains_stored_in_turn_are_no_misfit(walkers, steps):
    """As emcee's flattened chains are."""
    flattened = ar1_chains(np.random.default_rng(5), walkers, steps, 2, 0.95).swapaxes(0, 1).reshape(-1, 2)
    target = standard_normal(2)
    verdict = quiet_check(flattened, target, modes=[[0.0, 0.0]])
    assert verdict.fits is None
    assert f"as where {walkers} chains are interleaved" in verdict.sentence
    with pytest.warns(UserWarning, match="no p-value is valid for one chain"):
        sc.ksd_test(flattened, target, rng=0)


def test_no_standard_error_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    sc.find_modes(sc.models.gaussian_mixture([[0.0]]), rng=0)


def test_a_mode_search_underflows_quietly():
    with np.errstate(all="raise"):
        sc.find_modes(sc.models.gaussian_mixture([[-3.0], [3.0]]), rng=0)


@pytest.mark.parametrize(
    ("walkers", "steps", "correlation"), [(32, 60, 0.95), (100, 40, 0.95), (4, 500, 0.9)]
)
def test_steps_before_chains_are_told_by_the_correlations(walkers, steps, correlation):
    """As emcee's chains are; the right way round nothing is suspected."""
    for seed in range(8):
        r = np.random.default_rng([6, seed])
        x = ar1_chains(r, walkers, steps, 2, correlation)
        assert sc.as_draws(x.swapaxes(0, 1)).axes_swapped
        assert not sc.as_draws(x).axes_swapped
        independent = r.normal(size=(steps, walkers, 2))
        assert not sc.as_draws(independent).axes_swapped
