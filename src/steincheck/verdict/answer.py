"""The doors: do draws fit a density, how far off are their numbers, and which of several samples is best?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._validation import RandomSource, as_one_positive, check_fraction, check_switch, integer_seed, recorded
from ..modes.search import as_box
from ..result import Table, Verdict
from ..result.record import Record
from ..target import Target, require_target
from ..typing import BoundsLike, DrawsLike, ModesLike
from ..wording.numbers import ANSWERS
from ..wording.verdict import mean_text, sd_text, share_text
from .findings import as_verdict
from .steps import measure, modes_of_case, read_case, run_tests


@np.errstate(under="ignore")  # whatever the user has set
def check(
    draws: DrawsLike,
    target: Target,
    *,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    alpha: float = 0.05,
    tolerance: float | None = None,
    independent: bool = False,
    check_score: bool = True,
    log_density: ArrayLike | None = None,
    weights: Any = None,
    log_weights: ArrayLike | None = None,
    log_q: ArrayLike | Callable[[np.ndarray], ArrayLike] | None = None,
    max_evaluations: int | None = None,
    max_seconds: float | None = 60.0,
    progress: bool | None = None,
    rng: RandomSource = None,
) -> Verdict:
    """Do the draws fit the density? How far off are their means, standard deviations and mode shares?

    H0: the draws are independent and come from the target; or, for Markov chains, the chains are stationary
    with the target as their distribution. The mode search starts from held-out draws; the others are
    tested: the shape by `ksdagg_test`, location, spread, correlation and tails by `moment_test`, the mode
    weights by `flux_test`, and whether the chains agree. Holm's method combines them at the level `alpha`.
    Then some draws are moved by transitions that leave the density invariant, which shows what the means and
    standard deviations of the density are (`estimate_accuracy`).

    Parameters
    ----------
    draws : array (n, d), array (chain, draw, d), or anything that `as_draws` takes
        Independent draws or Markov chains. An array (n, d) whose order shows autocorrelation is tested as one
        chain.
    target : Target
        The density.
    modes : Modes, (locations, covariances) or locations, optional
        Modes you know; otherwise they are searched for, and no box is needed.
    bounds : (low, high), or one such pair per coordinate, optional
        A box that is searched as well. Mutually exclusive with `modes`.
    alpha : float
        The level; below about 0.001 there are too few replicates, and the answer is "cannot tell".
    tolerance : float, optional
        The errors that you allow: 0.1 is a tenth of a standard deviation for means, 10 % for standard
        deviations and .1 for shares of modes. The answer is then by the errors: True if every 95 % interval
        is within the tolerance, False if one, widened for their number, is outside, None otherwise. By
        default the tests decide.
    independent : bool
        The draws are independent, whatever their order or shape suggests.
    check_score : bool
        Compare the score with finite differences at a few draws first.
    log_density : array (n,), optional
        The log density of the target at the draws, up to a constant, where the sampler has recorded it. It is
        compared with the target's at five draws and used instead of evaluating it.
    weights, log_weights : array (n,), optional
        Importance weights of the draws, or their logarithms, up to a constant: of nested sampling, sequential
        Monte Carlo, importance sampling, or ``verdict.importance_weights`` as they are. Give one of them.
    log_q : array (n,) or callable, optional
        Log density of the approximation that the draws come from, in the coordinates of the target, up to a
        constant: values at the draws, or a function of points (n, d). It shows whether importance weights
        can correct the draws (Pareto k-hat), and where they can, how far off the draws' numbers are.
    max_evaluations : int, optional
        Points at which the density may be evaluated, everything included; the draws are always.
    max_seconds : float or None
        Turned at the start into a number of evaluations, by the time of the first ones; a cheap density is
        not limited, and the draws are always evaluated. With None a verdict never depends on the clock.
    progress : bool, optional
        Show the progress of the mode search, by default on a terminal; with True also a line per step.
    rng : int, Generator or SeedSequence, optional
        Source of randomness; by default the seed 0, so that the same draws get the same answer.

    Returns
    -------
    Verdict
        ``verdict.fits`` is False (misfit found), True (no misfit found, which is no proof) or None (cannot
        tell); ``print(verdict)`` says it in words. Warnings are in ``verdict.warnings``: none is raised as a
        Python warning.

    Notes
    -----
    docs/verdict.md says what it does and what its words mean.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> left = np.random.default_rng(0).normal(-3.0, 1.0, size=(1000, 1))
    >>> sc.check(left, target, rng=0).fits
    False
    """
    arguments = locals()
    check_fraction(alpha, "alpha")
    require_target(target)
    if tolerance is not None:
        as_one_positive(tolerance, "tolerance")
    for name in ("independent", "check_score"):
        check_switch(arguments[name], name)
    check_switch(progress, "progress", optional=True)
    box = as_box(bounds, target.dim, modes)
    settings = recorded(**arguments | {"rng": integer_seed(0 if rng is None else rng)})
    for_modes, for_tests, for_accuracy, for_support = np.random.default_rng(settings["rng"]).spawn(4)
    case = read_case(arguments, settings, for_support)
    known = modes_of_case(case, box, for_modes)
    tested = run_tests(case, known, for_tests)
    measured = measure(case, known, tested, for_accuracy)
    return as_verdict(case, known, tested, measured)


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
        return f"<Comparison: {', '.join(self.verdicts)}>"


def compare(
    samples: Mapping[str, DrawsLike], target: Target, *, rng: RandomSource = None, **options: Any
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
        Every sample is checked with the same seed, by default 0.
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
    by_name = {str(name): draws for name, draws in samples.items()}
    if len(by_name) < len(samples):
        raise ValueError(f"`samples` must have names that differ as text, got {list(samples)!r}")
    seed = integer_seed(0 if rng is None else rng)
    verdicts, rows = {}, []
    for name, draws in by_name.items():
        try:
            verdict = verdicts[name] = check(draws, target, rng=seed, **options)
        except (TypeError, ValueError) as error:
            raise type(error)(f"sample {name!r}: {error}") from error
        sizes = [item.ess_bulk for item in verdict.accuracy if np.isfinite(item.ess_bulk)]
        numbers = (verdict.pvalue, verdict.n, min(sizes, default=float(verdict.n)))
        # the largest error of a mean, a standard deviation or a share, and what it is
        errors = [(abs(item.mean_error), mean_text(item)) for item in verdict.accuracy]
        errors += [(abs(item.sd_error), sd_text(item)) for item in verdict.accuracy if item.has_sd]
        table = verdict.mode_table
        if table is not None:
            places = enumerate(zip(np.abs(table.error).tolist(), verdict.mode_descriptions, strict=True))
            errors += [(size, share_text(table, k, where)) for k, (size, where) in places]
        known = [error for error in errors if not np.isnan(error[0])]
        largest = max(known, key=lambda error: error[0], default=(np.nan, "no error is known"))
        rows.append((name, *largest, ANSWERS[verdict.fits], *numbers))
    rows.sort(key=lambda row: np.nan_to_num(row[1], nan=np.inf))
    columns = ("sample", "error", "worst", "answer", "pvalue", "n", "ess")
    return Comparison({row[0]: verdicts[row[0]] for row in rows}, Table(columns, tuple(rows)))
