"""Every public function with a sound call of it, and the kind of each argument."""

from __future__ import annotations

import datetime
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

import steincheck as sc

from . import values as v
from .arguments import (
    AGGREGATED,
    AT_POINTS,
    BOUNDS_BESIDE_MODES,
    MATRIX,
    MOVED,
    PARTS,
    PERTURBATION,
    POINTS,
    QUADRATIC,
    RATIOS,
    TESTED,
    TESTED_KINDS,
    VECTOR,
    WEIGHTS,
    Function,
    modes,
    normal_draws,
    optional,
    small,
    without,
    without_score,
)
from .chains import chains
from .made import made
from .packages import packages
from .records import records
from .values import Kind, constants


def _tests() -> dict[str, Function]:
    moved = {
        **TESTED_KINDS,
        **QUADRATIC,
        **MOVED,
        "n_steps": optional(v.COUNT),
        "accept": optional(v.ACCEPT),
        "perturbation": PERTURBATION,
        "bounds": BOUNDS_BESIDE_MODES,
    }
    steps = {"modes": modes, "theta": lambda: 0.9, "n_steps": lambda: 2}
    several = {**steps, "theta": lambda: (0.8, 1.0)}
    few = {"n_level_resamples": lambda: 19}
    return {
        "ksd_test": Function(sc.ksd_test, small(), {**TESTED_KINDS, **QUADRATIC}),
        "pksd_test": Function(sc.pksd_test, small(**steps), {**moved, "theta": v.ONE_THETA}),
        "spksd_test": Function(sc.spksd_test, small(**several), moved),
        "ospksd_test": Function(sc.ospksd_test, small(**several), {**moved, "train_fraction": v.FRACTION}),
        "ksdagg_test": Function(sc.ksdagg_test, small(**few), {**TESTED_KINDS, **QUADRATIC, **AGGREGATED}),
        "pksdagg_test": Function(sc.pksdagg_test, small(**several, **few), {**moved, **AGGREGATED}),
        "fssd_test": Function(
            sc.fssd_test,
            small(n_locations=lambda: 2),
            {
                **TESTED_KINDS,
                "n_locations": optional(v.COUNT._replace(sound=constants(1, 5, np.int32(7)))),
                "train_fraction": v.FRACTION._replace(bad=without(v.FRACTION.bad, "None")),
                "optimise": v.MAYBE_SWITCH,
                "locations": Kind({}, {}, {"beside n_locations": lambda: [[0.0, 1.0]]}),
                "bandwidth": v.POSITIVE._replace(sound={}, odd={}),
                "n_resamples": v.COUNT,
                "check_score": v.SWITCH,
                "independent": v.SWITCH,
            },
        ),
        "fssd_test, locations": Function(
            sc.fssd_test,
            small(locations=lambda: [[0.0, 1.0]]),
            {
                **TESTED_KINDS,
                "n_locations": Kind(constants(None), {}, constants(1, 0)),
                "locations": Kind({"given": lambda: [[0.0, 1.0]]}, v.MODES.odd, v.MODES.bad),
                "bandwidth": v.POSITIVE,
            },
        ),
        "moment_test": Function(
            sc.moment_test,
            {**small(modes=modes), "draws": lambda: v.draws(120)},
            {
                **TESTED_KINDS,
                "modes": v.MODES,
                "n_resamples": v.COUNT._replace(sound=constants(19, np.uint8(99))),
                "check_score": v.SWITCH,
                "independent": v.SWITCH,
                "bounds": BOUNDS_BESIDE_MODES,
            },
        ),
        "flux_test": Function(
            sc.flux_test,
            {**TESTED, "modes": modes},
            {
                **TESTED_KINDS,
                "target": without_score(),
                "modes": v.MODES,
                "variant": Kind(constants("asymptotic", "exact"), {}, constants(*v.STRANGE, 3)),
                "anchors": Kind(constants(2, None), {}, constants(-1, 1.5, "a", {}, object, 2**63, True)),
                "n_resamples": v.COUNT,
                "independent": v.SWITCH,
                "bounds": BOUNDS_BESIDE_MODES,
            },
        ),
        "check": Function(
            sc.check,
            {**TESTED, "modes": modes},
            {
                **TESTED_KINDS,
                "modes": v.MODES,
                "bounds": BOUNDS_BESIDE_MODES,
                "alpha": v.LEVEL,
                "independent": v.SWITCH,
                "check_score": v.SWITCH,
                "progress": v.MAYBE_SWITCH,
                "max_evaluations": Kind(constants(1000), {}, v.COUNT.bad),
            },
        ),
        "compare": Function(
            lambda samples, target, **options: sc.compare(samples, target, rng=0, **options),
            {
                "samples": lambda: {"one": v.draws(), "other": 2 * v.draws()},
                "target": v.jax_target,
                "modes": modes,
            },
            {
                "samples": Kind(
                    {"one": lambda: {"only": v.draws()}},
                    {
                        "numbers as names": lambda: {1: v.draws(), 2: v.draws(60)},
                        "empty name": lambda: {"": v.draws()},
                        "chains": lambda: {"a": v.draws(80).reshape(4, 20, 2)},
                    },
                    {
                        "array": v.draws,
                        "NaN": lambda: {"a": v.draws(), "b": v.with_value(np.nan)},
                        "three columns": lambda: {"a": v.draws(40, 3)},
                        "None in it": lambda: {"a": None},
                        **constants(*v.STRANGE),
                    },
                ),
                "target": v.TARGET,
                "modes": v.MODES,
                "alpha": v.LEVEL,
                "banana": Kind({}, {}, constants(3, None)),
            },
        ),
        "calibrate": Function(
            sc.calibrate,
            {
                "target": v.jax_target,
                "sample": lambda: normal_draws,
                "n": lambda: 30,
                "rng": lambda: 0,
                "repetitions": lambda: 2,
                "test": lambda: functools.partial(sc.ksd_test, n_resamples=19),
            },
            {
                "target": v.TARGET,
                "sample": Kind(
                    constants(None),
                    {"raises": lambda: v.raising},
                    {
                        "returns None": lambda: lambda n, rng: None,
                        "wrong shape": lambda: lambda n, rng: np.zeros((n, 7)),
                        "no arguments": lambda: lambda: None,
                        **constants("banana", 3, {}, float("nan")),
                    },
                ),
                "n": v.COUNT._replace(sound=constants(30)),
                "test": Kind(
                    {},
                    {"raises": lambda: v.raising},
                    {
                        "returns None": lambda: lambda draws, target, rng: None,
                        **constants(None, "ksd", 3, {}),
                    },
                ),
                "repetitions": v.COUNT,
                "alpha": Kind(v.LEVEL.sound, {}, {k: x for k, x in v.LEVEL.bad.items() if k[0] not in "[a"}),
                "n_jobs": Kind(
                    constants(1), {}, constants(0, 1.5, "banana", None, True, {}, 2**63, v.HUGE, [1])
                ),
                "progress": v.MAYBE_SWITCH,
                "rng": v.RNG,
            },
        ),
    }


def _searches() -> dict[str, Function]:
    elsewhere = {"other dimension": v.TARGET.bad["other dimension"]}
    targets = without_score()
    common = {
        "target": targets._replace(odd={**targets.odd, **elsewhere}, bad=without(targets.bad, *elsewhere)),
        "bounds": v.BOUNDS,
        "starts": Kind({"given": lambda: [[0.0, 1.0]]}, {}, v.MODES.bad | constants(3)),
        "max_modes": v.COUNT,
        "beta": v.POSITIVE,
        "cut": Kind(
            constants(None, 5.0, 50),
            constants(1e-300, 1e300, float("inf")),
            constants(float("nan"), "a", {}, [], object, 1j, -1.0, True),
        ),
        "max_evaluations": v.COUNT,
        "progress": v.MAYBE_SWITCH,
        "rng": v.RNG,
    }
    sound = {"target": v.jax_target, "bounds": lambda: (-4.0, 4.0), "rng": lambda: 0}
    one_draw_allowed = v.DRAWS._replace(bad=without(v.DRAWS.bad, "one draw"))
    return {
        "find_modes": Function(
            sc.find_modes,
            {**sound, "max_evaluations": lambda: 2000},
            {
                **common,
                "draws": v.DRAWS._replace(bad=without(v.DRAWS.bad, "None", "one draw")),
                "max_seconds": v.POSITIVE,
            },
        ),
        "box_search": Function(
            sc.box_search,
            {**sound, "n_starts": lambda: 8, "max_evaluations": lambda: 2000},
            {**common, "n_starts": v.COUNT, "explore": v.SWITCH},
        ),
        "perturb": Function(
            sc.perturb,
            {**TESTED, "modes": modes, "theta": lambda: 0.9, "n_steps": lambda: 2},
            {**TESTED_KINDS, "draws": one_draw_allowed, "target": without_score(), **MOVED},
        ),
        "local_anchors": Function(
            sc.local_anchors,
            {"target": v.jax_target, "modes": modes, "n_anchors": lambda: 2, "rng": lambda: 0},
            {"target": without_score(), "modes": v.MODES, "n_anchors": v.COUNT, "rng": v.RNG},
        ),
        "check_score": Function(
            sc.check_score,
            {"target": v.jax_target, "x": v.draws},
            {
                "target": v.TARGET,
                "x": v.DRAWS._replace(bad=without(v.DRAWS.bad, "one draw")),
                "n_points": v.COUNT,
                "rtol": v.POSITIVE,
            },
        ),
    }


def _makers() -> dict[str, Function]:
    function = Kind(
        {"sum": lambda: lambda x: -jnp.sum(x**2)},
        {"raises": lambda: v.raising, "float32": lambda: lambda x: -jnp.sum(x.astype(np.float32) ** 2)},
        {
            "float": lambda: lambda x: 0 / float(x[0]),
            "NumPy": lambda: lambda x: np.sum(np.asarray(x)),
            "if": lambda: lambda x: 1.0 if x[0] > 0 else 0.0,
            "vector": lambda: lambda x: x,
            "returns None": lambda: lambda x: None,
            "string": lambda: lambda x: "a",
            "integer": lambda: lambda x: jnp.argmax(x),
            "complex": lambda: lambda x: 1j * jnp.sum(x),
            "shape": lambda: lambda x: jnp.ones((3, 5)) @ x,
            "matmul": lambda: lambda x: x @ jnp.ones((7, 7)) @ x,
            **constants(*v.STRANGE[:-2], 3),
        },
    )
    batch = Kind({"normal": lambda: v.normal}, {}, constants("a", 3, {}, 1j, float("nan")))
    dim = Kind(constants(2), {}, {k: x for k, x in v.COUNT.bad.items() if k not in ("9223372036854775808",)})
    square = {"means": lambda: [[0.0, 0.0], [3.0, 0.0]]}
    return {
        "from_jax": Function(
            sc.from_jax,
            {"log_density": lambda: lambda x: -jnp.sum(x**2), "dim": lambda: 2},
            {
                "log_density": function,
                "dim": dim,
                "names": v.NAMES,
                "sample": batch,
                "constrained_names": v.NAMES._replace(
                    odd={**v.NAMES.odd, **constants(["a"])}, bad=constants(3, "ab", {})
                ),
                "constrain": Kind(
                    {}, {"identity": lambda: lambda x: x, "raises": lambda: v.raising}, batch.bad
                ),
                "unconstrain": Kind(
                    {}, {"identity": lambda: lambda x: x, "raises": lambda: v.raising}, batch.bad
                ),
            },
        ),
        "from_jax_pytree": Function(
            sc.from_jax_pytree,
            {"log_density": lambda: _of_dict, "example": lambda: {"a": 0.0, "b": np.zeros(2)}},
            {
                "log_density": Kind({}, {"raises": lambda: v.raising}, function.bad),
                "example": Kind(
                    {
                        "more": lambda: {"a": 1.0, "b": np.zeros(3)},
                        "integers": lambda: {"a": 0, "b": np.zeros(2, dtype=int)},
                    },
                    {"NaN": lambda: {"a": np.nan, "b": np.zeros(2)}, **constants(3, float("nan"))},
                    {
                        "no keys": dict,
                        "other keys": lambda: {"c": 0.0},
                        "text": lambda: {"a": "x", "b": np.zeros(2)},
                        "complex": lambda: {"a": 1j, "b": np.zeros(2)},
                        "objects": lambda: {"a": object(), "b": np.zeros(2)},
                        **constants(None, "banana", [], object, datetime.date(2026, 1, 1)),
                    },
                ),
            },
        ),
        "unbounded": Function(
            sc.unbounded,
            {"target": v.jax_target, "bounds": lambda: (-50.0, 50.0)},
            {
                "target": Kind(v.TARGET.sound, {}, constants(*v.STRANGE, 3)),  # nothing is evaluated
                "bounds": Kind(
                    {**v.BOUNDS.sound, **constants((0.0, float("inf")))},
                    {**v.BOUNDS.odd, **constants({})},  # of no coordinate
                    without(v.BOUNDS.bad, "(0.0, inf)", "{}"),
                ),
            },
        ),
        "target.log_density": Function(
            lambda x: v.jax_target().log_density(x), {"x": v.draws}, {"x": AT_POINTS}
        ),
        "target.score": Function(lambda x: v.jax_target().score(x), {"x": v.draws}, {"x": AT_POINTS}),
        "target.sample": Function(
            lambda **options: v.jax_target().sample(**options),
            {"n": lambda: 5, "rng": lambda: 0},
            {
                "n": v.COUNT,
                "rng": v.RNG,
                "weights": WEIGHTS._replace(sound=constants([0.5, 0.5], None, [0, 1])),
            },
        ),
        "Target": Function(
            sc.Target,
            {"log_density": lambda: v.normal, "dim": lambda: 2},
            {
                "log_density": batch,
                "score": batch,
                "dim": v.COUNT._replace(sound=constants(2)),
                "hessian": batch,
                "names": v.NAMES,
                "sample": batch,
                "constrained_names": v.NAMES._replace(
                    odd={**v.NAMES.odd, **constants(["a"])}, bad=constants(3, "ab", {})
                ),
                "constrain": batch,
                "unconstrain": batch,
            },
        ),
        "median_bandwidth": Function(
            sc.median_bandwidth,
            {"draws": v.draws},
            {"draws": v.DRAWS._replace(bad=without(v.DRAWS.bad, "three columns")), "rng": v.RNG},
        ),
        "multinomial": Function(
            sc.multinomial,
            {"n": lambda: 5, "size": lambda: 3, "rng": lambda: np.random.default_rng(0)},
            {"n": v.COUNT, "size": v.COUNT, "rng": v.RNG},
        ),
        "wild": Function(
            sc.wild,
            {"n": lambda: 5, "size": lambda: 3, "rng": lambda: np.random.default_rng(0)},
            {"n": v.COUNT, "size": v.COUNT, "rng": v.RNG},
        ),
        "IMQ": Function(
            sc.IMQ,
            {},
            {"bandwidth": v.POSITIVE, "beta": Kind(constants(-0.4), {}, without(v.LEVEL.bad, "-0.1"))},
        ),
        "RBF": Function(sc.RBF, {}, {"bandwidth": v.POSITIVE}),
        "barker": Function(sc.barker, {"log_ratio": lambda: [0.0, 1.0]}, {"log_ratio": RATIOS}),
        "metropolis": Function(sc.metropolis, {"log_ratio": lambda: [0.0, 1.0]}, {"log_ratio": RATIOS}),
        "gaussian_mixture": Function(
            sc.models.gaussian_mixture,
            square,
            {
                "means": Kind({"two": square["means"]}, {}, without(v.MODES.bad, "three columns")),
                "covariances": Kind(
                    {"identities": lambda: [np.eye(2)] * 2},
                    {},
                    {
                        "NaN": lambda: np.full((2, 2, 2), np.nan),
                        "one": lambda: np.eye(3),
                        **constants("a", -3, {}, 1j),
                    },
                ),
                "weights": WEIGHTS,
            },
        ),
        "t_banana_mixture": Function(
            sc.models.t_banana_mixture,
            {"dim": lambda: 2, "n_t": lambda: 1, "n_banana": lambda: 1, "rng": lambda: 0},
            {
                "dim": v.COUNT._replace(sound=constants(2, 3)),
                "n_t": PARTS,
                "n_banana": PARTS,
                "df": v.POSITIVE,
                "b": Kind(
                    constants(0.01, 0, -0.1), constants(1e300), constants("a", None, {}, 1j, float("nan"))
                ),
                "box": v.POSITIVE,
                "weights": WEIGHTS,
                "rng": v.RNG,
            },
        ),
        "gb_rbm": Function(
            sc.models.gb_rbm,
            {"B": lambda: np.eye(3, 2)},
            {"B": MATRIX, "b": VECTOR, "c": VECTOR},
        ),
        "gibbs_rbm": Function(
            sc.samplers.gibbs_rbm,
            {
                "B": lambda: np.eye(3, 2),
                "b": lambda: np.zeros(3),
                "c": lambda: np.zeros(2),
                "n": lambda: 3,
                "burn_in": lambda: 2,
            },
            {"B": MATRIX, "n": v.COUNT, "burn_in": v.COUNT, "rng": v.RNG},
        ),
        "repelling_attracting_metropolis": Function(
            sc.samplers.repelling_attracting_metropolis,
            {
                "log_density": lambda: _jax_normal,
                "x0": lambda: np.zeros((2, 2)),
                "scale": lambda: 1.0,
                "n_iterations": lambda: 3,
                "rng": lambda: 0,
            },
            {
                "log_density": function._replace(sound={}, odd={"raises": lambda: v.raising}),
                "x0": POINTS._replace(sound={}, odd={}),
                "scale": v.POSITIVE,
                "n_iterations": v.COUNT,
                "blocks": Kind(
                    constants(None, [[0], [1]], [(0, 1)]),
                    {},
                    constants(
                        [[5]], [[0]], [], [[]], "ab", 3, {}, [[0.5]], [[0, 0], [1]], [[True], [0]], object
                    ),
                ),
                "burn_in": v.COUNT._replace(
                    sound=constants(0, 2), bad={k: x for k, x in v.COUNT.bad.items() if k != "0"}
                ),
                "thin": v.COUNT._replace(sound=constants(1, 2)),
                "rng": v.RNG,
            },
        ),
    }


def _of_dict(position: Any) -> Any:
    return -0.5 * position["a"] ** 2 - 0.5 * jnp.sum(position["b"] ** 2)


def _jax_normal(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2)


FUNCTIONS: dict[str, Function] = {
    **_tests(),
    **_searches(),
    **_makers(),
    **made(),
    **records(),
    **chains(),
    **packages(),
}
