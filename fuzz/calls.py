"""Every public function with a sound call of it, and the kind of each argument."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import steincheck as sc

from . import values as v
from .values import Kind, constants


class Function(NamedTuple):
    """A function, the arguments of a sound call, and what else may be given."""

    call: Callable[..., Any]
    sound: dict[str, Callable[[], Any]]
    kinds: dict[str, Kind]


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
AGGREGATED = {
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


def _tests() -> dict[str, Function]:
    moved = {**TESTED_KINDS, **QUADRATIC, **MOVED}
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
                "n_locations": v.COUNT._replace(sound=constants(1, 5, np.int32(7))),
                "train_fraction": v.FRACTION,
                "optimise": v.SWITCH,
                "locations": Kind({"given": lambda: [[0.0, 1.0]]}, v.MODES.odd, v.MODES.bad),
                "bandwidth": v.POSITIVE._replace(sound={}, odd={}),
                "n_resamples": v.COUNT,
                "check_score": v.SWITCH,
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
            },
        ),
        "check": Function(
            sc.check,
            {**TESTED, "modes": modes},
            {
                **TESTED_KINDS,
                "modes": v.MODES,
                "alpha": v.LEVEL,
                "independent": v.SWITCH,
                "check_score": v.SWITCH,
                "progress": v.MAYBE_SWITCH,
                "max_evaluations": Kind(
                    constants(1000, None), {}, {k: x for k, x in v.COUNT.bad.items() if k != "None"}
                ),
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
        "max_evaluations": v.COUNT,
        "progress": v.MAYBE_SWITCH,
        "rng": v.RNG,
    }
    sound = {"target": v.jax_target, "bounds": lambda: (-4.0, 4.0), "rng": lambda: 0}
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
            {**TESTED_KINDS, "target": without_score(), **MOVED},
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
            {"log_density": function, "dim": dim, "names": v.NAMES},
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
            {"x": v.draws},
            {"x": v.DRAWS._replace(bad=without(v.DRAWS.bad, "three columns")), "rng": v.RNG},
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
                "weights": Kind(
                    constants([0.5, 0.5]),
                    {},
                    constants(
                        [1.0], [-1, 2], [0, 0], "ab", {}, 1j, [float("nan"), 1], [[0.5, 0.5]], [1e400, 1]
                    ),
                ),
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
                "box": v.POSITIVE,
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
                "rng": v.RNG,
            },
        ),
    }


def _jax_normal(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2)


def _records() -> dict[str, Function]:
    alpha = {"alpha": v.LEVEL}
    dim = Kind(constants(2, None), {}, constants(0, -1, 1.5, "a", {}, 3, float("nan"), True))
    optional = constants("banana", 3, {}, float("nan"))
    return {
        "as_draws": Function(
            sc.as_draws,
            {"draws": v.draws},
            {
                "draws": v.DRAWS._replace(
                    odd={**v.DRAWS.odd, **{k: v.DRAWS.bad[k] for k in ("three columns", "1-d")}},
                    bad={k: x for k, x in v.DRAWS.bad.items() if k not in ("three columns", "1-d")},
                ),
                "dim": dim,
                "names": v.NAMES,
                "var_names": Kind(constants(None), {}, constants(["z"], 3, {}, object)),
                "minimum": v.COUNT,
            },
        ),
        "result.reject": Function(lambda alpha: result_of("ksd_test").reject(alpha), {}, alpha),
        "result.summary": Function(lambda alpha: result_of("ksd_test").summary(alpha), {}, alpha),
        "plot.null_distribution": Function(
            sc.plot.null_distribution,
            {"result": lambda: result_of("ksd_test")},
            {"result": result_kind("ksd_test", "flux_test"), "ax": AX},
        ),
        "plot.mode_shares": Function(
            sc.plot.mode_shares,
            {"table": lambda: result_of("flux_test").mode_table},
            {"table": Kind({}, {}, constants(*v.STRANGE)), "ax": AX},
        ),
        "plot.effect_sizes": Function(
            sc.plot.effect_sizes,
            {"result": lambda: result_of("moment_test")},
            {"result": result_kind("moment_test", "ksd_test"), "alpha": v.LEVEL, "ax": AX},
        ),
        "plot.draws": Function(
            sc.plot.draws,
            {"draws": v.draws},
            {
                "draws": v.DRAWS._replace(
                    odd={**v.DRAWS.odd, **{k: v.DRAWS.bad[k] for k in ("three columns", "1-d", "one draw")}},
                    bad={
                        k: x for k, x in v.DRAWS.bad.items() if k not in ("three columns", "1-d", "one draw")
                    },
                ),
                "modes": Kind(constants(None), {}, optional),
                "coordinates": COORDINATES,
                "names": v.NAMES._replace(bad=without(v.NAMES.bad, "[None, 'a']", "['a', 'a']", "[1, 2]")),
                "target": Kind({"JAX": v.jax_target}, {}, optional),
                "ax": AX,
            },
        ),
        "plot.perturbed": Function(
            sc.plot.perturbed,
            {"before": v.draws, "after": v.draws},
            {
                "before": POINTS,
                "after": POINTS,
                "coordinates": COORDINATES._replace(sound=constants((0,), (0, 1))),
                "ax": AX,
            },
        ),
        "plot.theta_profile": Function(
            sc.plot.theta_profile,
            {"result": lambda: result_of("spksd_test")},
            {"result": result_kind("spksd_test", "ksd_test"), "ax": AX},
        ),
        "plot.bandwidth_profile": Function(
            sc.plot.bandwidth_profile,
            {"result": lambda: result_of("ksdagg_test")},
            {"result": result_kind("ksdagg_test", "ksd_test"), "ax": AX},
        ),
        "plot.witness": Function(
            sc.plot.witness,
            {"x": v.draws, "target": v.jax_target, "rng": lambda: 0},
            {
                "x": v.DRAWS,
                "target": score_only(),
                "coordinate": Kind(constants(0, 1), {}, constants(5, -7, "a", 1.5, {}, None, float("nan"))),
                "rng": v.RNG,
                "ax": AX,
            },
        ),
        "report.write_html": Function(
            sc.report.write_html,
            {
                "path": lambda: os.devnull,
                "verdict": lambda: result_of("check"),
                "draws": lambda: v.draws(60),
                "target": v.jax_target,
            },
            {
                "path": Kind(
                    {}, {}, constants(None, 3, {}, "/nowhere/a.html", "a\x00b", float("nan"), object)
                ),
                "verdict": result_kind("check", "check")._replace(odd={}),
                "draws": Kind(
                    {}, {}, {k: v.DRAWS.bad[k] for k in ("three columns", "None", "strings", "NaN", "4-d")}
                ),
                "target": Kind(constants(None), {}, optional),
                "title": Kind(constants(None, "<script>alert(1)</script>"), {}, constants(3, {}, object)),
                "command": Kind(constants(None, ["a", "b"]), {}, constants(3, float("nan"), object)),
            },
        ),
    }


FUNCTIONS: dict[str, Function] = {**_tests(), **_searches(), **_makers(), **_records()}
