"""The command line: steincheck check | test | modes | calibrate | demo."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper
from json import dumps
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints

import numpy as np

try:
    import typer
    from rich.console import Console
    from typer.core import TyperGroup
    from typer.models import ArgumentInfo
except ImportError:
    print("the command line needs typer and rich: pip install 'steincheck[cli]'", file=sys.stderr)
    raise SystemExit(2) from None

from .. import aggregate, calibration, flux, fssd, ksd, models, moments, plot, verdict
from .. import report as pages
from .._files import write_bytes, write_text
from .._signals import ending_signals, exit_status
from .._validation import check_level, without_user_warnings
from .._version import __version__
from ..draws import to_unconstrained
from ..draws.names import close_names
from ..model_files import Source, explain, load_named, load_target, share_with_workers
from ..modes.search import find_modes
from ..result import pvalue_text
from .inputs import as_bounds, check_picture, check_writable, load_draws, load_modes
from .options import (
    NO_VALUE,
    Alpha,
    Bounds,
    Data,
    DrawsFiles,
    Independent,
    Json,
    Key,
    MaxEvaluations,
    ModesFile,
    NumPyro,
    PyMC,
    Quiet,
    Report,
    Resamples,
    Seed,
    Silent,
    Stan,
    TargetSpec,
)
from .words import in_options, verdict_in_options

EXIT_STATUS = "Exit status: 0 no misfit found, 1 misfit found, 2 error, 3 cannot tell."
FITS = 0
MISFIT = 1
ERROR = 2
CANNOT_TELL = 3
TESTS: dict[str, Callable[..., Any]] = {
    "ksd": ksd.ksd_test,
    "pksd": ksd.pksd_test,
    "spksd": ksd.spksd_test,
    "ospksd": ksd.ospksd_test,
    "ksdagg": aggregate.ksdagg_test,
    "pksdagg": aggregate.pksdagg_test,
    "fssd": fssd.fssd_test,
    "moments": moments.moment_test,
    "flux": flux.flux_test,
}
AGGREGATED = ("ksdagg", "pksdagg")  # tests that take the level
WITH_MODES = {"pksd", "spksd", "ospksd", "pksdagg", "moments", "flux"}  # these take `bounds` and `modes`


class _Raised(Exception):
    """What a command raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class _Commands(TyperGroup):
    """Commands whose errors all reach `main`: typer ends some of them itself, with the status of a misfit."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (EOFError, OSError, KeyboardInterrupt) as error:
            raise _Raised(error) from error


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Does this sample fit this density - are modes missing or wrongly weighted?\n\n"
    "The density is a Python object of your own, known up to a constant; the sample is a file. "
    "Try [bold]steincheck demo[/bold] first.",
    epilog=EXIT_STATUS,
)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[
        bool, typer.Option("--version", metavar=NO_VALUE, help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Print the version if it is asked for."""
    if show:
        _say(f"steincheck {__version__}")
        raise typer.Exit


@app.command(
    epilog=f"Example: steincheck check draws.csv --target model.py:target --report fit.html\n\n{EXIT_STATUS}"
)
def check(
    draws: DrawsFiles,
    target: TargetSpec = None,
    stan: Stan = None,
    pymc: PyMC = None,
    numpyro: NumPyro = None,
    data: Data = None,
    alpha: Alpha = 0.05,
    seed: Seed = None,
    bounds: Bounds = None,
    modes_file: ModesFile = None,
    independent: Independent = False,
    max_evaluations: MaxEvaluations = None,
    key: Key = None,
    json: Json = None,
    report: Report = None,
    quiet: Quiet = False,
) -> None:
    """Does the sample fit? One answer, from tests of the shape, the moments and the mode weights."""
    check_level(alpha)
    source = Source(target, stan, pymc, numpyro, data)
    check_writable(json, report, inputs=(*draws, modes_file, *source))
    density = source.load()
    sample = load_draws(draws, density, key)
    options = {
        "bounds": as_bounds(bounds, density.dim),
        "independent": independent,
        "modes": load_modes(modes_file, density),
    }
    if max_evaluations is not None:
        options["max_evaluations"] = max_evaluations
    with _working(quiet):
        answer = verdict.check(sample, density, alpha=alpha, rng=seed, **options)
    if not quiet:
        _say(_reworded(str(answer)))
    if json:
        write_text(json, answer.to_json() + "\n")
        _wrote(json, quiet)
    if report:
        command = _check_command(
            draws, source, answer.seed, alpha, bounds, modes_file, independent, max_evaluations, key
        )
        title = f"{', '.join(path.name for path in draws)} and {source.name}"
        said = verdict_in_options(answer, _typed_options())
        pages.write_html(report, said, sample, density, title=title, command=command)
        _wrote(report, quiet)
    raise typer.Exit({True: FITS, False: MISFIT, None: CANNOT_TELL}[answer.fits])


def _check_command(
    draws: list[Path],
    source: Source,
    seed: int,
    alpha: float,
    bounds: str | None,
    modes_file: Path | None,
    independent: bool,
    max_evaluations: int | None,
    key: str | None,
) -> list[str]:
    """The command that gives the same verdict again."""
    command = ["steincheck", "check", *map(str, draws), *source.options(), "--seed", str(seed)]
    command += [] if alpha == 0.05 else ["--alpha", repr(alpha)]
    command += [] if bounds is None else [f"--bounds={bounds}"]
    command += [] if modes_file is None else ["--modes", str(modes_file)]
    command += ["--independent"] if independent else []
    command += [] if max_evaluations is None else ["--max-evaluations", str(max_evaluations)]
    command += [] if key is None else ["--key", key]
    return command


@app.command(
    "test", epilog=f"Example: steincheck test flux draws.csv --target model.py:target\n\n{EXIT_STATUS}"
)
def one_test(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(TESTS)}.")],
    draws: DrawsFiles,
    target: TargetSpec = None,
    stan: Stan = None,
    pymc: PyMC = None,
    numpyro: NumPyro = None,
    data: Data = None,
    alpha: Alpha = 0.05,
    seed: Seed = None,
    bounds: Bounds = None,
    modes_file: ModesFile = None,
    independent: Independent = False,
    n_resamples: Resamples = None,
    key: Key = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run one test by name.

    ksd, ksdagg and fssd see the shape within modes; pksd, spksd, ospksd and pksdagg move draws between modes
    and see mode weights, too; moments sees means, spreads, correlations and tails; flux sees mode weights.
    """
    check_level(alpha)
    run = _named(name, TESTS)
    if (bounds is not None or modes_file is not None) and name not in WITH_MODES:
        raise ValueError(f"the test {name} uses no modes: it takes neither --bounds nor --modes")
    source = Source(target, stan, pymc, numpyro, data)
    check_writable(json, inputs=(*draws, modes_file, *source))
    density = source.load()
    sample = load_draws(draws, density, key)
    options: dict[str, Any] = {"independent": independent}
    options |= {} if n_resamples is None else {"n_resamples": n_resamples}
    if name in AGGREGATED:
        options |= {"alpha": alpha} | ({} if n_resamples is None else {"n_level_resamples": n_resamples})
    if name in WITH_MODES:
        options |= {"bounds": as_bounds(bounds, density.dim), "modes": load_modes(modes_file, density)}
    with _working(quiet):
        result = run(to_unconstrained(sample, density), density, rng=seed, **options)
    if not quiet:
        _say(
            f"{_reworded(result.describe(alpha))}\n  seed {result.settings['rng']}, steincheck {__version__}"
        )
    if json:
        write_text(json, result.to_json() + "\n")
        _wrote(json, quiet)
    if result.inconclusive(alpha):
        raise typer.Exit(CANNOT_TELL)
    raise typer.Exit(MISFIT if result.reject(alpha) else FITS)


@app.command(epilog="Example: steincheck modes --target model.py:target --json modes.json")
def modes(
    target: TargetSpec = None,
    stan: Stan = None,
    pymc: PyMC = None,
    numpyro: NumPyro = None,
    data: Data = None,
    draws: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DRAWS",
            help="A file of draws that give the search its starting points and its scale; may be repeated.",
        ),
    ] = None,
    bounds: Bounds = None,
    seed: Seed = None,
    max_evaluations: MaxEvaluations = None,
    key: Key = None,
    json: Json = None,
    picture: Annotated[Path | None, typer.Option(metavar="OUT.png", help="Plot the modes.")] = None,
    quiet: Silent = False,
) -> None:
    """List the modes of the density."""
    source = Source(target, stan, pymc, numpyro, data)
    check_writable(json, picture, inputs=(*(draws or ()), *source))
    check_picture(picture)
    density = source.load()
    sample = to_unconstrained(load_draws(draws, density, key), density) if draws else None
    held = None if sample is None else sample.values
    options: dict[str, Any] = {} if max_evaluations is None else {"max_evaluations": max_evaluations}
    with _working(quiet):
        found = find_modes(density, draws=sample, bounds=as_bounds(bounds, density.dim), rng=seed, **options)
    if sample is not None and sample.names and not found.names:
        found = replace(found, names=tuple(sample.names))
    if not quiet:
        _say(f"{_reworded(str(found))}\nsteincheck {__version__}")
    if json:
        write_text(json, dumps(found.to_dict(), indent=2, allow_nan=False) + "\n")
        _wrote(json, quiet)
    if picture:
        figure: Any = plot.draws(held, modes=found, names=found.names or None, target=density).figure
        buffer = BytesIO()
        figure.savefig(buffer, dpi=150, format=picture.suffix.lower().removeprefix("."))
        write_bytes(picture, buffer.getvalue())
        _wrote(picture, quiet)


@app.command(
    epilog="Example: steincheck calibrate --target model.py:target --sampler model.py:sample --n 500"
)
def calibrate(
    target: TargetSpec,
    n: Annotated[int, typer.Option("--n", min=2, help="Draws per sample.")],
    sampler: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="A function sample(n, rng) called NAME in FILE.py that returns n draws; needed unless the "
            "target is one of steincheck.models, which have exact draws.",
        ),
    ] = None,
    test: Annotated[
        str, typer.Option(metavar="NAME", help=f"check, or one of {', '.join(TESTS)}.")
    ] = "check",
    repetitions: Annotated[int, typer.Option(min=1, help="Number of samples.")] = 200,
    jobs: Annotated[int, typer.Option(help="Worker processes; -1 for all cores.")] = 1,
    seed: Seed = None,
    json: Json = None,
    quiet: Silent = False,
) -> None:
    """How often does a test reject samples? Its level on a density, or its power against a wrong sampler."""
    run = _named(test, {"check": verdict.check, **TESTS})
    check_writable(json, inputs=(target, sampler))
    density = load_target(str(target))
    draw = None if sampler is None else load_named(sampler, "--sampler")
    if jobs != 1:
        share_with_workers()
    with _working(quiet):
        found = calibration.calibrate(
            density, draw, n, test=run, repetitions=repetitions, n_jobs=jobs, rng=seed
        )
    if not quiet:
        _say(f"{found}\n  seed {found.seed}, steincheck {__version__}")
    if json:
        write_text(json, found.to_json() + "\n")
        _wrote(json, quiet)


@app.command()
def demo(
    report: Report = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample and the tests.")] = 0,
) -> None:
    """The paper's opening example: half of the density is missing from the sample, unseen by KSD."""
    check_writable(report)
    target = models.gaussian_mixture([[-3.0], [3.0]])
    x = np.random.default_rng(seed).normal(-3.0, 1.0, size=(1000, 1))
    _say(
        "The density has two equal bumps, at -3 and at 3. The sample: 1000 draws from the left bump only.\n"
        "Half of the density is missing. Which tests detect it? (A small p-value is "
        "evidence against the fit.)\n"
    )
    lines = {
        "ksd": "KSD test          looks only within modes that have draws",
        "spksd": "spKSD test        moves draws from mode to mode first, at many jump scales",
        "ospksd": "ospKSD test       learns the jump scale from half of the draws",
        "flux": "flux test         compares the flow between the modes",
    }
    with _working(quiet=False):
        for name, words in lines.items():
            result = TESTS[name](x, target, rng=seed)
            seen = "sees it" if result.reject() else "blind"
            p = pvalue_text(result.pvalue, smallest=result.at_floor)
            _say(f"  {words:<75} p {p:<8}  {seen}")
        answer = verdict.check(x, target, rng=seed)
    _say(f"\nAll in one, steincheck.check says:\n\n{_reworded(str(answer))}")
    if report:
        command = ["steincheck", "demo", "--seed", str(seed), "--report", str(report)]
        title = "Demo: one of two modes is missing"
        said = verdict_in_options(answer, _typed_options())
        pages.write_html(report, said, x, target, title=title, command=command)
        _wrote(report, quiet=False)


def _named(name: str, tests: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    if name not in tests:
        raise ValueError(
            f"there is no test {name!r}{close_names(name, list(tests))}; the tests are {', '.join(tests)}"
        )
    return tests[name]


@contextmanager
def _working(quiet: bool) -> Iterator[None]:
    """Hold back Python's warnings, as the outcome prints them, and progress bars if `quiet`."""
    with without_user_warnings(), redirect_stderr(StringIO()) if quiet else nullcontext():
        try:
            yield
        except SystemExit as stop:
            raise ValueError(f"the target's code ends the program while it is evaluated ({stop!r})") from None


def _say(text: str) -> None:
    # rich ends the program if the reader of a pipe has gone: files are yet to write
    with suppress(SystemExit):
        try:
            out.print(text, markup=False, soft_wrap=True)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else it fails again at the end
            raise OSError(f"cannot write to the standard output: {error.strerror or error}") from error


def _reworded(text: str) -> str:
    """What the library says, in the options of the command that runs."""
    return in_options(text, _typed_options())


def _typed_options() -> dict[str, str]:
    """How the parameters of the command that runs are typed, by name."""
    called = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    commands = {
        entry.name or entry.callback.__name__: entry.callback
        for entry in app.registered_commands
        if entry.callback
    }
    typed = {}
    for name, hint in get_type_hints(commands.get(called, demo), include_extras=True).items():
        for about in getattr(hint, "__metadata__", ()):
            words = (about.default, *(about.param_decls or ()))  # typer takes the first for a default
            declared = [word for word in words if isinstance(word, str) and word.startswith("--")]
            typed[name] = next(iter(declared), f"--{name.replace('_', '-')}")
            if isinstance(about, ArgumentInfo):
                typed[name] = str(about.metavar)
    return typed


def _wrote(path: Path, quiet: bool) -> None:
    if not quiet:
        _say(f"wrote {path}")


def main() -> None:
    """Run the command: errors are one message and exit status 2, Ctrl-C is 130 and SIGTERM 143."""
    for stream in (sys.stdout, sys.stderr):  # names that the terminal cannot show are escaped
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with ending_signals() as seen:
        try:
            app()
        except SystemExit:
            if seen:
                _end_interrupted(seen)
            raise
        except BaseException as error:  # whatever the user's code raises: status 1 is a misfit
            cause = error.error if isinstance(error, _Raised) else error
            if seen or isinstance(cause, KeyboardInterrupt):
                _end_interrupted(seen)
            err.print("[red]error:[/red]", end=" ")
            err.print(explain(cause, _reworded), markup=False, soft_wrap=True)
            raise SystemExit(ERROR) from None


def _end_interrupted(seen: list[int]) -> NoReturn:
    err.print("interrupted")
    raise SystemExit(exit_status(seen)) from None
