"""Densities of positive or bounded parameters, taken to the whole space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._validation import as_pairs
from ..draws.names import variable_of
from ..target import Target, from_jax, made_by, parameter_names, raw_score, require_target
from .parameters import Parameters, with_parameters


def unbounded(target: Target, bounds: Any) -> Target:
    """Take a density of positive or bounded parameters to the whole space, Jacobian included.

    Stein tests need a density that vanishes fast at the edge of its support. A parameter x with one bound b
    becomes y = log|x - b|, one between a and b becomes y = log (x - a)/(b - x), and the density of y is
    p(x(y)) |dx/dy|.

    Parameters
    ----------
    target : Target
        The density of the parameters themselves.
    bounds : (low, high), or one such pair per coordinate
        The support of each parameter; infinite where it has no edge.

    Returns
    -------
    Target
        The density of y. Draws with names are read as parameters; an array of parameters goes through its
        ``unconstrain``. Verdicts speak of the parameters on their own scale.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> exponential = sc.from_jax(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf), dim=1, names=["rate"])
    >>> target = sc.unbounded(exponential, (0, np.inf))
    >>> target.names
    ['log rate']
    >>> draws = np.random.default_rng(0).exponential(size=(500, 1))
    >>> sc.check({"rate": draws[:, 0]}, target, rng=0).fits
    True
    """
    require_target(target)
    if target.constrain is not None:
        raise ValueError("`target` must not have been transformed already: it has `constrain`")
    low, high = as_pairs(bounds, target.dim)
    scale = _Scale(tuple(low.tolist()), tuple(high.tolist()))
    names = tuple(parameter_names(target))
    parameters = Parameters(
        names, tuple(variable_of(name) for name in names), scale.parameters, scale.coordinates
    )
    inner = target.jax_log_density
    if inner is None:
        free = _of_batches(target, scale)
    else:
        free = from_jax(
            lambda y: inner(scale.parameters(y, jnp)) + jnp.sum(scale.log_slope(y, jnp)), target.dim
        )
    if target.sample is not None:
        sample = target.sample
        free = replace(free, sample=lambda n, rng: scale.coordinates(sample(n, rng)))
    return made_by(with_parameters(free, parameters), unbounded, target, bounds)


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
        return raw_score(target, scale.parameters(y)) * scale.slope(y) + scale.slope_of_log_slope(y)

    return Target(log_density, score if target.has_score else None, dim=target.dim)


@dataclass(frozen=True)
class _Scale:
    """Parameters x of coordinates y on the whole space, per coordinate: y, log|x - b| or a logit."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def below(self) -> np.ndarray:
        """Whether there is a lower edge."""
        return np.isfinite(self.low)

    @property
    def above(self) -> np.ndarray:
        """Whether there is an upper edge."""
        return np.isfinite(self.high)

    @property
    def width(self) -> np.ndarray:
        """Distance of the edges, 1 where there is at most one."""
        return np.where(self.below & self.above, np.subtract(self.high, self.low), 1.0)

    def log_slope(self, y: Any, xp: Any = np) -> Any:
        """log |dx/dy| per coordinate."""
        both = np.log(self.width) - xp.logaddexp(0.0, -y) - xp.logaddexp(0.0, y)
        return xp.where(self.below & self.above, both, xp.where(self.below | self.above, y, 0.0))

    def parameters(self, y: Any, xp: Any = np) -> Any:
        """x of y."""
        edge = np.where(self.below, self.low, np.where(self.above, self.high, 0.0))
        both = self.width * xp.exp(-xp.logaddexp(0.0, -y))
        with np.errstate(over="ignore"):  # infinite far out, where the density is 0
            one = xp.where(self.below, 1.0, -1.0) * xp.exp(xp.where(self.below | self.above, y, 0.0))
        moved = xp.where(self.below & self.above, both, one)
        return xp.where(self.below | self.above, edge + moved, y)

    def slope(self, y: np.ndarray) -> np.ndarray:
        """dx/dy per coordinate."""
        falls = self.above & ~self.below
        with np.errstate(over="ignore"):
            return np.where(falls, -1.0, 1.0) * np.exp(self.log_slope(y))

    def slope_of_log_slope(self, y: np.ndarray) -> np.ndarray:
        """d log|dx/dy| / dy per coordinate."""
        both = -np.tanh(0.5 * y)
        return np.where(self.below & self.above, both, np.where(self.below | self.above, 1.0, 0.0))

    def coordinates(self, x: Any) -> np.ndarray:
        """y of x; NaN or infinite at the edges and beyond them."""
        x = np.asarray(x, dtype=float)
        with np.errstate(all="ignore"):
            from_low = np.log(x - np.array(self.low))
            from_high = np.log(np.array(self.high) - x)
            both = from_low - from_high
        one = np.where(self.below, from_low, np.where(self.above, from_high, x))
        return np.where(self.below & self.above, both, one)
