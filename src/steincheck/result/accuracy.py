"""How far off the draws' own numbers are: means and standard deviations beside those of the density."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from .plain import as_plain
from .table import Table

AccuracyReason = Literal["max_evaluations", "max_rounds", "low acceptance", "light modes", "unknown shares"]
Interval = tuple[float, float]


class Estimate(NamedTuple):
    """Numbers with their standard errors and bounds for their biases."""

    value: Any
    standard_error: Any
    bias: Any
    degrees_of_freedom: Any

    def half_width(self, confidence: float = 0.95) -> Any:
        """sqrt((t standard_error)^2 + bias^2), t being Student's quantile."""
        quantile = special.stdtrit(self.degrees_of_freedom, 0.5 + confidence / 2)
        return np.hypot(quantile * self.standard_error, self.bias)

    def interval(self, confidence: float = 0.95) -> Interval:
        """The interval of this confidence."""
        return _interval(self.value, self.half_width(confidence))

    def at(self, k: int) -> Estimate:
        """One of several numbers."""
        return Estimate(*(float(values[k]) for values in self))


def _interval(value: float, width: float) -> Interval:
    return float(value - width), float(value + width)


@dataclass(frozen=True)
class ParameterAccuracy:
    """Mean and standard deviation of one parameter: of the draws, and of the density with 95 % intervals.

    Errors are those of the draws: of the mean in standard deviations of the density, of the standard
    deviation as log of the ratio of draws to density (.1 is about 10 % too large).

    Attributes
    ----------
    parameter : str
    draws_mean, draws_sd : float
    mean_estimate, log_sd_estimate : Estimate
        Of the density: the mean in the parameter's own units, and the log of the standard deviation.
    rough : bool
        Whether an interval is longer than .05 sd (or 5 %) to either side, or the start is not forgotten.
    forgotten : bool
        Whether the walkers have forgotten where they started; if not, they may all be wrong alike.
    has_sd : bool
        Whether the tails are light enough for a value of the standard deviation.
    """

    parameter: str
    draws_mean: float
    draws_sd: float
    mean_estimate: Estimate
    log_sd_estimate: Estimate
    rough: bool
    forgotten: bool
    has_sd: bool

    @property
    def mean(self) -> float:
        """The density's mean."""
        return float(self.mean_estimate.value)

    @property
    def mean_interval(self) -> Interval:
        """Its 95 % interval."""
        return self.mean_estimate.interval()

    @property
    def sd(self) -> float:
        """The density's standard deviation, NaN if the tails are too heavy."""
        return float(np.exp(self.log_sd_estimate.value)) if self.has_sd else np.nan

    @property
    def sd_interval(self) -> Interval:
        """Its 95 % interval."""
        low, high = np.exp(self.log_sd_estimate.interval())
        return float(low), float(high)

    @property
    def mean_error(self) -> float:
        """Draws' mean minus the density's, in standard deviations of the density."""
        return float((self.draws_mean - self.mean) / np.exp(self.log_sd_estimate.value))

    @property
    def mean_error_interval(self) -> Interval:
        """Its 95 % interval."""
        return self.error_intervals()[0]

    @property
    def sd_error(self) -> float:
        """Log of the ratio of the standard deviations, draws to density."""
        with np.errstate(divide="ignore"):
            return float(np.log(self.draws_sd) - self.log_sd_estimate.value) if self.has_sd else np.nan

    @property
    def sd_error_interval(self) -> Interval:
        """Its 95 % interval."""
        return self.error_intervals()[1]

    @property
    def largest_error(self) -> float:
        """The larger of both errors in size; NaN where there is none."""
        return float(np.fmax(abs(self.mean_error), abs(self.sd_error)))

    def error_intervals(self, confidence: float = 0.95) -> tuple[Interval, Interval]:
        """Intervals of both errors; that of the mean allows for the density's sd being an estimate."""
        width = self.mean_estimate.half_width(confidence) / np.exp(self.log_sd_estimate.value)
        relative = self.log_sd_estimate.half_width(confidence)
        if self.has_sd:
            width = np.hypot(width, self.mean_error * relative)
        return _interval(self.mean_error, width), _interval(self.sd_error, relative)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        names = [item.name for item in fields(self)]
        names += ["mean", "mean_interval", "sd", "sd_interval", "mean_error", "mean_error_interval"]
        return as_plain({name: getattr(self, name) for name in (*names, "sd_error", "sd_error_interval")})


@dataclass(frozen=True, eq=False, repr=False)
class AccuracyResult:
    """The accuracy of all parameters, on their own scale.

    Attributes
    ----------
    parameters : tuple of ParameterAccuracy
    n_walkers, n_transitions : int
        Draws that were moved, and transitions of each.
    acceptance : float
        Share of the proposals that were accepted in the last window.
    evaluations : int
        Evaluations of the density; a score by finite differences counts 2 d.
    reasons : tuple of str
        What was not done: "max_evaluations", "max_rounds", "low acceptance", "light modes", "unknown shares".
    mean, covariance : arrays (M, d), (M, d, d)
        Of the density at each mode, in the coordinates of the target; NaN for modes that were left out.
    warnings : tuple of str
        The reasons in words.
    """

    parameters: tuple[ParameterAccuracy, ...]
    n_walkers: int
    n_transitions: int
    acceptance: float
    evaluations: int
    reasons: tuple[AccuracyReason, ...]
    mean: np.ndarray
    covariance: np.ndarray
    warnings: tuple[str, ...] = ()

    @property
    def largest(self) -> ParameterAccuracy | None:
        """The parameter with the largest error; None if no error is known."""
        known = [record for record in self.parameters if np.isfinite(record.largest_error)]
        return max(known, key=lambda record: record.largest_error, default=None)

    def answer(self, tolerance: float) -> bool | None:
        """Are all errors within the tolerance: True, False, or None if the intervals do not tell.

        True if every 95 % interval is, and none is rough. False if an interval is entirely outside
        when all are widened to hold jointly (Bonferroni).
        """
        joint = 1 - 0.05 / max(2 * len(self.parameters), 1)
        for low, high in (ends for record in self.parameters for ends in record.error_intervals(joint)):
            if low > tolerance or high < -tolerance:
                return False
        ends = np.array([record.error_intervals() for record in self.parameters if not record.rough])
        inside = len(ends) == len(self.parameters) > 0 and (np.abs(ends) <= tolerance).all()
        return True if inside else None

    @property
    def table(self) -> Table:
        """One row per parameter."""
        columns = ("parameter", "draws_mean", "mean", "mean_error", "draws_sd", "sd", "sd_error", "rough")
        rows = (tuple(getattr(record, name) for name in columns) for record in self.parameters)
        return Table(columns, tuple(rows))

    def __str__(self) -> str:
        return str(self.table)

    def __repr__(self) -> str:
        return f"<AccuracyResult: {len(self.parameters)} parameters, {self.n_walkers} walkers>"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain({item.name: getattr(self, item.name) for item in fields(self)})
