"""Targets from JAX functions, of points or pytrees: traced once in float64, with few compilations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from .._validation import as_count, as_numbers, shown
from .record import MAX_DIM, Batch, Target, made_by

BATCH_SIZES = (1, 32, 256, 4096)  # the only batch shapes ever compiled, so that a new n costs no compilation


def from_jax(
    log_density: Callable[[Any], Any],
    dim: int | None = None,
    *,
    example: Any = None,
    names: Sequence[str] | None = None,
    sample: Callable[[int, Any], np.ndarray] | None = None,
    constrained_names: Sequence[str] | None = None,
    constrain: Callable[[Any], Any] | None = None,
    unconstrain: Callable[[Any], Any] | None = None,
) -> Target:
    """Make a `Target` from a JAX function of one point; score and Hessian by automatic differentiation.

    Everything is computed in float64 whatever the global JAX setting, which is left alone, and compiled
    once: draws are evaluated in padded chunks of fixed size, so a new number of draws compiles nothing.
    NumPy data that `log_density` holds are used in float64 too, JAX arrays in float32 as they are.

    Parameters
    ----------
    log_density : callable
        (d,) -> scalar, written with ``jax.numpy``; with `example`, pytree -> scalar.
    dim : int, optional
        The dimension d; not needed with `example`.
    example : pytree of arrays, optional
        One position, such as a dict of arrays, of the same structure as the argument of `log_density`. The
        coordinates are named as ArviZ writes them.
    names, sample, constrained_names, constrain, unconstrain
        As in `Target`; the maps take many points, (n, d) and (n, k), and may be written with ``jax.numpy``.

    Returns
    -------
    Target

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    >>> target.score(np.ones((3, 2))).shape
    (3, 2)
    """
    if not callable(log_density):
        raise TypeError(f"`log_density` must be a function, got {type(log_density).__name__}")
    options: dict[str, Any] = {"names": names, "sample": sample, "constrained_names": constrained_names}
    maps: dict[str, Any] = {"constrain": constrain, "unconstrain": unconstrain}
    if example is not None:
        flat, own_names = _flat_function(log_density, example)
        named = options | {"names": names or own_names}
        target = from_jax(flat, len(own_names), **named, **maps)
        return made_by(target, from_jax, log_density, example=example, **options, **maps)
    if dim is None:
        raise ValueError("`dim` must be given, or `example`, a point in the form that `log_density` takes")
    dim = as_count(dim, "dim", maximum=MAX_DIM)
    function, returned = trace(log_density, dim)
    if getattr(returned, "shape", None) != () or not jnp.issubdtype(returned.dtype, jnp.floating):
        raise ValueError(
            "`log_density` of from_jax must map one point of shape (d,) to one real number, "
            f"but for d = {dim} it returns {shown(returned)}"
        )
    if returned.dtype != jnp.float64:
        warnings.warn(
            f"`log_density` returns {returned.dtype} for float64 input: precision is lost", stacklevel=2
        )
    in_double: dict[str, Any] = {name: _in_double(function) for name, function in maps.items()}
    target = replace(jax_target(function, dim), **options, **in_double)
    return made_by(target, from_jax, log_density, dim, **options, **maps)


def _flat_function(function: Callable[[Any], Any], example: Any) -> tuple[Callable[[Any], Any], list[str]]:
    """A function of pytrees like `example` as one of points (d,), and the names of the coordinates.

    Examples
    --------
    >>> _flat_function(lambda tree: tree["mu"] ** 2, {"mu": 0.0, "theta": np.zeros(2)})[1]
    ['mu', 'theta[0]', 'theta[1]']
    """
    with jax.enable_x64(True):
        doubles = jax.tree.map(lambda leaf: as_numbers(leaf, "example", "a pytree of real numbers"), example)
        flat, restored = ravel_pytree(doubles)
    if not flat.size:
        raise ValueError("`example` must hold at least one number")
    names: list[str] = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(doubles)[0]:
        variable = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
        indices = [",".join(map(str, index)) for index in np.ndindex(*np.shape(leaf))]
        names += [f"{variable}[{index}]" if index else variable for index in indices]
    return lambda point: function(restored(point)), names


def _in_double(function: Callable[[Any], Any] | None) -> Batch | None:
    """A batch function of NumPy arrays, which computes in float64 also where it is written with JAX."""
    if not callable(function):
        return function

    def evaluate(x: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(function(x))

    return evaluate


def trace(log_density: Callable[[Any], Any], dim: int) -> tuple[Partial, Any]:
    """The function traced once in float64, with its own copy of the arrays it closes over; and its output.

    JAX keeps one converted copy of a NumPy array for as long as a traced function holds it. With copies of
    our own, that of the user's array is let go, and the user may go on in float32.
    """
    function = getattr(log_density, "__wrapped__", log_density)  # of jax.jit, whose programs hold arrays too
    point = jax.ShapeDtypeStruct((dim,), np.float64)

    def evaluate(constants: list[Any], x: Any) -> Any:
        return jax.core.eval_jaxpr(jaxpr, constants, x)[0]

    with jax.enable_x64(True):
        try:
            # a new function object each time: JAX would answer from its cache for one it has traced before
            closed, out = jax.make_jaxpr(lambda x: function(x), return_shape=True)(point)
            jaxpr = closed.jaxpr
            constants = [jnp.array(value) for value in closed.consts]
            if getattr(out, "shape", None) == ():
                jax.jit(evaluate).lower(constants, point)  # where precisions clash within loops, it fails
        except (TypeError, ValueError, LookupError) as error:
            raise _trace_error(error, dim) from error
    return Partial(evaluate, constants), out


def _trace_error(error: Exception, dim: int) -> Exception:
    """What the user should know about an error of a function that was traced in float64."""
    reason = str(error).partition("\n")[0]
    if isinstance(error, jax.errors.JAXTypeError):
        return TypeError(
            "`log_density` of from_jax must be written with jax.numpy, without float(), NumPy functions and "
            f"`if` on values; a NumPy function goes into steincheck.Target: {reason}"
        )
    return ValueError(
        f"`log_density` of from_jax fails for a point of shape {(dim,)} in float64: {type(error).__name__}: "
        f"{reason}; if it ran in float32 before, JAX keeps float32 copies of the NumPy arrays it holds: hold "
        'jax.numpy.asarray(data) instead, or start with jax.config.update("jax_enable_x64", True)'
    )


def jax_target(log_density: Partial, dim: int) -> Target:
    """Target of a JAX function of one point; compiled once for all parameters of one shape."""
    with jax.enable_x64(True):
        log_density = jax.tree.map(jnp.asarray, log_density)
    return Target(
        in_chunks(partial(_values, log_density), dim),
        in_chunks(lambda x: values_and_scores(log_density, x)[:, 1:], dim),
        dim=dim,
        hessian=in_chunks(partial(_hessians, log_density), dim, (1, 32)),
        jax_log_density=log_density,
    )


@jax.jit
def _values(log_density: Partial, x: Any) -> Any:
    return jax.vmap(log_density)(x)


@jax.jit
def values_and_scores(log_density: Partial, x: Any) -> Any:
    """log p and score of every row in one program, as columns (n, 1 + d)."""
    return jnp.column_stack(jax.vmap(jax.value_and_grad(log_density))(x))


@jax.jit
def _hessians(log_density: Partial, x: Any) -> Any:
    return jax.vmap(jax.hessian(log_density))(x)


def in_chunks(compiled: Callable[[Any], Any], dim: int, chunks: Sequence[int] = BATCH_SIZES) -> Batch:
    """Evaluate a compiled function of rows at any n, in padded chunks of these sizes: few compilations."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        x = as_numbers(x, "x")
        if x.ndim != 2 or x.shape[1] != dim:
            raise ValueError(f"`x` must have shape (n, {dim}), one point per row, got {x.shape}")
        parts: list[np.ndarray] = []
        start = 0
        while start < len(x) or not parts:
            left = len(x) - start
            above = next((size for size in chunks if left <= size), chunks[-1])
            below = max((size for size in chunks if size <= left), default=chunks[0])
            # padded if at most half of it is padding, else a smaller one
            size = above if above <= 2 * left or below == 1 else below
            block = np.resize(x[start : start + size], (size, dim))  # padded with rows of its own
            with jax.enable_x64(True):
                parts.append(np.asarray(compiled(block))[:left])
            start += size
        return np.concatenate(parts)  # an array that may be written to

    return evaluate
