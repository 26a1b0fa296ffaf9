"""Targets from PyMC models."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..target import Batch, Target, from_jax
from .jax import compiled_map
from .parameters import Parameters, element_names, with_parameters
from .verification import verify

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
    try:
        import pymc
    except ImportError:
        raise ImportError("from_pymc needs PyMC: pip install 'steincheck[pymc]'") from None
    if not isinstance(model, pymc.Model):
        raise TypeError(f"`model` must be a pymc.Model, got {type(model).__name__}")
    _check_variables(model)
    shapes = _shapes(model)
    stand_ins, coordinates = _unconstraining(model)
    dim = sum(map(_size, shapes.values.values()))
    try:
        log_density = _jax_function(model.value_vars, [model.logp()], shapes.values)
        target = from_jax(lambda point: log_density(point)[0], dim)
        make = _jax_map
    except NotImplementedError:  # an operation without a JAX version
        target = _pytensor_target(model, dim)
        make = _pytensor_map
    parameters = Parameters(
        tuple(name for key, shape in shapes.parameters.items() for name in element_names(key, shape)),
        tuple(key for key, shape in shapes.values.items() for _ in range(_size(shape))),
        make(model.value_vars, model.replace_rvs_by_values(model.free_RVs), shapes.values),
        make(stand_ins, coordinates, shapes.parameters),
    )
    target = with_parameters(target, parameters)
    verify(target, parameters, partial(_without_jacobian, model, shapes.values), "PyMC")
    return target


class VariableShapes(NamedTuple):
    """Of the free variables by name, in unconstrained space and as their owner knows them."""

    values: ShapeByName
    parameters: ShapeByName


def _shapes(model: Any) -> VariableShapes:
    import pytensor

    start = model.initial_point()
    points = [start[value.name] for value in model.value_vars]
    outputs = model.replace_rvs_by_values(model.free_RVs)
    function = pytensor.function(model.value_vars, outputs, mode="FAST_COMPILE", on_unused_input="ignore")
    names = [rv.name for rv in model.free_RVs]
    return VariableShapes(
        dict(zip(names, map(np.shape, points), strict=True)),
        dict(zip(names, map(np.shape, function(*points)), strict=True)),
    )


def _check_variables(model: Any) -> None:
    if not model.value_vars:
        raise ValueError("`model` must have free variables: there is nothing to test without any")
    discrete = [model.values_to_rvs[value].name for value in model.discrete_value_vars]
    if discrete:
        raise ValueError(
            f"variable {discrete[0]!r} of `model` is discrete: a density with a score is needed, so "
            "marginalise it (pymc.Mixture, or pymc_extras.marginalize)"
        )


def _unconstraining(model: Any) -> tuple[list[Any], list[Any]]:
    """Graph from the free variables to the value variables; bounds may depend on other variables."""
    from pytensor.graph.replace import clone_replace

    stand_ins = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    outputs = []
    for rv, stand_in in stand_ins.items():
        transform = model.rvs_to_transforms[rv]
        outputs.append(stand_in if transform is None else transform.forward(stand_in, *rv.owner.inputs))
    return list(stand_ins.values()), clone_replace(outputs, replace=stand_ins, rebuild_strict=False)


@contextmanager
def _settings_kept() -> Any:
    """Importing PyTensor's JAX backend switches JAX to float64 for good, and PyMC's asks for 100 devices."""
    precise = jax.config.read("jax_enable_x64")
    flags = os.environ.get("XLA_FLAGS")
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", precise)
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags


def _jax_function(inputs: Sequence[Any], outputs: Sequence[Any], shapes: ShapeByName) -> Callable[[Any], Any]:
    """JAX function of one row: the inputs flattened and joined -> list of the outputs."""
    with _settings_kept():
        from pymc.sampling.jax import get_jaxified_graph
    with jax.enable_x64(True):
        function = get_jaxified_graph(inputs=list(inputs), outputs=list(outputs))
    return lambda row: function(*_split(row, shapes))


def _jax_map(inputs: Sequence[Any], outputs: Sequence[Any], shapes: ShapeByName) -> Batch:
    function = _jax_function(inputs, outputs, shapes)
    width = sum(map(_size, shapes.values()))
    return compiled_map(lambda row: jnp.concatenate([jnp.ravel(part) for part in function(row)]), width)


def _pytensor_map(inputs: Sequence[Any], outputs: Sequence[Any], shapes: ShapeByName) -> Batch:
    import pytensor

    function = pytensor.function(list(inputs), list(outputs), on_unused_input="ignore")

    def evaluate(rows: np.ndarray) -> np.ndarray:
        parts = [[np.ravel(part) for part in function(*_split(row, shapes))] for row in np.asarray(rows)]
        return np.array([np.concatenate(row) for row in parts])

    return evaluate


def _pytensor_target(model: Any, dim: int) -> Target:
    """Log density and score by PyMC's own compiled function, point by point."""
    function = model.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})

    def log_density(x: np.ndarray) -> np.ndarray:
        return np.array([function(point)[0] for point in np.array(x)])

    def score(x: np.ndarray) -> np.ndarray:
        return np.array([function(point)[1] for point in np.array(x)]).reshape(-1, dim)

    return Target(log_density, score, dim=dim)


def _without_jacobian(model: Any, shapes: ShapeByName, points: np.ndarray) -> np.ndarray:
    """PyMC's own log density of the free variables, by another route than JAX."""
    function = model.compile_logp(jacobian=False, mode="FAST_COMPILE")
    keys = [value.name for value in model.value_vars]
    return np.array([float(function(dict(zip(keys, _split(row, shapes), strict=True)))) for row in points])


def _split(row: Any, shapes: ShapeByName) -> list[Any]:
    ends = np.cumsum([_size(shape) for shape in shapes.values()])
    parts = zip(ends, shapes.values(), strict=True)
    return [row[end - _size(shape) : end].reshape(shape) for end, shape in parts]


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape))
