"""How far off the draws' own numbers are: means and standard deviations beside those of the density."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from .plain import as_plain
from .table import Table

AccuracyReason = Literal["max_evaluations", "max_rounds", "low acceptance", "light modes", "unknown shares"]


class Interval(NamedTuple):
    """Both ends."""

    low: float
    high: float


class Estimate(NamedTuple):
    """A number with its standard error and a bound for its bias."""

    value: float
    standard_error: float
    bias: float
    degrees_of_freedom: float

    def half_width(self, confidence: float = 0.95) -> float:
        """sqrt((t standard_error)^2 + bias^2), t being Student's quantile."""
        quantile = special.stdtrit(self.degrees_of_freedom, 0.5 + confidence / 2)
        return float(np.hypot(quantile * self.standard_error, self.bias))

    def interval(self, confidence: float = 0.95) -> Interval:
        """The interval of this confidence."""
        width = self.half_width(confidence)
        return Interval(self.value - width, self.value + width)


@dataclass(frozen=True)
class ParameterAccuracy:
    """Mean and standard deviation of one parameter: of the draws, and of the density with 95 % intervals.

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
        Whether the tails are light enough for an interval of the standard deviation.
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
        return self.mean_estimate.value

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
        return Interval(*np.exp(self.log_sd_estimate.interval()).tolist())

    @property
    def mean_error(self) -> float:
        """Draws' mean minus the density's, in standard deviations of the density."""
        return (self.draws_mean - self.mean) / float(np.exp(self.log_sd_estimate.value))

    @property
    def mean_error_interval(self) -> Interval:
        """Its 95 % interval."""
        return self.error_intervals()[0]

    @property
    def sd_error(self) -> float:
        """Log ratio of the standard deviations, draws to density: .1 is about 10 % too large."""
        return self._log_draws_sd - self.log_sd_estimate.value if self.has_sd else np.nan

    @property
    def sd_error_interval(self) -> Interval:
        """Its 95 % interval."""
        return self.error_intervals()[1]

    @property
    def _log_draws_sd(self) -> float:
        return float(np.log(self.draws_sd)) if self.draws_sd > 0 else -np.inf

    @property
    def largest_error(self) -> float:
        """The larger of both errors in size; NaN where there is none."""
        return float(np.fmax(abs(self.mean_error), abs(self.sd_error)))

    def error_intervals(self, confidence: float = 0.95) -> tuple[Interval, Interval]:
        """Intervals of both errors; that of the mean allows for the density's sd being an estimate."""
        own = self.mean_estimate.half_width(confidence) / float(np.exp(self.log_sd_estimate.value))
        unit = self.log_sd_estimate.half_width(confidence)
        width = float(np.hypot(own, self.mean_error * unit)) if self.has_sd else own
        error = self.sd_error
        return (
            Interval(self.mean_error - width, self.mean_error + width),
            Interval(error - unit, error + unit),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        stored = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in ("mean_estimate", "log_sd_estimate"):
            stored[name] = stored[name]._asdict()
        derived = ("mean", "mean_interval", "sd", "sd_interval", "mean_error", "mean_error_interval")
        more = {name: getattr(self, name) for name in (*derived, "sd_error", "sd_error_interval")}
        return as_plain(stored | more)


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
    """

    parameters: tuple[ParameterAccuracy, ...]
    n_walkers: int
    n_transitions: int
    acceptance: float
    evaluations: int
    reasons: tuple[AccuracyReason, ...]
    mean: np.ndarray
    covariance: np.ndarray

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons in words."""
        from ..wording.accuracy import accuracy_warnings

        return accuracy_warnings(self)

    @property
    def largest(self) -> ParameterAccuracy | None:
        """The parameter with the largest error; None if no error is known."""
        known = [record for record in self.parameters if np.isfinite(record.largest_error)]
        return max(known, key=lambda record: record.largest_error, default=None)

    def answer(self, tolerance: float) -> bool | None:
        """Are all errors within the tolerance: True, False, or None if the intervals do not tell.

        True if every 95 % interval is, and every start is forgotten. False if an interval is entirely outside
        when intervals hold jointly (Bonferroni).
        """
        joint = 1 - 0.05 / max(2 * len(self.parameters), 1)
        if any(_outside(part, tolerance) for p in self.parameters for part in p.error_intervals(joint)):
            return False
        inside = all(_inside(part, tolerance) for p in self.parameters for part in p.error_intervals())
        return True if inside and self.parameters and all(p.forgotten for p in self.parameters) else None

    @property
    def table(self) -> Table:
        """One row per parameter."""
        columns = ("parameter", "draws_mean", "mean", "mean_error", "mean_error_half_width")
        more = ("draws_sd", "sd", "sd_error", "sd_error_half_width", "rough")
        return Table(columns + more, tuple(_row(record) for record in self.parameters))

    def __str__(self) -> str:
        return str(self.table)

    def __repr__(self) -> str:
        return f"<AccuracyResult: {len(self.parameters)} parameters, {self.n_walkers} walkers>"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        record = {item.name: getattr(self, item.name) for item in fields(self)}
        return as_plain(record | {"warnings": self.warnings})


def _row(record: ParameterAccuracy) -> tuple[Any, ...]:
    mean, sd = record.error_intervals()
    return (
        record.parameter,
        record.draws_mean,
        record.mean,
        record.mean_error,
        (mean.high - mean.low) / 2,
        record.draws_sd,
        record.sd,
        record.sd_error,
        (sd.high - sd.low) / 2,
        record.rough,
    )


def _inside(interval: Interval, tolerance: float) -> bool:
    return -tolerance <= interval.low and interval.high <= tolerance


def _outside(interval: Interval, tolerance: float) -> bool:
    return interval.low > tolerance or interval.high < -tolerance
