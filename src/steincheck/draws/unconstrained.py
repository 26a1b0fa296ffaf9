"""Draws of a model's own parameters in the coordinates of its target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..target import Target, log_density_anywhere
from ..wording.draws import parameters_as_coordinates
from .coerce import read_as_draws
from .record import Draws


def to_unconstrained(draws: Any, target: Target, *, name: str = "draws", minimum: int = 2) -> Draws:
    """Draws as their owner has them, in the coordinates of the target.

    Parameters
    ----------
    draws : object
        Whatever `as_draws` reads. Draws with names are those of the model's parameters, matched by name;
        arrays without names are taken to be in the coordinates of the target already, and so are draws that
        have the names of the coordinates.
    target : Target
        The density; where it has no `unconstrain` the draws are only read. Those that are taken to be in its
        coordinates, but have a far larger density as values of the parameters, come with a warning.
    name : str
        The argument's name, for messages.
    minimum : int
        Fewest draws allowed.

    Returns
    -------
    Draws
        Values (n, d) and the names of the coordinates; chains, divergences and warnings are kept.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(
    ...     lambda u: u[:, 0] - np.exp(u[:, 0]), dim=1, names=["log tau"], constrained_names=["tau"],
    ...     constrain=np.exp, unconstrain=np.log,
    ... )
    >>> to_unconstrained({"tau": np.array([1.0, np.e])}, target).values.ravel()
    array([0., 1.])
    """
    names = target.constrained_names
    if target.unconstrain is None or names is None:
        return read_as_draws(draws, target.dim, names=target.names, name=name, minimum=minimum)
    read = read_as_draws(draws, name=name, minimum=minimum)
    if read.names is None or (target.names is not None and set(target.names) <= set(read.names)):
        taken = read_as_draws(read, target.dim, names=target.names, name=name, minimum=minimum)
        if read.names is None or set(target.names or ()) <= set(names):  # nothing says which are meant
            suspicion = _looks_constrained(taken.values, target, name)
            taken = replace(taken, warnings=(*taken.warnings, *suspicion))
        return taken
    constrained = read_as_draws(draws, len(names), names=names, name=name, minimum=minimum)
    labels = None if target.names is None else tuple(target.names)
    return replace(constrained, values=np.asarray(target.unconstrain(constrained.values)), names=labels)


class OtherReading(NamedTuple):
    """What if draws that were read as coordinates of the target are values of its parameters?"""

    parameters: tuple[str, ...]  #: that differ between the readings; none if there is no other reading
    gain: float  #: of the median log density


def read_as_parameters(x: np.ndarray, target: Target) -> OtherReading:
    """What draws (n, d) in the coordinates of the target would gain as values of its parameters."""
    names = target.constrained_names
    if target.unconstrain is None or names is None or len(names) != target.dim:
        return OtherReading((), 0.0)
    some = x[:: -(-len(x) // 200)]  # enough for medians
    try:
        with np.errstate(all="ignore"):
            other = np.asarray(target.unconstrain(some), dtype=np.float64)
    except Exception:  # outside the support a user's function may raise anything
        return OtherReading((), 0.0)
    if not np.isfinite(other).all():
        return OtherReading((), 0.0)
    changed = np.any(np.abs(other - some) > 1e-9 * np.maximum(np.abs(some), 1.0), axis=0)
    here, there = (np.median(log_density_anywhere(target.log_density, part)) for part in (some, other))
    gain = float(there - here) if np.isfinite(there) else 0.0
    return OtherReading(tuple(names[k] for k in np.flatnonzero(changed).tolist()), gain)


def _looks_constrained(x: np.ndarray, target: Target, name: str) -> list[str]:
    """A warning if the draws, read as coordinates, would fit far better as values of the parameters.

    Draws of the density have log densities within about d/2 of its maximum: draws that were read rightly
    gain no more than that, in the coordinates that the other reading changes.
    """
    parameters, gain = read_as_parameters(x, target)
    if not gain > 2.0 + 0.5 * len(parameters):
        return []
    return [parameters_as_coordinates(name, parameters, gain)]
