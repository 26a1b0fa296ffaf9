"""The verdict of `check` and its findings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .modes import Modes, ModeTable
from .plain import as_plain
from .tests import GofResult


@dataclass(frozen=True, eq=False)
class Finding:
    """One thing that is wrong, with its size.

    Attributes
    ----------
    kind : str
        "missing mode", "mode share", "trend", "flow", "location", "scale", "correlation", "overall scale",
        "skewness", "tails", "extremes", "radius", "radius spread", "impossible draws", "shape" or "chains".
    mode : int or None
        The mode it is about; None if it is about all of them or the density has one.
    parameters : tuple of str
        The coordinates it is about.
    estimate, interval : float, (float, float)
        Size of the misfit and its 95 % confidence interval, NaN where there is none.
    pvalue : float
        Adjusted for all findings of the verdict.
    text : str
        The finding as a sentence.
    """

    kind: str
    mode: int | None
    parameters: tuple[str, ...]
    estimate: float
    interval: tuple[float, float]
    pvalue: float
    text: str

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain({item.name: getattr(self, item.name) for item in fields(self)})


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """The answer of `check`: do the draws fit the density?

    Attributes
    ----------
    fits : bool or None
        False: misfit found at level `alpha`. True: no misfit found, which is no proof that there is none.
        None: cannot tell, for the reasons in `inconclusive_reasons`.
    pvalue : float
        Smallest p-value of the tests, adjusted for their number by Holm's method.
    alpha : float
        The level.
    tests : mapping of str to GofResult
        The tests that ran: "kernel" and "moments" look at the shape, "weights" at the mode weights.
    adjusted : mapping of str to float
        The p-values of the tests, adjusted.
    findings : tuple of Finding
        What is wrong and by how much, most serious first; empty unless `fits` is False.
    inconclusive_reasons : tuple of str
        Why a non-rejection is inconclusive.
    mode_table : ModeTable or None
        Observed and implied share of each mode; None unless at least two modes can be listed.
    modes : Modes or None
        The modes of the density, given or found; None if none was found.
    context : tuple of str
        How the draws were treated, what they are worth, and how hard modes were searched.
    not_examined, warnings : tuple of str
    n, dim : int
    names : tuple of str
        Of the coordinates.
    seed : int
        ``check(draws, target, rng=seed)`` with the same options gives the same verdict.
    version : str
        Of the package.
    sentence, text : str
        The answer in one sentence, and all that is printed.
    """

    fits: bool | None
    pvalue: float
    alpha: float
    tests: Mapping[str, GofResult]
    adjusted: Mapping[str, float]
    findings: tuple[Finding, ...]
    inconclusive_reasons: tuple[str, ...]
    mode_table: ModeTable | None
    modes: Modes | None
    context: tuple[str, ...]
    not_examined: tuple[str, ...]
    warnings: tuple[str, ...]
    n: int
    dim: int
    names: tuple[str, ...]
    seed: int
    version: str
    sentence: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Verdict: {self.sentence} n = {self.n}, d = {self.dim}, {len(self.findings)} findings>"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON; described by docs/verdict.schema.json."""
        record: dict[str, Any] = {"schema": 2}
        record |= {name: getattr(self, name) for name in ("fits", "sentence", "pvalue", "alpha")}
        record["tests"] = {
            name: {key: getattr(result, key) for key in ("test", "statistic", "pvalue", "n", "settings")}
            | {"adjusted_pvalue": self.adjusted[name]}
            for name, result in self.tests.items()
        }
        names = (
            "findings inconclusive_reasons mode_table context not_examined warnings n dim names seed version"
        )
        return as_plain(record | {name: getattr(self, name) for name in names.split()})

    def to_json(self) -> str:
        """JSON text; infinities and NaN become null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)
