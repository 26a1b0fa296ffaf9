"""python -m fuzz [--seconds 600] [--calls 1000] [--seed 0] [--only ksd_test]: bad input for public functions.

The number of the next call and the faults found are kept in fuzz/state-SEED.json: a run that was cut goes on
from there. With --record, what all runs of this seed did becomes a row of fuzz/runs.csv. Exit status 1 if
there are faults.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
FILE_CALL_EVERY = 5  # every fifth call is a reader with a spoilt file, or a command line
COLUMNS = ("seed", "calls", "functions", "faults", "version", "commit", "date")


def state_path(seed: int) -> Path:
    """Where the state of the runs of a seed is kept."""
    return FOLDER / f"state-{seed}.json"


def load(seed: int, only: str) -> dict[str, Any]:
    """The state of an earlier run of the same seed, or a new one."""
    path = state_path(seed)
    if path.exists():
        state = json.loads(path.read_text())
        if state["only"] == only:
            return state
    return {"seed": seed, "only": only, "next": 0, "calls": 0, "faults": {}}


def save(state: dict[str, Any]) -> None:
    """Replace the file at once: a killed run leaves the old one."""
    path = state_path(state["seed"])
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(state, indent=1))
    os.replace(partial, path)


def record(state: dict[str, Any]) -> None:
    """Put the runs of this seed into the table, in place of what they had done before."""
    import steincheck as sc
    from experiments.tables import Table, commit

    from .calls import FUNCTIONS

    row = {
        "seed": state["seed"],
        "calls": state["calls"],
        "functions": len(FUNCTIONS),
        "faults": len(state["faults"]),
        "version": sc.__version__,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }
    Table(FOLDER / "runs.csv", COLUMNS, ("seed",), lambda row: int(row["seed"])).merge([row])


def next_call(state: dict[str, Any]) -> tuple[str, str] | None:
    """Carry out the next call: its label and what is wrong with how it ended; None if it is not asked for."""
    from matplotlib import pyplot

    from .command_line import carry_out_file_call
    from .runner import carry_out, plan

    number = state["next"]
    state["next"] = number + 1
    rounds, place = divmod(number, FILE_CALL_EVERY)
    if place == FILE_CALL_EVERY - 1:
        return None if state["only"] else carry_out_file_call(state["seed"], number)
    call = plan(state["seed"], rounds * (FILE_CALL_EVERY - 1) + place)
    if state["only"] not in call.function:
        return None
    fault = carry_out(call)
    pyplot.close("all")
    return str(call), fault


def main() -> int:
    """Call after call until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--calls", type=int, default=None, help="at most so many; by default no limit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of the names of the functions")
    parser.add_argument("--record", action="store_true", help="write a row of fuzz/runs.csv")
    arguments = parser.parse_args()
    import matplotlib

    matplotlib.use("agg")
    state = load(arguments.seed, arguments.only)
    end = time.monotonic() + arguments.seconds
    last = float("inf") if arguments.calls is None else state["calls"] + arguments.calls
    while time.monotonic() < end and state["calls"] < last:
        outcome = next_call(state)
        if outcome is None:
            continue
        label, fault = outcome
        state["calls"] += 1
        if fault and fault not in state["faults"].setdefault(label, []):
            state["faults"][label].append(fault)
            print(f"{state['next'] - 1}: {label}: {fault}", flush=True)
        if not fault:
            state["faults"].pop(label, None)
        if state["calls"] % 100 == 0:
            save(state)
    save(state)
    if arguments.record:
        record(state)
    print(f"{state['calls']} calls, {len(state['faults'])} with a fault")
    return 1 if state["faults"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
