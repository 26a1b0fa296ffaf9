"""Densities of positive or bounded parameters, taken to unconstrained space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._validation import as_pairs, listed
from ..draws.names import variable_of
from ..target import Target, from_jax, made_by, raw_score, require_target
from ..typing import BoundsLike
from .parameters import Parameters, with_parameters


def unbounded(target: Target, support: BoundsLike | Mapping[str, tuple[float, float]]) -> Target:
    """Take a density of positive or bounded parameters to unconstrained space, Jacobian included.

    Stein tests need a density that vanishes fast at the edge of its support. A parameter x above a becomes
    y = log(x - a), one below b becomes y = -log(b - x), one between them y = log (x - a)/(b - x), so that y
    rises with x; the density of y is p(x(y)) dx/dy.

    Parameters
    ----------
    target : Target
        The density of the parameters themselves.
    support : (low, high), one such pair per coordinate, or a mapping of names to pairs
        The support of each parameter; infinite where it has no edge, as those not named have none.

    Returns
    -------
    Target
        The density of y. Draws with names are read as parameters; an array of parameters goes through its
        ``unconstrain``. Verdicts speak of positive parameters and of those in (0, 1) on their own scale, of
        others by the names of y, such as "log(tau - 2)".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> exponential = sc.from_jax(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf), dim=1, names=["rate"])
    >>> target = sc.unbounded(exponential, (0, np.inf))
    >>> target.names
    ('log rate',)
    >>> draws = np.random.default_rng(0).exponential(size=(500, 1))
    >>> sc.check({"rate": draws[:, 0]}, target, rng=0).fits
    True
    """
    require_target(target)
    if target.constrain is not None:
        raise ValueError("`target` must not have been transformed already: it has `constrain`")
    names = target.coordinate_names
    pairs = _by_name(support, names) if isinstance(support, Mapping) else support
    low, high = as_pairs(pairs, target.dim, "support")
    scale = _Scale(tuple(low.tolist()), tuple(high.tolist()))
    owners = tuple(variable_of(name) for name in names)
    parameters = Parameters(names, owners, scale.parameters, scale.coordinates)
    free = _of_batches(target, scale) if target.jax_log_density is None else _compiled(target, scale)
    if target.sample is not None:
        sample = target.sample
        free = replace(free, sample=lambda n, rng: scale.coordinates(sample(n, rng)))
    labels = [_name(*edges) for edges in zip(names, low.tolist(), high.tolist(), strict=True)]
    free = replace(with_parameters(free, parameters), names=labels)
    return made_by(free, unbounded, target, support)


def _by_name(support: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """A pair per coordinate from pairs by name, infinite where none is given."""
    for name in support:
        if name not in names:
            raise ValueError(f"`support` must name parameters of the target, {listed(names)}, got {name!r}")
    return [support.get(name, (-np.inf, np.inf)) for name in names]


def _compiled(target: Target, scale: _Scale) -> Target:
    """The transformed target by JAX."""
    inner = target.jax_log_density
    assert inner is not None

    def log_density(y: Any) -> Any:
        return inner(scale.parameters(y, jnp)) + jnp.sum(scale.log_slope(y, jnp))

    return from_jax(log_density, target.dim)


def _of_batches(target: Target, scale: _Scale) -> Target:
    """The transformed target by batch functions of NumPy arrays."""

    def log_density(y: np.ndarray) -> np.ndarray:
        return target.log_density(scale.parameters(y)) + scale.log_slope(y).sum(axis=1)

    def score(y: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            slope = np.exp(scale.log_slope(y))
        return raw_score(target, scale.parameters(y)) * slope + scale.slope_of_log_slope(y)

    return Target(log_density, score if target.has_score else None, dim=target.dim)


@dataclass(frozen=True)
class _Scale:
    """Parameters x of coordinates y on unconstrained space, per coordinate; x rises with y."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def kinds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether there are two edges, a lower one only, an upper one only."""
        below, above = np.isfinite(self.low), np.isfinite(self.high)
        return below & above, below & ~above, above & ~below

    @property
    def width(self) -> np.ndarray:
        """Distance of the edges, 1 where there is at most one."""
        return np.where(self.kinds[0], np.subtract(self.high, self.low), 1.0)

    def _chosen(self, both: Any, low: Any, high: Any, none: Any, xp: Any = np) -> Any:
        """Of four formulas, the one that holds for each coordinate."""
        two, lower, upper = self.kinds
        return xp.where(two, both, xp.where(lower, low, xp.where(upper, high, none)))

    def log_slope(self, y: Any, xp: Any = np) -> Any:
        """log dx/dy per coordinate."""
        both = np.log(self.width) - xp.logaddexp(0.0, -y) - xp.logaddexp(0.0, y)
        return self._chosen(both, y, -y, xp.zeros_like(y), xp)

    def slope_of_log_slope(self, y: np.ndarray) -> np.ndarray:
        """d log(dx/dy) / dy per coordinate."""
        return np.asarray(self._chosen(-np.tanh(0.5 * y), 1.0, -1.0, 0.0))

    def parameters(self, y: Any, xp: Any = np) -> Any:
        """x of y."""
        two, lower, upper = self.kinds
        low = np.where(two | lower, self.low, 0.0)
        high = np.where(upper, self.high, 0.0)
        both = low + self.width * xp.exp(-xp.logaddexp(0.0, -y))
        with np.errstate(over="ignore"):  # infinite far out, where the density is 0
            up = xp.exp(xp.where(lower, y, 0.0))
            down = xp.exp(xp.where(upper, -y, 0.0))
        return self._chosen(both, low + up, high - down, y, xp)

    def coordinates(self, x: Any) -> np.ndarray:
        """y of x; NaN or infinite at the edges and beyond them."""
        x = np.asarray(x, dtype=float)
        with np.errstate(all="ignore"):
            from_low = np.log(x - np.array(self.low))
            from_high = np.log(np.array(self.high) - x)
            return np.asarray(self._chosen(from_low - from_high, from_low, -from_high, x))


def _name(parameter: str, low: float, high: float) -> str:
    """What a coordinate shows of a parameter."""
    if np.isfinite(low) and np.isfinite(high):
        return f"logit {parameter}" if (low, high) == (0, 1) else f"logit {parameter} in ({low:g}, {high:g})"
    if np.isfinite(low):
        return f"log {parameter}" if low == 0 else f"log({parameter} - {low:g})".replace("- -", "+ ")
    return f"-log({high:g} - {parameter})" if np.isfinite(high) else parameter
