"""What the calls share: kinds of arguments beyond those of `values`, and results to be asked."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import steincheck as sc

from . import values as v
from .values import Kind, constants


class Function(NamedTuple):
    """A function, the arguments of a sound call, and what else may be given."""

    call: Callable[..., Any]
    sound: dict[str, Callable[[], Any]]
    kinds: dict[str, Kind]
    also: tuple[str, ...] = ()  # what messages may name instead of an argument


TESTED = {"draws": v.draws, "target": v.jax_target, "rng": lambda: 0}
TESTED_KINDS = {"draws": v.DRAWS, "target": v.TARGET, "rng": v.RNG}
QUADRATIC = {
    "kernel": v.KERNEL,
    "precondition": v.PRECONDITION,
    "bootstrap": v.BOOTSTRAP,
    "n_resamples": v.COUNT,
    "check_score": v.SWITCH,
    "independent": v.SWITCH,
}
MOVED = {
    "modes": v.MODES,
    "theta": v.THETA,
    "n_steps": v.COUNT,
    "accept": v.ACCEPT,
}
PERTURBATION = Kind(
    {},
    {"of other draws": lambda: perturbed_elsewhere()},
    constants("banana", 3, {}, float("nan"), [], object),
)
BOUNDS_BESIDE_MODES = Kind(constants(None), {**v.BOUNDS.sound, **v.BOUNDS.odd}, v.BOUNDS.bad)
WITH_BANDWIDTH = {
    "wide": v.KERNEL.sound["wide"],
    "tiny": v.KERNEL.odd["tiny"],
    "huge": v.KERNEL.odd["huge"],
}
AGGREGATED = {
    "kernel": Kind(
        {label: make for label, make in v.KERNEL.sound.items() if label not in WITH_BANDWIDTH},
        {label: make for label, make in v.KERNEL.odd.items() if label not in WITH_BANDWIDTH},
        {**v.KERNEL.bad, **WITH_BANDWIDTH},
    ),
    "bandwidths": v.THETA,
    "bandwidth_weights": Kind(
        constants("uniform"),
        constants([1.0]),
        constants("banana", -1, [float("nan")], {}, [[1.0]], 1j, object),
    ),
    "n_level_resamples": v.COUNT,
    "alpha": v.LEVEL,
}
MATRIX = Kind(
    {"matrix": lambda: 3 * np.eye(3, 2)},
    {"huge": lambda: 1e200 * np.eye(3, 2)},
    {
        "NaN": lambda: np.full((3, 2), np.nan),
        "1-d": lambda: np.ones(3),
        "empty": lambda: np.empty((0, 0)),
        "complex": lambda: 1j * np.ones((3, 2)),
        **constants(None, "banana", {}, object, 3.0),
    },
)


PARTS = v.COUNT._replace(
    odd=constants(0), bad={label: make for label, make in v.COUNT.bad.items() if label != "0"}
)
VECTOR = MATRIX._replace(
    sound={}, bad={label: make for label, make in MATRIX.bad.items() if label not in ("None", "1-d")}
)


def without(pool: Any, *labels: str) -> Any:
    """A pool but for some values."""
    return {label: make for label, make in pool.items() if label not in labels}


def optional(kind: Kind) -> Kind:
    """The same values of an argument that has a default where it is None."""
    return kind._replace(sound={**kind.sound, **constants(None)}, bad=without(kind.bad, "None"))


def small(**more: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """A sound call of a test with few replicates."""
    return {**TESTED, "n_resamples": lambda: 19, **more}


def without_score() -> Kind:
    """Targets for functions that never ask for the score."""
    scores = {label: make for label, make in v.TARGET.bad.items() if "score" in label}
    return v.TARGET._replace(odd={**v.TARGET.odd, **scores}, bad=without(v.TARGET.bad, *scores))


def score_only() -> Kind:
    """Targets for functions that ask for nothing but the score."""
    kept = {"other dimension", "function", *(label for label in v.TARGET.bad if "score" in label)}
    kept -= {"score of wrong sign"}
    kept |= set(v.constants(*v.STRANGE))
    rest = {label: make for label, make in v.TARGET.bad.items() if label not in kept}
    return v.TARGET._replace(odd={**v.TARGET.odd, **rest}, bad=without(v.TARGET.bad, *rest))


def normal_draws(n: int, rng: np.random.Generator) -> np.ndarray:
    """A sampler."""
    return rng.normal(size=(n, 2))


def modes() -> Any:
    """The modes of the target."""
    return [[-2.0, 0.0], [2.0, 0.0]], [np.eye(2), np.eye(2)]


def perturbed_elsewhere() -> Any:
    """A perturbation of other draws than those that are tested."""
    return sc.perturb(v.draws(30), v.jax_target(), modes(), 0.9, n_steps=1, rng=0)


@functools.cache
def result_of(name: str) -> Any:
    """A result to be plotted or asked."""
    x = v.draws(60)
    target = v.jax_target()
    if name == "check":
        return sc.check(x, target, modes=modes(), rng=0)
    options = {} if name in ("ksd_test", "ksdagg_test", "fssd_test") else {"modes": modes()}
    return getattr(sc, name)(x, target, rng=0, **options)


def result_kind(name: str, others: str) -> Kind:
    """The result itself, that of another test, or something else."""
    return Kind(
        {name: functools.partial(result_of, name)},
        {others: functools.partial(result_of, others)},
        constants(*v.STRANGE, 3),
    )


AX = Kind(constants(None), {}, constants("banana", 3, {}, object, float("nan")))
COORDINATES = Kind(
    constants(None, [0], (0, 1), [1]),
    {},
    constants([5], [-7], "a", 1.5, [0.5], {}, [0, 1, 0], [], [None], object, [True]),
)
RATIOS = Kind(
    {"array": v.draws, "list": lambda: [0.0, 1.0], "number": lambda: 0.5},
    {"NaN": lambda: v.with_value(np.nan)},
    constants("a", None, {}, 1j, object),
)
POINTS = Kind(
    {"array": v.draws},
    {"huge": lambda: 1e300 * v.draws(), "constant": lambda: np.ones((40, 2)), "chains": lambda: v.draws(80)},
    {
        "NaN": lambda: v.with_value(np.nan),
        "4-d": lambda: np.zeros((2, 3, 4, 2)),
        **constants("a", None, {}, 1j, object),
    },
)
AT_POINTS = Kind(
    {"array": v.draws, "one row": lambda: v.draws(1), "list": lambda: v.draws().tolist()},
    {
        "huge": lambda: 1e300 * v.draws(),
        "NaN": lambda: v.with_value(np.nan),
        "empty": lambda: np.empty((0, 2)),
    },
    {
        "three columns": lambda: v.draws(40, 3),
        "1-d": lambda: v.draws()[:, 0],
        "4-d": lambda: np.zeros((2, 3, 4, 2)),
        "complex": lambda: 1j * v.draws(),
        **constants("a", None, {}, 1j, object),
    },
)
WEIGHTS = Kind(
    constants([0.5, 0.5]),
    {},
    constants([1.0], [-1, 2], [0, 0], "ab", {}, 1j, [float("nan"), 1], [[0.5, 0.5]], [1e400, 1]),
)
MODEL = """
import numpy as np
import steincheck as sc
target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=2)
number = 3
def wrong(x):
    raise RuntimeError("no")
broken = sc.Target(wrong, dim=2)
"""


@functools.cache
def folder() -> Path:
    """A folder with a target and sound draws."""
    place = Path(tempfile.mkdtemp(prefix="steincheck-fuzz-"))
    x = np.random.default_rng(0).normal(size=(60, 2))
    kept = place / "kept"  # no command of the fuzzer writes there
    kept.mkdir()
    for where in (place, kept):
        np.savetxt(where / "good.csv", x, delimiter=",")
        np.save(where / "good.npy", x)
    np.savez(place / "good.npz", x=x, y=x)
    (place / "model.py").write_text(MODEL)
    return place
