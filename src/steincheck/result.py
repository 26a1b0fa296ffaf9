"""What a test returns: records that know nobody."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from ._validation import check_level


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

    def answer(self, alpha: float = 0.05) -> str:
        """What the test says at level `alpha`, in a few words."""
        if np.isnan(self.pvalue):
            return "cannot tell"
        return "does not fit: misfit found" if self.reject(alpha) else "no misfit found"

    def summary(self, alpha: float = 0.05) -> str:
        """What the test says at level `alpha`, with its warnings."""
        lines = [
            f"{self.test}: {self.answer(alpha)} at level {alpha:g} (p {pvalue_text(self.pvalue)}, "
            f"statistic = {self.statistic:.4g}, n = {self.n}, d = {self.dim})"
        ]
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain({item.name: getattr(self, item.name) for item in fields(self)})

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
    n_draws : array (M,)
        Number of draws at each.
    observed, implied : arrays (M,)
        Share of the draws, and share of the density, at each mode; an implied share is NaN where it cannot
        be estimated.
    observed_interval, implied_interval : arrays (M, 2)
        95 % confidence intervals, each for one mode alone.
    words : tuple of str
        "too many draws", "too few draws", "as expected" or "not examined" per mode.
    """

    locations: np.ndarray
    n_draws: np.ndarray
    observed: np.ndarray
    implied: np.ndarray
    observed_interval: np.ndarray
    implied_interval: np.ndarray
    words: tuple[str, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Modes without a single draw."""
        return tuple(np.flatnonzero(self.n_draws == 0).tolist())

    def __len__(self) -> int:
        return len(self.n_draws)

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
            words = f"missing, {words}" if self.n_draws[k] == 0 else words
            table.append((str(k), str(self.n_draws[k]), seen, said, words))
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
        names = ("locations", "n_draws", "observed", "observed_interval", "implied", "implied_interval")
        return as_plain({name: getattr(self, name) for name in (*names, "words", "missing")})


@dataclass(frozen=True, eq=False)
class Modes:
    """Modes of a target, highest first: local maxima of log p and the inverse Hessians of -log p there.

    At a mode with a flat or pointed top the covariance says where log p has dropped by 1/2. `n_starts` is how
    many climbs ended at each mode (0: found by symmetry or exploration, or given by the user), `search` how
    the search went: starts, rounds, evaluations, why it stopped; `symmetries` says which symmetries of the
    density take modes to each other.
    """

    locations: np.ndarray  #: (M, d)
    covariances: np.ndarray  #: (M, d, d)
    log_density: np.ndarray  #: (M,), up to the target's constant
    n_starts: np.ndarray  #: (M,)
    warnings: tuple[str, ...] = ()
    search: Mapping[str, Any] = field(default_factory=dict)
    symmetries: tuple[str, ...] = ()

    @property
    def laplace_weights(self) -> np.ndarray:
        """Share of each mode were it Gaussian: p(mu) det(A)^(1/2), normalised."""
        log_weight = self.log_density + 0.5 * np.linalg.slogdet(self.covariances)[1]
        weight = np.exp(log_weight - log_weight.max(initial=-np.inf))
        return weight / weight.sum()

    def __len__(self) -> int:
        return len(self.locations)

    def __str__(self) -> str:
        lines = ["mode   log density  starts  Laplace weight  location"]
        for k, (x, weight) in enumerate(zip(self.locations, self.laplace_weights, strict=True)):
            place = ", ".join(f"{value:.4g}" for value in x[:5]) + (", ..." if len(x) > 5 else "")
            lines.append(
                f"{k:4d} {self.log_density[k]:13.4f} {self.n_starts[k]:7d} {weight:15.4f}  ({place})"
            )
        lines += [f"symmetry: {words}" for words in self.symmetries]
        lines += [f"search ended: {self.search['stopped']}"] if "stopped" in self.search else []
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        names = (
            "locations",
            "covariances",
            "log_density",
            "n_starts",
            "laplace_weights",
            "warnings",
            "search",
        )
        return as_plain({name: getattr(self, name) for name in (*names, "symmetries")})


@dataclass(frozen=True, eq=False)
class KsdResult(GofResult):
    """Outcome of `ksd_test`.

    Attributes
    ----------
    bandwidth : float
        Of the kernel, in units of squared distance.
    """

    bandwidth: float = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class PksdResult(KsdResult):
    """Outcome of `pksd_test`.

    Attributes
    ----------
    modes : Modes
        The modes between which draws were moved.
    theta, acceptance : arrays (J,)
        Jump scales, and the share of proposals accepted at each.
    """

    modes: Modes = field(kw_only=True)
    theta: np.ndarray = field(kw_only=True)
    acceptance: np.ndarray = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class SpksdResult(PksdResult):
    """Outcome of `spksd_test`.

    Attributes
    ----------
    identity_statistic : float
        Contribution of the unperturbed draws to the statistic.
    theta_statistics : array (J,)
        Contribution of each jump scale.
    """

    identity_statistic: float = field(kw_only=True)
    theta_statistics: np.ndarray = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class OspksdResult(PksdResult):
    """Outcome of `ospksd_test`.

    Attributes
    ----------
    criterion : array (J,)
        Estimated power of each jump scale on the training draws.
    chosen_theta : float
        The jump scale that maximises it.
    test_acceptance : float
        Share of proposals accepted with it on the tested draws.
    identity_statistic, theta_statistic : float
        Contributions to the statistic of the unperturbed and of the perturbed draws.
    """

    criterion: np.ndarray = field(kw_only=True)
    chosen_theta: float = field(kw_only=True)
    test_acceptance: float = field(kw_only=True)
    identity_statistic: float = field(kw_only=True)
    theta_statistic: float = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class KsdaggResult(GofResult):
    """Outcome of `ksdagg_test`; `statistic` is minus the smallest weighted p-value of the single tests.

    Attributes
    ----------
    bandwidths, bandwidth_weights : arrays (K,)
        The collection, in units of squared distance, and the weights in the aggregation.
    statistics, pvalues : arrays (K,)
        Of the single tests.
    levels, thresholds : arrays (K,)
        A single test rejects at the level asked for if its p-value is at most `levels`, which is when its
        statistic exceeds `thresholds`.
    """

    bandwidths: np.ndarray = field(kw_only=True)
    bandwidth_weights: np.ndarray = field(kw_only=True)
    statistics: np.ndarray = field(kw_only=True)
    pvalues: np.ndarray = field(kw_only=True)
    levels: np.ndarray = field(kw_only=True)
    thresholds: np.ndarray = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class PksdaggResult(KsdaggResult):
    """Outcome of `pksdagg_test`; arrays over bandwidths hold the unperturbed draws first, then the perturbed.

    Attributes
    ----------
    modes, theta, acceptance
        As in `PksdResult`.
    """

    modes: Modes = field(kw_only=True)
    theta: np.ndarray = field(kw_only=True)
    acceptance: np.ndarray = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class FssdResult(GofResult):
    """Outcome of `fssd_test`.

    Attributes
    ----------
    locations : array (J, d)
        Where the features look.
    bandwidth : float
        Of the kernel, in units of squared distance.
    contributions : array (J,)
        Of the locations to the statistic: large where the misfit is.
    eigenvalues : array
        Of the covariance of the features, in descending order.
    power_criterion : float
        On the tested draws.
    n_test : int
        Number of tested draws.
    """

    locations: np.ndarray = field(kw_only=True)
    bandwidth: float = field(kw_only=True)
    contributions: np.ndarray = field(kw_only=True)
    eigenvalues: np.ndarray = field(kw_only=True)
    power_criterion: float = field(kw_only=True)
    n_test: int = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class DisplacementTable:
    """Flows of draws along the displacements of a lattice of modes, and against them.

    Attributes
    ----------
    displacements : array (V, d)
    flow : array (V, 2)
        Mean probability of moving forth and back.
    net_flow, net_flow_se : arrays (V,)
        Forth minus back, positive where there are too few draws ahead, and its standard error.
    words : tuple of str
        "too few draws ahead", "too few draws behind", "as expected" or "not examined" per displacement.
    pvalue : float
        Of all displacements together.
    degrees_of_freedom : int
    """

    displacements: np.ndarray
    flow: np.ndarray
    net_flow: np.ndarray
    net_flow_se: np.ndarray
    words: tuple[str, ...]
    pvalue: float
    degrees_of_freedom: int


@dataclass(frozen=True, eq=False)
class ChainWeights:
    """What Markov chains can tell about the weights of the modes.

    Attributes
    ----------
    n_chains, n_blocks : int
        Number of chains, and of blocks whose signs were flipped.
    autocorrelation_time, effective_draws : float
        Of the net flows between modes, and how many independent draws the chains are worth for the weights.
    n_changes : int
        Number of changes of mode.
    sojourns : array (M,)
        Number of sojourns of the chains at each mode.
    shares : array (C, M)
        Share of each mode in the draws of each chain.
    compared : tuple of tuples of int
        Groups of modes between which the chains change often enough for their weights to be compared.
    pooled : tuple of int
        Modes among them with few sojourns, whose weights were compared only together.
    """

    n_chains: int
    n_blocks: int
    autocorrelation_time: float
    effective_draws: float
    n_changes: int
    sojourns: np.ndarray
    shares: np.ndarray
    compared: tuple[tuple[int, ...], ...]
    pooled: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FluxResult(GofResult):
    """Outcome of `flux_test`; `pvalue` is NaN, with a warning, if no draw could be at another mode.

    Attributes
    ----------
    modes : Modes
        The modes that were compared.
    mode_table : ModeTable or None
        Observed and implied shares; None if draws were moved by displacements of a lattice only.
    mode_of_draw : array (n,) or None
        The mode of each draw; None with displacements only.
    flow : array (M, M)
        Mean probability of going from mode i to mode j; (V, 2), forth and back, with displacements only.
    net_flow, net_flow_se : arrays (M,) or (V,)
        Net flow into each mode, positive where there are too few draws, and its standard error; along each
        displacement with displacements only.
    lattice : DisplacementTable or None
        Flows along the displacements of a lattice, if draws were moved by them.
    chains : ChainWeights or None
        Changes of mode, sojourns and blocks; None for independent draws.
    acceptance : float
        Mean probability of leaving a mode.
    contributing : int
        Number of draws whose probability of leaving exceeds 1 %.
    efficiency : float
        Share of the variance of the counts that is left given the orbits; NaN with displacements only.
    n_anchors : int
        Number of Gaussians between which draws were moved; 0 with displacements only.
    degrees_of_freedom : int
    trend_pvalue : float
        Of a trend of the weights over the mode locations; NaN where these span too many dimensions.
    variant : str
        How the p-value was found: "asymptotic", "exact", for chains "block signs", or "set" if the chains
        change mode too rarely and the set of draws was compared with 40 independent draws.
    inconclusive : str
        Why a large p-value is no sign of a fit; empty if it is one.
    """

    modes: Modes = field(kw_only=True)
    mode_table: ModeTable | None = field(default=None, kw_only=True)
    mode_of_draw: np.ndarray | None = field(default=None, kw_only=True)
    flow: np.ndarray = field(kw_only=True)
    net_flow: np.ndarray = field(kw_only=True)
    net_flow_se: np.ndarray = field(kw_only=True)
    lattice: DisplacementTable | None = field(default=None, kw_only=True)
    chains: ChainWeights | None = field(default=None, kw_only=True)
    acceptance: float = field(kw_only=True)
    contributing: int = field(kw_only=True)
    efficiency: float = field(default=np.nan, kw_only=True)
    n_anchors: int = field(default=0, kw_only=True)
    degrees_of_freedom: int = field(kw_only=True)
    trend_pvalue: float = field(default=np.nan, kw_only=True)
    variant: str = field(kw_only=True)
    inconclusive: str = field(default="", kw_only=True)

    @property
    def displacements(self) -> np.ndarray | None:
        """Displacements (V, d) of the lattice, if draws were moved by them."""
        return None if self.lattice is None else self.lattice.displacements

    def answer(self, alpha: float = 0.05) -> str:
        """What the test says at level `alpha`, in a few words."""
        if self.inconclusive and not self.reject(alpha):
            return "cannot tell"
        return super().answer(alpha)


@dataclass(frozen=True, eq=False)
class MomentFeature:
    """One feature of `moment_test`: a mean, a standard deviation, a correlation or a shape.

    Attributes
    ----------
    kind : str
        "location", "scale", "correlation", "overall scale", "skewness", "tails" (given the scale), "extremes"
        (tails and scale together), "radius" or "radius spread" (mean and spread of the rank of a draw on
        the ray from the mode).
    basis : str
        "own": the parameters as named. "given the others": one parameter with all others held fixed.
        "axis 1", "axis 2", ...: along a principal axis of the mode's covariance, widest first. "all": all
        parameters together.
    mode : int or None
        The mode it is about; None if it is about all of them.
    parameters : tuple of str
        One parameter, the two of a correlation, the main ones of an axis, or none.
    loadings : tuple of float
        Of `parameters` in the principal axis, in units of their standard deviations; empty otherwise.
    estimate, interval : float, (float, float)
        Location: how far the mean of the draws is too high, in standard deviations. Scale: by which factor
        the draws are too wide. Correlation: of the draws less that of the density. Otherwise the mean of the
        feature in units of its standard deviation. Each interval has 95 % coverage by itself.
    observed, expected : float
        Mean, standard deviation or correlation of the draws, and what the density says, in the parameter's
        own units; NaN where this has no meaning.
    t, pvalue : float
        Studentised mean, and p-value adjusted for all features.
    """

    kind: str
    basis: str
    mode: int | None
    parameters: tuple[str, ...]
    loadings: tuple[float, ...]
    estimate: float
    interval: tuple[float, float]
    observed: float
    expected: float
    t: float
    pvalue: float

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain(dict(self.__dict__))


@dataclass(frozen=True, eq=False)
class MomentResult(GofResult):
    """Outcome of `moment_test`; `statistic` is the largest |t| of the features.

    Attributes
    ----------
    features : tuple of MomentFeature
        All features that were tested, the largest |t| first.
    modes : Modes
        The modes in whose coordinates the draws were looked at.
    blocks : int
        Number of blocks of draws that were resampled.
    pairs_left_out : int
        Correlations not examined, because there are too many pairs.
    impossible : tuple of int
        Rows of draws that the density all but excludes.
    impossible_pvalue : float
        Of the least probable draw, adjusted for the number of draws.
    """

    features: tuple[MomentFeature, ...] = field(kw_only=True)
    modes: Modes = field(kw_only=True)
    blocks: int = field(kw_only=True)
    pairs_left_out: int = field(kw_only=True)
    impossible: tuple[int, ...] = field(kw_only=True)
    impossible_pvalue: float = field(kw_only=True)

    def significant(self, alpha: float = 0.05) -> tuple[MomentFeature, ...]:
        """Features whose adjusted p-value is at most `alpha`, the largest |t| first."""
        check_level(alpha)
        return tuple(feature for feature in self.features if feature.pvalue <= alpha)


@dataclass(frozen=True, eq=False)
class AgreementResult(GofResult):
    """Outcome of the test in `check` of whether Markov chains agree, also with their beginnings.

    Attributes
    ----------
    between_pvalue, start_pvalue : float
        Of the comparison of the chains, and of their first blocks with the rest.
    odd_chain : int
        The chain that differs most from the others.
    n_blocks : int
        Number of blocks that were permuted.
    """

    between_pvalue: float = field(kw_only=True)
    start_pvalue: float = field(kw_only=True)
    odd_chain: int = field(kw_only=True)
    n_blocks: int = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Finding:
    """One thing that is wrong, with its size.

    Attributes
    ----------
    kind : str
        "missing mode", "mode share", "trend", "flow", "location", "scale", "correlation", "overall scale",
        "skewness", "tails" or "shape".
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


def note(notes: list[str], text: str) -> None:
    """Tell the user now and in the result."""
    notes.append(text)
    warnings.warn(text, stacklevel=4)


def pvalue_text(p: float) -> str:
    """The p-value as it follows the letter p: "= 0.04", or "< 1e-16" where its digits mean nothing."""
    return "< 1e-16" if p < 1e-16 else f"= {p:.3g}"


def as_plain(value: Any) -> Any:
    """Turn arrays, NumPy scalars and records into lists, numbers and dictionaries; non-finite into None."""
    if hasattr(value, "to_dict"):
        return as_plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: as_plain(getattr(value, item.name)) for item in fields(value)}
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
