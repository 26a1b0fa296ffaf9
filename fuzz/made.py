"""Calls of exact draws with labels, of the sensor model, and of records that users make or read back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import steincheck as sc

from . import values as v
from .arguments import AT_POINTS, WEIGHTS, Function, modes, without
from .chains import CHAIN_OF_DRAWS, labels
from .values import Kind, constants

_ENTRIES = (
    *("locations", "covariances", "log_density", "n_starts", "warnings", "search", "symmetries", "names"),
)
TEXTS = Kind(constants(("a",), (), ["b", "c"]), constants("a"), constants(3, None, float("nan"), object, [1]))


def made() -> dict[str, Function]:
    """Models and records."""
    return {
        **_with_labels(),
        **_sensors(),
        **_on_own_scale(),
        **_bridgestan(),
        **_read_back(),
        **_records(),
    }


def _with_labels() -> dict[str, Function]:
    """`sample_with_labels` of every model; where components have weights, others may be given."""
    models: dict[str, tuple[Callable[[], sc.models.ModelTarget], dict[str, Kind]]] = {
        "gaussian_mixture": (v.jax_target, {"weights": _weights([0.5, 0.5], [0, 1])}),
        "t_banana_mixture": (
            functools.cache(lambda: sc.models.t_banana_mixture(2, n_t=1, n_banana=1, rng=0)),
            {"weights": _weights([0.5, 0.5], [0, 1])},
        ),
        "gb_rbm": (functools.cache(lambda: sc.models.gb_rbm(np.eye(3, 2))), {}),
        "sensor_network": (_sensor_target, {}),
    }

    def function(build: Callable[[], sc.models.ModelTarget], more: dict[str, Kind]) -> Function:
        return Function(
            lambda **options: build().sample_with_labels(**options),
            {"n": lambda: 5, "rng": lambda: 0},
            {"n": v.COUNT, "rng": v.RNG, **more},
        )

    return {f"{name}.sample_with_labels": function(*parts) for name, parts in models.items()}


def _weights(*sound: Any) -> Kind:
    return WEIGHTS._replace(sound=constants(*sound, None))


@functools.cache
def _sensor_target() -> sc.models.ModelTarget:
    return sc.models.sensor_network()


def _sensors() -> dict[str, Function]:
    rows = Kind(
        {"array": lambda: v.draws(40, 8), "one row": lambda: v.draws(1, 8), "list": lambda: [[0.5] * 8]},
        {"huge": lambda: 1e300 * v.draws(40, 8), "coincide": lambda: np.zeros((3, 8))},
        {
            "two columns": v.draws,
            "NaN": lambda: np.full((3, 8), np.nan),
            "1-d": lambda: np.zeros(8),
            "4-d": lambda: np.zeros((2, 3, 4, 8)),
            "empty": lambda: np.empty((0, 8)),
            "complex": lambda: 1j * v.draws(40, 8),
            **constants("a", None, {}, 1j, object),
        },
    )
    point = Kind(
        {"JAX": lambda: jnp.full(8, 0.5), "NumPy": lambda: np.full(8, 0.5)},
        {
            "NaN": lambda: np.full(8, np.nan),
            "huge": lambda: np.full(8, 1e300),
            "integers": lambda: np.arange(8),
            "4 x 2": lambda: np.ones((4, 2)),
        },
        {
            "7 numbers": lambda: np.ones(7),
            "two points": lambda: np.ones((2, 8)),
            "empty": lambda: np.empty(0),
            "text": lambda: np.full(8, "a"),
            **constants("a", None, {}, object, 3.0),
        },
    )
    at_points = AT_POINTS._replace(
        sound={"array": lambda: v.draws(40, 8), "one row": lambda: v.draws(1, 8)},
        odd={"coincide": lambda: np.zeros((3, 8)), "huge": lambda: 1e300 * v.draws(40, 8)},
    )
    return {
        "sensor_labels": Function(sc.models.sensor_labels, {"x": lambda: v.draws(40, 8)}, {"x": rows}),
        "sensor_log_density": Function(
            sc.models.sensor_log_density, {"x": lambda: np.full(8, 0.5)}, {"x": point}
        ),
        "sensor_network.log_density": Function(
            lambda x: _sensor_target().log_density(x), {"x": lambda: v.draws(40, 8)}, {"x": at_points}
        ),
        "sensor_network.score": Function(
            lambda x: _sensor_target().score(x), {"x": lambda: v.draws(40, 8)}, {"x": at_points}
        ),
    }


def _on_own_scale() -> dict[str, Function]:
    """The two maps of a target that `unbounded` has made."""

    @functools.cache
    def positive() -> sc.Target:
        return sc.unbounded(v.jax_target(), (-50.0, 50.0))

    points = AT_POINTS._replace(
        odd={**AT_POINTS.odd, **{k: AT_POINTS.bad[k] for k in ("three columns", "1-d", "4-d")}},
        bad=without(AT_POINTS.bad, "three columns", "1-d", "4-d"),
    )
    return {
        "target.constrain": Function(lambda x: positive().constrain(x), {"x": v.draws}, {"x": points}),
        "target.unconstrain": Function(lambda x: positive().unconstrain(x), {"x": v.draws}, {"x": points}),
    }


class StanModel:
    """A standard normal with the methods of ``bridgestan.StanModel``."""

    def __init__(self, dim: int = 2, value: Any = None) -> None:
        self.dim, self.value = dim, value

    def param_unc_num(self) -> int:
        """Number of coordinates."""
        return self.dim

    def param_names(self) -> list[str]:
        """Names of the parameters, which are the coordinates."""
        return [f"x.{k + 1}" for k in range(self.dim)]

    def param_unc_names(self) -> list[str]:
        """Names of the coordinates."""
        return self.param_names()

    def param_constrain(self, point: np.ndarray) -> np.ndarray:
        """Parameters of coordinates."""
        return point

    def param_unconstrain(self, point: np.ndarray) -> np.ndarray:
        """Coordinates of parameters."""
        return point

    def log_density(self, point: np.ndarray, *, propto: bool, jacobian: bool = True) -> Any:
        """log p, or what it was told to answer."""
        return -0.5 * float(point @ point) if self.value is None else self.value

    def log_density_gradient(self, point: np.ndarray, *, propto: bool) -> Any:
        """log p and its gradient."""
        return self.log_density(point, propto=propto), -point


def _bridgestan() -> dict[str, Function]:
    """`from_bridgestan`, which takes any object with the methods of a model."""
    model = Kind(
        {"one parameter": lambda: StanModel(1), "three": lambda: StanModel(3)},
        {f"log p is {value!r}": functools.partial(StanModel, 2, value) for value in (float("nan"), 0.0)},
        {"no parameters": lambda: StanModel(0), "class": lambda: StanModel, **constants(*v.STRANGE, 3)},
    )
    return {"from_bridgestan": Function(sc.from_bridgestan, {"model": StanModel}, {"model": model})}


@functools.cache
def _found() -> sc.Modes:
    return sc.find_modes(v.jax_target(), max_evaluations=2000, rng=0)


def _read_back() -> dict[str, Function]:
    """Records that JSON holds: what stands for them, and what stands in them."""
    rows = constants("a", 3, {}, [], [[float("nan")] * 2] * 2, [[1.0], [1.0, 2.0]], [[[1.0]]], [["1", "x"]])
    numbers = constants(None, "a", {}, [1.0], ["a", "b"], [[1, 2]], [1j, 2])
    words = Kind(constants([], ["a", "b"]), {}, constants(3, [1, 2], {"a": 1}, [None]))
    count = Kind(constants(0, 5), constants(-1, 1.5), constants(None, {}, object, 1j, "a"))
    return {
        "Modes.from_dict": Function(
            sc.Modes.from_dict,
            {"record": lambda: _found().to_dict()},
            {
                "record": Kind(
                    {"more": lambda: {**_found().to_dict(), "unknown": 3}},
                    {},
                    {
                        "locations alone": lambda: {"locations": [[0.0, 1.0]]},
                        **constants(*v.STRANGE, 3, [1]),
                    },
                )
            },
            also=_ENTRIES,
        ),
        "Modes.from_dict, entries": Function(
            lambda **entries: sc.Modes.from_dict(entries),
            {name: functools.partial(_entry, name) for name in _ENTRIES},
            {
                "locations": Kind({}, {}, {**rows, **constants(None, [[None, 0.0]])}),
                "covariances": Kind({}, {}, {**rows, **constants(None)}),
                "log_density": Kind(
                    constants([0.0, -1.0]), constants([float("nan"), 0.0], [None, 1]), numbers
                ),
                "n_starts": Kind(
                    constants([0, 3]), constants([-1, 0], [None, 1]), {**numbers, **constants([0.5, 1])}
                ),
                "warnings": words,
                "symmetries": words,
                "names": words._replace(odd=constants("ab")),
                "search": Kind(constants(None, {}), {}, constants("a", 3, [1], {"a": 1}, {"reason": 3})),
            },
        ),
        "ModeSearch.from_dict": Function(
            sc.ModeSearch.from_dict,
            {"record": lambda: _found().to_dict()["search"]},
            {"record": Kind({}, {}, constants(*v.STRANGE, 3, [1]))},
            also=("search",),
        ),
        "ModeSearch.from_dict, entries": Function(
            lambda **entries: sc.ModeSearch.from_dict({**_found().to_dict()["search"], **entries}),
            {},
            {
                "n_starts": count,
                "n_evaluations": count,
                "farthest": Kind(constants(3.0), constants(float("nan"), -1.0), constants({}, object, "a")),
                "reason": Kind({}, constants("banana"), constants(None, 3, {}, object)),
                "message": Kind(constants("banana"), {}, constants(None, 3, {}, object)),
                "explored": Kind(constants([1], ()), constants(["a"]), constants(3, {}, object, "a")),
            },
            also=("search",),
        ),
    }


def _entry(name: str) -> Any:
    return _found().to_dict()[name]


def _records() -> dict[str, Function]:
    """Constructors that users may call."""
    locations, covariances = modes()
    matrices = Kind(
        {"identities": lambda: np.array(covariances)},
        {"NaN": lambda: np.full((2, 2, 2), np.nan), "singular": lambda: np.zeros((2, 2, 2))},
        {"one": lambda: np.eye(2), "text": lambda: np.full((2, 2, 2), "a"), **constants(*v.STRANGE, 3)},
    )
    per_mode = Kind(
        {"given": lambda: np.zeros(2)},
        {"NaN": lambda: np.full(2, np.nan), "negative": lambda: -np.ones(2)},
        {"three": lambda: np.zeros(3), "2-d": lambda: np.zeros((2, 1)), **constants(*v.STRANGE, 3)},
    )
    counts = per_mode._replace(bad={**per_mode.bad, "halves": lambda: np.full(2, 0.5)}, odd={})
    places = Kind(
        {"given": lambda: np.array(locations)},
        {},
        {
            "NaN": lambda: [[np.nan, 0.0], [1.0, 0.0]],
            "three": lambda: np.zeros((3, 2)),
            "1-d": lambda: np.zeros(2),
            "text": lambda: np.full((2, 2), "a"),
            **constants(*v.STRANGE, 3),
        },
    )
    definite = matrices._replace(
        odd={}, bad={**matrices.bad, **{k: matrices.odd[k] for k in ("NaN", "singular")}}
    )
    return {
        "Modes": Function(
            sc.Modes,
            {
                "locations": lambda: locations,
                "covariances": lambda: covariances,
                "log_density": lambda: [0.0, 0.0],
                "n_starts": lambda: [0, 0],
            },
            {
                "locations": places,
                "covariances": matrices,
                "log_density": per_mode,
                "n_starts": counts,
                "warnings": TEXTS,
                "symmetries": TEXTS,
                "names": TEXTS._replace(sound=constants((), ("a", "b")), odd=constants(("a",), "ab")),
            },
        ),
        "Anchors": Function(
            sc.Anchors,
            {
                "mode": lambda: [0, 1],
                "centres": lambda: locations,
                "covariances": lambda: covariances,
                "log_weight": lambda: [0.0, 0.0],
            },
            {"mode": counts, "centres": places, "covariances": definite, "log_weight": per_mode},
            also=("anchors",),
        ),
        "Draws": Function(
            sc.Draws,
            {"values": v.draws},
            {
                "values": Kind(
                    {"array": v.draws},
                    {"NaN": lambda: v.with_value(np.nan), "empty": lambda: np.empty((0, 2))},
                    {
                        "1-d": lambda: np.zeros(3),
                        "text": lambda: np.full((3, 2), "a"),
                        **constants(*v.STRANGE),
                    },
                ),
                "chain": CHAIN_OF_DRAWS._replace(
                    sound={"two": labels, "None": lambda: None}, bad=without(CHAIN_OF_DRAWS.bad, "None")
                ),
                "names": v.NAMES,
                "divergences": Kind(
                    constants(None, 0, 5), {}, constants(-1, 1.5, "a", {}, float("nan"), True, [1])
                ),
                "warnings": TEXTS,
            },
        ),
        "Perturbation": Function(
            sc.Perturbation,
            {
                "samples": lambda: v.draws()[None],
                "theta": lambda: [0.9],
                "acceptance": lambda: [0.5],
                "draws": v.draws,
                "modes": _found,
                "n_steps": lambda: 2,
                "accept": lambda: "metropolis",
            },
            {
                "samples": Kind({}, {}, {"2-d": v.draws, **constants(*v.STRANGE, 3)}),
                "theta": v.THETA._replace(sound=constants(0.9, [0.9])),
                "acceptance": Kind(constants([0.5]), constants([2.0]), constants([0.5, 0.5], *v.STRANGE)),
                "draws": Kind({}, {}, {"1-d": lambda: np.zeros(3), **constants(*v.STRANGE)}),
                "modes": Kind({"found": _found}, {}, {"pair": modes, **constants(*v.STRANGE, 3)}),
                "n_steps": v.COUNT,
                "warnings": TEXTS,
                "log_density": Kind(
                    {"None": lambda: None, "given": lambda: np.zeros(40)},
                    {},
                    {"short": lambda: np.zeros(3), **constants("a", {}, object)},
                ),
            },
        ),
    }
