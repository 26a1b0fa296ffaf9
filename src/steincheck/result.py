"""What a test returns: records that know nobody."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class GofResult:
    """Outcome of one goodness-of-fit test of H0: the draws come from the target.

    Quantities that belong to one test only (modes, acceptance, per-theta statistics, ...) are in `details`
    and can be read as attributes: ``result.acceptance`` is ``result.details["acceptance"]``.

    Attributes
    ----------
    test : str
        Name of the test.
    statistic, pvalue : float
        A small p-value is evidence against the fit.
    null_distribution : array or None
        Simulated values of the statistic under H0, where the test simulates them.
    n, dim : int
        Number of draws and dimension.
    warnings : tuple of str
        What the user should know before believing the p-value.
    settings : mapping
        What would be needed to run it again.
    details : mapping
        Quantities that belong to this test only.
    """

    test: str
    statistic: float
    pvalue: float
    null_distribution: np.ndarray | None
    n: int
    dim: int
    warnings: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def reject(self, alpha: float = 0.05) -> bool:
        """Whether the fit is rejected at level `alpha`."""
        check_level(alpha)
        return bool(self.pvalue <= alpha)

    def __getattr__(self, name: str) -> Any:
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        known = ", ".join(details) or "none"
        raise AttributeError(
            f"{self.__dict__.get('test', 'GofResult')} has no {name!r}; its details are: {known}"
        )

    def __str__(self) -> str:
        words = "does not fit: misfit found" if self.reject() else "no misfit found"
        lines = [
            f"{self.test}: {words} at level 0.05 (p = {self.pvalue:.3g}, statistic = {self.statistic:.4g}, "
            f"n = {self.n}, d = {self.dim})"
        ]
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        names = ("test", "statistic", "pvalue", "null_distribution", "n", "dim")
        record = {name: getattr(self, name) for name in names}
        record |= {"warnings": list(self.warnings), "settings": self.settings, "details": self.details}
        return as_plain(record)

    def to_json(self) -> str:
        """JSON text; infinities and NaN become null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def note(notes: list[str], text: str) -> None:
    """Tell the user now and in the result."""
    notes.append(text)
    warnings.warn(text, stacklevel=4)


def check_level(alpha: float) -> None:
    """Raise unless `alpha` is a level."""
    if not (isinstance(alpha, (int, float, np.number)) and 0 < alpha < 1):
        raise ValueError(f"`alpha` must lie strictly between 0 and 1, got {alpha!r}")


def as_plain(value: Any) -> Any:
    """Turn arrays, NumPy scalars and records into lists, numbers and dictionaries; non-finite into None."""
    if hasattr(value, "to_dict"):
        return as_plain(value.to_dict())
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return as_plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)
