"""The options of every command, and their help."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from .._version import __version__

STATUSES = "exit status: 0 no misfit found, 1 misfit found, 2 error, 3 cannot tell, 130 interrupted"


def make_parser(tests: list[str]) -> ArgumentParser:
    """The parser of the command line; its result has the name of the command as `command`."""
    parser = ArgumentParser(
        "steincheck",
        description="Does this sample fit this density - are modes missing or wrongly weighted?\n\n"
        "The density is a Python object of your own, the sample a file. Try steincheck demo first.",
        epilog=STATUSES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"steincheck {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_check(commands)
    _add_test(commands, tests)
    _add_modes(commands)
    _add_calibrate(commands, tests)
    about = "The paper's opening example: half of the density is missing from the sample, unseen by KSD."
    demo = _command(commands, "demo", about, "--report demo.html")
    demo.set_defaults(quiet=False)
    demo.add_argument("--report", type=Path, metavar="OUT.html", help="write one page with pictures")
    demo.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample and the tests")
    return parser


def _add_check(commands: Any) -> None:
    about = "Does the sample fit? One answer, with the errors of means, spreads and mode weights."
    command = _command(commands, "check", about, f"draws.csv --target model.py:target\n\n{STATUSES}")
    _add_draws(command)
    _add_density(command)
    about = "the error you accept: 0.1 is a tenth of an sd, 10 %% of an sd, 0.1 of a mode's share"
    command.add_argument("--tolerance", type=float, metavar="ERROR", help=about)
    about = "log density of the approximation that the draws come from: a column of DRAWS or a file"
    command.add_argument("--log-q", metavar="COLUMN|FILE", help=about)
    command.add_argument("--max-evaluations", type=int, metavar="N", help="points to evaluate at most")
    command.add_argument("--max-seconds", type=float, metavar="S", help="evaluate what fits into S seconds")
    command.add_argument("--report", type=Path, metavar="OUT.html", help="write one page with pictures")
    _add_outcome(command)


def _add_test(commands: Any, tests: list[str]) -> None:
    about = "Run one test by name; docs/choose.md says what each of them sees."
    command = _command(commands, "test", about, f"flux draws.csv --target model.py:target\n\n{STATUSES}")
    command.add_argument("name", metavar="NAME", choices=tests, help=f"one of {', '.join(tests)}")
    _add_draws(command)
    _add_density(command)
    command.set_defaults(log_q=None)
    command.add_argument("--n-resamples", type=int, metavar="N", help="size of the null distribution")
    _add_outcome(command)


def _add_modes(commands: Any) -> None:
    command = _command(commands, "modes", "List the modes of the density.", "--target model.py:target")
    command.set_defaults(modes=None, weights=None, log_weights=None, log_q=None)
    _add_density(command)
    about = "a file of draws from which the search starts; may be repeated"
    command.add_argument("--draws", type=Path, metavar="DRAWS", action="append", help=about)
    command.add_argument("--max-evaluations", type=int, metavar="N", help="points to evaluate at most")
    _add_outcome(command)


def _add_calibrate(commands: Any, tests: list[str]) -> None:
    about = "How often does a test reject samples? Its level, or its power against a wrong sampler."
    example = "--target model.py:target --sampler model.py:draw --n 500"
    command = _command(commands, "calibrate", about, example)
    command.add_argument("--target", metavar="FILE.py:NAME", required=True, help="the density")
    command.add_argument("--n", type=int, required=True, metavar="N", help="draws per sample")
    about = "a function sample(n, rng) that returns n draws; models of steincheck.models need none"
    command.add_argument("--sampler", metavar="FILE.py:NAME", help=about)
    command.add_argument("--test", choices=["check", *tests], default="check", help="what is calibrated")
    command.add_argument("--repetitions", type=int, default=200, metavar="N", help="number of samples")
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="worker processes; -1: all cores")
    _add_outcome(command)


def _command(commands: Any, name: str, about: str, example: str) -> ArgumentParser:
    """A command with an example of its use."""
    epilog = f"example: steincheck {name} {example}"
    texts = {"help": about, "description": about, "epilog": epilog}
    return commands.add_parser(name, **texts, formatter_class=RawDescriptionHelpFormatter)


def _add_draws(command: ArgumentParser) -> None:
    about = "the sample, one draw per row: .csv, .tsv, .txt, .npy, .npz, .parquet or .nc; several are chains"
    command.add_argument("draws", type=Path, nargs="+", metavar="DRAWS", help=about)
    command.add_argument("--alpha", type=float, default=0.05, help="the level, the rate of false alarms")
    command.add_argument("--modes", type=Path, metavar="FILE", help="the modes, instead of a search")
    about = "importance weights of the draws, or their logarithms: a column of DRAWS or a file"
    command.add_argument("--weights", metavar="COLUMN|FILE", help=about)
    command.add_argument("--log-weights", metavar="COLUMN|FILE", help=about)
    command.add_argument("--independent", action="store_true", help="the draws are no chains")


def _add_density(command: ArgumentParser) -> None:
    density = command.add_argument_group("density")
    about = "a steincheck.Target called NAME, or a function that makes one; the file is run: trust it"
    density.add_argument("--target", metavar="FILE.py:NAME", help=about)
    density.add_argument("--stan", type=Path, metavar="MODEL.stan", help="a Stan program")
    density.add_argument("--pymc", metavar="FILE.py:NAME", help="a PyMC model called NAME")
    density.add_argument("--numpyro", metavar="FILE.py:NAME", help="a NumPyro model called NAME")
    density.add_argument("--data", type=Path, metavar="DATA.json", help="data of the Stan or NumPyro model")
    command.add_argument("--bounds", metavar="LOW,HIGH[;...]", help="a box to search for modes as well")
    command.add_argument("--key", metavar="NAME", help="which array of DRAWS to read if .npz has several")


def _add_outcome(command: ArgumentParser) -> None:
    command.add_argument("--seed", type=int, metavar="N", help="for reproducible results")
    command.add_argument("--json", type=Path, metavar="OUT.json", help="write the outcome to this file")
    command.add_argument("--quiet", action="store_true", help="print nothing: the exit status answers")
