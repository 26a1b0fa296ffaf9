"""Pools of values by the kind of argument: label -> a function that makes the value afresh.

`sound` values must be accepted, `odd` ones may be accepted or refused, `bad` ones must be refused.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import steincheck as sc

from .containers import containers

Pool = dict[str, Callable[[], Any]]


class Kind(NamedTuple):
    """What may be given for one kind of argument."""

    sound: Pool
    odd: Pool
    bad: Pool


class UserError(Exception):
    """Raised by functions that stand for the user's own: it may come out as it is."""


def constants(*values: Any) -> Pool:
    """Labels and makers of plain values."""
    return {_label(value): functools.partial(_same, value) for value in values}


def _label(value: Any) -> str:
    text = "10**400" if isinstance(value, int) and value > 10**300 else repr(value)
    return text if len(text) < 60 else f"{text[:20]}... ({len(text)} characters)"


def _same(value: Any) -> Any:
    return value


HUGE = 10**400
STRANGE = (None, "banana", b"x", {}, object, 1j, float("nan"), [], {"a": 1}, datetime.date(2026, 1, 1))


def draws(n: int = 40, d: int = 2) -> np.ndarray:
    """Standard normal draws."""
    return np.random.default_rng(n).normal(size=(n, d))


def raising(*arguments: Any, **options: Any) -> Any:
    """A function of the user's with a mistake."""
    raise UserError("a mistake of the user's")


def with_value(value: Any, shape: tuple[int, int] = (40, 2)) -> np.ndarray:
    """Draws with one odd entry."""
    x = np.random.default_rng(1).normal(size=shape)
    x[3, 0] = value
    return x


def read_only() -> np.ndarray:
    """Draws that cannot be written to."""
    x = draws()
    x.flags.writeable = False
    return x


COUNT = Kind(
    constants(1, 5, np.int32(7), np.uint8(9)),
    {},
    constants(0, -1, 1.5, float("inf"), True, [3], 2**63, HUGE, np.array([2, 3]), np.int64(-3), *STRANGE),
)
SWITCH = Kind(
    constants(True, False, np.True_),
    {},
    constants(2, 1.0, "no", [True], np.array([True, False]), *STRANGE[1:]),
)
MAYBE_SWITCH = Kind(constants(True, False, None), {}, SWITCH.bad)
LEVEL = Kind(
    constants(0.05, 0.5, np.float32(0.1)),
    {},
    constants(0, 1, -0.1, 1.5, float("inf"), "0.05", [0.05], HUGE, True, np.array([0.1, 0.2]), *STRANGE),
)
POSITIVE = Kind(
    constants(0.7, 2, np.float32(1.5)),
    constants(1e-300, 1e300),
    constants(0, -1.0, float("inf"), "1", HUGE, np.array([[1.0]]), *STRANGE[1:]),
)
RNG = Kind(
    {**constants(0, 7, None, np.int64(3)), "Generator": lambda: np.random.default_rng(5)},
    {"SeedSequence": lambda: np.random.SeedSequence(3), **constants(HUGE)},
    {"RandomState": lambda: np.random.RandomState(0), **constants(-1, 1.5, True, [1], "7", *STRANGE[1:])},
)
DRAWS = Kind(
    {
        "array": draws,
        "list": lambda: draws().tolist(),
        "float32": lambda: draws().astype(np.float32),
        "Fortran": lambda: np.asfortranarray(draws()),
        "strided": lambda: draws(80)[::2],
        "reversed": lambda: draws()[::-1],
        "read-only": read_only,
        "jax": lambda: jnp.asarray(draws()),
        "Draws": lambda: sc.as_draws(draws()),
        "matrix": lambda: np.asmatrix(draws()),
    },
    {
        "integers": lambda: np.random.default_rng(2).integers(-3, 4, size=(40, 2)),
        "constant": lambda: np.ones((40, 2)),
        "one column constant": lambda: draws() * [1.0, 0.0],
        "duplicates": lambda: np.repeat(draws(10), 4, axis=0),
        "two draws": lambda: draws(2),
        "huge": lambda: 1e200 * draws(),
        "tiny": lambda: 1e-200 * draws(),
        "one huge": lambda: with_value(1e300),
        "far": lambda: with_value(1e6),
        "chains": lambda: draws(80).reshape(4, 20, 2),
        "list of chains": lambda: [draws(20), draws(30)],
        "dict": lambda: {"a": draws()[:, 0], "b": draws()[:, 1]},
        "booleans": lambda: draws() > 0,
        "ragged chains": lambda: [draws(20), draws(21)],
        "Draws of chains": lambda: sc.as_draws(draws(80).reshape(4, 20, 2)),
        **containers(draws),
    },
    {
        "NaN": lambda: with_value(np.nan),
        "inf": lambda: with_value(np.inf),
        "one draw": lambda: draws(1),
        "empty": lambda: np.empty((0, 2)),
        "no columns": lambda: np.empty((40, 0)),
        "three columns": lambda: draws(40, 3),
        "4-d": lambda: np.zeros((2, 3, 4, 2)),
        "0-d": lambda: np.array(3.0),
        "1-d": lambda: draws()[:, 0],
        "complex": lambda: draws() * 1j,
        "strings": lambda: draws().astype(str),
        "objects": lambda: np.array([[object(), 1.0]] * 40),
        "masked": lambda: np.ma.masked_greater(draws(), 1.0),
        "datetime": lambda: np.full((40, 2), np.datetime64("2026-01-01")),
        "structured": lambda: np.zeros(40, dtype=[("a", float), ("b", float)]),
        "ragged": lambda: [[1.0, 2.0], [3.0]],
        "generator": lambda: (row for row in draws()),
        **constants(*STRANGE[:-1]),
    },
)


def normal(x: np.ndarray) -> np.ndarray:
    """log density of a standard normal."""
    return -0.5 * np.sum(np.asarray(x) ** 2, axis=1)


def normal_score(x: np.ndarray) -> np.ndarray:
    """Its score."""
    return -np.asarray(x)


@functools.cache
def jax_target() -> sc.Target:
    """Two Gaussians, compiled once."""
    return sc.models.gaussian_mixture([[-2.0, 0.0], [2.0, 0.0]])


def spoiling(x: np.ndarray) -> np.ndarray:
    """A log density that writes to its argument."""
    x += 1.0
    return normal(x)


class Restless:
    """A log density that changes with each call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """log p, plus noise."""
        self.calls += 1
        return normal(x) + np.random.default_rng(self.calls).normal(size=len(x))


def target(log_density: Any, score: Any = normal_score, **more: Any) -> Callable[[], sc.Target]:
    """Maker of a target in two dimensions."""
    return lambda: sc.Target(log_density, score, dim=2, **more)


TARGET = Kind(
    {
        "NumPy": target(normal),
        "JAX": jax_target,
        "no score": target(normal, None),
        "lists": target(lambda x: normal(x).tolist(), lambda x: (-x).tolist()),
        "partial": target(functools.partial(normal), functools.partial(normal_score)),
        "JAX arrays": target(lambda x: jnp.asarray(normal(x)), lambda x: jnp.asarray(-x)),
    },
    {
        "float32": target(lambda x: normal(x).astype(np.float32), lambda x: (-x).astype(np.float32)),
        "raises": target(raising, raising),
        "score raises": target(normal, raising),
        "writes to its argument": target(spoiling),
        "changes": lambda: sc.Target(Restless(), normal_score, dim=2),
        "constant": target(lambda x: np.zeros(len(x)), lambda x: np.zeros_like(x)),
        "rises without end": target(lambda x: x[:, 0], lambda x: np.eye(2)[0] + 0 * x),
        "hard edge": target(lambda x: np.where(x[:, 0] > -9, normal(x), -np.inf)),
        "steep": target(lambda x: 1e150 * normal(x), lambda x: -1e150 * x),
        "deep": target(lambda x: normal(x) - 1e300),
        "hessian of wrong shape": target(normal, hessian=lambda x: np.zeros(3)),
        "hessian raises": target(normal, hessian=raising),
    },
    {
        "wrong shape": target(lambda x: normal(x)[:, None]),
        "scalar": target(lambda x: 0.0),
        "one point": target(lambda x: -0.5 * x @ x),
        "score of wrong shape": target(normal, lambda x: -x[:, :1]),
        "score None": target(normal, lambda x: None),
        "returns None": target(lambda x: None),
        "strings": target(lambda x: normal(x).astype(str)),
        "complex": target(lambda x: normal(x) + 1j),
        "complex score": target(normal, lambda x: -x + 1j),
        "masked": target(lambda x: np.ma.masked_less(normal(x), -1.0)),
        "dates": target(lambda x: np.full(len(x), np.datetime64("2026-01-01"))),
        "objects": target(lambda x: np.array([object()] * len(x))),
        "NaN": target(lambda x: np.full(len(x), np.nan)),
        "inf": target(lambda x: np.full(len(x), np.inf)),
        "-inf": target(lambda x: np.full(len(x), -np.inf)),
        "NaN score": target(normal, lambda x: np.full(x.shape, np.nan)),
        "score of wrong sign": target(normal, lambda x: 1.0 * x),
        "other dimension": lambda: sc.Target(normal, normal_score, dim=3),
        "ragged": target(lambda x: [[1.0], [1.0, 2.0]]),
        "function": lambda: normal,
        **constants(*STRANGE),
    },
)
MODES = Kind(
    {
        "pair": lambda: ([[-2.0, 0.0], [2.0, 0.0]], [np.eye(2), np.eye(2)]),
        "array": lambda: np.array([[-2.0, 0.0], [2.0, 0.0]]),
    },
    {
        "far apart": lambda: ([[0.0, 0.0], [1e8, 0.0]], [np.eye(2), np.eye(2)]),
        "twice": lambda: ([[0.0, 0.0], [0.0, 0.0]], [np.eye(2), np.eye(2)]),
        "huge covariance": lambda: ([[0.0, 0.0]], [1e300 * np.eye(2)]),
    },
    {
        "NaN": lambda: [[np.nan, 0.0]],
        "inf": lambda: [[np.inf, 0.0]],
        "three columns": lambda: [[0.0, 0.0, 0.0]],
        "empty": lambda: np.empty((0, 2)),
        "complex": lambda: np.array([[1j, 0.0]]),
        "singular": lambda: ([[0.0, 0.0]], [np.zeros((2, 2))]),
        "asymmetric": lambda: ([[0.0, 0.0]], [[[1.0, 0.5], [0.0, 1.0]]]),
        "too few covariances": lambda: ([[0.0, 0.0], [1.0, 1.0]], [np.eye(2)]),
        "NaN covariance": lambda: ([[0.0, 0.0]], [np.full((2, 2), np.nan)]),
        **constants("banana", b"x", {}, object, 3, 1j, float("nan"), []),
    },
)
BOUNDS = Kind(
    constants((-5.0, 5.0), ((-5, 5), (-4, 4))),
    constants((0.0, 1e-12), (-1e9, 1e9)),
    constants(
        (1.0, 0.0),
        (0.0, 0.0),
        (0.0, float("nan")),
        (0.0, float("inf")),
        ((0, 1),) * 3,
        "banana",
        3,
        {},
        (1,),
        [],
        (0, 1j),
        (None, 1),
        object,
    ),
)
THETA = Kind(
    constants(0.9, (0.5, 1.0)),
    constants(1e-300, 1e6, 1e300),
    constants(0, -1.0, float("nan"), float("inf"), "a", [[1.0]], 1j, {}, object, (), (0.5, None)),
)
ONE_THETA = Kind(constants(0.9, 1), THETA.odd, THETA.bad)
FRACTION = Kind(
    constants(0.5, 0.3), {}, constants(0, 1, -1, 1.5, float("nan"), "half", None, [0.5], 1j, {}, True, 0.001)
)


class BadKernel:
    """A kernel whose profile is not one."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer

    def profile(self, r2: Any) -> Any:
        """What it was told to answer."""
        return self.answer(r2)


KERNEL = Kind(
    {"IMQ": sc.IMQ, "RBF": sc.RBF, "wide": lambda: sc.IMQ(bandwidth=9.0), "beta": lambda: sc.IMQ(beta=-0.3)},
    {
        "raises": lambda: BadKernel(raising),
        "NaN": lambda: BadKernel(lambda r2: (r2 * np.nan,) * 3),
        "tiny": lambda: sc.RBF(bandwidth=1e-300),
        "huge": lambda: sc.RBF(bandwidth=1e300),
    },
    {
        "two values": lambda: BadKernel(lambda r2: (r2, r2)),
        "returns None": lambda: BadKernel(lambda r2: None),
        "wrong shape": lambda: BadKernel(lambda r2: (r2[0], r2[0][0], "a")),
        "NumPy": lambda: BadKernel(lambda r2: (np.exp(-np.asarray(r2)),) * 3),
        "class": lambda: sc.IMQ,
        **constants(None, "imq", 3, {}, object, float("nan")),
    },
)
PRECONDITION = Kind(
    {"identity": lambda: np.eye(2), "list": lambda: [[2.0, 0.5], [0.5, 1.0]]},
    {"huge": lambda: 1e300 * np.eye(2), "tiny": lambda: 1e-300 * np.eye(2)},
    {
        "NaN": lambda: np.full((2, 2), np.nan),
        "inf": lambda: np.diag([np.inf, 1.0]),
        "singular": lambda: np.ones((2, 2)),
        "negative": lambda: -np.eye(2),
        "asymmetric": lambda: np.array([[1.0, 0.5], [0.0, 1.0]]),
        "3 x 3": lambda: np.eye(3),
        "complex": lambda: 1j * np.eye(2),
        **constants("banana", 3, {}, object, float("nan"), [], [[1.0]]),
    },
)
BOOTSTRAP = Kind(
    {"multinomial": lambda: sc.multinomial, "wild": lambda: sc.wild, **constants("blocks", None)},
    {
        "raises": lambda: raising,
        "zeros": lambda: lambda n, size, rng: np.zeros((size, n)),
        "huge": lambda: lambda n, size, rng: np.full((size, n), 1e200),
    },
    {
        "NaN": lambda: lambda n, size, rng: np.full((size, n), np.nan),
        "transposed": lambda: lambda n, size, rng: np.ones((n, size + 1)),
        "strings": lambda: lambda n, size, rng: np.full((size, n), "a"),
        "complex": lambda: lambda n, size, rng: np.full((size, n), 1j),
        "returns None": lambda: lambda n, size, rng: None,
        "no arguments": lambda: lambda: None,
        **constants("banana", 3, {}, float("nan"), []),
    },
)
ACCEPT = Kind(
    {"metropolis": lambda: sc.metropolis, "barker": lambda: sc.barker},
    {"raises": lambda: raising, "never": lambda: lambda r: 0.0 * r - 1e9},
    {
        "NaN": lambda: lambda r: r * np.nan,
        "above 1": lambda: lambda r: 0.0 * r + 2.0,
        "returns None": lambda: lambda r: None,
        "wrong shape": lambda: lambda r: np.ones((7, 5, 3)),
        "strings": lambda: lambda r: "a",
        "NumPy, complex": lambda: lambda r: 1j * np.ones(np.shape(r)),
        **constants(None, "metropolis", 3, {}, float("nan")),
    },
)
NAMES = Kind(
    constants(["a", "b"], ("a", "b"), None),
    constants(["", "b"], ["é", "日本"], ["<script>", "b" * 300]),
    constants(["a"], ["a", "a"], [1, 2], "ab", 3, {}, float("nan"), object, [None, "a"]),
)
