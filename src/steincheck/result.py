"""What a test returns: records that know nobody."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MOST_ROWS = 16  # of the mode table on the screen, its head included


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
        A small p-value is evidence against the fit; NaN says that the test cannot tell, for the reason in
        `warnings`, and is neither a rejection nor a pass.
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
        return self.summary()

    def summary(self, alpha: float = 0.05) -> str:
        """What the test says at level `alpha`, with its warnings."""
        words = "does not fit: misfit found" if self.reject(alpha) else "no misfit found"
        if np.isnan(self.pvalue):
            words = "cannot tell"
        lines = [
            f"{self.test}: {words} at level {alpha:g} (p {pvalue_text(self.pvalue)}, statistic = "
            f"{self.statistic:.4g}, n = {self.n}, d = {self.dim})"
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


@dataclass(frozen=True, eq=False)
class ModeTable:
    """How many draws are at each mode, and how many the density says there should be.

    Attributes
    ----------
    locations : array (M, d)
        The modes.
    counts : array (M,)
        Number of draws at each.
    observed, implied : arrays (M,)
        Share of the draws, and share of the density, at each mode; an implied share is NaN where it cannot
        be estimated.
    observed_interval, implied_interval : arrays (M, 2)
        Confidence intervals of 95 %, each for one mode alone.
    words : tuple of str
        "too many draws", "too few draws", "as expected" or "not examined" for each mode.
    """

    locations: np.ndarray
    counts: np.ndarray
    observed: np.ndarray
    implied: np.ndarray
    observed_interval: np.ndarray
    implied_interval: np.ndarray
    words: tuple[str, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Modes without a single draw."""
        return tuple(np.flatnonzero(self.counts == 0).tolist())

    def __len__(self) -> int:
        return len(self.counts)

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """The modes as rows of text: number, draws, share observed, share implied, what that says."""
        table = []
        for k, words in enumerate(self.words):
            seen, said = (
                "-" if np.isnan(share[k]) else f"{share[k]:.1%} ({low:.1%} to {high:.1%})"
                for share, (low, high) in (
                    (self.observed, self.observed_interval[k]),
                    (self.implied, self.implied_interval[k]),
                )
            )
            words = f"missing, {words}" if self.counts[k] == 0 else words
            table.append((str(k), str(self.counts[k]), seen, said, words))
        return table

    def __str__(self) -> str:
        table = [("mode", "draws", "share of the draws", "share of the density", ""), *self.rows()]
        widths = [max(len(row[k]) for row in table) for k in range(4)]
        return "\n".join(
            "  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[4]]).rstrip()
            for row in table
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        names = ("locations", "counts", "observed", "observed_interval", "implied", "implied_interval")
        return as_plain({name: getattr(self, name) for name in (*names, "words", "missing")})


@dataclass(frozen=True, eq=False)
class Verdict:
    """The answer of `check`: do the draws fit the density?

    Attributes
    ----------
    fits : bool or None
        False: misfit found at level `alpha`. True: no misfit found, which is no proof that there is none.
        None: cannot tell, for the reason in `why`.
    pvalue : float
        Smallest p-value of the tests, adjusted by Holm.
    alpha : float
        The level.
    local, weights : GofResult, GofResult or None
        The test of the fit inside the modes, and of the weights of the modes; None if not examined.
    adjusted : mapping
        The p-values of "local" and "weights", adjusted by Holm.
    modes : ModeTable or None
        Observed and implied share of each mode; None if the modes are a lattice too large to be listed.
    findings : tuple of str
        What is wrong, and by how much.
    why : str
        Why it cannot tell; empty otherwise.
    coordinates : mapping
        "names" of the coordinates and the "pvalue" of each: where the misfit inside the modes is.
    not_examined, warnings : tuple of str
    n, dim : int
    seed : int
        ``check(draws, target, rng=seed)`` with the same options gives the same verdict.
    version : str
        Of the package.
    """

    fits: bool | None
    pvalue: float
    alpha: float
    local: GofResult
    weights: GofResult | None
    adjusted: Mapping[str, float]
    modes: ModeTable | None
    findings: tuple[str, ...]
    why: str
    coordinates: Mapping[str, Any]
    not_examined: tuple[str, ...]
    warnings: tuple[str, ...]
    n: int
    dim: int
    seed: int
    version: str

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.fits is None:
            return f"Cannot tell whether the draws fit the density: {self.why}."
        if self.fits:
            return f"No misfit found at level {self.alpha:g} (p {pvalue_text(self.pvalue)})."
        return (
            f"The draws do not fit the density: misfit found at level {self.alpha:g} "
            f"(p {pvalue_text(self.pvalue)})."
        )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The tests as rows of text: what, its p-value, adjusted by Holm, what it says."""
        table = []
        for name, part, result in (
            ("local", "inside the modes", self.local),
            ("weights", "weights of the modes", self.weights),
        ):
            if result is None:
                table.append((part, "-", "-", "not examined"))
                continue
            said = "misfit found" if self.adjusted[name] <= self.alpha else "no misfit found"
            if np.isnan(result.pvalue):
                said = "cannot tell"
            raw, adjusted = (pvalue_text(p).removeprefix("= ") for p in (result.pvalue, self.adjusted[name]))
            table.append((f"{part} ({result.test})", raw, adjusted, said))
        return table

    def __str__(self) -> str:
        lines = [self.sentence, *(f"  - {text}" for text in self.findings), ""]
        table = [("test", "p", "Holm", ""), *self.rows()]
        widths = [max(len(row[k]) for row in table) for k in range(3)]
        lines += [
            "  " + "  ".join((a.ljust(widths[0]), b.rjust(widths[1]), c.rjust(widths[2]), d)).rstrip()
            for a, b, c, d in table
        ]
        modes = str(self.modes).splitlines() if self.modes else []
        lines += ["", *(f"  {line}" for line in modes[:MOST_ROWS])] if modes else []
        lines += [f"  ... and {len(modes) - MOST_ROWS} more"] if len(modes) > MOST_ROWS else []
        for title, texts in (("Not examined", self.not_examined), ("Warnings", self.warnings)):
            lines += ["", f"{title}:", *(f"  - {text}" for text in texts)] if texts else []
        return "\n".join(
            [*lines, "", f"n = {self.n}, d = {self.dim}, seed {self.seed}, steincheck {self.version}"]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON; described by docs/verdict.schema.json."""
        tests = {"local": self.local, "weights": self.weights}
        fields = ("test", "statistic", "pvalue", "n", "settings")
        record: dict[str, Any] = {"schema": 1, "fits": self.fits, "sentence": self.sentence}
        record |= {name: getattr(self, name) for name in ("findings", "why", "pvalue", "alpha")}
        for key, result in tests.items():
            record[key] = result and {name: getattr(result, name) for name in fields}
            if result:
                record[key]["adjusted_pvalue"] = self.adjusted[key]
        names = ("modes", "coordinates", "not_examined", "warnings", "n", "dim", "seed", "version")
        return as_plain(record | {name: getattr(self, name) for name in names})

    def to_json(self) -> str:
        """JSON text; infinities and NaN become null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def note(notes: list[str], text: str) -> None:
    """Tell the user now and in the result."""
    notes.append(text)
    warnings.warn(text, stacklevel=4)


def pvalue_text(p: float) -> str:
    """The p-value as it follows the letter p: "= 0.04", or "< 1e-16" where its digits mean nothing."""
    return "< 1e-16" if p < 1e-16 else f"= {p:.3g}"


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
