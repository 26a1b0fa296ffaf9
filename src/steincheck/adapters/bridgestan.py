"""Targets from BridgeStan models that are compiled already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..draws.containers import counted_from_0
from ..target import Batch, Target
from .parameters import Parameters, with_parameters
from .verification import verify


def from_bridgestan(model: Any) -> Target:
    """Make a `Target` from a ``bridgestan.StanModel``: its posterior density on the unconstrained space.

    BridgeStan evaluates one point per call; `from_stan` compiles a program itself and evaluates batches.

    Parameters
    ----------
    model : bridgestan.StanModel
        The model with its data, or any object with its methods.

    Returns
    -------
    Target

    Examples
    --------
    >>> import bridgestan  # doctest: +SKIP
    >>> target = sc.from_bridgestan(bridgestan.StanModel("model.so", "data.json"))  # doctest: +SKIP
    """
    missing = [name for name in ("log_density_gradient", "param_unconstrain") if not hasattr(model, name)]
    if missing or isinstance(model, type):
        what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        without = f" without {missing[0]}" if missing else ""
        raise TypeError(
            f"`model` must be a bridgestan.StanModel (pip install bridgestan), got {what}{without}"
        )
    dim = model.param_unc_num()
    if not dim:
        raise ValueError("`model` must have parameters: there is nothing to test without any")
    names = tuple(counted_from_0(name) for name in model.param_names())
    owners = tuple(name.partition(".")[0] for name in model.param_unc_names())
    parameters = Parameters(
        names,
        owners,
        _rows(model.param_constrain, len(names), np.nan),
        _rows(model.param_unconstrain, dim, np.nan),
    )

    def log_density(jacobian: bool) -> Batch:
        evaluate = _rows(lambda point: model.log_density(point, propto=False, jacobian=jacobian), 1, -np.inf)
        return lambda x: evaluate(x)[:, 0]

    score = _rows(lambda point: model.log_density_gradient(point, propto=False)[1], dim, np.nan)
    target = with_parameters(Target(log_density(jacobian=True), score, dim=dim), parameters)
    verify(target, parameters, log_density(jacobian=False), "BridgeStan")
    return target


def _rows(function: Callable[[np.ndarray], Any], width: int, missing: float) -> Batch:
    """Batch function of one for single points; a row at which Stan throws is `missing`."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        out = np.full((len(x), width), missing)
        for i, row in enumerate(np.ascontiguousarray(x, dtype=np.float64)):
            try:
                out[i] = function(row)
            except (RuntimeError, ValueError):
                continue
        return out

    return evaluate
