"""python -m experiments NAME [options]: a figure of the paper, all of them, or a study.

Figures take ``--repetitions R --n-jobs J --quick --results FOLDER``, studies a part of the
names of the cells to run and ``--repetitions R --n-jobs J --renew --summary --results FOLDER``.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from . import summary
from .running import FIGURES, RESULTS, positive, run_figure, run_studies

STUDIES = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if "\nSTUDIES = (" in path.read_text()
)


def main(words: list[str]) -> None:
    """Run what the first word names."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    names = (*FIGURES, "all", "summary", *STUDIES)
    parser.add_argument("name", choices=names, help="fig5 is drawn with table1; summary writes README.md")
    name = parser.parse_args(words[:1]).name
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the workers and writes the times, too
    if name in STUDIES:
        run_studies(name, words[1:])
        return
    if name == "summary":
        summary.README.write_text(summary.filled(summary.README.read_text()))
        return
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--repetitions", type=positive, help="of every setting; by default the paper's")
    size.add_argument("--quick", action="store_true", help="one repetition of a few settings and methods")
    parser.add_argument("--n-jobs", type=positive, default=1, help="worker processes, one core each")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    options = vars(parser.parse_args(words))
    del options["name"]
    for figure in FIGURES if name == "all" else (name,):
        run_figure(figure, **options)


if __name__ == "__main__":
    main(sys.argv[1:])
