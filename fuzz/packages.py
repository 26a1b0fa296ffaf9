"""Calls of the adapters whose packages are installed: all in the environment of `make test-adapters`."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

import numpy as np

import steincheck as sc

from . import values as v
from .arguments import Function, result_of
from .values import Kind, constants


def packages() -> dict[str, Function]:
    """Functions that need a package which is there."""
    makers = {"torch": _torch, "numpyro": _numpyro, "pymc": _pymc, "httpstan": _stan, "arviz": _arviz}
    found: dict[str, Function] = {}
    for package, functions in makers.items():
        if find_spec(package):
            found |= functions()
    return found


def _torch() -> dict[str, Function]:
    import torch

    return {
        "from_torch": Function(
            sc.from_torch,
            {"log_density": lambda: lambda x: -0.5 * (x**2).sum(-1), "dim": lambda: 2},
            {
                "log_density": Kind(
                    {"point": lambda: lambda x: -0.5 * (x**2).sum()},
                    {"raises": lambda: v.raising, "float32": lambda: lambda x: -(x.float() ** 2).sum(-1)},
                    {
                        "detached": lambda: lambda x: torch.tensor(float((x.detach() ** 2).sum())),
                        "vector": lambda: lambda x: x,
                        "returns None": lambda: lambda x: None,
                        "string": lambda: lambda x: "a",
                        "complex": lambda: lambda x: 1j * x.sum(-1),
                        "shape": lambda: lambda x: x @ torch.ones(7, 7),
                        **constants(*v.STRANGE[:-2], 3),
                    },
                ),
                "dim": v.COUNT._replace(sound=constants(2), bad=_small(v.COUNT.bad)),
                "names": v.NAMES,
            },
        )
    }


def _small(pool: Any) -> Any:
    """Without numbers that no memory could hold."""
    return {label: make for label, make in pool.items() if label not in ("9223372036854775808", "10**400")}


def _numpyro() -> dict[str, Function]:
    import numpyro
    from numpyro import distributions as dist

    def model(y: Any) -> None:
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    def discrete(y: Any) -> None:
        numpyro.sample("k", dist.Bernoulli(0.5))

    return {
        "from_numpyro": Function(
            lambda model, y: sc.from_numpyro(model, y),
            {"model": lambda: model, "y": lambda: np.ones(3)},
            {
                "model": Kind(
                    {},
                    {"raises": lambda: v.raising},
                    {
                        "discrete": lambda: discrete,
                        "no sites": lambda: lambda y: None,
                        "no arguments": lambda: lambda: None,
                        **constants(*v.STRANGE[:-2], 3),
                    },
                ),
                "y": Kind({"list": lambda: np.zeros(2)}, {"NaN": lambda: np.full(3, np.nan)}, {}),
            },
        )
    }


def _pymc() -> dict[str, Function]:
    @functools.cache
    def model() -> Any:
        import pymc

        with pymc.Model() as built:
            pymc.Normal("mu", 0, 1)
        return built

    return {
        "from_pymc": Function(
            sc.from_pymc,
            {"model": model},
            {"model": Kind({"normal": model}, {}, constants(*v.STRANGE, 3))},
        )
    }


def _stan() -> dict[str, Function]:
    kinds = {
        "program": Kind(
            {}, {}, constants(None, 3, {}, object, float("nan"), "/nowhere/a.stan", "", b"x", [1])
        ),
        "data": Kind({}, constants(None, {}), constants(3, float("nan"), object)),
    }
    return {"from_stan": Function(sc.from_stan, {"program": lambda: "/nowhere/a.stan"}, kinds)}


def _arviz() -> dict[str, Function]:
    per_draw = Kind(
        {"zeros": lambda: np.zeros(60, dtype=int), "ones": lambda: np.ones(60, dtype=int)},
        {"float": lambda: np.ones(60)},
        {
            "too few": lambda: np.ones(7),
            "NaN": lambda: np.full(60, np.nan),
            "text": lambda: np.full(60, "a"),
            "complex": lambda: np.full(60, 1j),
            **constants("banana", 3, {}, object, float("nan")),
        },
    )
    unusual = {label: v.DRAWS.bad[label] for label in ("three columns", "1-d", "one draw")}
    kept = {label: make for label, make in v.DRAWS.bad.items() if label not in unusual}
    return {
        "to_arviz": Function(
            sc.to_arviz,
            {"draws": lambda: v.draws(60)},
            {
                "draws": v.DRAWS._replace(odd={**v.DRAWS.odd, **unusual}, bad=kept),
                "verdict": Kind(
                    {"check": lambda: result_of("check")}, {}, constants("banana", 3, {}, float("nan"))
                ),
                "mode_of_draw": per_draw,
                "weights": per_draw._replace(sound={"ones": lambda: np.ones(60)}),
                "attributes": Kind(
                    constants(None, {"a": "b"}),
                    {"odd": lambda: {"a": object}},
                    constants("banana", 3, float("nan"), object),
                ),
            },
        )
    }
