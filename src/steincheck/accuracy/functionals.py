"""The parameters as functions of the target's coordinates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..target import Target
from ..target.parameter_scale import to_constrained


class Functionals(NamedTuple):
    """Columns of `constrain`, or the coordinates themselves where there is none."""

    target: Target
    columns: np.ndarray
    names: tuple[str, ...]

    @property
    def identity(self) -> bool:
        """Whether they are the coordinates themselves."""
        return self.target.constrain is None or self.target.constrained_names is None

    def values(self, x: np.ndarray) -> np.ndarray:
        """Values (n, q) at the rows of x."""
        with np.errstate(over="ignore"):
            return to_constrained(x, self.target)[0][:, self.columns]


def functionals_of(target: Target, x: np.ndarray) -> Functionals:
    """All parameters but those that are the same for all draws x."""
    values, names = to_constrained(x, target)
    columns = np.flatnonzero(np.ptp(values, axis=0) > 0)
    return Functionals(target, columns, tuple(names[k] for k in columns))
