"""Several samples against one target, the best first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from .._validation import RandomSource, integer_seed, listed
from ..result import FluxResult, Table, Verdict
from ..result.plain import as_plain, freeze_mappings, picklable_state
from ..target import Target
from ..typing import DrawsLike
from .answer import check

N_ANGLES = 720  # of the quadrature over directions; the integrand is smooth but for kinks
COMPARISON_COLUMNS = ("sample", "misplaced", "worst", "answer", "pvalue", "n", "ess")


class Effect(NamedTuple):
    """The largest misfit of a sample."""

    misplaced: float  #: share of the probability that lies in the wrong place because of it
    words: str


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Outcome of `compare`.

    Attributes
    ----------
    verdicts : mapping of str to Verdict
        By the name of the sample, the smallest misfit first; read-only.
    table : Table
        One row per sample: ``sample``; ``misplaced``, the share of the probability that its largest misfit
        puts in the wrong place; ``worst``, what that misfit is; ``answer``, ``pvalue``, ``n``; and ``ess``,
        the smallest bulk ESS of chains (n for independent draws).
    """

    verdicts: Mapping[str, Verdict]
    table: Table

    def __post_init__(self) -> None:
        freeze_mappings(self, ["verdicts"])

    def __getstate__(self) -> dict[str, Any]:
        return picklable_state(self, ["verdicts"])

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze_mappings(self, ["verdicts"])

    def __str__(self) -> str:
        return str(self.table)

    def __repr__(self) -> str:
        return f"<Comparison: {listed(list(self.verdicts))}>"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame, indexed by the samples."""
        return self.table.to_pandas()

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON: the table, and every verdict by the name of its sample."""
        verdicts = {name: verdict.to_dict() for name, verdict in self.verdicts.items()}
        return as_plain({"table": self.table, "verdicts": verdicts})

    def to_json(self) -> str:
        """JSON text; infinities and NaN become null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def compare(
    samples: Mapping[str, DrawsLike],
    target: Target,
    *,
    rng: RandomSource = None,
    **options: Any,
) -> Comparison:
    """Check several samples against one target and order them by the size of their misfit.

    P-values depend on the number of draws: a long good chain may have a smaller one than a short bad sample.
    The samples are therefore ordered by an effect size, the share of the probability that the largest
    misfit puts in the wrong place: the total variation distance::

        TV = 1/2 sum_j |observed_j - implied_j|

    of the mode shares, and those of Gaussian margins for means and standard deviations (with shift delta and
    factor c, between N(0, 1) and N(delta, c^2)) and of a pair of parameters for correlations. It is an
    estimate and has noise of order n^(-1/2); what has no size (skewness, tails) does not count.

    Parameters
    ----------
    samples : mapping of str to draws
        Names, and whatever `as_draws` takes: ``{"nuts": idata, "advi": draws}``.
    target : Target
        The density of all of them.
    rng : int, Generator or SeedSequence, optional
        Every sample is checked with the same seed.
    **options
        Passed on to `check`.

    Returns
    -------
    Comparison
        ``print`` shows the table; ``comparison.verdicts["nuts"]`` is the verdict of one sample.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=2)
    >>> x = np.random.default_rng(0).normal(size=(1000, 2))
    >>> samples = {"narrow": 0.5 * x, "exact": x}
    >>> comparison = sc.compare(samples, target, modes=[[0.0, 0.0]], rng=0)
    >>> list(comparison.verdicts)
    ['exact', 'narrow']
    """
    if not isinstance(samples, Mapping):
        raise TypeError(f"`samples` must map names to draws, got {type(samples).__name__}")
    if not samples:
        raise ValueError("`samples` must hold at least one sample, got none")
    _check_options(options)
    seed = integer_seed(rng)
    found = {str(name): _checked(str(name), draws, target, seed, options) for name, draws in samples.items()}
    effects = {name: largest_effect(verdict) for name, verdict in found.items()}
    order = sorted(found, key=lambda name: (np.isnan(effects[name].misplaced), effects[name].misplaced))
    rows = tuple(_row(name, found[name], effects[name]) for name in order)
    return Comparison({name: found[name] for name in order}, Table(COMPARISON_COLUMNS, rows))


def _check_options(options: Mapping[str, Any]) -> None:
    known = [name for name in signature(check).parameters if name not in ("draws", "target", "rng")]
    for name in options:
        if name not in known:
            raise TypeError(f"compare has no option `{name}`; those of check are {', '.join(known)}")


def _checked(name: str, draws: Any, target: Target, seed: int, options: Mapping[str, Any]) -> Verdict:
    """The verdict of one sample; an error says which."""
    try:
        return check(draws, target, rng=seed, **options)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"sample {name!r}: {error}") from error


def _row(name: str, verdict: Verdict, effect: Effect) -> tuple[Any, ...]:
    ess = float(verdict.n)
    if verdict.chain is not None:
        ess = float(np.min(verdict.summary()["ess_bulk"]))
    answer = {True: "no misfit found", False: "misfit found", None: "cannot tell"}[verdict.fits]
    return name, effect.misplaced, effect.words, answer, verdict.pvalue, verdict.n, ess


def largest_effect(verdict: Verdict) -> Effect:
    """The misfit that puts the largest share of the probability in the wrong place."""
    effects = []
    weights = verdict.tests.get("weights")
    if isinstance(weights, FluxResult) and weights.mode_table is not None:
        gap = weights.mode_table.observed - weights.mode_table.implied
        known = np.where(np.isfinite(gap), gap, 0.0)
        k = int(np.argmax(np.abs(known)))
        shares = f"{weights.mode_table.observed[k]:.0%}, should be {weights.mode_table.implied[k]:.0%}"
        effects.append(Effect(0.5 * float(np.abs(known).sum()), f"share of mode {k}: {shares}"))
    return max(effects, key=lambda effect: effect.misplaced, default=Effect(np.nan, "no size known"))


def tv_of_shift(delta: float) -> float:
    """Total variation distance of N(0, 1) and N(delta, 1)."""
    return float(2 * special.ndtr(abs(delta) / 2) - 1)


def tv_of_scale(factor: float) -> float:
    """Total variation distance of N(0, 1) and N(0, factor^2).

    Examples
    --------
    >>> round(tv_of_scale(2.0), 3), round(tv_of_scale(0.5), 3), tv_of_scale(0.0)
    (0.323, 0.323, 1.0)
    """
    if factor <= 0:
        return 1.0
    c = max(factor, 1 / factor)
    if c - 1 < 1e-9:
        return 0.0
    crossing = c * np.sqrt(2 * np.log(c) / (c**2 - 1))  # where the densities are equal
    return float(2 * (special.ndtr(crossing) - special.ndtr(crossing / c)))


def tv_of_correlation(observed: float, expected: float) -> float:
    """Total variation distance of two bivariate Gaussians of unit variances with these correlations.

    Whitened by the second, the first has independent components with variances (1 + o) / (1 + e) and
    (1 - o) / (1 - e); along every direction the densities cross once, and the mass within is elementary.
    """
    limit = 1 - 1e-9
    o = float(np.clip(observed, -limit, limit))
    e = float(np.clip(expected, -limit, limit))
    variances = np.array([(1 + o) / (1 + e), (1 - o) / (1 - e)])
    angle = (np.arange(N_ANGLES) + 0.5) * (2 * np.pi / N_ANGLES)
    precision = np.cos(angle) ** 2 / variances[0] + np.sin(angle) ** 2 / variances[1]
    determinant = variances.prod()
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = -np.log(determinant) / (precision - 1)  # squared radius at which the densities are equal
    inner = np.where(np.isfinite(crossing) & (crossing > 0), crossing, 0.0)
    reference = np.exp(-0.5 * inner)
    other = np.exp(-0.5 * inner * precision) / (precision * np.sqrt(determinant))
    whole = 1 / (precision * np.sqrt(determinant))
    outside = np.abs(reference - other)
    inside = np.abs((1 - reference) - (whole - other))
    return float(0.5 * np.mean(outside + inside))
