"""The fuzzer: a run of it finds nothing, and it resumes."""

import csv
import inspect
import sys

import steincheck as sc
from fuzz.calls import FUNCTIONS
from fuzz.runner import Call, carry_out, plan, single_changes

# cheap functions only, so that the default suite stays short; make fuzz runs them all
CHEAP = {
    *("from_jax", "Target", "median_bandwidth", "multinomial", "wild", "IMQ", "RBF", "barker", "metropolis"),
    *("as_draws", "gaussian_mixture", "t_banana_mixture", "gb_rbm", "result.reject", "result.describe"),
    *("check_score", "ksd_test", "chains.looks_dependent", "chains.autocorrelation_time"),
    *("chains.convergence", "chains.agreement", "chains.cut_blocks", "unbounded"),
}


PACKAGES = {"from_numpyro", "from_pymc", "from_stan", "from_torch", "to_arviz"}  # may not be installed
MADE_BY_USERS = {"Anchors", "Draws", "IMQ", "Modes", "Perturbation", "RBF", "Target"}


def public_functions():
    """The last part of the name of every public function that takes arguments."""
    modules = [sc, *(getattr(sc, name) for name in sc.__all__ if inspect.ismodule(getattr(sc, name)))]
    names = [(name, getattr(module, name)) for module in modules for name in module.__all__]
    functions = {name: thing for name, thing in names if inspect.isfunction(thing)}
    return {name for name, thing in functions.items() if inspect.signature(thing).parameters}


def test_every_public_function_is_called():
    called = {name.split(",")[0].split(".")[-1] for name in FUNCTIONS}
    assert (public_functions() | MADE_BY_USERS) - PACKAGES <= called
    assert {"sample_with_labels", "from_dict"} <= called


def test_a_run_of_the_fuzzer_finds_nothing():
    later = len(single_changes(2026))  # calls with several changes
    calls = [plan(2026, number) for number in (*range(300), *range(later, later + 200))]
    chosen = [call for call in calls if call.function in CHEAP]
    assert len(chosen) > 100
    faults = {str(call): fault for call in chosen if (fault := carry_out(call))}
    assert not faults


def test_the_fuzzer_takes_values_that_numpy_warns_of():
    assert not carry_out(Call("ksd_test", (("draws", "matrix"),)))


def test_the_fuzzer_resumes_and_records_what_it_did(tmp_path, monkeypatch, capsys):
    import fuzz.__main__ as command

    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--calls", "3", "--only", "RBF", "--record"])
    for total in (3, 6):
        assert command.main() == 0
        assert f"{total} calls, 0 with a fault" in capsys.readouterr().out
        (row,) = csv.DictReader((tmp_path / "runs.csv").read_text().splitlines())
        assert (row["calls"], row["faults"]) == (str(total), "0")
