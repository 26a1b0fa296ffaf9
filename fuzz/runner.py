"""One call and what became of it."""

from __future__ import annotations

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


class Call(NamedTuple):
    """A function, and labels of the values that differ from those of its sound call."""

    function: str
    changed: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(f'{name}: {label}' for name, label in self.changed)})"


class Hang(BaseException):
    """The call takes too long."""


def plan(seed: int, number: int) -> Call:
    """Call number `number` of the sequence of `seed`."""
    rng = np.random.default_rng([seed, number])
    name = str(rng.choice(list(FUNCTIONS)))
    kinds = FUNCTIONS[name].kinds
    count = min(len(kinds), int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1])))
    changed = []
    for argument in rng.choice(list(kinds), size=count, replace=False):
        pools = [pool for pool in kinds[argument] if pool]
        weights = np.array([len(pool) for pool in pools], dtype=float)
        pool = pools[int(rng.choice(len(pools), p=weights / weights.sum()))]
        changed.append((str(argument), str(rng.choice(list(pool)))))
    return Call(name, tuple(changed))


def carry_out(call: Call) -> str:
    """What is wrong with how the call ended; empty if nothing is."""
    function = FUNCTIONS[call.function]
    arguments = {name: make() for name, make in function.sound.items()}
    refusable = False
    for name, label in call.changed:
        kind = function.kinds[name]
        refusable |= label in kind.bad
        pool = next(pool for pool in (kind.bad, kind.odd, kind.sound) if label in pool)
        arguments[name] = pool[label]()
    try:
        with time_limit(SECONDS_PER_CALL), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function.call(**arguments)
    except (TypeError, ValueError) as error:
        return fault_of_message(error, function, call)
    except UserError:
        return ""
    except OSError as error:  # a path that cannot be written, named
        return "" if "cannot write" in str(error) else f"raw: {type(error).__name__}: {_first_line(error)}"
    except Hang:
        return f"hang: no end within {SECONDS_PER_CALL} s"
    except Exception as error:
        return f"raw: {type(error).__name__}: {_first_line(error)}"
    return "accepted" if refusable else ""


def fault_of_message(error: Exception, function: Function, call: Call) -> str:
    """Whether the message fails to name an argument, or comes for a sound call."""
    kinds = function.kinds
    if str(error).startswith("no mode found"):  # an outcome of the search
        return ""
    named = set(re.findall(r"`(\w+)", str(error)))
    if not named & {*kinds, *function.sound, *NAMED_BY_TARGETS}:
        return f"unnamed: {type(error).__name__}: {_first_line(error)}"
    if all(label in kinds[name].sound for name, label in call.changed) and len(call.changed) == 1:
        return f"refused though sound: {_first_line(error)}"
    return ""


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:160]


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `Hang` in the main thread after so many seconds."""

    def stop(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
