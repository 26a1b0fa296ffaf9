"""Densities of positive or bounded parameters, taken to unconstrained space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._validation import as_pairs, listed
from ..target import Target, from_jax, require_target, score_at
from ..target.record import made_by
from ..typing import BoundsLike
from .parameters import Parameters, Scale, with_parameters


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
    pairs: Any = support
    if isinstance(support, Mapping):
        for name in support:
            if name not in names:
                known = listed(names)
                raise ValueError(f"`support` must name parameters of the target, {known}, got {name!r}")
        pairs = [support.get(name, (-np.inf, np.inf)) for name in names]
    low, high = as_pairs(pairs, target.dim, "support")
    scale = Scale(low, high)
    parameters = Parameters(names, target.dim, scale.parameters, scale.coordinates)
    inner = target.jax_log_density

    def log_density(y: np.ndarray) -> np.ndarray:
        return target.log_density(scale.parameters(y)) + scale.log_slope(y).sum(axis=1)

    def score(y: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            slope = np.exp(scale.log_slope(y))
        return score_at(target, scale.parameters(y), proposal=True) * slope + scale.slope_of_log_slope(y)

    free = Target(log_density, score if target.has_score else None, dim=target.dim)
    if inner is not None:
        free = from_jax(
            lambda y: inner(scale.parameters(y, jnp)) + jnp.sum(scale.log_slope(y, jnp)), target.dim
        )
    if target.sample is not None:
        sample = target.sample
        free = replace(free, sample=lambda n, rng: scale.coordinates(sample(n, rng)))
    return made_by(with_parameters(free, parameters), unbounded, target, support)
