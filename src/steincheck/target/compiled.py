"""Targets from JAX functions: traced once in float64, compiled for a few batch shapes."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from .._compilation import precise
from .._validation import as_count, as_numbers
from .pytree import flat_function
from .record import MAX_DIM, Batch, Target, made_by
from .stand_ins import stand_ins

PROGRAMS_DROPPED = (
    "`log_density` holds NumPy arrays that from_jax cannot reach, and JAX keeps copies of them in one "
    "precision: all compiled programs of JAX were dropped; jax.numpy.asarray(data), or data in a closure, "
    "avoids this"
)
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
    NumPy data that `log_density` holds are used in float64 too, also if it ran in float32 before. Where these
    cannot be reached (attributes of a module), JAX may have to drop all compiled programs, with a warning.

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
    if example is not None:
        flat = flat_function(log_density, example)
        options: dict[str, Any] = {"sample": sample, "constrained_names": constrained_names}
        options |= {"constrain": constrain, "unconstrain": unconstrain}
        target = from_jax(flat.function, flat.dim, names=names or flat.names, **options)
        return made_by(target, from_jax, log_density, example=example, names=names, **options)
    dim = as_count(dim, "dim", maximum=MAX_DIM)
    function, returned = traced(log_density, int(dim))
    _check_returned(returned, int(dim))
    if returned.dtype != jnp.float64:
        warnings.warn(
            f"`log_density` returns {returned.dtype} for float64 input: precision is lost", stacklevel=2
        )
    target = replace(
        jax_target(function, int(dim), names=names, sample=sample),
        constrained_names=constrained_names,
        constrain=_in_double(constrain),
        unconstrain=_in_double(unconstrain),
    )
    return made_by(
        target,
        from_jax,
        log_density,
        int(dim),
        names=names,
        sample=sample,
        constrained_names=constrained_names,
        constrain=constrain,
        unconstrain=unconstrain,
    )


def _in_double(function: Callable[[Any], Any] | None) -> Batch | None:
    """A batch function of NumPy arrays, which computes in float64 also where it is written with JAX."""
    if not callable(function):
        return function

    def evaluate(x: np.ndarray) -> np.ndarray:
        with precise():
            return np.asarray(function(x))

    return evaluate


def _check_returned(returned: Any, dim: int) -> None:
    """Raise unless a traced function returns one real number."""
    if getattr(returned, "shape", None) != ():
        what = type(returned).__name__ if not hasattr(returned, "shape") else returned.shape
        raise ValueError(
            "`log_density` of from_jax must map one point of shape (d,) to a scalar, "
            f"but for d = {dim} it returns {what}"
        )
    if not jnp.issubdtype(returned.dtype, jnp.floating):
        raise TypeError(f"`log_density` must return a real number, it returns {returned.dtype}")


def traced(log_density: Callable[[Any], Any], dim: int) -> tuple[Partial, Any]:
    """The function traced once in float64, with its own copy of the arrays it closes over; and its output.

    Views stand in for the NumPy arrays it holds, see `stand_ins`. Copies that JAX keeps of arrays for which
    there are none, those of modules for example, can only be dropped together with all it has compiled.
    """
    point = jax.ShapeDtypeStruct((dim,), np.float64)
    with precise(), stand_ins(log_density) as (function, views):
        drop = _holds_single_precision(function, point, views)
        if drop:
            _drop_caches()
        closed, out = _trace_or_explain(function, point)
        watched = [weakref.ref(array) for array in _not_views(closed, views)]
        closed = _with_own_constants(closed)
    jaxpr = closed.jaxpr

    def evaluate(constants: list[Any], x: Any) -> Any:
        return jax.core.eval_jaxpr(jaxpr, constants, x)[0]

    if any(reference() is not None for reference in watched):
        drop = True
        _drop_caches()
    if drop:
        warnings.warn(PROGRAMS_DROPPED, stacklevel=3)
    return Partial(evaluate, closed.consts), out


def _trace(log_density: Callable[[Any], Any], point: Any) -> tuple[Any, Any]:
    # A new function object each time: JAX would answer from its cache for one it has traced before.
    return jax.make_jaxpr(lambda x: log_density(x), return_shape=True)(point)


def _trace_or_explain(log_density: Callable[[Any], Any], point: Any) -> tuple[Any, Any]:
    try:
        return _trace(log_density, point)
    except jax.errors.JAXTypeError as error:
        reason = str(error).partition("\n")[0]
        raise TypeError(
            "`log_density` of from_jax must be written with jax.numpy, without float(), NumPy functions and "
            f"`if` on values; a NumPy function goes into steincheck.Target: {reason}"
        ) from error
    except (TypeError, ValueError, LookupError) as error:
        raise ValueError(
            f"`log_density` of from_jax fails for a point of shape {point.shape}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _holds_single_precision(log_density: Callable[[Any], Any], point: Any, views: list[np.ndarray]) -> bool:
    """Whether data without a stand-in have 32 bits; in its own frame, so that nothing of it stays alive."""
    try:
        return any(array.dtype.itemsize == 4 for array in _not_views(_trace(log_density, point)[0], views))
    except (TypeError, ValueError, LookupError) as error:  # float32 met float64; a mistake is raised again
        return "float32" in str(error)


def _not_views(closed: Any, views: list[np.ndarray]) -> list[np.ndarray]:
    """The NumPy arrays of a traced function that are not in the memory of the stand-ins."""
    return [
        array for array in _closed_over(closed) if not any(np.may_share_memory(array, view) for view in views)
    ]


def _drop_caches() -> None:
    jax.clear_caches()
    gc.collect()


def _is_closed(node: Any) -> bool:
    return hasattr(node, "consts") and hasattr(node, "jaxpr")


def _closed_over(closed: Any) -> list[np.ndarray]:
    """The NumPy arrays that a traced function and those inside it hold."""
    arrays = [value for value in closed.consts if isinstance(value, np.ndarray)]
    for equation in closed.jaxpr.eqns:
        for inner in filter(_is_closed, jax.tree.leaves(equation.params, is_leaf=_is_closed)):
            arrays += _closed_over(inner)
    return arrays


def _with_own_constants(closed: Any) -> Any:
    """The same traced function with JAX arrays in place of the NumPy arrays it holds, at every depth."""

    def replaced(node: Any) -> Any:
        return _with_own_constants(node) if _is_closed(node) else node

    equations = [
        equation.replace(params=jax.tree.map(replaced, equation.params, is_leaf=_is_closed))
        for equation in closed.jaxpr.eqns
    ]
    return closed.replace(
        jaxpr=closed.jaxpr.replace(eqns=equations), consts=[jnp.array(value) for value in closed.consts]
    )


def jax_target(
    log_density: Partial,
    dim: int,
    *,
    chunks: Sequence[int] = BATCH_SIZES,
    names: Sequence[str] | None = None,
    sample: Callable[[int, Any], np.ndarray] | None = None,
) -> Target:
    """Target of a JAX function of one point; compiled once for all parameters of one shape."""
    with precise():
        log_density = jax.tree.map(jnp.asarray, log_density)
    return Target(
        in_chunks(partial(_values, log_density), dim, chunks),
        in_chunks(partial(_scores, log_density), dim, chunks),
        dim=dim,
        hessian=in_chunks(partial(_hessians, log_density), dim, (1, 32)),
        names=names,
        sample=sample,
        jax_log_density=log_density,
    )


@jax.jit
def _values(log_density: Partial, x: Any) -> Any:
    return jax.vmap(log_density)(x)


@jax.jit
def _scores(log_density: Partial, x: Any) -> Any:
    return jax.vmap(jax.grad(log_density))(x)


@jax.jit
def values_and_scores(log_density: Partial, x: Any) -> Any:
    """log p and score of every row in one program."""
    return jax.vmap(jax.value_and_grad(log_density))(x)


@jax.jit
def _hessians(log_density: Partial, x: Any) -> Any:
    return jax.vmap(jax.hessian(log_density))(x)


def in_chunks(compiled: Callable[[Any], Any], dim: int, chunks: Sequence[int]) -> Callable[..., Any]:
    """Evaluate a compiled function of rows at any n, in padded chunks of these sizes: few compilations."""
    compiled_sizes = set[int]()  # to look for them on disk again costs a fifth of the time of a small batch

    def evaluate(x: np.ndarray) -> Any:
        x = as_numbers(x, "x")
        if x.ndim != 2 or x.shape[1] != dim:
            raise ValueError(f"`x` must have shape (n, {dim}), one point per row, got {x.shape}")
        if not len(x):
            with precise():
                one = jax.eval_shape(compiled, jax.ShapeDtypeStruct((1, dim), np.float64))
            return jax.tree.map(lambda leaf: np.empty((0, *leaf.shape[1:])), one)
        parts = []
        start = 0
        while start < len(x):
            left = len(x) - start
            size = _chunk(left, chunks)
            block = x[start : start + size]
            if len(block) < size:
                block = np.concatenate([block, np.broadcast_to(block[-1], (size - len(block), dim))])
            with jax.enable_x64(True) if size in compiled_sizes else precise():
                parts.append(jax.tree.map(lambda leaf, keep=left: np.asarray(leaf)[:keep], compiled(block)))
            compiled_sizes.add(size)
            start += size
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)  # arrays that may be written to

    return evaluate


def _chunk(left: int, chunks: Sequence[int]) -> int:
    """The size of the next chunk: padded if at most half of it is padding, else a smaller one."""
    above = next((c for c in chunks if left <= c), chunks[-1])
    below = max((c for c in chunks if c <= left), default=chunks[0])
    return above if above <= 2 * left or below == 1 else below
