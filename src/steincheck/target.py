"""The target: a density known up to a constant, as batch callables over draws of shape (n, d)."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

Batch = Callable[[np.ndarray], np.ndarray]
CHUNKS = (1, 32, 256, 4096)  # the only batch shapes ever compiled, so that a new n costs no compilation
MAX_BEND = 1e-4  # nats by which log p may bend over the steps of a finite difference
MAX_SHORTENINGS = 8  # of steps that are too long: by a factor of 1e-24 at the most


@dataclass(frozen=True, eq=False)
class Target:
    """A density p on R^d known up to a constant.

    Parameters
    ----------
    log_density : callable
        Batch function (n, d) -> (n,): log p up to an additive constant; ``-inf`` outside the support.
    score : callable, optional
        Batch function (n, d) -> (n, d): the gradient of log p. Without it the tests use central finite
        differences of `log_density`, and every result says so in its warnings.
    dim : int
        The dimension d.
    hessian : callable, optional
        Batch function (n, d) -> (n, d, d): second derivatives of log p.
    names : sequence of str, optional
        One name per coordinate.
    sample : callable, optional
        ``sample(n, rng) -> (n, d)``: exact independent draws, for models where they exist.
    jax_log_density : callable, optional
        The same log density of one point, (d,) -> scalar, in JAX operations, for compiled loops; `from_jax`
        and the models of `steincheck.models` fill it in. Kept as a `jax.tree_util.Partial`, so that it may
        be an argument of compiled functions.
    constrained_names : sequence of str, optional
        Names of the k parameters as their owner knows them ("tau", "w[0]"), where the d coordinates of the
        target are a transformation of them to the whole space.
    constrain, unconstrain : callable, optional
        Batch functions (n, d) -> (n, k) and (n, k) -> (n, d): from the coordinates to the parameters of
        `constrained_names` and back. `unconstrain` of the targets made by adapters also takes draws with
        names (whatever `as_draws` reads).

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=2)
    >>> target.score(np.ones((1, 2)))
    array([[-1., -1.]])
    """

    log_density: Batch
    score: Batch | None = None
    dim: int = field(kw_only=True)
    hessian: Batch | None = field(default=None, kw_only=True)
    names: Sequence[str] | None = field(default=None, kw_only=True)
    sample: Callable[[int, Any], np.ndarray] | None = field(default=None, kw_only=True)
    jax_log_density: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    constrained_names: Sequence[str] | None = field(default=None, kw_only=True)
    constrain: Batch | None = field(default=None, kw_only=True)
    unconstrain: Callable[[Any], np.ndarray] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        optional = ("score", "hessian", "sample", "jax_log_density", "constrain", "unconstrain")
        for name in ("log_density", *optional):
            value = getattr(self, name)
            required = name == "log_density"
            if not (callable(value) or (value is None and not required)):
                raise TypeError(f"`{name}` must be a function, got {type(value).__name__}")
        if not isinstance(self.dim, (int, np.integer)) or isinstance(self.dim, bool) or self.dim < 1:
            raise ValueError(f"`dim` must be a positive integer, got {self.dim!r}")
        if self.names is not None:
            names = list(self.names)
            if isinstance(self.names, str) or not all(isinstance(name, str) and name for name in names):
                raise TypeError(f"`names` must be a sequence of non-empty strings, got {self.names!r}")
            if len(names) != self.dim:
                raise ValueError(f"`names` must have one name per coordinate ({self.dim}), got {len(names)}")
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"`names` must differ, got {twice!r} more than once")
        if self.jax_log_density is not None and not isinstance(self.jax_log_density, Partial):
            object.__setattr__(self, "jax_log_density", Partial(self.jax_log_density))

    @property
    def has_score(self) -> bool:
        """Whether the score was given; if not, it is differenced."""
        return self.score is not None


def from_jax(
    log_density: Callable[[Any], Any],
    dim: int,
    *,
    names: Sequence[str] | None = None,
    sample: Callable[[int, Any], np.ndarray] | None = None,
) -> Target:
    """Make a `Target` from a JAX function of one point; score and Hessian by automatic differentiation.

    Everything is computed in float64 whatever the global JAX setting, which is left alone, and compiled
    once: draws are evaluated in padded chunks of fixed size, so a new number of draws compiles nothing.

    Parameters
    ----------
    log_density : callable
        (d,) -> scalar, written with ``jax.numpy``.
    dim : int
        The dimension d.
    names, sample
        As in `Target`.

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
    if not isinstance(dim, (int, np.integer)) or dim < 1:
        raise ValueError(f"`dim` must be a positive integer, got {dim!r}")
    own, shape = traced(log_density, int(dim))
    if shape.shape != ():
        raise ValueError(
            "`log_density` of from_jax must map one point of shape (d,) to a scalar, "
            f"but for d = {dim} it returns {shape.shape}"
        )
    if shape.dtype != jnp.float64:
        warnings.warn(
            f"`log_density` returns {shape.dtype} for float64 input: precision is lost", stacklevel=2
        )
    return jax_target(own, int(dim), names=names, sample=sample)


def traced(log_density: Callable[[Any], Any], dim: int) -> tuple[Partial, Any]:
    """The function traced once in float64, with its own copy of the arrays it closes over; and its output.

    JAX keeps one converted copy per NumPy array for as long as any traced function holds it, whatever the
    precision: a function that ran in float32 would be traced here with float32 data, and what is traced here
    would spoil the user's own float32 functions. So such copies are dropped before and after.
    """
    point = jax.ShapeDtypeStruct((dim,), np.float64)
    with jax.enable_x64(True):
        if _holds_single_precision(log_density, point):
            _drop_caches()
        closed, out = _trace(log_density, point)
        watched = [weakref.ref(array) for array in _closed_over(closed)]
        closed = _with_own_constants(closed)
    jaxpr = closed.jaxpr

    def evaluate(constants: list[Any], x: Any) -> Any:
        return jax.core.eval_jaxpr(jaxpr, constants, x)[0]

    if any(reference() is not None for reference in watched):
        _drop_caches()
    return Partial(evaluate, closed.consts), out


def _trace(log_density: Callable[[Any], Any], point: Any) -> tuple[Any, Any]:
    # A new function object each time: JAX would answer from its cache for one it has traced before.
    return jax.make_jaxpr(lambda x: log_density(x), return_shape=True)(point)


def _holds_single_precision(log_density: Callable[[Any], Any], point: Any) -> bool:
    """Whether data of the function come in 32 bits; in its own frame, so that nothing of it stays alive."""
    try:
        return any(array.dtype.itemsize == 4 for array in _closed_over(_trace(log_density, point)[0]))
    except TypeError:  # float32 data met float64; if it is a mistake of the user's, it is raised once more
        return True


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

    def own(node: Any) -> Any:
        return _with_own_constants(node) if _is_closed(node) else node

    equations = [
        equation.replace(params=jax.tree.map(own, equation.params, is_leaf=_is_closed))
        for equation in closed.jaxpr.eqns
    ]
    return closed.replace(
        jaxpr=closed.jaxpr.replace(eqns=equations), consts=[jnp.array(value) for value in closed.consts]
    )


def jax_target(
    log_density: Partial,
    dim: int,
    *,
    chunks: Sequence[int] = CHUNKS,
    names: Sequence[str] | None = None,
    sample: Callable[[int, Any], np.ndarray] | None = None,
) -> Target:
    """Target of a JAX function of one point; compiled once for all parameters of one shape."""
    with jax.enable_x64(True):
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
def _values_and_scores(log_density: Partial, x: Any) -> Any:
    return jax.vmap(jax.value_and_grad(log_density))(x)


@jax.jit
def _hessians(log_density: Partial, x: Any) -> Any:
    return jax.vmap(jax.hessian(log_density))(x)


def in_chunks(compiled: Callable[[Any], Any], dim: int, chunks: Sequence[int]) -> Callable[..., Any]:
    """Evaluate a compiled function of rows at any n, in padded chunks of these sizes: few compilations."""

    def evaluate(x: np.ndarray) -> Any:
        x = np.asarray(x, dtype=np.float64)
        parts = []
        with jax.enable_x64(True):
            if not len(x):
                empty = jax.eval_shape(compiled, jax.ShapeDtypeStruct((1, dim), np.float64))
                return jax.tree.map(lambda leaf: np.empty((0, *leaf.shape[1:])), empty)
            start = 0
            while start < len(x):
                left = len(x) - start
                size = _chunk(left, chunks)
                block = x[start : start + size]
                if len(block) < size:
                    block = np.concatenate([block, np.broadcast_to(block[-1], (size - len(block), dim))])
                parts.append(jax.tree.map(lambda leaf, keep=left: np.asarray(leaf)[:keep], compiled(block)))
                start += size
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    return evaluate


def _chunk(left: int, chunks: Sequence[int]) -> int:
    """The size of the next chunk: padded if at most half of it is padding, else a smaller one."""
    above = next((c for c in chunks if left <= c), chunks[-1])
    below = max((c for c in chunks if c <= left), default=chunks[0])
    return above if above <= 2 * left or below == 1 else below


def raw_value_and_score(target: Target, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log p (n,) and score (n, d) at the rows of `x`, as they come; in one compiled call where possible."""
    if target.jax_log_density is not None:
        return in_chunks(partial(_values_and_scores, target.jax_log_density), target.dim, CHUNKS)(x)
    return target.log_density(read_only(x)), raw_score(target, x)


def raw_score(target: Target, x: np.ndarray) -> np.ndarray:
    """The score at the rows of `x` as it comes, by finite differences where the target has none."""
    if target.score is None:
        return central_differences(target.log_density, x)
    return target.score(read_only(x))


def read_only(x: np.ndarray) -> np.ndarray:
    """A view that the user's functions cannot write to."""
    view = np.asarray(x).view()
    view.flags.writeable = False
    return view


def central_differences(log_density: Batch, x: np.ndarray, step: np.ndarray | None = None) -> np.ndarray:
    """Gradient of `log_density` at the rows of `x` by central differences, shape (n, d)."""
    return _differences(log_density, np.asarray(x, dtype=float), step)[0]


def _differences(
    log_density: Batch, x: np.ndarray, step: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Central differences (n, d), and what the rounding of log p may contribute to them.

    Steps are made shorter until log p bends by little over them: the width of the density is not known.
    """
    raw = np.asarray(log_density(x))
    precision = np.finfo(raw.dtype if raw.dtype.kind == "f" else float).eps
    middle = raw.astype(float)[:, None]
    noise = 10 * precision * np.abs(middle)
    fine = precision ** (1 / 3)
    start = fine * np.maximum(1.0, np.abs(x)) if step is None else step * max(1.0, 1e4 * fine)
    h = np.array(np.broadcast_to(start, x.shape))
    ahead = np.empty(x.shape)
    behind = np.empty(x.shape)
    rows = np.arange(len(x))
    for _ in range(MAX_SHORTENINGS + 1):
        ahead[rows] = _moved_log_density(log_density, x[rows], h[rows])
        behind[rows] = _moved_log_density(log_density, x[rows], -h[rows])
        with np.errstate(invalid="ignore"):
            bend = np.abs(ahead + behind - 2 * middle)
        long = ~(bend <= np.maximum(MAX_BEND, noise))
        rows = np.flatnonzero(long.any(axis=1))
        if not len(rows):
            break
        used = h.copy()
        factor = np.where(np.isfinite(bend), np.sqrt(MAX_BEND / np.maximum(bend, MAX_BEND)), 0.1)
        h[long] *= np.clip(factor[long], 1e-3, 0.5)
    else:
        h = used
    with np.errstate(invalid="ignore"):
        return (ahead - behind) / (2 * h), 5 * noise / h


def _moved_log_density(log_density: Batch, x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """log p (n, d) with each coordinate of each row moved by its step in turn."""
    n, d = x.shape
    moves = np.eye(d)[:, None, :] * step  # (d, n, d): coordinate k moved
    return np.asarray(log_density((x + moves).reshape(-1, d)), dtype=float).reshape(d, n).T


def log_density_at(target: Target, x: np.ndarray, *, proposal: bool = False) -> np.ndarray:
    """log p at the rows of `x`, validated; at a `proposal` -inf is a value, NaN is not."""
    value = _as_floats("log_density", target.log_density(read_only(x)), (len(x),))
    bad = np.isnan(value) | (value == np.inf) if proposal else ~np.isfinite(value)
    if bad.any():
        _raise_non_finite("log_density", x, value, bad)
    return value


def score_at(target: Target, x: np.ndarray) -> np.ndarray:
    """The score at the rows of `x`, validated, shape (n, d)."""
    value = _as_floats("score", raw_score(target, x), x.shape)
    bad = ~np.isfinite(value).all(axis=1)
    if bad.any():
        _raise_non_finite("score", x, value, bad)
    return value


def require_target(target: Any) -> None:
    """Raise unless `target` is a `Target`."""
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")


def support_warnings(target: Target, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator) -> list[str]:
    """What a look at the log density of the draws says against Stein tests: impossible draws, hard edges."""
    found = []
    depth = np.median(log_p) - log_p
    limit = 50 * (np.quantile(depth, 0.95) + x.shape[1])
    rows = np.flatnonzero(depth > limit)
    if len(rows):
        found.append(
            f"{len(rows)} of {len(x)} draws are all but impossible: their log density is more than "
            f"{limit:.0f} below the median, rows {rows[:10].tolist()}; a few such draws hardly move a p-value"
        )
    edge = hard_edge(target, x, log_p, rng)
    if edge is not None:
        found.append(
            f"the density ends abruptly near x = {np.array2string(edge, precision=4, threshold=8)}: Stein "
            "tests need one that vanishes at its edge, and reject true draws otherwise; transform the "
            "parameters to the whole space"
        )
    return found


def hard_edge(
    target: Target, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """A point at which the density drops to 0 from a height that matters, or None.

    Up to 1000 draws are moved by three tenths of a standard deviation. Where the density is 0 there, the
    edge between is bracketed; it is hard if log p just inside is not far below its median: Stein's identity
    is off by the density at the edge, which shows against noise of 1/sqrt(n).
    """
    rows = np.arange(0, len(x), max(1, len(x) // 1000))
    near = x[rows] + 0.3 * x.std(axis=0) * rng.standard_normal((len(rows), x.shape[1]))
    gone = ~np.isfinite(_quiet_log_density(target, near))
    inside = x[rows][gone]
    outside = near[gone]
    height = log_p[rows][gone]
    for _ in range(40 if len(inside) else 0):
        middle = 0.5 * (inside + outside)
        value = _quiet_log_density(target, middle)
        finite = np.isfinite(value)
        inside = np.where(finite[:, None], middle, inside)
        outside = np.where(finite[:, None], outside, middle)
        height = np.where(finite, value, height)
    hard = height > np.median(log_p) - 5 - 0.5 * np.log(len(x))
    return inside[np.argmax(height)] if hard.any() else None


def _quiet_log_density(target: Target, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(target.log_density(read_only(x)), dtype=float)


def _as_floats(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        value = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`{name}` must return an array of floats: {error}") from None
    if value.shape != shape:
        raise ValueError(
            f"`{name}` must return shape {shape} for {shape[0]} points, got {value.shape}; "
            "it is called with all points at once, one a row"
        )
    return value


def _raise_non_finite(name: str, x: np.ndarray, value: np.ndarray, bad: np.ndarray) -> None:
    rows = np.flatnonzero(bad)
    raise ValueError(
        f"`{name}` must be finite at every point: {len(rows)} of {len(x)} rows are not, rows "
        f"{rows[:10].tolist()}; at row {rows[0]}, x = {np.array2string(x[rows[0]], threshold=8)}, "
        f"it is {value[rows[0]]}"
    )


def check_score(target: Target, x: np.ndarray, *, n_points: int = 5, rtol: float = 1e-3) -> np.ndarray:
    """Compare `target.score` with finite differences of `target.log_density` at a few draws.

    Parameters
    ----------
    target : Target
    x : array (n, d)
        Draws; `n_points` of them, evenly spaced, are used.
    n_points : int
        How many draws to look at.
    rtol : float
        Allowed difference relative to the size of the score in that coordinate.

    Returns
    -------
    array (d,)
        The largest difference of each coordinate, relative to the size of the score there.

    Raises
    ------
    ValueError
        If a coordinate disagrees; the message names the coordinates and shows both values.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> wrong = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: x, dim=1)
    >>> sc.check_score(wrong, np.array([[1.0], [2.0]]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: `score` disagrees with finite differences of `log_density` in coordinate 0...
    """
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")
    x = np.atleast_2d(np.asarray(x, dtype=float))
    if x.ndim != 2 or x.shape[1] != target.dim or not len(x) or n_points < 1:
        raise ValueError(
            f"`x` must have shape (n, {target.dim}) and `n_points` be positive, got {x.shape} and {n_points}"
        )
    rows = np.unique(np.linspace(0, len(x) - 1, num=min(n_points, len(x))).astype(int))
    spread, points = x.std(axis=0), x[rows]
    given = score_at(target, points)
    log_density_at(target, points)  # says which draws have no density
    numeric, rounding = _differences(target.log_density, points, 1e-4 * np.where(spread > 0, spread, 1.0))
    size = np.maximum(np.abs(given), np.abs(numeric)).max(axis=0)
    gap = np.abs(given - numeric)
    wrong = np.flatnonzero((gap > rtol * size + rounding).any(axis=0) | np.isnan(gap).any(axis=0))
    if len(wrong):
        lines = []
        for k in wrong[:5]:
            i = int(np.argmax(gap[:, k]))
            label = f" ({target.names[k]})" if target.names else ""
            lines.append(
                f"coordinate {k}{label}: at row {rows[i]} the score is {given[i, k]:.6g}, "
                f"the finite difference {numeric[i, k]:.6g}"
            )
        sign = " (the sign is reversed)" if np.allclose(given, -numeric, rtol=1e-2) else ""
        raise ValueError(
            "`score` disagrees with finite differences of `log_density` in "
            + "; ".join(lines)
            + (f"; and {len(wrong) - 5} more coordinates" if len(wrong) > 5 else "")
            + f"{sign}. Correct the score, or pass check_score=False to a single test to go on regardless"
        )
    return gap.max(axis=0) / np.where(size > 0, size, 1.0)
