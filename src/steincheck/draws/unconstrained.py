"""Draws of a model's own parameters in the coordinates of its target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..target import Target
from .coerce import as_draws
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
        The density; where it has no `unconstrain` the draws are only read.
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
        return as_draws(draws, target.dim, names=target.names, name=name, minimum=minimum)
    read = as_draws(draws, name=name)
    if read.names is None or (target.names is not None and set(target.names) <= set(read.names)):
        return as_draws(read, target.dim, names=target.names, name=name, minimum=minimum)
    own = as_draws(draws, len(names), names=names, name=name, minimum=minimum)
    labels = None if target.names is None else tuple(target.names)
    return replace(own, values=np.asarray(target.unconstrain(own.values)), names=labels)
