"""The target: a density known up to a constant, as batch callables over draws of shape (n, d).

Its coordinates show the user's own parameters as they are, or as their log or logit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jax.tree_util import Partial
from scipy import special

from .._validation import as_count, check_names, check_switch, listed

MAX_DIM = 10**6  # a matrix of this order is beyond any memory
Batch = Callable[[np.ndarray], np.ndarray]
# per scale of a coordinate, how a parameter follows from it
SCALES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "": np.asarray,
    "log": np.exp,
    "logit": special.expit,
}


class _PointByPoint(NamedTuple):
    """A function of one point as a batch function."""

    function: Callable[[np.ndarray], Any]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.array([self.function(point) for point in x])


class _Recipe(NamedTuple):
    """How a target was made, and the fields it had then."""

    call: Callable[[], Target]
    made: dict[str, Any]


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
        One name per coordinate.
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
    # how it was made; a field, so that dataclasses.replace keeps it
    _recipe: _Recipe | None = field(default=None, kw_only=True)

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
                object.__setattr__(self, name, _PointByPoint(getattr(self, name)))
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
        recipe = self._recipe
        if recipe is None:
            return super().__reduce_ex__(protocol)
        changed = {
            name: getattr(self, name) for name in recipe.made if getattr(self, name) is not recipe.made[name]
        }
        return _remake, (recipe.call, changed)

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
    return replace(target, _recipe=_Recipe(functools.partial(maker, *arguments, **options), made))


def _remake(call: Callable[[], Target], changed: dict[str, Any]) -> Target:
    """The target that was made by `call`, with fields that were replaced later."""
    target = call()
    return replace(target, **changed) if changed else target


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


class ParameterScale(NamedTuple):
    """How one coordinate of a target shows one of the user's parameters."""

    parameter: str  #: the user's own name
    column: int  #: where `constrain` puts it
    scale: str  #: "" if the coordinate is the parameter itself, "log" or "logit"

    def values(self, coordinate: np.ndarray) -> np.ndarray:
        """Values of the parameter at values of the coordinate."""
        return np.asarray(SCALES[self.scale](coordinate))

    def log_slope(self, coordinate: np.ndarray) -> np.ndarray:
        """log of the derivative of the parameter by the coordinate."""
        if self.scale == "log":
            return np.asarray(coordinate)
        if self.scale == "logit":
            return np.asarray(special.log_expit(coordinate) + special.log_expit(-coordinate))
        return np.zeros_like(coordinate)


def parameter_scales(target: Target) -> dict[str, ParameterScale]:
    """Per name of a coordinate: the user's parameter and the scale on which the coordinate shows it.

    Found from the values of `constrain` at a few points, whatever the coordinates are called. Coordinates
    that mix several parameters (of a simplex, of ordered vectors) are not in it.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(
    ...     lambda u: u[:, 0] - np.exp(u[:, 0]), dim=1, names=["log tau"], constrained_names=["tau"],
    ...     constrain=np.exp, unconstrain=np.log,
    ... )
    >>> parameter_scales(target)["log tau"]
    ParameterScale(parameter='tau', column=0, scale='log')
    """
    names = target.coordinate_names
    if target.constrain is None or target.constrained_names is None:
        return {name: ParameterScale(name, k, "") for k, name in enumerate(names)}
    points = probe_points(target.dim)
    values = np.asarray(target.constrain(points), dtype=np.float64)
    found: dict[str, ParameterScale] = {}
    for scale, inverse in SCALES.items():
        column = _same_column(inverse(points), values)
        for j in np.flatnonzero(column >= 0).tolist():
            parameter = target.constrained_names[column[j]]
            found.setdefault(names[j], ParameterScale(parameter, int(column[j]), scale))
    return found


def scale_of(coordinate: np.ndarray, parameter: np.ndarray) -> str:
    """How a coordinate shows a parameter, with {} for its name, from values of both."""
    for scale, inverse in SCALES.items():
        if np.allclose(inverse(coordinate), parameter, rtol=1e-9, atol=0):
            return f"{scale} {{}}".lstrip()
    return "unconstrained {}"


def _same_column(images: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Which column of `values` (n, k) equals each column of `images` (n, d), as (d,); -1 if none does."""
    order = np.argsort(values[0], kind="stable")
    ordered = values[0, order]
    after = np.searchsorted(ordered, images[0]).clip(max=len(order) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(ordered[before] - images[0]) < np.abs(ordered[after] - images[0])
    column = order[np.where(nearer, before, after)]
    same = np.isclose(images, values[:, column], rtol=1e-9, atol=0).all(axis=0)
    return np.where(same, column, -1)


def probe_points(dim: int, n: int = 3) -> np.ndarray:
    """A few fixed points (n, dim) near 0 without any symmetry."""
    return 0.8 * np.sin(np.outer(np.sqrt(np.arange(2, n + 2)), np.arange(1, dim + 1)))


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
