"""The answers: how far off the draws' numbers are, the verdict of `check`, the rates of `calibrate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from ..wording.numbers import mode_descriptions, pvalue_text
from ..wording.page import error_table, verdict_lines
from ..wording.verdict import headline
from .gof import GofResult
from .modes import ImportanceWeights, Modes, ModeTable
from .record import Record, Table, as_plain

FindingKind = Literal[
    "impossible draws", "missing mode", "mode share", "flow", "mean", "sd", "shape", "chains"
]
AccuracyReason = Literal["max_evaluations", "max_rounds", "low acceptance", "unknown shares"]
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

    def at(self, k: tuple[int, ...]) -> Estimate:
        """One of several numbers."""
        return Estimate(*(float(values[k]) for values in self))


UNKNOWN = Estimate(np.nan, np.nan, np.nan, np.inf)


@dataclass(frozen=True)
class ParameterAccuracy(Record):
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
    ess_bulk, ess_tail, r_hat : float
        Of chains, as ArviZ computes them; NaN for independent draws.
    source : str
        What the numbers of the density come from: "walkers" or "importance weights".
    mean, sd, mean_interval, sd_interval : float, (float, float)
        Of the density, with 95 % intervals; the sd is NaN if the tails are too heavy.
    mean_error, sd_error, mean_error_interval, sd_error_interval : float, (float, float)
        The errors of the draws, with 95 % intervals.
    """

    parameter: str
    draws_mean: float = np.nan
    draws_sd: float = np.nan
    mean_estimate: Estimate = UNKNOWN
    log_sd_estimate: Estimate = UNKNOWN
    rough: bool = True
    forgotten: bool = False
    has_sd: bool = False
    ess_bulk: float = np.nan
    ess_tail: float = np.nan
    r_hat: float = np.nan
    source: Literal["walkers", "importance weights"] = "walkers"
    mean: float = field(init=False)
    mean_interval: Interval = field(init=False)
    mean_error: float = field(init=False)
    mean_error_interval: Interval = field(init=False)
    sd: float = field(init=False)
    sd_interval: Interval = field(init=False)
    sd_error: float = field(init=False)
    sd_error_interval: Interval = field(init=False)

    def __post_init__(self) -> None:
        mean, log_sd = self.mean_estimate, self.log_sd_estimate
        known_sd = 1.0 if self.has_sd else np.nan
        ends = np.array([-1.0, 1.0])
        with np.errstate(divide="ignore"):
            sd_error = known_sd * (np.log(self.draws_sd) - log_sd.value)
        self.__dict__.update(
            mean=mean.value,
            mean_interval=tuple((mean.value + ends * mean.half_width()).tolist()),
            mean_error=float((self.draws_mean - mean.value) / np.exp(log_sd.value)),
            sd=float(known_sd * np.exp(log_sd.value)),
            sd_interval=tuple(np.exp(log_sd.value + ends * log_sd.half_width()).tolist()),
            sd_error=float(sd_error),
        )
        of_mean, of_sd = self.error_intervals().tolist()
        self.__dict__.update(mean_error_interval=tuple(of_mean), sd_error_interval=tuple(of_sd))

    @property
    def largest_error(self) -> float:
        """The larger of both errors in size; NaN where there is none."""
        return float(np.fmax(abs(self.mean_error), abs(self.sd_error)))

    def error_intervals(self, confidence: float = 0.95) -> np.ndarray:
        """Intervals (2, 2) of both errors; that of the mean allows for the density's sd being an estimate."""
        relative = self.log_sd_estimate.half_width(confidence)
        of_mean = self.mean_estimate.half_width(confidence) / np.exp(self.log_sd_estimate.value)
        if self.has_sd:
            of_mean = np.hypot(of_mean, self.mean_error * relative)
        errors, widths = np.array([self.mean_error, self.sd_error]), np.array([of_mean, relative])
        return np.stack([errors - widths, errors + widths], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class AccuracyResult(Record):
    """The accuracy of all parameters, on their own scale.

    Attributes
    ----------
    parameters : tuple of ParameterAccuracy
    n_transitions : int
        Transitions of each of the draws that were moved.
    evaluations : int
        Evaluations of the density; a score by finite differences counts 2 d.
    reasons : tuple of str
        What was not done: "max_evaluations", "max_rounds", "low acceptance", "unknown shares".
    mode_moments : arrays (M, d), (M, d, d)
        Means and covariances of the density within modes, in the coordinates of the target; NaN where no
        walkers were.
    warnings : tuple of str
        The reasons in words.
    mode_table : ModeTable or None
        Shares of the density by which the modes were combined; None if there is one mode.
    """

    parameters: tuple[ParameterAccuracy, ...]
    n_transitions: int
    evaluations: int
    reasons: tuple[AccuracyReason, ...]
    mode_moments: tuple[np.ndarray, np.ndarray]
    warnings: tuple[str, ...] = ()
    mode_table: ModeTable | None = None

    @property
    def largest(self) -> ParameterAccuracy | None:
        """The parameter with the largest error; None if no error is known."""
        known = [record for record in self.parameters if not np.isnan(record.largest_error)]
        return max(known, key=lambda record: record.largest_error, default=None)

    def answer(self, tolerance: float) -> bool | None:
        """Are all errors within the tolerance: True, False, or None if the intervals do not tell.

        True if every 95 % interval is, and none is rough. False if an interval is entirely outside
        when all are widened to hold jointly (Bonferroni).
        """
        if not self.parameters:
            return None
        joint = 1 - 0.05 / (2 * len(self.parameters))
        ends = np.array([record.error_intervals(joint) for record in self.parameters])
        if np.any((ends[..., 0] > tolerance) | (ends[..., 1] < -tolerance)):
            return False
        ends = np.array([record.error_intervals() for record in self.parameters])
        inside = not any(record.rough for record in self.parameters) and np.all(np.abs(ends) <= tolerance)
        return True if inside else None

    def __str__(self) -> str:
        return "\n".join(error_table(self.parameters).lines)

    def __repr__(self) -> str:
        return f"<AccuracyResult: {len(self.parameters)} parameters>"


@dataclass(frozen=True, eq=False)
class Finding(Record):
    """One thing that is wrong, with its size.

    Attributes
    ----------
    kind : str
        "impossible draws", "missing mode", "mode share", "flow", "mean", "sd", "shape" or "chains".
    mode : int or None
        The mode it is about; None if it is about all of them or the density has one.
    parameters : tuple of str
        The parameters it is about.
    estimate, interval : float, (float, float)
        Share of the density at a mode; error of a mean in standard deviations of the density; ratio of the
        standard deviations of the draws and of the density. With a 95 % interval; NaN where there is no size.
    pvalue : float
        Adjusted for the number of tests, modes or parameters; NaN for a fact that needs no test.
    text : str
        The finding as a sentence.
    """

    kind: FindingKind
    mode: int | None = None
    parameters: tuple[str, ...] = ()
    estimate: float = np.nan
    interval: tuple[float, float] = (np.nan, np.nan)
    pvalue: float = np.nan
    text: str = ""

    def __str__(self) -> str:
        return self.text


class StepEvaluations(NamedTuple):
    """Evaluations of the density in one step of `check`."""

    step: str
    planned: int
    made: int


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Verdict(Record):
    """The answer of `check`: do the draws fit the density, and how far off are their numbers?

    Attributes
    ----------
    fits : bool or None
        False: misfit found. True: no misfit found, which is no proof that there is none. None: cannot tell,
        for the reasons in `inconclusive_reasons`.
    tests, adjusted_pvalues : mappings of str to GofResult and to float
        The tests that ran and their p-values, adjusted for their number by Holm's method: "kernel" and
        "moments" look at the shape, "weights" at the mode weights, "chains" at whether Markov chains agree
        with each other.
    accuracy : tuple of ParameterAccuracy
        Per parameter: mean and standard deviation of the draws, those of the density with 95 % intervals, and
        the errors; NaN where they could not be estimated.
    mode_table : ModeTable or None
        Share of the draws and of the density at each mode; None unless several modes can be listed.
    findings : tuple of Finding
        What is wrong and by how much; empty unless `fits` is False.
    advice : tuple of str
        What to do about the answer.
    importance_weights : ImportanceWeights or None
        Weights of the draws, in the user's order, that give the modes the shares of the density. None if a
        mode has no draws, if its share is unknown, or if so few draws would count that they say nothing.
    modes : Modes
        The modes of the density, given or found.
    mode_parameters : array (M, k)
        The modes in the user's own parameters.
    mode_moments : pair of arrays (M, d), (M, d, d), or None
        Means and covariances of the density within modes, in the coordinates of the target.
    mode_of_draw : array (n,) or None
        The mode of each draw; None if several could not be told apart.
    k_hat : float or None
        Pareto's k of the weights p / q, where `log_q` was given: below .7 weights can correct the draws.
    inconclusive_reasons, not_examined, context, warnings : tuples of str
        Why a non-rejection is inconclusive; what the answer does not cover; how the draws were treated; what
        qualifies the answer. None of it is raised as a Python warning.
    evaluations : tuple of StepEvaluations
        Evaluations of the density per step.
    n, names : int, tuple of str
        Number of draws given, those of weight 0 left out, and the coordinate names.
    effective_sample_size : float
        Kish's, by the weights of the draws, copies of one draw together; n without weights and copies.
    version, settings : str, mapping
        ``check(draws, target, **verdict.settings)`` gives the same verdict again.
    """

    fits: bool | None
    tests: Mapping[str, GofResult]
    adjusted_pvalues: Mapping[str, float]
    accuracy: tuple[ParameterAccuracy, ...]
    mode_table: ModeTable | None = None
    findings: tuple[Finding, ...] = ()
    advice: tuple[str, ...] = ()
    importance_weights: ImportanceWeights | None = None
    modes: Modes
    mode_parameters: np.ndarray
    mode_moments: tuple[np.ndarray, np.ndarray] | None = None
    mode_of_draw: np.ndarray | None = None
    k_hat: float | None = None
    inconclusive_reasons: tuple[str, ...] = ()
    not_examined: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    evaluations: tuple[StepEvaluations, ...] = ()
    n: int
    effective_sample_size: float
    names: tuple[str, ...]
    version: str
    settings: Mapping[str, Any]

    def __str__(self) -> str:
        return "\n".join(verdict_lines(self))

    @property
    def sentence(self) -> str:
        """The answer in one or two sentences."""
        return headline(self)

    @property
    def pvalue(self) -> float:
        """Smallest p-value of the tests, adjusted for their number; 1 if no test ran."""
        return min(self.adjusted_pvalues.values(), default=1.0)

    @property
    def alpha(self) -> float:
        """The level."""
        return float(self.settings["alpha"])

    @property
    def tolerance(self) -> float | None:
        """The errors that the user allows; None if the tests alone decide."""
        return self.settings["tolerance"]

    @property
    def seed(self) -> int:
        """What gives the same numbers again."""
        return int(self.settings["rng"])

    @property
    def dim(self) -> int:
        """Dimension of the draws."""
        return len(self.names)

    @property
    def mode_descriptions(self) -> tuple[str, ...]:
        """Where each mode is, in the user's own parameters: "mu = 2.03, tau = 0.5"."""
        return mode_descriptions(self.mode_parameters, [item.parameter for item in self.accuracy])

    @property
    def starting_points(self) -> tuple[dict[str, Any], ...]:
        """The modes as samplers take them: per mode a number or an array for each of the user's parameters.

        "theta[0]", "theta[1]" are the entries of an array ``theta``.
        """
        names = [item.parameter for item in self.accuracy]
        return tuple(_by_parameter(names, point) for point in self.mode_parameters)

    def summary(self) -> Table:
        """One row per parameter: the draws, the density, the errors, and how well the chains mixed.

        Columns: ``parameter``; ``mean`` and ``sd`` of the draws; ``density_mean`` and ``density_sd``;
        ``mean_error``, draws minus density in standard deviations of the density, and ``sd_ratio``, draws to
        density, each with the ends of its 95 % interval; ``rough``, whether the density is hard to explore
        there; ``ess_bulk``, ``ess_tail`` and ``r_hat`` as ArviZ computes them (NaN for independent draws).
        """
        errors = [f"{name}{end}" for name in ("mean_error", "sd_ratio") for end in ("", "_low", "_high")]
        of_chains = ("ess_bulk", "ess_tail", "r_hat")
        columns = ("parameter", "mean", "sd", "density_mean", "density_sd", *errors, "rough", *of_chains)
        rows = []
        for item in self.accuracy:
            ratio = np.exp([item.sd_error, *item.sd_error_interval]).tolist()
            numbers = (item.draws_mean, item.draws_sd, item.mean, item.sd, item.mean_error)
            ends = (*item.mean_error_interval, *ratio, item.rough)
            rows.append((item.parameter, *numbers, *ends, item.ess_bulk, item.ess_tail, item.r_hat))
        return Table(columns, tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON; described by docs/verdict.schema.json."""
        of_test = ("test", "statistic", "pvalue", "n", "n_tested", "settings")
        derived = ("sentence", "pvalue", "alpha", "tolerance", "seed", "dim", "mode_descriptions")
        record = {"schema": 8} | self.__dict__ | {name: getattr(self, name) for name in derived}
        for name in ("adjusted_pvalues", "modes", "mode_moments", "importance_weights", "mode_of_draw"):
            del record[name]
        record["tests"] = {
            name: {"adjusted_pvalue": p} | {key: getattr(self.tests[name], key) for key in of_test}
            for name, p in self.adjusted_pvalues.items()
        }
        of_draws = ("weights", "log_weights", "log_q")
        record["settings"] = {name: v for name, v in self.settings.items() if name not in of_draws}
        return as_plain(record)


def _by_parameter(names: Sequence[str], values: np.ndarray) -> dict[str, Any]:
    """Numbers by the names of parameters; entries of arrays are put together.

    Examples
    --------
    >>> _by_parameter(["mu", "theta[a]", "theta[b]"], np.array([1.0, 2.0, 3.0]))
    {'mu': 1.0, 'theta': array([2., 3.])}
    """
    entries: dict[str, dict[str, float]] = {}
    for name, value in zip(names, values.tolist(), strict=True):
        base, _, index = name.partition("[")
        entries.setdefault(base, {})[index.removesuffix("]")] = value
    found: dict[str, Any] = {}
    for base, at in entries.items():
        shape = [len(set(labels)) for labels in zip(*(index.split(",") for index in at), strict=True)]
        whole = np.prod(shape) == len(at)  # else the entries in a row
        found[base] = at[""] if "" in at else np.reshape(list(at.values()), shape if whole else -1)
    return found


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationResult(Record):
    """How often a test rejects, over repeated samples: its level, or its power if the sampler is wrong.

    Attributes
    ----------
    test : str
        Name of the test.
    n, dim, repetitions : int
        Draws per sample (per chain, if samples are Markov chains), dimension, number of samples.
    alpha : array (A,)
        The levels.
    rates : array (A,)
        Share of the samples rejected at each level: by their p-value, or by `check` for a fact.
    intervals : array (A, 2)
        Their 95 % confidence intervals (Clopper and Pearson), each for one level alone.
    pvalues : array (repetitions,)
        One p-value per sample, in order; NaN where the test cannot tell.
    n_inconclusive : int
        Samples of which a test says that it cannot tell at the largest level, `check` at its own level.
    excess_pvalue : float
        One-sided Kolmogorov-Smirnov test against uniform p-values: small if the test is anti-conservative at
        some level a, P(p <= a) > a, as it must not be for correct draws.
    seed : int or SeedSequence
        What gives the same samples and p-values again.
    """

    test: str
    n: int
    dim: int
    repetitions: int
    alpha: np.ndarray
    rates: np.ndarray
    intervals: np.ndarray
    pvalues: np.ndarray
    n_inconclusive: int
    excess_pvalue: float
    seed: Any

    def __str__(self) -> str:
        lines = [f"{self.test}: {self.repetitions} samples, n = {self.n}, d = {self.dim}"]
        for level, rate, (low, high) in zip(self.alpha, self.rates, self.intervals, strict=True):
            lines.append(f"  at level {level:<5g} rejection rate {rate:.3f} ({low:.3f} to {high:.3f})")
        lines.append(f"  p-values too small (Kolmogorov-Smirnov test): p {pvalue_text(self.excess_pvalue)}")
        if self.n_inconclusive:
            lines.append(f"  inconclusive: {self.n_inconclusive} samples")
        return "\n".join(lines)
