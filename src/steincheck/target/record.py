"""The target, a density known up to a constant: batch functions of points (n, d), or one traced by JAX."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from .._validation import as_count, as_numbers, check_names, check_switch, listed, shown

MAX_DIM = 10**6  # a matrix of this order is beyond any memory
BATCH_SIZES = (1, 32, 256, 4096)  # the only batch shapes ever compiled, so that a new n costs no compilation
Batch = Callable[[np.ndarray], np.ndarray]


def _at_each_point(function: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """The values of a function of one point at the rows of x."""
    return np.array([function(point) for point in x])


@dataclass(frozen=True, eq=False, repr=False)
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
    vectorized : bool
        False if `log_density`, `score` and `hessian` are functions of one point, (d,) -> scalar, (d,) and
        (d, d), as emcee, dynesty and scipy.optimize take them; they are then called point by point.
    hessian : callable, optional
        Batch function (n, d) -> (n, d, d): second derivatives of log p.
    names : sequence of str, optional
        One name per coordinate; where there are none `check` takes those of the draws.
    sample : callable, optional
        ``sample(n, rng) -> (n, d)``: exact independent draws, for models where they exist.
    jax_log_density : callable, optional
        The same log density of one point, (d,) -> scalar, in JAX operations, for compiled loops; `from_jax`
        and the models of `steincheck.models` fill it in. Kept as a `jax.tree_util.Partial`, so that it may
        be an argument of compiled functions.
    constrained_names : sequence of str, optional
        Names of the k parameters as their owner knows them ("tau", "w[0]"), where the d coordinates of the
        target are a transformation of them to unconstrained space.
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
    vectorized: InitVar[bool] = field(default=True, kw_only=True)
    hessian: Batch | None = field(default=None, kw_only=True)
    names: Sequence[str] | None = field(default=None, kw_only=True)
    sample: Callable[[int, Any], np.ndarray] | None = field(default=None, kw_only=True)
    jax_log_density: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    constrained_names: Sequence[str] | None = field(default=None, kw_only=True)
    constrain: Batch | None = field(default=None, kw_only=True)
    unconstrain: Callable[[Any], np.ndarray] | None = field(default=None, kw_only=True)
    # the call that made it and the fields it had then; a field, so that dataclasses.replace keeps it
    _recipe: tuple[Callable[[], Target], dict[str, Any]] | None = field(default=None, kw_only=True)

    def __post_init__(self, vectorized: bool) -> None:
        optional = ("score", "hessian", "sample", "jax_log_density", "constrain", "unconstrain")
        for name in ("log_density", *optional):
            value = getattr(self, name)
            if not (callable(value) or (value is None and name in optional)):
                raise TypeError(f"`{name}` must be a function, got {type(value).__name__}")
        as_count(self.dim, "dim", maximum=MAX_DIM)
        check_switch(vectorized, "vectorized")
        for name in () if vectorized else ("log_density", "score", "hessian"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, partial(_at_each_point, getattr(self, name)))
        for name in ("names", "constrained_names"):
            labels = getattr(self, name)
            if labels is not None:
                check_names(labels, name)
                object.__setattr__(self, name, tuple(map(str, labels)))  # the user's own list may change
        if self.names is not None and len(self.names) != self.dim:
            raise ValueError(f"`names` must have one name per coordinate ({self.dim}), got {len(self.names)}")
        if self.jax_log_density is not None and not isinstance(self.jax_log_density, Partial):
            object.__setattr__(self, "jax_log_density", Partial(self.jax_log_density))

    def __repr__(self) -> str:
        parts = [f"dim={self.dim}"]
        if self.names is not None:
            parts.append(f"names: {listed(self.names, 3)}")
        own = ("score", "hessian", "sample", "constrain")
        parts += [f"with {name}" for name in own if getattr(self, name) is not None]
        return f"<Target: {', '.join(parts)}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._recipe is None:
            return super().__reduce_ex__(protocol)
        call, made = self._recipe
        now = {name: getattr(self, name) for name in made}
        return _remake, (call, {name: value for name, value in now.items() if value is not made[name]})

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """The names, or x[0], x[1], ... where there are none."""
        return tuple(coordinate_names(self.dim, self.names))

    @property
    def has_score(self) -> bool:
        """Whether the score was given; if not, it is differenced."""
        return self.score is not None


AnyTarget = TypeVar("AnyTarget", bound=Target)


def made_by(target: AnyTarget, maker: Callable[..., Target], *arguments: Any, **options: Any) -> AnyTarget:
    """The target, to be pickled as this call, since compiled functions cannot be."""
    made = {item.name: getattr(target, item.name) for item in fields(target) if item.name != "_recipe"}
    return replace(target, _recipe=(partial(maker, *arguments, **options), made))


def _remake(call: Callable[[], Target], changed: dict[str, Any]) -> Target:
    """The target that was made by `call`, with fields that were replaced later."""
    return replace(call(), **changed)


def coordinate_names(dim: int, names: Sequence[str] | None = None) -> list[str]:
    """The names, or x[0], x[1], ... where there are none.

    Examples
    --------
    >>> coordinate_names(2)
    ['x[0]', 'x[1]']
    """
    return list(names) if names else [f"x[{k}]" for k in range(dim)]


def require_target(target: Any) -> None:
    """Raise unless `target` is a `Target`."""
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")


def to_constrained(points: Any, target: Target) -> tuple[np.ndarray, tuple[str, ...]]:
    """Points (n, d) of the target, such as mode locations, as values (n, k) of the user's parameters.

    Returns
    -------
    values : array (n, k)
    names : tuple of str
        Parameter names; without `constrain` these are the points themselves with the names of the target.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(lambda u: -u[:, 0] ** 2, dim=1, constrained_names=["tau"], constrain=np.exp)
    >>> to_constrained(np.zeros((1, 1)), target)
    (array([[1.]]), ('tau',))
    """
    points = np.atleast_2d(np.asarray(points, dtype=np.float64))
    if target.constrain is not None and target.constrained_names is not None:
        return np.asarray(target.constrain(points)), tuple(target.constrained_names)
    return points, target.coordinate_names


def probe_points(dim: int, n: int = 4) -> np.ndarray:
    """A few fixed points (n, dim) near 0 without any symmetry."""
    return 0.8 * np.sin(np.outer(np.sqrt(np.arange(2, n + 2)), np.arange(1, dim + 1)))


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
    again = partial(from_jax, log_density, dim, example=example, **options, **maps)
    if example is not None:
        log_density, own_names = _flat_function(log_density, example)
        if dim not in (None, len(own_names)):
            raise ValueError(f"`dim` must be {len(own_names)}, as `example` has it, got {shown(dim)}")
        dim, options["names"] = len(own_names), names or own_names
    if dim is None:
        raise ValueError("`dim` must be given, or `example`, a point in the form that `log_density` takes")
    dim = as_count(dim, "dim", maximum=MAX_DIM)
    traced, returned = trace(log_density, dim)
    if getattr(returned, "shape", None) != () or not jnp.issubdtype(returned.dtype, jnp.floating):
        raise ValueError(
            "`log_density` of from_jax must map one point of shape (d,) to one real number, "
            f"but for d = {dim} it returns {shown(returned)}"
        )
    if returned.dtype != jnp.float64:
        warnings.warn(
            f"`log_density` returns {returned.dtype} for float64 input: precision is lost", stacklevel=2
        )
    maps = {name: _in_double(function) for name, function in maps.items()}
    return made_by(jax_target(traced, dim, **options, **maps), again)


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


def jax_target(log_density: Partial, dim: int, kind: Any = Target, **more: Any) -> Any:
    """Target of this `kind` of a JAX function of one point; compiled once for all parameters of one shape."""
    with jax.enable_x64(True):
        log_density = jax.tree.map(jnp.asarray, log_density)
    return kind(
        in_chunks(partial(_values, log_density), dim),
        in_chunks(lambda x: values_and_scores(log_density, x)[:, 1:], dim),
        dim=dim,
        hessian=in_chunks(partial(_hessians, log_density), dim, (1, 32)),
        jax_log_density=log_density,
        **more,
    )


_values = jax.jit(lambda log_density, x: jax.vmap(log_density)(x))
_hessians = jax.jit(lambda log_density, x: jax.vmap(jax.hessian(log_density))(x))


@jax.jit
def values_and_scores(log_density: Partial, x: Any) -> Any:
    """log p and score of every row in one program, as columns (n, 1 + d)."""
    return jnp.column_stack(jax.vmap(jax.value_and_grad(log_density))(x))


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
            least = chunks[0] if left <= 1 else chunks[1]
            size = max([least, *(size for size in chunks if size <= 2 * left)])  # at most half is padding
            block = np.resize(x[start : start + size], (size, dim))  # padded with rows of its own
            with jax.enable_x64(True):
                parts.append(np.asarray(compiled(block))[:left])
            start += size
        return np.concatenate(parts)  # an array that may be written to

    return evaluate
