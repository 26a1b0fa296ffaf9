"""Calls of what holds draws and results, and of what draws and reports them."""

from __future__ import annotations

import os

import numpy as np

import steincheck as sc

from . import values as v
from .arguments import AX, COORDINATES, POINTS, Function, folder, result_kind, result_of, score_only, without
from .values import Kind, constants


def records() -> dict[str, Function]:
    """Draws, results, plots and reports."""
    level = {"alpha": v.LEVEL}
    alpha = {"alpha": v.LEVEL._replace(odd=constants(None), bad=without(v.LEVEL.bad, "None"))}
    dim = Kind(constants(2, None), constants(3), constants(0, -1, 1.5, "a", {}, float("nan"), True))
    chosen_names = v.NAMES._replace(  # one of the columns that a container names
        odd={**v.NAMES.odd, **constants(["a"])}, bad=without(v.NAMES.bad, "['a']")
    )
    optional = constants("banana", 3, {}, float("nan"))
    unusual = {k: v.DRAWS.bad[k] for k in ("three columns", "1-d", "one draw")}
    several = v.DRAWS._replace(odd={**v.DRAWS.odd, **unusual}, bad=without(v.DRAWS.bad, *unusual))
    names = v.NAMES._replace(bad=without(v.NAMES.bad, "[None, 'a']", "['a', 'a']", "[1, 2]"))
    stein = {
        "draws": v.DRAWS,
        "target": score_only(),
        "coordinate": Kind(constants(0, 1), {}, constants(5, -7, "a", 1.5, {}, None, float("nan"))),
        "scales": Kind(
            constants(None, [1.0, 2.0]),
            constants([1e-300, 1.0], [1e300, 1.0]),
            constants([1.0], [0, 1], [-1, 1], "ab", {}, 1j, [float("nan"), 1], [[1.0, 1.0]], object),
        ),
        "rng": v.RNG,
        "ax": AX,
    }
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
                "names": chosen_names,
                "var_names": Kind(constants(None), {}, constants(["z"], 3, {}, object)),
            },
        ),
        "read_draws": Function(
            sc.read_draws,
            {"paths": lambda: folder() / "kept" / "good.csv"},
            {
                "paths": Kind(
                    {
                        "text": lambda: str(folder() / "kept" / "good.csv"),
                        "two": lambda: [folder() / "kept" / "good.csv", folder() / "kept" / "good.npy"],
                    },
                    {"same twice": lambda: [folder() / "kept" / "good.csv"] * 2},
                    {
                        "absent": lambda: folder() / "absent.csv",
                        "folder": folder,
                        "program": lambda: folder() / "model.py",
                        "none": list,
                        **constants(None, 3, {}, object, float("nan"), [1, 2], "", "a\x00b", "x" * 5000),
                    },
                ),
                "dim": dim,
                "names": v.NAMES,
                "var_names": Kind(constants(None), {}, constants(["z"], 3, {}, object)),
                "key": Kind(constants(None), {}, constants(3, {}, object, ["x"])),
            },
        ),
        "Draws.take": Function(
            lambda rows: sc.as_draws(v.draws(80).reshape(4, 20, 2)).take(rows),
            {},
            {
                "rows": Kind(
                    {
                        "some": lambda: np.array([0, 5, 30]),
                        "list": lambda: [1, 2],
                        "mask": lambda: np.arange(80) > 3,
                    },
                    {"descending": lambda: np.array([5, 0]), "empty": lambda: np.array([], dtype=int)},
                    constants("a", 1.5, [100], [0.5], {}, object, 1j, float("nan")),
                )
            },
        ),
        "result.inconclusive": Function(lambda alpha: result_of("flux_test").inconclusive(alpha), {}, alpha),
        "result.significant": Function(lambda alpha: result_of("moment_test").significant(alpha), {}, level),
        "result.reject": Function(lambda alpha: result_of("ksd_test").reject(alpha), {}, alpha),
        "result.describe": Function(lambda alpha: result_of("ksd_test").describe(alpha), {}, alpha),
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
                "draws": several,
                "modes": Kind(constants(None), {}, optional),
                "coordinates": COORDINATES,
                "names": names,
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
                "names": names,
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
            {"draws": v.draws, "target": v.jax_target, "rng": lambda: 0},
            stein,
        ),
        "plot.contributions": Function(
            sc.plot.contributions, {"draws": v.draws, "target": v.jax_target, "rng": lambda: 0}, stein
        ),
        "plot.pairs": Function(
            sc.plot.pairs,
            {"draws": v.draws},
            {
                "draws": several._replace(bad=without(several.bad, "None")),  # the modes of a verdict alone
                "target": Kind({"JAX": v.jax_target, "None": lambda: None}, {}, optional),
                "verdict": Kind(
                    {"None": lambda: None}, {"other draws": lambda: result_of("check")}, optional
                ),
                "modes": Kind(constants(None), {"array": lambda: [[0.0, 0.0]]}, optional),
                "coordinates": COORDINATES,
                "names": names,
                "axes": AX,
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
