"""The command line: steincheck check | test | modes | demo."""

from __future__ import annotations

import difflib
import importlib.util
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from io import StringIO
from json import dumps
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np

try:
    import typer
    from rich.console import Console
except ImportError:
    print("the command line needs typer and rich: pip install 'steincheck[cli]'", file=sys.stderr)
    raise SystemExit(2) from None

from . import aggregate, flux, fssd, ksd, models, verdict
from . import report as pages
from ._version import __version__
from .draws import as_draws, read_draws
from .modes.search import bounds_from_draws, find_modes
from .result import check_level, pvalue_text
from .target import Target

FITS, MISFIT, ERROR = 0, 1, 2  # exit status; "cannot tell" is ERROR
TESTS: dict[str, Callable[..., Any]] = {
    "ksd": ksd.ksd_test,
    "pksd": ksd.pksd_test,
    "spksd": ksd.spksd_test,
    "ospksd": ksd.ospksd_test,
    "ksdagg": aggregate.ksdagg_test,
    "pksdagg": aggregate.pksdagg_test,
    "fssd": fssd.fssd_test,
    "flux": flux.flux_test,
}
WITH_MODES = {"pksd", "spksd", "ospksd", "pksdagg", "flux"}  # these take `bounds`
FRAMES = 4  # of the user's traceback that are shown
RUNNING = "steincheck_target_"  # prefix of the module a target file becomes

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Does this sample fit this density - are modes missing or weighted wrongly?\n\n"
    "The density is a Python object of your own, known up to a constant; the sample is a file. "
    "Try [bold]steincheck demo[/bold] first.",
    epilog="Exit status: 0 no misfit found, 1 misfit, 2 error or cannot tell.",
)
out, err = Console(highlight=False), Console(stderr=True, highlight=False)

Draws = Annotated[
    Path,
    typer.Argument(
        metavar="DRAWS",
        help="The sample, one draw a row: .csv (with or without a line of names), .npy or .npz.",
    ),
]
TargetSpec = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="FILE.py:NAME",
        help="The density: a steincheck.Target (or a function without arguments that returns one) called "
        "NAME in FILE.py. The file is your own code and is run as such: pass only files you trust.",
    ),
]
Alpha = Annotated[float, typer.Option(help="Level: the probability of a false alarm you accept.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed, to get the same numbers again.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write the outcome as JSON.")]
Report = Annotated[Path | None, typer.Option(metavar="OUT.html", help="Write a report, one HTML page.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing; the exit status tells.")]
Bounds = Annotated[
    str | None,
    typer.Option(
        metavar="LOW,HIGH[;LOW,HIGH...]",
        help="Box in which modes are searched: one pair for all coordinates or one pair each. "
        "Default: the range of the draws, widened.",
    ),
]
Key = Annotated[str | None, typer.Option(metavar="NAME", help="Which array, if DRAWS is an npz of several.")]


@app.command()
def check(
    draws: Draws,
    target: TargetSpec,
    alpha: Alpha = 0.05,
    seed: Seed = None,
    bounds: Bounds = None,
    key: Key = None,
    json: Json = None,
    report: Report = None,
    quiet: Quiet = False,
) -> None:
    """Does the sample fit? One answer from a test of the shape and a test of the weights of the modes."""
    check_level(alpha)
    _writable(json, report, inputs=(draws, target))
    density = load_target(target)
    x = _load_draws(draws, density, key)
    box, seed = _bounds(bounds), verdict.fresh_seed(seed)
    with _working(quiet) as status:
        found = verdict.search_modes(x, density, bounds=box, seed=seed)
        with status("testing the draws"):
            answer = verdict.check(x, density, modes=found, alpha=alpha, rng=seed)
    if not quiet:
        _say(str(answer))
    if json:
        pages.write_text(json, answer.to_json() + "\n")
        _wrote(json, quiet)
    if report:
        command = ["steincheck", "check", str(draws), "--target", target, "--seed", str(answer.seed)]
        command += [] if alpha == 0.05 else ["--alpha", f"{alpha:g}"]
        command += [] if bounds is None else [f"--bounds={bounds}"]
        command += [] if key is None else ["--key", key]
        pages.write_html(report, answer, x, density, title=f"{draws.name} and {target}", command=command)
        _wrote(report, quiet)
    raise typer.Exit({True: FITS, False: MISFIT, None: ERROR}[answer.fits])


@app.command("test")
def one_test(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(TESTS)}.")],
    draws: Draws,
    target: TargetSpec,
    alpha: Alpha = 0.05,
    seed: Seed = None,
    bounds: Bounds = None,
    key: Key = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run one test by name."""
    check_level(alpha)
    if name not in TESTS:
        raise ValueError(f"there is no test {name!r}{_near(name, TESTS)}; the tests are {', '.join(TESTS)}")
    if bounds is not None and name not in WITH_MODES:
        raise ValueError(f"the test {name} looks for no modes: it takes no --bounds")
    _writable(json, inputs=(draws, target))
    density = load_target(target)
    x = _load_draws(draws, density, key)
    options = {"bounds": _bounds(bounds)} if name in WITH_MODES else {}
    seed = verdict.fresh_seed(seed)
    with _working(quiet) as status, nullcontext() if name in WITH_MODES else status("testing the draws"):
        result = TESTS[name](x, density, rng=seed, **options)
    if not quiet:
        _say(f"{result.summary(alpha)}\n  seed {seed}, steincheck {__version__}")
    if json:
        pages.write_text(json, result.to_json() + "\n")
        _wrote(json, quiet)
    if not quiet and _out_of_reach(result, alpha):
        _say(f"  cannot tell: {len(result.null_distribution)} replicates cannot reach the level {alpha:g}")
    unsure = np.isnan(result.pvalue) or _out_of_reach(result, alpha)
    raise typer.Exit(ERROR if unsure else MISFIT if result.reject(alpha) else FITS)


@app.command()
def modes(
    target: TargetSpec,
    draws: Annotated[
        Path | None, typer.Option(metavar="DRAWS", help="Search the range of these draws, widened.")
    ] = None,
    bounds: Bounds = None,
    seed: Seed = None,
    key: Key = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """List the modes of the density that the search finds, in a box or in the range of draws."""
    if (draws is None) == (bounds is None):
        raise ValueError("the search needs a box: give either --bounds or --draws")
    _writable(json, inputs=(draws, target))
    density = load_target(target)
    box = _bounds(bounds) if draws is None else bounds_from_draws(_load_draws(draws, density, key))
    seed = verdict.fresh_seed(seed)
    with _working(quiet):
        found = find_modes(density, bounds=box, rng=seed)
    if not quiet:
        _say(f"{found}\nseed {seed}, steincheck {__version__}")
    if json:
        pages.write_text(json, dumps(found.to_dict(), indent=2, allow_nan=False) + "\n")
        _wrote(json, quiet)


@app.command()
def demo(
    report: Report = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample and the tests.")] = 0,
) -> None:
    """The paper's opening example: half of the density is missing from the sample, unseen by KSD."""
    _writable(report)
    target = models.gaussian_mixture([[-3.0], [3.0]])
    x = np.random.default_rng(seed).normal(-3.0, 1.0, size=(1000, 1))
    _say(
        "The density has two equal bumps, at -3 and at 3. The sample: 1000 draws from the left bump only.\n"
        "Half of the density is missing. Which tests see it? (a small p-value speaks against the sample)\n"
    )
    lines = {
        "ksd": "KSD test          only looks inside the modes it was given draws of",
        "spksd": "spKSD test        moves draws from mode to mode first, at many jump scales",
        "ospksd": "ospKSD test       learns the jump scale from half of the draws",
        "flux": "flux test         compares the flow between the modes",
    }
    with _working(quiet=False):
        for name, words in lines.items():
            result = TESTS[name](x, target, rng=seed)
            seen = "sees it" if result.reject() else "blind"
            _say(f"  {words:<75} p {pvalue_text(result.pvalue):<8}  {seen}")
        answer = verdict.check(x, target, rng=seed)
    _say(f"\nAll in one, steincheck.check says:\n\n{answer}")
    if report:
        command = ["steincheck", "demo", "--seed", str(seed), "--report", str(report)]
        title = "Demo: one of two modes is missing"
        pages.write_html(report, answer, x, target, title=title, command=command)
        _wrote(report, quiet=False)


def _out_of_reach(result: Any, alpha: float) -> bool:
    """Whether even the smallest p-value of a simulated null distribution would not be below alpha."""
    return result.null_distribution is not None and alpha * (len(result.null_distribution) + 1) < 1


def load_target(spec: str) -> Target:
    """Run FILE.py and return what it calls NAME, from "FILE.py:NAME"."""
    file, colon, name = spec.rpartition(":")
    if not colon or not file or not name:
        raise ValueError(f"--target must look like FILE.py:NAME, got {spec!r}")
    module = _run_file(Path(file))
    if not hasattr(module, name):
        known = [key for key in vars(module) if not key.startswith("_")]
        found = [key for key in known if isinstance(getattr(module, key), Target)]
        targets = f"; its targets: {', '.join(found)}" if found else "; it holds no steincheck.Target"
        raise ValueError(f"{file} has no {name!r}{_near(name, known)}{targets}")
    value = getattr(module, name)
    if callable(value) and not isinstance(value, Target):
        try:
            value = value()
        except SystemExit as stop:
            raise ValueError(f"{name} in {file} ends the program ({stop!r})") from None
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # from inside the function: shown with its lines
            raise TypeError(
                f"{name} in {file} is a function with arguments; make a target of it: "
                f"target = steincheck.from_jax({name}, dim=...)"
            ) from None
    if not isinstance(value, Target):
        raise TypeError(f"{name} in {file} must be a steincheck.Target, got {type(value).__name__}")
    return value


def _run_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no target file {path}")
    spec = importlib.util.spec_from_file_location(RUNNING + path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"the target file must be Python code and end in .py, got {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(
        0, str(path.resolve().parent)
    )  # as Python does for a script: it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except SystemExit as stop:
        raise ValueError(f"{path} ends the program while it is read ({stop!r})") from None
    return module


def _load_draws(path: Path, target: Target, key: str | None) -> np.ndarray:
    return as_draws(read_draws(path, dim=target.dim, names=target.names, key=key), target.dim, name=str(path))


def _bounds(text: str | None) -> Any:
    """(low, high), or one such pair a coordinate, from "low,high;low,high"."""
    if text is None:
        return None
    try:
        pairs = [tuple(map(float, pair.split(","))) for pair in text.split(";")]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError
    except ValueError:
        raise ValueError(f"--bounds must be LOW,HIGH or LOW,HIGH;LOW,HIGH;..., got {text!r}") from None
    return pairs[0] if len(pairs) == 1 else pairs


def _writable(*paths: Path | None, inputs: tuple[Any, ...] = ()) -> None:
    """Raise before the work starts, not after it; an output must not replace an input or another output."""
    taken = {Path(str(i).rpartition(":")[0] or str(i)).resolve() for i in inputs if i is not None}
    taken |= {Path(i).resolve() for i in inputs if isinstance(i, Path)}
    for path in paths:
        if path is not None:
            pages.check_output(path)
            if path.resolve() in taken:
                raise ValueError(f"cannot write {path}: it is an input or another output of this command")
            taken.add(path.resolve())


def _near(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=3)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


@contextmanager
def _working(quiet: bool) -> Iterator[Callable[[str], Any]]:
    """Hold back Python's warnings, as the outcome prints them; show bars and spinners on a terminal only."""
    with warnings.catch_warnings(), redirect_stderr(StringIO()) if quiet else nullcontext():
        warnings.simplefilter("ignore", UserWarning)
        try:
            yield lambda text: err.status(text) if err.is_terminal and not quiet else nullcontext()
        except SystemExit as stop:
            raise ValueError(f"the target's code ends the program while it is evaluated ({stop!r})") from None


def _say(text: str) -> None:
    # rich ends the program if the reader of a pipe has gone: files are yet to write
    with suppress(SystemExit):
        out.print(text, markup=False, soft_wrap=True)


def _wrote(path: Path, quiet: bool) -> None:
    if not quiet:
        _say(f"wrote {path}")


def _explain(error: Exception) -> str:
    """The message; if the user's file was running, its own lines too, without those around it."""
    own = {module.__file__ for name, module in list(sys.modules.items()) if name.startswith(RUNNING)}
    if isinstance(error, SyntaxError):
        return "the target file fails:\n" + "".join(traceback.format_exception_only(error)).strip()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in own]
    if not frames:
        known = isinstance(error, (ValueError, TypeError, OSError, ImportError))
        return str(error) if known else f"{type(error).__name__}: {error}"
    lines = "".join(traceback.format_list(frames[-FRAMES:]))
    return f"the target file fails:\n{lines}{type(error).__name__}: {error}"


def main() -> None:
    """Entry point of the console script: errors are one message and exit status 2."""
    try:
        app()
    except Exception as error:
        err.print("[red]error:[/red]", end=" ")
        err.print(_explain(error), markup=False, soft_wrap=True)
        raise SystemExit(ERROR) from None
