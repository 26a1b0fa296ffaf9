"""One frozen result per test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np

from .._validation import check_fraction
from ..wording import results as words
from .modes import DisplacementTable, Modes, ModeTable
from .record import Record

MomentKind = Literal["location", "scale", "correlation", "overall scale"]
ShapeKind = Literal["skewness", "tails", "extremes", "curvature", "radius"]
FeatureKind = Literal[MomentKind, ShapeKind]
FluxVariant = Literal["asymptotic", "exact", "block signs"]
FluxReason = Literal[
    "nothing moves", "no exchange", "light modes", "stuck chains", "few changes", "few groups"
]
Result = TypeVar("Result", bound="GofResult")


@dataclass(frozen=True, eq=False)
class ChainBlocks(Record):
    """How Markov chains were cut into blocks of nearly independent sums.

    Attributes
    ----------
    n_chains, n_blocks : int
        Number of chains, and of blocks whose signs were flipped.
    autocorrelation_time, effective_sample_size : float
        Autocorrelation time of the draws' contributions to the statistic, and the effective sample size.
    """

    n_chains: int
    n_blocks: int
    autocorrelation_time: float
    effective_sample_size: float


@dataclass(frozen=True, eq=False)
class ChainWeights(ChainBlocks):
    """What Markov chains can tell about the weights of the modes.

    Attributes
    ----------
    n_chains, n_blocks, autocorrelation_time, effective_sample_size
        As in `ChainBlocks`, for the net flows between modes; 0 blocks and NaN if they were not compared.
    n_changes : int
        Number of changes of mode.
    sojourns : array (M,)
        Number of sojourns of the chains at each mode.
    shares : array (C, M)
        Share of each mode in the draws of each chain.
    """

    n_changes: int
    sojourns: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class GofResult(Record):
    """Outcome of one goodness-of-fit test of H0: the draws come from the target.

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
        Number of draws given and their dimension.
    n_tested : int
        Number of draws tested: the others started the mode search, trained the test or were left out for its
        cost.
    tested_rows : array (n_tested,) or None
        The rows of the tested draws among those given; None if all were tested.
    pvalue_floor : float
        The smallest p-value attainable with this number of replicates; 0 where nothing is simulated. Parts of
        a test that need no replicates may give less: draws of negligible probability in a moment test, modes
        too rare for the counts or without draws in a flux test.
    warnings : tuple of str
        What the user should know before believing the p-value.
    settings : mapping
        The arguments that run it again, the seed included: ``test(draws, target, **result.settings)``. It
        holds the kernel and functions themselves; `to_dict` writes them as text. A mode search that the clock
        stopped, which a warning says, may find other modes the next time: give `modes` for the same again.
        Empty in the tests of a verdict: those are run again by ``check(draws, target, **verdict.settings)``.
    chains : ChainBlocks or None
        How Markov chains were cut into blocks; None for independent draws.
    """

    test: str
    statistic: float
    pvalue: float
    null_distribution: np.ndarray | None
    n: int
    dim: int
    warnings: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    chains: ChainBlocks | None = field(default=None, kw_only=True)
    tested_rows: np.ndarray | None = field(default=None, kw_only=True)
    pvalue_floor: float = field(default=np.nan, kw_only=True)

    def __post_init__(self) -> None:
        if np.isnan(self.pvalue_floor):
            replicates = self.null_distribution
            floor = 0.0 if replicates is None else 1 / (len(replicates) + 1)
            object.__setattr__(self, "pvalue_floor", floor)

    @property
    def n_tested(self) -> int:
        """Number of draws tested."""
        return self.n if self.tested_rows is None else len(self.tested_rows)

    def reject(self, alpha: float | None = None) -> bool:
        """Whether the fit is rejected at level `alpha`; 0.05, or that of an aggregated test, by default."""
        return bool(self.pvalue <= self._level(alpha))

    def _level(self, alpha: float | None) -> float:
        """The level asked for, or the default one."""
        level = 0.05 if alpha is None else alpha
        check_fraction(level, "alpha")
        return level

    @property
    def at_floor(self) -> bool:
        """Whether the p-value is the smallest that replicates can give: the true one may be smaller."""
        return self.pvalue_floor > 0 and bool(np.isclose(self.pvalue, self.pvalue_floor, rtol=1e-9, atol=0))

    def __str__(self) -> str:
        return self.describe()

    def inconclusive(self, alpha: float | None = None) -> bool:
        """Whether the test cannot tell at level `alpha`: no p-value, or none attainable would reject."""
        no_answer = np.isnan(self.pvalue) or self.pvalue_floor > self._level(alpha)
        return bool(no_answer) and not self.reject(alpha)

    def describe(self, alpha: float | None = None) -> str:
        """What the test says at level `alpha`, with its warnings."""
        level = self._level(alpha)
        answer = f"{self.test}: {words.result_sentence(self, level)}"
        warnings = [f"warning: {text}" for text in self.warnings]
        return "\n  ".join([answer, *self._remarks(level), *warnings])

    def _remarks(self, alpha: float) -> list[str]:
        """Remarks that accompany the answer, other than warnings."""
        remarks = [] if self.chains is None else [words.chains_text(self.chains)]
        if self.pvalue > alpha and self.pvalue_floor > alpha:
            remarks.append(words.warning("floor", floor=self.pvalue_floor, alpha=alpha))
        return remarks


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KsdResult(GofResult):
    """Outcome of `ksd_test`.

    Attributes
    ----------
    bandwidth : float or None
        Kernel bandwidth, in units of squared distance; None for a kernel without any.
    """

    bandwidth: float | None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PksdResult(KsdResult):
    """Outcome of `pksd_test`.

    Attributes
    ----------
    modes : Modes
        The modes between which draws were moved.
    theta, acceptance : arrays (J,)
        Jump scales, and the share of proposals accepted at each.
    """

    modes: Modes
    theta: np.ndarray
    acceptance: np.ndarray


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SpksdResult(PksdResult):
    """Outcome of `spksd_test`.

    Attributes
    ----------
    identity_statistic : float
        Contribution of the unperturbed draws to the statistic.
    theta_statistics : array (J,)
        Contribution of each jump scale.
    """

    identity_statistic: float
    theta_statistics: np.ndarray


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OspksdResult(PksdResult):
    """Outcome of `ospksd_test`.

    Attributes
    ----------
    power_criterion : array (J,)
        Estimated mean over standard deviation of the statistic of each jump scale, on the training draws.
    chosen_theta : float
        The jump scale that maximises it.
    identity_statistic, theta_statistic : float
        Contributions to the statistic of the unperturbed and of the perturbed draws.
    """

    power_criterion: np.ndarray
    chosen_theta: float
    identity_statistic: float
    theta_statistic: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KsdaggResult(GofResult):
    """Outcome of `ksdagg_test`; `statistic` is minus the smallest weighted p-value of the single tests.

    Attributes
    ----------
    bandwidths, bandwidth_weights : arrays (K,)
        The collection, in units of squared distance, and the weights in the aggregation.
    statistics, pvalues : arrays (K,)
        Statistics and p-values of the single tests.
    alpha : float
        The level that was asked for: the default of `reject`, `inconclusive` and `describe`.
    levels, thresholds : arrays (K,)
        A single test rejects at level `alpha` if its p-value is at most `levels`, which is when its statistic
        exceeds `thresholds`.
    pvalue_floor : float
        The smallest attainable p-value: more than for one test, since smallest weighted p-values tie.
    units : str
        Of the kernel: "common" to all draws, or "per mode", which `check` takes where the widths of modes
        differ.
    """

    bandwidths: np.ndarray
    bandwidth_weights: np.ndarray
    statistics: np.ndarray
    pvalues: np.ndarray
    alpha: float
    levels: np.ndarray
    thresholds: np.ndarray
    units: Literal["common", "per mode"] = "common"

    def _level(self, alpha: float | None) -> float:
        return super()._level(self.alpha if alpha is None else alpha)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PksdaggResult(KsdaggResult):
    """Outcome of `pksdagg_test`; arrays over bandwidths hold the unperturbed draws first, then the perturbed.

    Attributes
    ----------
    modes, theta, acceptance
        As in `PksdResult`.
    """

    modes: Modes
    theta: np.ndarray
    acceptance: np.ndarray


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FssdResult(GofResult):
    """Outcome of `fssd_test`.

    Attributes
    ----------
    locations : array (J, d)
        Test locations v_j.
    bandwidth : float
        Kernel bandwidth, in units of squared distance.
    contributions : array (J,)
        Contributions of the locations to the statistic: large where the misfit is.
    eigenvalues : array
        Eigenvalues of the covariance of the features, in descending order.
    power_criterion : float
        Estimated mean over standard deviation of the statistic, on the tested draws.
    """

    locations: np.ndarray
    bandwidth: float
    contributions: np.ndarray
    eigenvalues: np.ndarray
    power_criterion: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FluxResult(GofResult):
    """Outcome of `flux_test`; `pvalue` is NaN, with a warning, where the weights could not be compared.

    Attributes
    ----------
    modes : Modes
        The modes that were compared.
    mode_table : ModeTable or None
        Observed and implied shares; None if draws were moved by displacements of a lattice.
    mode_of_draw : array (n,) or None
        The mode of each draw, -1 for those not tested; None with displacements.
    net_flow : array (M,) or None
        Net flow into each mode, positive where there are too few draws; None with displacements.
    mode_pvalues : array (M,) or None
        p-value of each mode by itself, adjusted for the number of modes (Bonferroni); NaN where it was not
        examined.
    lattice : DisplacementTable or None
        Flows along the displacements of a lattice, if draws were moved by them.
    chains : ChainWeights or None
        Changes of mode, sojourns and blocks; None for independent draws, and with displacements.
    n_contributing : int
        Number of draws whose probability of leaving their mode exceeds 1 %.
    efficiency : float
        Share of the variance of the counts that is left given the orbits; NaN with displacements.
    degrees_of_freedom : int
    trend_pvalue : float
        p-value of a trend of the weights over the mode locations; NaN where these span too many dimensions.
    variant : str
        How the p-value was found: "asymptotic", "exact", or for chains, groups and weighted draws "block
        signs".
    inconclusive_reason : FluxReason or None
        Why a large p-value is not evidence of a fit, or why there is none: "nothing moves" (no draw can be
        mapped to another mode), "no exchange" (none between some modes of more than 5 %), "light modes" (all
        but one hold less than 1 %), "stuck chains", "few changes" or "few groups" (of draws).
    """

    modes: Modes
    mode_table: ModeTable | None = None
    mode_of_draw: np.ndarray | None = None
    net_flow: np.ndarray | None = None
    mode_pvalues: np.ndarray | None = None
    lattice: DisplacementTable | None = None
    chains: ChainWeights | None = None
    n_contributing: int
    efficiency: float = np.nan
    degrees_of_freedom: int
    trend_pvalue: float = np.nan
    variant: FluxVariant
    inconclusive_reason: FluxReason | None = None

    def describe(self, alpha: float | None = None) -> str:
        """What the test says at level `alpha`, with its warnings and the mode table."""
        table = [] if self.mode_table is None else [str(self.mode_table)]
        return "\n".join([super().describe(alpha), *table])

    def inconclusive(self, alpha: float | None = None) -> bool:
        """Whether the test cannot tell at level `alpha`; `inconclusive_reason` may say why."""
        unexamined = self.inconclusive_reason is not None and not self.reject(alpha)
        return unexamined or super().inconclusive(alpha)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AgreementResult(GofResult):
    """Outcome of the test "chains" of `check`: do Markov chains agree?

    `statistic` is minus the smaller one of the p-values of the two comparisons; `pvalue` is that of both, NaN
    if there are too few blocks to tell.

    Attributes
    ----------
    between_pvalue, start_pvalue : float
        p-values of the comparison of the chains (of the quarters of a single one), and of their first blocks
        with the rest.
    odd_chain : int
        The chain (quarter of a single one) that differs most from the others.
    """

    between_pvalue: float
    start_pvalue: float
    odd_chain: int

    @property
    def at_floor(self) -> bool:
        """Whether no permutation was as extreme in one of the comparisons, which only bounds the p-value."""
        return bool(np.isclose(-self.statistic, self.pvalue_floor, rtol=1e-9, atol=0))

    @property
    def starts_differ(self) -> bool:
        """Whether the beginnings differ from the rest more clearly than the chains from each other."""
        return self.start_pvalue < self.between_pvalue


@dataclass(frozen=True, eq=False)
class MomentFeature(Record):
    """One feature of `moment_test`: a mean, a standard deviation, a correlation or a shape.

    Attributes
    ----------
    kind : str
        "location", "scale", "correlation", "overall scale", "skewness", "tails" (given the scale), "extremes"
        (scale without the far tails), "curvature" (of the regression of the second parameter on the first),
        "radius" (mean rank of a draw on the ray from the mode).
    basis : str
        "parameter": the parameters as named. "given the others": one parameter with all others held fixed.
        "axis 1", "axis 2", ...: along a principal axis of the mode's covariance, widest first. "all": all
        parameters together.
    mode : int or None
        The mode it is about; None if it is about all of them.
    parameters : tuple of str
        One parameter, the two of a correlation or curvature, the main ones of an axis, or none.
    scales : tuple of str
        Per parameter the scale on which the statement holds: "log", "logit" or "" for its own; empty if all
        are on their own.
    loadings : tuple of float
        Coefficients of `parameters` in the principal axis, in units of their standard deviations; empty
        otherwise.
    t, pvalue : float
        Studentised mean, and p-value adjusted for all features. Positive t: the mean of the draws is too
        high, they are too wide, too correlated, too skewed to the right, heavy-tailed, too high where another
        parameter is far from its middle, too far from the mode or too spread out on the rays from it.
    """

    kind: FeatureKind
    basis: str
    mode: int | None
    parameters: tuple[str, ...]
    scales: tuple[str, ...]
    loadings: tuple[float, ...]
    t: float
    pvalue: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MomentResult(GofResult):
    """Outcome of `moment_test`; `statistic` is the largest balanced |t|.

    Attributes
    ----------
    features : tuple of MomentFeature
        All features that were tested, the largest |t| first. In the statistic each |t| is divided by how much
        farther the null distribution of its kind reaches than a normal one and, for correlations and shapes,
        by a number that depends on how many there are (docs/theory/moments.md).
    modes : Modes
        The modes in whose coordinates the draws were looked at.
    n_blocks : int
        Number of blocks of draws that were resampled.
    pairs_left_out : int
        Correlations not examined, because there are too many pairs.
    """

    features: tuple[MomentFeature, ...] = ()
    modes: Modes
    n_blocks: int
    pairs_left_out: int = 0

    def _remarks(self, alpha: float) -> list[str]:
        """Those of every result, and the features of single parameters that are most significant."""
        wrong = [feature for feature in self.significant(alpha) if feature.basis == "parameter"]
        remarks = super()._remarks(alpha) + words.feature_lines(wrong)
        if self.pairs_left_out:
            own = [f for f in self.features if (f.kind, f.basis) == ("correlation", "parameter")]
            remarks.append(words.warning("pairs", count=len(own)))
        return remarks

    def significant(self, alpha: float = 0.05) -> tuple[MomentFeature, ...]:
        """Features whose adjusted p-value is at most `alpha`, the largest |t| first."""
        check_fraction(alpha, "alpha")
        return tuple(feature for feature in self.features if feature.pvalue <= alpha)


def among_all(result: Result, rows: np.ndarray, n: int) -> Result:
    """The result of a test of the rows `rows` of n draws, as one about all of these."""
    if isinstance(result, FluxResult) and result.mode_of_draw is not None:
        mode = np.full(n, -1)
        mode[rows] = result.mode_of_draw
        result = replace(result, mode_of_draw=mode)
    tested = rows if result.tested_rows is None else rows[result.tested_rows]
    return replace(result, n=n, tested_rows=None if len(tested) == n else tested)
