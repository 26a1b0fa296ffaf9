"""python -m experiments FIGURE [--repetitions R] [--n-jobs J] [--backend loky|dask] [--quick]"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from .running import FIGURES, RESULTS, positive, run_figure


def main(arguments: list[str] | None = None) -> None:
    """Run figures from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description="Reproduce a figure of the paper."
    )
    parser.add_argument("figure", choices=(*FIGURES, "all"), help="fig5 is drawn with table1")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--repetitions", type=positive, help="repetitions of every setting; by default the paper's"
    )
    size.add_argument("--quick", action="store_true", help="a few repetitions of a few settings and methods")
    parser.add_argument("--n-jobs", type=positive, default=1, help="worker processes, one core each")
    parser.add_argument("--backend", choices=("loky", "dask"), default="loky", help="joblib's backend")
    parser.add_argument("--methods", help="only these, separated by commas; the others can follow later")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the workers and writes the times, too
    methods = None if options.methods is None else [name.strip() for name in options.methods.split(",")]
    for figure in FIGURES if options.figure == "all" else (options.figure,):
        run_figure(
            figure,
            repetitions=options.repetitions,
            n_jobs=options.n_jobs,
            backend=options.backend,
            quick=options.quick,
            methods=methods,
            results=options.results,
        )


if __name__ == "__main__":
    main()
