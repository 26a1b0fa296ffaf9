"""One frozen result per test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .._validation import check_level
from ..wording.flux import weight_reason
from ..wording.results import floor_remark, result_sentence
from .chains import ChainBlocks, ChainWeights
from .html import answer_html, list_html, table_html
from .mode_table import DisplacementTable, ModeTable
from .modes import Modes
from .plain import Record, as_plain

FluxVariant = Literal["asymptotic", "exact", "block signs"]
FluxReason = Literal["nothing moves", "no exchange", "light modes", "stuck chains", "few changes"]
KernelUnits = Literal["common", "per mode"]


def floor_of(null_distribution: np.ndarray | None) -> float:
    """The smallest p-value by rank among these replicates; 0 without any."""
    return 0.0 if null_distribution is None else 1 / (len(null_distribution) + 1)


def _equal(p: float, floor: float) -> bool:
    """Whether the p-value is the floor, up to rounding."""
    return bool(floor > 0 and abs(p - floor) <= 1e-9 * floor)


@dataclass(frozen=True, eq=False, repr=False)
class GofResult(Record):
    """Outcome of one goodness-of-fit test of H0: the draws come from the target.

    Every test has a result of its own, with further fields: `KsdResult`, `FluxResult`, `MomentResult`, ...

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
    settings : mapping, read-only
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
            object.__setattr__(self, "pvalue_floor", floor_of(self.null_distribution))
        super().__post_init__()

    @property
    def n_tested(self) -> int:
        """Number of draws tested."""
        return self.n if self.tested_rows is None else len(self.tested_rows)

    @property
    def seed(self) -> Any:
        """The `rng` in `settings` that runs the test again; None if there are no settings."""
        return self.settings.get("rng")

    def reject(self, alpha: float | None = None) -> bool:
        """Whether the fit is rejected at level `alpha`; 0.05, or that of an aggregated test, by default."""
        return bool(self.pvalue <= self._level(alpha))

    def _level(self, alpha: float | None) -> float:
        """The level asked for, or the default one."""
        level = 0.05 if alpha is None else alpha
        check_level(level)
        return level

    @property
    def at_floor(self) -> bool:
        """Whether the p-value is the smallest that replicates can give: the true one may be smaller."""
        return _equal(self.pvalue, self.pvalue_floor)

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {result_sentence(self, self._level(None))}>"

    def _repr_html_(self) -> str:
        fits = None if self.inconclusive() else not self.reject()
        level = self._level(None)
        lists = list_html(self._remarks(level)) + list_html(self.warnings, "Warnings")
        return f"<div>{answer_html(self._headline(level), fits)}{lists}</div>"

    def inconclusive(self, alpha: float | None = None) -> bool:
        """Whether the test cannot tell at level `alpha`: no p-value, or none attainable would reject."""
        out_of_reach = self._out_of_reach(self._level(alpha))
        return not self.reject(alpha) and bool(np.isnan(self.pvalue) or out_of_reach)

    def describe(self, alpha: float | None = None) -> str:
        """What the test says at level `alpha`, with its warnings."""
        level = self._level(alpha)
        warnings = [f"warning: {text}" for text in self.warnings]
        return "\n  ".join([self._headline(level), *self._remarks(level), *warnings])

    def _headline(self, alpha: float) -> str:
        return f"{self.test}: {result_sentence(self, alpha)}"

    def _remarks(self, alpha: float) -> list[str]:
        """Remarks that accompany the answer, other than warnings."""
        remarks = [] if self.chains is None else [str(self.chains)]
        return [*remarks, floor_remark(self.pvalue_floor, alpha)] if self._out_of_reach(alpha) else remarks

    def _out_of_reach(self, alpha: float) -> bool:
        """Whether a p-value above `alpha` says nothing, since the replicates could not give one below."""
        return bool(self.pvalue > alpha and self.pvalue_floor > alpha)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain(self.__dict__ | {"n_tested": self.n_tested})


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
    test_acceptance : float
        Share of proposals accepted with it on the tested draws.
    identity_statistic, theta_statistic : float
        Contributions to the statistic of the unperturbed and of the perturbed draws.
    """

    power_criterion: np.ndarray
    chosen_theta: float
    test_acceptance: float
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
    units: KernelUnits = "common"

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
        How the p-value was found: "asymptotic", "exact", or for chains "block signs".
    inconclusive_reason : FluxReason or None
        Why a large p-value is not evidence of a fit, or why there is none: "nothing moves" (no draw can be
        mapped to another mode), "no exchange" (none between some modes of more than 5 %), "light modes" (all
        but one hold less than 1 %), "stuck chains" or "few changes".
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
        text = super().describe(alpha)
        return text if self.mode_table is None else f"{text}\n{self.mode_table}"

    def _repr_html_(self) -> str:
        modes = "" if self.mode_table is None else table_html(self.mode_table.text)
        return super()._repr_html_() + modes

    def inconclusive(self, alpha: float | None = None) -> bool:
        """Whether the test cannot tell at level `alpha`; `inconclusive_reason` may say why."""
        unexamined = self.inconclusive_reason is not None and not self.reject(alpha)
        return super().inconclusive(alpha) or unexamined

    def _remarks(self, alpha: float) -> list[str]:
        reason = weight_reason(self)
        remarks = super()._remarks(alpha)
        return [*remarks, reason] if reason and not self.reject(alpha) else remarks


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AgreementResult(GofResult):
    """Outcome of `chains.agreement`, and of the same test in `check`: do Markov chains agree?

    `statistic` is minus the smaller one of the p-values of the two comparisons; `pvalue` is that of both, NaN
    if there are too few blocks to tell. `dim` is the number of features, in `check` that of the coordinates.
    It is run again by ``agreement(features, chain, **result.settings)``.

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
    def n_blocks(self) -> int:
        """Number of blocks that were permuted."""
        return 0 if self.chains is None else self.chains.n_blocks

    @property
    def at_floor(self) -> bool:
        """Whether no permutation was as extreme in one of the comparisons, which only bounds the p-value."""
        return _equal(-self.statistic, self.pvalue_floor)

    @property
    def starts_differ(self) -> bool:
        """Whether the beginnings differ from the rest more clearly than the chains from each other."""
        return self.start_pvalue < self.between_pvalue
