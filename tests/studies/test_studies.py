"""Rows of the committed studies come out the same again, from their seeds; for the figures: test_experiments.

Cheap rows are repeated whole. Where a row counts what happened in many samples, the first of these are
repeated and compared with the row as far as it tells. Of ram_study, whose chains take minutes, the chains of
one row are committed.
"""

import csv
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments import (
    calibration,
    chain_flux_study,
    chain_study,
    check_study,
    flux_study,
    fssd_study,
    mode_study,
    moment_study,
    ram_study,
    small_samples,
)

pytestmark = pytest.mark.slow

OTHER_MACHINE = 1e-3  # one climb may take a step more or less where sums are rounded otherwise


@pytest.fixture(autouse=True)
def studies_ignore_warnings():
    """As the studies do: some of their samples are warned about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def committed(path, **wanted):
    """The rows of a table in which these columns have these values."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = [row for row in rows if all(row[name] == str(value) for name, value in wanted.items())]
    assert found
    return found


@pytest.mark.parametrize(("name", "seed"), [("narrow_1", 0), ("narrow_1", 1), ("gap_2", 1)])
def test_mode_study(name, seed):
    case = mode_study.TARGETS[name]()
    row, modes = mode_study.run(name, case, "usual", seed)
    (expected,) = committed(mode_study.SEARCHES.path, target=name, search="usual", seed=seed)
    for field in ("dim", "expected", "found", "rounds", "stopped"):
        assert str(row[field]) == expected[field]
    assert row["evaluations"] == pytest.approx(int(expected["evaluations"]), rel=OTHER_MACHINE)
    assert f"{mode_study.missed_mass(case, [modes])[0]:.4f}" == expected["missed_mass"]


def test_frontier_of_the_mode_search():
    (expected,) = committed(mode_study.NARROW_MODES.path, dim=2, ratio=0.1, search="usual")
    row = mode_study.how_often(2, 0.1, "usual", int(expected["repetitions"]))
    evaluations = row.pop("evaluations")
    assert {name: str(value) for name, value in row.items()}.items() <= expected.items()
    assert evaluations == pytest.approx(int(expected["evaluations"]), rel=OTHER_MACHINE)


def test_check_study():
    (row,) = check_study.missing("two_1_50")
    (expected,) = committed(check_study.COUNTS.path, part="missing", case="two_1_50")
    for field in ("n", "samples", "misfit", "cannot_tell", "named", "seed"):
        assert str(row[field]) == expected[field]


def test_what_happened_in_all_samples_of_the_moment_study():
    """Every event of these rows happened in every sample: so it must in the first three."""
    case = "truncated at 2 sd d=1"
    rows = committed(moment_study.events().path, case=case)
    counts = {}
    moment_study.run(case, moment_study.cases()[case], int(rows[0]["n"]), counts, last=3)
    assert counts == {row["method"]: (3, 3) for row in rows}
    assert all(row["count"] == row["repetitions"] for row in rows)


def test_level_in_the_moment_study():
    """Which of the first true samples were rejected when the rows were made."""
    name = "level, Gaussian d=1"
    case = moment_study.cases()[name]
    seeds = ([moment_study.SEED, zlib.crc32(name.encode()), 200, k] for k in range(20))
    rejected = [case.run(200, np.random.default_rng(seed))["moments"] for seed in seeds]
    assert np.flatnonzero(rejected).tolist() == [0]


@pytest.mark.parametrize(
    ("case", "method"),
    [("Laplace", "steincheck"), ("variance 1.69", "steincheck"), ("variance 1.69", "kernel-gof")],
)
def test_fssd_study(case, method):
    pvalue, bandwidth = fssd_study.one_repetition(case, method, 0)
    (row,) = committed(fssd_study.RATES.path, case=case, method=method)
    assert pvalue == pytest.approx(float(row["first_pvalue"]), rel=0.01, abs=0.001)
    assert bandwidth == pytest.approx(float(row["first_bandwidth"]), rel=0.01)


def test_chain_flux_study():
    case = "rare changes, never"
    rows = committed(chain_flux_study.COUNTS.path, case=case)
    (again,) = chain_flux_study.study(case, int(rows[0]["runs"]))
    assert {row["method"]: row["count"] for row in again} == {
        row["method"]: int(row["count"]) for row in rows
    }


def test_flux_study():
    """Every sample of this row was rejected: so must the first two be."""
    case = "lattice of 21 modes, all listed, central 87 %"
    (row,) = committed(flux_study.COUNTS.path, case=case, method="flux")
    assert row["rejections"] == row["repetitions"]
    assert [outcome["flux"] for outcome in flux_study.repeat(case, int(row["n"]), 0, 2)] == [True, True]


def test_chain_study():
    name = "AR 0.9, d=1, 4x250"
    (row,) = committed(chain_study.COUNTS.path, case=name, test="ksd_test")
    p = [chain_study.run(name, {"ksd_test": True}, k)[0][1] for k in range(int(row["runs"]))]
    again = chain_study._row(name, "ksd_test", np.array(p), {}, 0.0)
    for field in ("count_0.05", "count_0.01", "count_0.005", "cannot_tell", "rejected", "low", "high"):
        assert str(again[field]) == row[field]


def test_calibration_study():
    (expected,) = committed(calibration.rates().path, model="power: shift .3", test="flux", n=1000)
    row = calibration.run(calibration.Cell("power: shift .3", "flux", 1000, int(expected["repetitions"])), 1)
    for field in ("rate_01", "rate_05", "rate_10", "inconclusive", "uniform_pvalue", "excess_pvalue"):
        assert float(row[field]) == pytest.approx(float(expected[field]), rel=0.02)


def test_small_samples():
    (row,) = committed(small_samples.COUNTS.path, test="ksd", bootstrap="default", n=30, dim=10)
    again = [small_samples.pvalue("ksd", None, 30, 10, repetition) for repetition in range(10)]
    assert again == pytest.approx([float(p) for p in row["first"].split()], abs=0.006)


def test_signs_keep_the_level_on_small_samples_and_the_page_has_the_table():
    for row in committed(small_samples.COUNTS.path, bootstrap="default"):
        assert int(row["count_05"]) <= stats.binom.ppf(1 - 1e-4, int(row["repetitions"]), 0.05)
    assert f"\n{small_samples.table()}\n" in small_samples.DOCS.read_text()


def test_ram_study():
    (expected,) = committed(ram_study.ANSWERS.path, scale=ram_study.KEPT_SCALE, chains="0 to 4")
    with np.load(ram_study.KEPT_CHAINS) as file:
        row = ram_study.answer(file["draws"], ram_study.KEPT_SCALE, 0)
    for field in ("answer", "weights", "null", "changes", "kinds"):
        assert str(row[field]) == expected[field]
    assert float(row["pvalue"]) == pytest.approx(float(expected["pvalue"]), rel=0.02)
    page = Path(__file__).parents[2] / "docs" / "theory" / "chains.md"
    assert f"\n{ram_study.table()}\n" in page.read_text()
