"""Targets from PyMC models."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .._validation import needs
from ..draws.names import element_names
from ..target import Batch, Target, from_jax
from .parameters import Parameters, split, with_parameters

ShapeByName = dict[str, tuple[int, ...]]


def from_pymc(model: Any) -> Target:
    """Make a `Target` from a PyMC model: its posterior density on the unconstrained space.

    The density is compiled with JAX; where an operation has no JAX version, PyMC's own compiled function is
    called point by point. JAX's global setting of the precision is left alone.

    Parameters
    ----------
    model : pymc.Model
        The model, with its data.

    Returns
    -------
    Target
        ``target.unconstrain(idata)`` maps draws of the free variables, ``target.constrain`` maps back;
        deterministic variables are not coordinates.

    Raises
    ------
    ValueError
        If a free variable is discrete.

    Examples
    --------
    >>> import pymc as pm  # doctest: +SKIP
    >>> with pm.Model() as model:  # doctest: +SKIP
    ...     tau = pm.HalfNormal("tau")
    >>> sc.from_pymc(model).names  # doctest: +SKIP
    ['log tau']
    """
    with needs("from_pymc", "PyMC", "pymc"):
        import pymc
        from pytensor.graph.replace import clone_replace
    if not isinstance(model, pymc.Model):
        raise TypeError(f"`model` must be a pymc.Model, got {type(model).__name__}")
    if not model.value_vars:
        raise ValueError("`model` must have free variables: there is nothing to test without any")
    for value in model.discrete_value_vars:
        raise ValueError(
            f"variable {model.values_to_rvs[value].name!r} of `model` is discrete: a density with a score is "
            "needed, so marginalise it (pymc.Mixture, or pymc_extras.marginalize)"
        )
    # graph from the free variables to the value variables; bounds may depend on other variables
    stand_ins = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    outputs = []
    for rv, stand_in in stand_ins.items():
        transform = model.rvs_to_transforms[rv]
        outputs.append(stand_in if transform is None else transform.forward(stand_in, *rv.owner.inputs))
    coordinates = clone_replace(outputs, replace=stand_ins, rebuild_strict=False)
    values = model.replace_rvs_by_values(model.free_RVs)
    start = model.initial_point()
    points = [start[value.name] for value in model.value_vars]
    constrain = _function(model.value_vars, values)
    free = _shapes(model, points)
    shapes = _shapes(model, constrain(*points))
    names = [name for rv in model.free_RVs for name in element_names(rv.name, _axes(model, rv.name, shapes))]
    maps = _rows(constrain, free), _rows(_function([*stand_ins.values()], coordinates), shapes)
    target = _density(model, free)
    return with_parameters(target, Parameters(tuple(names), target.dim, *maps))


def _shapes(model: Any, values: Sequence[Any]) -> ShapeByName:
    """Shapes of the values of the free variables."""
    return {rv.name: np.shape(value) for rv, value in zip(model.free_RVs, values, strict=True)}


def _axes(model: Any, name: str, shapes: ShapeByName) -> list[int | list[str]]:
    """Per axis of a variable: its labels if the model has a coordinate of text, otherwise its size."""
    dims = model.named_vars_to_dims.get(name) or [None] * len(shapes[name])
    labels = [model.coords.get(dim) or () for dim in dims]
    axes = zip(labels, shapes[name], strict=True)
    return [list(own) if own and all(isinstance(x, str) for x in own) else size for own, size in axes]


def _function(inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., list[Any]]:
    """A PyTensor graph as a function; without C code, as compiling would take longer than the calls."""
    import pytensor

    return pytensor.function(list(inputs), list(outputs), mode="FAST_COMPILE", on_unused_input="ignore")


def _rows(function: Callable[..., list[Any]], shapes: ShapeByName) -> Batch:
    """Batch function of a function of variables."""

    def evaluate(rows: np.ndarray) -> np.ndarray:
        values = [function(*split(row, shapes).values()) for row in np.asarray(rows)]
        return np.array([np.concatenate([np.ravel(part) for part in parts]) for parts in values])

    return evaluate


def _density(model: Any, shapes: ShapeByName) -> Target:
    """The log density by JAX, or by PyMC's own compiled function where an operation has no JAX version."""
    dim = sum(int(np.prod(shape)) for shape in shapes.values())
    try:
        # the import switches JAX to float64 for good, and asks it for 100 devices
        precise, environment = jax.config.read("jax_enable_x64"), dict(os.environ)
        from pymc.sampling.jax import get_jaxified_graph

        jax.config.update("jax_enable_x64", precise)
        os.environ.pop("XLA_FLAGS", None)
        os.environ.update(environment)
        with jax.enable_x64(True):
            log_density = get_jaxified_graph(inputs=model.value_vars, outputs=[model.logp()])
        return from_jax(lambda row: log_density(*split(row, shapes).values())[0], dim)
    except NotImplementedError:
        function = model.logp_dlogp_function(ravel_inputs=True)
        function.set_extra_values({})
    return Target(
        lambda x: np.array([function(point)[0] for point in np.array(x)]),
        lambda x: np.array([function(point)[1] for point in np.array(x)]).reshape(-1, dim),
        dim=dim,
    )
