"""Several samples against one target, the best first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from .._validation import RandomSource, integer_seed, listed
from ..result import Table, Verdict
from ..result.record import Record
from ..target import Target
from ..typing import DrawsLike
from ..wording.page import ANSWERS
from ..wording.verdict import mean_text, sd_text, share_text
from .answer import check


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Record):
    """Outcome of `compare`.

    Attributes
    ----------
    verdicts : mapping of str to Verdict
        By the name of the sample, the smallest error first.
    table : Table
        One row per sample: ``sample``; ``error``, its largest error, as in `compare`; ``worst``, what that
        error is; ``answer``, ``pvalue``, ``n``; and ``ess``, the smallest bulk ESS of chains (n for
        independent draws).
    """

    verdicts: Mapping[str, Verdict]
    table: Table

    def __str__(self) -> str:
        return str(self.table)

    def __repr__(self) -> str:
        return f"<Comparison: {listed(list(self.verdicts))}>"


def compare(
    samples: Mapping[str, DrawsLike],
    target: Target,
    *,
    rng: RandomSource = None,
    **options: Any,
) -> Comparison:
    """Check several samples against one target and order them by their largest error.

    P-values depend on the number of draws: a long good chain may have a smaller one than a short bad sample.
    The samples are therefore ordered by the largest of their errors: of a mean in standard deviations of the
    density, of a standard deviation as the logarithm of the ratio, of the share of a mode as a difference.

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
    known = set(signature(check).parameters) - {"draws", "target", "rng"}
    for name in options:
        if name not in known:
            raise TypeError(f"`{name}` is no argument of check: it takes {listed(sorted(known), 20)}")
    seed = integer_seed(rng)
    verdicts = {}
    for name, draws in samples.items():
        try:
            verdicts[str(name)] = check(draws, target, rng=seed, **options)
        except (TypeError, ValueError) as error:
            raise type(error)(f"sample {name!r}: {error}") from error
    worst = {name: largest_error(verdict) for name, verdict in verdicts.items()}
    order = sorted(verdicts, key=lambda name: np.nan_to_num(worst[name].size, nan=np.inf))
    columns = ("sample", "error", "worst", "answer", "pvalue", "n", "ess")
    rows = tuple(_row(name, verdicts[name], worst[name]) for name in order)
    return Comparison({name: verdicts[name] for name in order}, Table(columns, rows))


class LargestError(NamedTuple):
    """The largest error of a sample and what it is."""

    size: float
    text: str


def largest_error(verdict: Verdict) -> LargestError:
    """The largest error of a mean, a standard deviation or a share; NaN if none is known."""
    errors = [LargestError(abs(item.mean_error), mean_text(item)) for item in verdict.accuracy]
    errors += [LargestError(abs(item.sd_error), sd_text(item)) for item in verdict.accuracy if item.has_sd]
    table = verdict.mode_table
    if table is not None:
        errors += [
            LargestError(abs(float(error)), share_text(table, k, verdict.mode_descriptions[k]))
            for k, error in enumerate(table.error)
        ]
    finite = [error for error in errors if np.isfinite(error.size)]
    return max(finite, key=lambda error: error.size, default=LargestError(np.nan, "no error is known"))


def _row(name: str, verdict: Verdict, worst: LargestError) -> tuple[Any, ...]:
    """One row of the table."""
    sizes = [item.ess_bulk for item in verdict.accuracy if np.isfinite(item.ess_bulk)]
    ess = min(sizes, default=float(verdict.n))
    return name, worst.size, worst.text, ANSWERS[verdict.fits], verdict.pvalue, verdict.n, ess
