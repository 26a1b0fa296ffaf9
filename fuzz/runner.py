"""One call and what became of it."""

from __future__ import annotations

import functools
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from .calls import FUNCTIONS, Function
from .values import UserError

SECONDS_PER_CALL = 60
NAMED_BY_TARGETS = {
    *("log_density", "score", "hessian", "dim", "names"),
    *("x", "draws", "n", "bandwidth", "kernel"),
}
# after the single changes these are called less often: they took three quarters of the time
SLOW = {
    *("report.write_html", "local_anchors", "repelling_attracting_metropolis", "plot.witness", "plot.pairs"),
    *("plot.contributions", "plot.theta_profile", "from_numpyro", "from_pymc", "to_arviz", "check"),
    *("pksd_test", "spksd_test", "ospksd_test", "pksdagg_test", "ksdagg_test", "moment_test", "fssd_test"),
    *("flux_test", "box_search", "find_modes", "compare"),
}
SHARE_OF_SLOW = 0.25


class Call(NamedTuple):
    """A function, and labels of the values that differ from those of its sound call."""

    function: str
    changed: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(f'{name}: {label}' for name, label in self.changed)})"


class Hang(BaseException):
    """The call takes too long."""


@functools.cache
def single_changes(seed: int) -> list[Call]:
    """Every value of every argument by itself, in an order that depends on the seed."""
    calls = [
        Call(name, ((argument, label),))
        for name, function in FUNCTIONS.items()
        for argument, kind in function.kinds.items()
        for label in dict.fromkeys(label for pool in kind for label in pool)
    ]
    order = np.random.default_rng(seed).permutation(len(calls))
    return [calls[k] for k in order]


def plan(seed: int, number: int) -> Call:
    """Call number `number` of the sequence of `seed`: all single changes first, then several at once."""
    singles = single_changes(seed)
    if number < len(singles):
        return singles[number]
    rng = np.random.default_rng([seed, number])
    shares = np.array([SHARE_OF_SLOW if name in SLOW else 1.0 for name in FUNCTIONS])
    name = str(rng.choice(list(FUNCTIONS), p=shares / shares.sum()))
    kinds = FUNCTIONS[name].kinds
    count = min(len(kinds), int(rng.choice([2, 3, 4], p=[0.6, 0.3, 0.1])))
    changed = []
    for argument in rng.choice(list(kinds), size=count, replace=False):
        labels = [label for pool in kinds[argument] for label in pool]
        changed.append((str(argument), str(rng.choice(labels))))
    return Call(name, tuple(sorted(changed)))


def carry_out(call: Call) -> str:
    """What is wrong with how the call ended; empty if nothing is."""
    function = FUNCTIONS[call.function]
    arguments = _arguments(function, call)
    try:
        with time_limit(SECONDS_PER_CALL), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function.call(**arguments)
    except (TypeError, ValueError) as error:
        return fault_of_message(error, function, call)
    except UserError:
        return ""
    except OSError as error:
        return "" if _names_a_path(error) else f"raw: {type(error).__name__}: {_first_line(error)}"
    except Hang:
        return f"hang: no end within {SECONDS_PER_CALL} s"
    except Exception as error:
        return f"raw: {type(error).__name__}: {_first_line(error)}"
    return "accepted" if _must_be_refused(call, function) else ""


def _must_be_refused(call: Call, function: Function) -> bool:
    """Whether one value is bad and the others are sound: two wrong dimensions may agree with each other."""
    sound = [label in function.kinds[name].sound for name, label in call.changed]
    bad = [label in function.kinds[name].bad for name, label in call.changed]
    return sum(bad) == 1 and sum(sound) == len(call.changed) - 1


def _arguments(function: Function, call: Call) -> dict[str, Any]:
    """What the function is called with; NumPy warns of some of it when it is made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = {name: make() for name, make in function.sound.items()}
        for name, label in call.changed:
            kind = function.kinds[name]
            pool = next(pool for pool in (kind.bad, kind.odd, kind.sound) if label in pool)
            arguments[name] = pool[label]()
    return arguments


def fault_of_message(error: Exception, function: Function, call: Call) -> str:
    """Whether the message fails to name an argument, or comes for a sound call."""
    kinds = function.kinds
    if str(error).startswith("no mode found"):  # an outcome of the search
        return ""
    named = set(re.findall(r"`(\w+)", str(error)))
    if not named & {*kinds, *function.sound, *function.also, *NAMED_BY_TARGETS}:
        return f"unnamed: {type(error).__name__}: {_first_line(error)}"
    if all(label in kinds[name].sound for name, label in call.changed) and len(call.changed) == 1:
        return f"refused though sound: {_first_line(error)}"
    return ""


def _names_a_path(error: OSError) -> bool:
    """Whether the message says which path cannot be read or written."""
    words = ("cannot write", "there is no file", "is a directory")
    return error.filename is not None or any(part in str(error) for part in words)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:160]


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `Hang` in the main thread after so many seconds of CPU time, or ten times as many in all."""

    def stop(*_: Any) -> None:
        raise Hang

    timers = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}
    before = {number: signal.signal(number, stop) for number in timers.values()}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
    try:
        yield
    finally:
        for timer, number in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
