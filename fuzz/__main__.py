"""python -m fuzz [--seconds 600] [--seed 0] [--only ksd_test]: bad input for every public function.

The number of the next call and the faults found are kept in fuzz/state.json: a run that was cut goes on from
there. Exit status 1 if there are faults.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

STATE = Path(__file__).parent / "state.json"


def load(seed: int, only: str) -> dict[str, Any]:
    """The state of an earlier run of the same seed, or a new one."""
    if STATE.exists():
        state = json.loads(STATE.read_text())
        if (state["seed"], state["only"]) == (seed, only):
            return state
    return {"seed": seed, "only": only, "next": 0, "calls": 0, "faults": {}}


def save(state: dict[str, Any]) -> None:
    """Replace the file at once: a killed run leaves the old one."""
    partial = STATE.with_suffix(".part")
    partial.write_text(json.dumps(state, indent=1))
    os.replace(partial, STATE)


def main() -> int:
    """Call after call until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of the names of the functions")
    arguments = parser.parse_args()
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    from .command_line import carry_out_file_call
    from .runner import carry_out, plan

    state = load(arguments.seed, arguments.only)
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        number = state["next"]
        state["next"] = number + 1
        if number % 5 == 4 and not arguments.only:
            label, fault = carry_out_file_call(arguments.seed, number)
        else:
            call = plan(arguments.seed, number)
            if arguments.only not in call.function:
                continue
            label, fault = str(call), carry_out(call)
            pyplot.close("all")
        state["calls"] += 1
        if fault and fault not in state["faults"].setdefault(label, []):
            state["faults"][label].append(fault)
            print(f"{number}: {label}: {fault}", flush=True)
        if not fault:
            state["faults"].pop(label, None)
        if number % 100 == 0:
            save(state)
    save(state)
    print(f"{state['calls']} calls, {len(state['faults'])} with a fault")
    return 1 if state["faults"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
