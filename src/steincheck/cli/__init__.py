"""The command line: steincheck check | test | modes | calibrate | demo."""

from __future__ import annotations

import os
import platform
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stderr
from inspect import signature
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import aggregate, calibration, flux, fssd, ksd, models, modes, moments, verdict
from .. import report as pages
from .._files import write_text
from .._validation import without_user_warnings
from .._version import __version__
from ..draws import read_draws
from ..model_files import Source, explain, load_named, load_target, share_with_workers
from ..result import Verdict
from ..target import Target
from ..wording.numbers import pvalue_text
from .inputs import as_bounds, check_outputs, load_modes, take_column
from .options import make_parser

TESTS: Mapping[str, Callable[..., Any]] = {
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


def main() -> None:
    """Run the command: an error is one message and exit status 2, Ctrl-C is 130."""
    for stream in (sys.stdout, sys.stderr):  # names that the terminal cannot show are escaped
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # argparse would take the -5,5 of `--bounds -5,5` for an option
    words = "\0".join(sys.argv[1:]).replace("--bounds\0-", "--bounds=-").split("\0")
    options = make_parser(list(TESTS)).parse_args([word for word in words if word])
    _keep_compiled_programs()
    commands = {"check": _check, "test": _test, "modes": _modes, "calibrate": _calibrate, "demo": _demo}
    try:
        status = commands[options.command](options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    except BaseException as error:  # anything that the user's code raises: status 1 is a misfit
        print(f"error: {explain(error)}", file=sys.stderr)
        status = 2
    raise SystemExit(status)


def _keep_compiled_programs() -> None:
    """Let this process keep compiled programs in the user's cache, unless JAX has a directory already."""
    if jax.config.values["jax_compilation_cache_dir"] is None:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        # a program compiled on one machine may not run on another that shares the home directory
        directory = caches / "steincheck" / f"jax-{jax.__version__}-{platform.node()}"
        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)


def _check(options: Namespace) -> int:
    """Write the verdict; the status says whether the draws fit."""
    density, sample, columns = _read(options, options.json, options.report)
    given = _given(options, "alpha", "tolerance", "independent", "max_evaluations", "max_seconds")
    known = _known(options, density)
    answer = _run(options, verdict.check, sample, density, **given, **known, **columns)
    _print_and_write(str(answer), answer.to_json(), options)
    title = f"{', '.join(path.name for path in options.draws)} and {next(filter(None, options.source))}"
    _write_report(answer, sample, density, title, options)
    return {True: 0, False: 1, None: 3}[answer.fits]


def _test(options: Namespace) -> int:
    """Write the result of one test; the status says whether it rejects."""
    test = TESTS[options.name]
    density, sample, columns = _read(options, options.json)
    known = _known(options, density)
    taken = signature(test).parameters
    if known and "modes" not in taken:
        raise ValueError(f"the test {options.name} uses no modes: it takes neither --bounds nor --modes")
    given = _given(options, *(name for name in ("independent", "n_resamples", "alpha") if name in taken))
    result = _run(options, test, sample, density, **given, **known, **columns)
    origin = f"seed {result.settings['rng']}, steincheck {__version__}"
    _print_and_write(f"{result.describe(options.alpha)}\n  {origin}", result.to_json(), options)
    return 3 if result.inconclusive(options.alpha) else int(result.reject(options.alpha))


def _modes(options: Namespace) -> int:
    """Write the modes of the density."""
    density, sample, _ = _read(options, options.json)
    given = _given(options, "max_evaluations") | _known(options, density)
    found = _run(options, modes.find_modes, density, draws=sample, **given)
    _print_and_write(f"{found}\nsteincheck {__version__}", found.to_json(), options)
    return 0


def _calibrate(options: Namespace) -> int:
    """Write how often a test rejects."""
    check_outputs(options.json, inputs=(options.target, options.sampler))
    density = load_target(options.target)
    sample = None if options.sampler is None else load_named(options.sampler)
    if options.jobs != 1:
        share_with_workers()
    test = TESTS.get(options.test, verdict.check)
    given = _given(options, "n", "repetitions") | {"n_jobs": options.jobs}
    found = _run(options, calibration.calibrate, density, sample, test=test, **given)
    text = f"{found}\n  seed {found.seed}, steincheck {__version__}"
    _print_and_write(text, found.to_json(), options)
    return 0


def _demo(options: Namespace) -> int:
    """Run tests on half of a density, print what each sees."""
    check_outputs(options.report)
    target = models.gaussian_mixture([[-3.0], [3.0]])
    x = np.random.default_rng(options.seed).normal(-3.0, 1.0, size=(1000, 1))
    _say(
        "The density has two equal bumps, at -3 and at 3. The sample: 1000 draws from the left bump only.\n"
        "Which tests see that half is missing? (A small p-value is evidence against the fit.)\n",
        options,
    )
    for name in ("ksd", "spksd", "ospksd", "flux"):
        result = _run(options, TESTS[name], x, target)
        p = pvalue_text(result.pvalue, smallest=result.at_floor)
        _say(f"  {result.test:<18} p {p:<8}  {'sees it' if result.reject() else 'blind'}", options)
    answer = _run(options, verdict.check, x, target)
    _say(f"\nAll in one, steincheck.check says:\n\n{answer}", options)
    _write_report(answer, x, target, "Demo: one of two modes is missing", options)
    return 0


def _read(options: Namespace, *outputs: Path | None) -> tuple[Target, Any, dict[str, Any]]:
    """Density, draws and what comes with them, if any, once it is known that the outputs can be written."""
    options.source = Source(options.target, options.stan, options.pymc, options.numpyro, options.data)
    files = options.draws or ()
    given = _given(options, "weights", "log_weights", "log_q")
    check_outputs(*outputs, inputs=(*files, options.modes, *options.source, *given.values()))
    density = options.source.load()
    draws: Any = read_draws(files, key=options.key) if files else None
    for name, source in given.items():
        given[name], draws = take_column(draws, source, name)
    return density, draws, given


def _given(options: Namespace, *names: str) -> dict[str, Any]:
    """The options that were given: the library's own defaults stand for the others."""
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _known(options: Namespace, density: Target) -> dict[str, Any]:
    """What the user knows of the modes: where they are, or a box."""
    box = {} if options.bounds is None else {"bounds": as_bounds(options.bounds)}
    return box if options.modes is None else box | {"modes": load_modes(options.modes, density)}


def _run(options: Namespace, function: Callable[..., Any], *arguments: Any, **by_name: Any) -> Any:
    """The outcome, without Python's warnings, as the outcome has them, and progress bars with --quiet."""
    with without_user_warnings(), redirect_stderr(StringIO()) if options.quiet else nullcontext():
        return function(*arguments, rng=options.seed, **by_name)


def _print_and_write(text: str, record: str, options: Namespace) -> None:
    """Print the outcome, and write its JSON if that is asked for."""
    _say(text, options)
    if options.json:
        write_text(options.json, record + "\n")
        _say(f"wrote {options.json}", options)


def _write_report(answer: Verdict, draws: Any, density: Target, title: str, options: Namespace) -> None:
    if options.report:
        again = [] if options.seed is not None else ["--seed", str(answer.seed)]
        command = ["steincheck", *sys.argv[1:], *again]
        pages.write_html(options.report, answer, draws, density, title=title, command=command)
        _say(f"wrote {options.report}", options)


def _say(text: str, options: Namespace) -> None:
    """Print the text, but not with --quiet; a reader of a pipe that has gone does not end the command."""
    if options.quiet:
        return
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else it fails again at the end
