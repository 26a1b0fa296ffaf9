"""Log density and score at rows of points: validated, at any point, by differences, counted and limited."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from .._validation import as_count, as_host, as_numbers, as_one_positive, listed_rows
from .._work import can_be_sent, n_workers, share_out
from .record import Batch, Target, in_chunks, values_and_scores

MAX_BEND = 1e-4  # nats by which log p may bend over the steps of a finite difference
MAX_ROUNDING = 0.01  # nats; log densities are compared with each other


class OutOfBudget(ValueError):
    """What is asked for takes more evaluations than are left."""


class Differences(NamedTuple):
    """Finite differences of log p along m directions, or all coordinates, at n points: arrays (n, m)."""

    central: np.ndarray
    bend: np.ndarray  # nats by which log p leaves a straight line: by its curvature, a kink or its noise
    step: np.ndarray
    rounding: np.ndarray  # what the rounding of log p may contribute


def differences(
    log_density: Batch, x: np.ndarray, step: Any = None, directions: np.ndarray | None = None
) -> Differences:
    """Finite differences of log p at the rows of `x`, along `directions` (m, d) or all coordinates.

    Steps are made shorter until log p bends by little over them: the width of the density is not known. Where
    a shorter step bends no less, by noise or a jump of log p, or the budget of a counted function allows no
    more, they are left as they are.
    """
    along = np.eye(x.shape[1]) if directions is None else directions
    middle, eps = call_batch("log_density", log_density, x)
    middle = middle[:, None]
    noise = 10 * eps * np.abs(middle)
    fine = eps ** (1 / 3)
    h = np.empty((len(x), len(along)))
    h[:] = fine * np.maximum(1.0, np.abs(x)) if step is None else step * max(1.0, 1e4 * fine)
    ahead, behind = np.empty((2, *h.shape))
    rows = np.arange(len(x))
    before = np.inf
    for _ in range(9):  # eight shortenings make steps shorter by a factor of 1e-24 at most
        for moved, way in ((ahead, along), (behind, -along)):
            points = (x[rows] + way[:, None] * h[rows].T[:, :, None]).reshape(-1, x.shape[1])  # (m n, d)
            moved[rows] = call_batch("log_density", log_density, points)[0].reshape(len(way), -1).T
        with np.errstate(invalid="ignore"):
            bend = np.abs(ahead + behind - 2 * middle)
        long = ~(bend <= np.maximum(MAX_BEND, noise)) & ~(bend > 0.9 * before)
        before = bend
        rows = np.flatnonzero(long.any(axis=1))
        used = h.copy()
        shorter = np.where(np.isfinite(bend), np.sqrt(MAX_BEND / np.maximum(bend, MAX_BEND)), 0.1)
        h[long] *= np.clip(shorter[long], 1e-3, 0.5)
        if not len(rows):
            break
        if isinstance(log_density, _Counted) and 2 * len(rows) * len(along) > log_density.budget.left:
            break
    with np.errstate(invalid="ignore"):
        return Differences((ahead - behind) / (2 * used), bend, used, 5 * noise / used)


def log_density_at(
    target: Target, x: np.ndarray, *, proposal: bool = False, where: str = "every point"
) -> np.ndarray:
    """log p at the rows of `x`, validated; at a `proposal` -inf is a value, NaN is not.

    It must not depend on the points it is evaluated with, or on the call: a few are evaluated again, neither
    the highest nor the lowest, as these may be what all others depend on.
    """
    value, eps = call_batch("log_density", target.log_density, x)
    bad = np.isnan(value) | (value == np.inf) if proposal else ~np.isfinite(value)
    _check_finite("log_density", x, value, bad, where)
    rounding = eps * np.median(np.abs(value)) if len(value) and not proposal else 0.0
    if rounding > MAX_ROUNDING:
        raise ValueError(
            f"`log_density` must be smaller: near {np.median(value):.2g} it is rounded to {rounding:.2g}, "
            "which hides how draws differ; subtract a constant"
        )
    if not proposal and target.jax_log_density is None and len(x) > 1:
        n = len(x)
        rows = np.argsort(value)[np.linspace(0.75 * n, 0.25 * n, num=min(5, n // 2)).astype(int)]
        again = call_batch("log_density", target.log_density, x[rows])[0]
        # single precision leaves 1e-5
        for k in np.flatnonzero(~(np.abs(again - value[rows]) <= MAX_ROUNDING + 1e-5 * np.abs(value[rows]))):
            raise ValueError(
                "`log_density` must give every point a value of its own, whatever the other points and "
                "whenever it is called (a module of PyTorch must be in its eval() mode): at row "
                f"{rows[k]} it is {value[rows[k]]:.6g} in a call with {n} points, {again[k]:.6g} in a call "
                f"with {len(rows)}"
            )
    return value


def score_at(target: Target, x: np.ndarray, *, proposal: bool = False) -> np.ndarray:
    """The score (n, d) at the rows of `x`, by finite differences where the target has none.

    It is an error where it is not finite, unless at a `proposal`.
    """
    if target.score is None:
        value = differences(target.log_density, np.asarray(x, dtype=float)).central
    else:
        value = call_batch("score", target.score, x, (x.shape[1],))[0]
    if not proposal:
        _check_finite("score", x, value, ~np.isfinite(value).all(axis=1))
    return value


def log_density_anywhere(log_density: Batch, x: np.ndarray) -> np.ndarray:
    """log p (n,) at points that may be impossible: -inf where it is not finite or the function raises."""
    value = output_anywhere("log_density", partial(call_shared, log_density), x, ())[0]
    return np.where(np.isfinite(value), value, -np.inf)


def output_anywhere(
    name: str, function: Batch, x: np.ndarray, shape: tuple[int, ...], worked: np.ndarray | None = None
) -> tuple[np.ndarray, Exception | None]:
    """The output of a batch function, NaN in the rows where it raises, and the last exception if any.

    Those rows are found by halving. `shape` is that of the output at one point. At `worked` the function is
    known to have worked: if it raises there by now, it is the function that is broken, and not the points.
    """
    try:
        with np.errstate(all="ignore"):
            output = function(x)
    except OutOfBudget:
        raise
    except Exception as error:  # of the user's function: here it means "not a possible point"
        if len(x) <= 1:
            return np.full((len(x), *shape), np.nan), error
        if worked is not None and (broken := output_anywhere(name, function, worked[None], shape)[1]):
            raise ValueError(
                f"`{name}` must not fail where it worked before: it raises {type(broken).__name__}: {broken} "
                f"in a call with {len(x)} points, and again at x = {np.array2string(worked, threshold=8)}"
            ) from error
        half = len(x) // 2
        first, first_error = output_anywhere(name, function, x[:half], shape)
        second, second_error = output_anywhere(name, function, x[half:], shape)
        return np.concatenate([first, second]), second_error or first_error or error
    return _as_floats(name, output, (len(x), *shape)), None


def call_batch(
    name: str, function: Batch, x: np.ndarray, shape: tuple[int, ...] = ()
) -> tuple[np.ndarray, float]:
    """What a batch function returns, (n, *shape), and the relative rounding of its dtype.

    Errors name the function.
    """
    try:
        output = call_shared(function, x)
    except OutOfBudget:
        raise
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"`{name}` fails for all {len(x)} points at once, a read-only array of shape {x.shape} with one "
            "per row; a function of one point needs vectorized=False in steincheck.Target; "
            f"{type(error).__name__}: {error}"
        ) from error
    value = _as_floats(name, output, (len(x), *shape))
    dtype = np.asarray(as_host(output)).dtype
    eps = np.finfo(dtype if dtype.kind == "f" else float).eps
    return value, float(eps)


def _as_floats(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    value = as_numbers(value, name, "a function that returns an array of real numbers", verb="returns")
    if value.shape != shape and 1 in shape and value.size == np.prod(shape) and value.ndim < len(shape):
        return value.reshape(shape)  # squeezed: one point, or one coordinate
    if value.shape != shape:
        raise ValueError(
            f"`{name}` must return shape {shape} for {shape[0]} points, got {value.shape}; it is called with "
            "all points at once, one per row, unless steincheck.Target is given vectorized=False"
        )
    return value


def _check_finite(
    name: str, x: np.ndarray, value: np.ndarray, bad: np.ndarray, where: str = "every point"
) -> None:
    """Raise if any rows are `bad`."""
    rows = np.flatnonzero(bad)
    if len(rows):
        raise ValueError(
            f"`{name}` must be finite at {where}: {len(rows)} of {len(x)} rows are not, "
            f"{listed_rows(rows)}; at row {rows[0]}, x = {np.array2string(x[rows[0]], threshold=8)}, "
            f"it is {value[rows[0]]}"
        )


@dataclass
class Budget:
    """Evaluations made so far, by everything that shares this budget, and how many may be made."""

    max_evaluations: float = np.inf
    max_seconds: float = np.inf
    made: int = 0
    spent: bool = False  #: whether what is left is too little for what was asked for last
    seconds_per_evaluation: float = np.inf  #: of the quickest call so far; infinite before the first
    began: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """Evaluations that may still be made; infinite without a limit."""
        return 0 if self.spent else max(0, self.max_evaluations - self.made)

    @property
    def exhausted(self) -> Literal["max_evaluations", "max_seconds"] | None:
        """Which limit is reached, if any."""
        if not self.left:
            return "max_evaluations"
        return "max_seconds" if time.perf_counter() - self.began > self.max_seconds else None


def as_budget(max_evaluations: Any, max_seconds: Any) -> Budget:
    """The budget of a function that has both limits among its arguments; None is no limit."""
    most = np.inf if max_evaluations is None else as_count(max_evaluations, "max_evaluations", maximum=10**12)
    return Budget(most, np.inf if max_seconds is None else as_one_positive(max_seconds, "max_seconds"))


def affordable_budget(target: Target, x: np.ndarray, limits: Budget) -> Budget:
    """The evaluations that both limits allow: of the time, to two digits, by the cost at the first draws.

    At least the draws and a few more can be evaluated, whatever the time. Where an evaluation takes less than
    a hundredth of a millisecond, the time sets no limit.
    """
    limit, max_seconds = limits.max_evaluations, limits.max_seconds
    least = len(x) + 5  # of which five are evaluated twice
    if limit < least:
        raise ValueError(f"`max_evaluations` must be at least {least} for {len(x)} draws, got {limit}")
    if np.isinf(max_seconds):
        return Budget(limit)
    seconds = [np.inf, np.inf]
    for size in (8, 8, 32, 32, 256, 256):  # a first call may compile
        some = x[:size]
        if limit - len(some) < least or (size > 8 and size * seconds[-1] > max_seconds / 50):
            break
        begin = time.perf_counter()
        call_batch("log_density", target.log_density, some)
        seconds.append((time.perf_counter() - begin) / len(some))
        limit -= len(some)
    if not 1e-5 < min(seconds) < np.inf:
        return Budget(limit)
    # the rest, programs that are compiled first of all, takes about a second
    left = max_seconds - min(1.0, max_seconds / 4) - (time.perf_counter() - limits.began)
    in_time = max(left, 1e-3 * max_seconds) / np.mean(seconds[-2:])
    digits = 10 ** np.floor(np.log10(in_time) - 1)
    return Budget(min(limit, max(least, float(np.floor(in_time / digits) * digits))))


class CountedTarget:
    """A target at points (..., d) of a search, where any point has an answer and every evaluation counts.

    NaN, +inf, exceptions of the user's functions and points beyond the budget count as density 0. log p and
    score count once where they come from one compiled call; a score by finite differences counts the points
    at which log p is evaluated for it, 2 d + 1 if its steps suit at once.
    """

    def __init__(self, target: Target, budget: Budget | None = None) -> None:
        self.target = target
        self.budget = Budget() if budget is None else budget
        self.compiled = target.jax_log_density is not None
        both = in_chunks(partial(values_and_scores, target.jax_log_density), target.dim)
        self._together = _Counted(both, self.budget)  # log p and score as columns (n, 1 + d)
        self.score_cost = 1 if target.has_score else 2 * target.dim + 1
        self.raised: Exception | None = None  # by the user's functions, the last one
        self.worked: dict[str, np.ndarray] = {}  # a point at which each of the functions gave a number
        self.scored = False  # whether there was a finite score anywhere
        self._counting = counting_target(target, self.budget)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log p (...), -inf wherever it is not finite."""
        value = self._output("log_density", self._counting.log_density, x, (), 1)
        return np.where(np.isfinite(value), value, -np.inf)

    def score(self, x: np.ndarray) -> np.ndarray:
        """The score (..., d), NaN at points where it cannot be had."""
        function = partial(score_at, self._counting, proposal=True)
        name = "score" if self.target.has_score else "log_density"
        slope = self._output(name, function, x, x.shape[-1:], self.score_cost)
        good = np.isfinite(slope).all(axis=-1)
        self.scored |= bool(good.any())
        return np.where(good[..., None], slope, np.nan)

    def log_density_and_score(
        self, x: np.ndarray, floor: np.ndarray | float = -np.inf
    ) -> tuple[np.ndarray, np.ndarray]:
        """log p (...) and score (..., d); where either is not finite, log p is -inf and the score 0.

        A score that needs a call of its own is left 0 where log p is below `floor`.
        """
        if self.compiled:
            both = self._output("log_density", self._together, x, (1 + x.shape[-1],), 1)
            value, slope = both[..., 0], both[..., 1:]
        else:
            value = self.log_density(x)
            slope = np.zeros(x.shape)
            high = np.isfinite(value) & (value >= floor)
            slope[high] = self.score(x[high])
        good = np.isfinite(value) & np.isfinite(slope).all(axis=-1)
        self.scored |= bool(good.any())
        return np.where(good, value, -np.inf), np.where(good[..., None], slope, 0.0)

    def _output(
        self, name: str, function: Batch, x: np.ndarray, shape: tuple[int, ...], cost: int
    ) -> np.ndarray:
        """The output of a batch function; NaN where it raises, at infinite points, beyond the budget.

        With a limit of time the first batch has 8 points, later ones take a twentieth of it.
        """
        budget, worked = self.budget, self.worked
        points = x.reshape(-1, x.shape[-1])
        output = np.full((len(points), *shape), np.nan)
        rows = np.flatnonzero(np.isfinite(points).all(axis=1))
        while len(rows) and not budget.exhausted:
            size = min(len(rows), budget.left // cost)
            if budget.max_seconds < np.inf:
                seconds = cost * min(budget.seconds_per_evaluation, budget.max_seconds)
                size = min(size, max(8, 0.05 * budget.max_seconds / seconds))
            part, rows = np.split(rows, [max(1, int(size))])
            begin, before = time.perf_counter(), budget.made
            try:
                output[part], raised = output_anywhere(name, function, points[part], shape, worked.get(name))
            except OutOfBudget:  # for a score, or for points where the function may raise
                budget.spent = True
                break
            seconds = (time.perf_counter() - begin) / (budget.made - before)
            budget.seconds_per_evaluation = min(budget.seconds_per_evaluation, seconds)
            self.raised = raised or self.raised
            for row in part[np.isfinite(output[part].reshape(len(part), -1)).all(axis=1)][:1]:
                worked[name] = points[row]
        return output.reshape(*x.shape[:-1], *shape)


@dataclass(frozen=True)
class _Counted:
    """A batch function of the user's that counts its evaluations."""

    function: Batch
    budget: Budget

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if len(x) > self.budget.left:
            raise OutOfBudget(
                f"`max_evaluations` or `max_seconds` must allow more than {self.budget.max_evaluations:.0f} "
                f"evaluations: {self.budget.left:.0f} are left, and {len(x)} are needed at once"
            )
        self.budget.made += len(x)
        return call_shared(self.function, x)


def counting_target(target: Target, budget: Budget) -> Target:
    """The target with functions that count their evaluations, once, and raise beyond the budget."""

    def counted(function: Batch) -> Batch:
        known = isinstance(function, _Counted) and function.budget is budget
        return function if known else _Counted(function, budget)

    score = None if target.score is None else counted(target.score)
    return replace(target, log_density=counted(target.log_density), score=score)


def call_shared(function: Batch, x: np.ndarray) -> Any:
    """A batch function of the user's at all rows, if it is slow in parts among joblib's active workers.

    What the first two rows take says whether it is slow. A function that cannot be pickled stays here.
    """
    x = np.asarray(x).view()
    x.flags.writeable = False
    if len(x) < 8 or isinstance(function, _Counted) or n_workers() == 1:
        return function(x)
    begin = time.perf_counter()
    outputs = [as_host(function(x[:2]))]
    seconds = (time.perf_counter() - begin) * len(x) / 2
    if seconds < 0.05 or not can_be_sent(function):  # of which the workers would save half
        return np.concatenate([*outputs, as_host(function(x[2:]))])
    n_parts = min(2 * n_workers(), len(x) // 4)
    cuts = np.linspace(2, len(x), n_parts + 1).astype(int).tolist()
    parts = [(function, start, end) for start, end in pairwise(cuts)]
    for output in share_out(_output_of_part, [x], parts):
        if isinstance(output, Exception):
            raise output
        outputs.append(output)
    return np.concatenate(outputs)


def _output_of_part(x: np.ndarray, function: Batch, start: int, end: int) -> Any:
    """The output, or the error of the user's function: others mean a lost worker."""
    try:
        return np.asarray(as_host(function(x[start:end])))
    except Exception as error:
        return error
