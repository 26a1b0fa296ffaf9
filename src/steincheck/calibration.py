"""The level of a test on the user's own target, and its power against a wrong sampler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._validation import (
    RandomSource,
    as_count,
    as_positive,
    check_fraction,
    check_switch,
    is_number,
    seeded,
    without_user_warnings,
)
from ._work import progress_bar
from .result import CalibrationResult, GofResult, Verdict
from .target import Target, require_target
from .typing import DrawsLike
from .verdict.answer import check
from .wording.numbers import USUAL_LEVELS


def calibrate(
    target: Target,
    sample: Callable[[int, np.random.Generator], DrawsLike] | None,
    n: int,
    *,
    test: Callable[..., Any] = check,
    repetitions: int = 200,
    alpha: ArrayLike = USUAL_LEVELS,
    n_jobs: int = 1,
    progress: bool | None = None,
    rng: RandomSource = None,
) -> CalibrationResult:
    """How often does a test reject samples of n draws? Its level on a target, or its power.

    With exact draws of the target the rate at level alpha should be at most alpha, and p-values uniform or
    larger. With draws of another distribution the rate is the power against it. `check` rejects without a
    p-value where a fact says that draws do not fit, such as chains that change mode too rarely and have wrong
    shares: at every level.

    Parameters
    ----------
    target : Target
        The density.
    sample : callable or None
        ``sample(n, rng)`` returns n draws, or anything that the test takes, for example an array
        (chain, draw, d) of Markov chains. None: ``target.sample``, the exact draws of a model.
    n : int
        Number of draws per sample; of each chain, if samples are Markov chains.
    test : callable
        ``test(draws, target, rng=...)``, whose result has `pvalue`: `check`, any ``xxx_test``, or one with
        options, as ``functools.partial(ksd_test, n_resamples=499)``.
    repetitions : int
        Number of samples.
    alpha : float or sequence of float
        Levels.
    n_jobs : int
        Number of worker processes, by joblib (the extra `parallel`), -1 for all cores. The outcome does not
        depend on it.
    progress : bool, optional
        Show a progress bar; by default on a terminal.
    rng : int, Generator or SeedSequence, optional
        Source of randomness.

    Returns
    -------
    CalibrationResult
        Rejection rates with intervals, the p-values, and whether they are too small.

    Examples
    --------
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[0.0]])
    >>> found = sc.calibrate(target, None, 100, test=sc.ksd_test, repetitions=40, rng=0)
    >>> bool(found.intervals[1, 0] <= 0.05)
    True
    >>> wide = sc.calibrate(
    ...     target, lambda n, rng: 2 * target.sample(n, rng), 100, test=sc.ksd_test, repetitions=40, rng=0
    ... )
    >>> bool(wide.rates[1] > 0.9)
    True
    """
    require_target(target)
    draw = target.sample if sample is None else sample
    if not callable(draw):
        raise TypeError(
            "`sample` must be a function (n, rng) -> draws, or None for a model with exact draws, got "
            f"{type(sample).__name__}"
        )
    if not callable(test):
        raise TypeError(f"`test` must be a function test(draws, target, rng=...), got {test!r}")
    as_count(n, "n", maximum=10**9)
    as_count(repetitions, "repetitions")
    if n_jobs != -1:
        as_count(n_jobs, "n_jobs", maximum=1024)
    levels = as_positive(alpha, "alpha")
    check_fraction(float(levels.max()), "alpha")
    check_switch(progress, "progress", optional=True)
    generator, seed = seeded(rng)
    work = partial(_outcome, draw, test, target, n, float(levels.max()))
    outcomes = list[tuple[float, bool, bool]]()
    streams = generator.spawn(repetitions)
    runs: Iterable[tuple[float, bool, bool]] = map(work, streams)
    if n_jobs != 1:
        from joblib import Parallel, delayed

        runs = Parallel(n_jobs=n_jobs, return_as="generator")(map(delayed(work), streams))
    with progress_bar(progress) as tick:
        for outcome in runs:
            outcomes.append(outcome)
            tick(f"sample {len(outcomes)} of {repetitions}", len(outcomes), repetitions)
    inner = test.func if isinstance(test, partial) else test
    return CalibrationResult(
        test=str(getattr(inner, "__name__", type(inner).__name__)),
        n=n,
        dim=target.dim,
        repetitions=repetitions,
        alpha=levels,
        **_rates(outcomes, levels),
        seed=seed,
    )


def _outcome(
    draw: Callable[[int, np.random.Generator], Any],
    test: Callable[..., Any],
    target: Target,
    n: int,
    level: float,
    rng: np.random.Generator,
) -> tuple[float, bool, bool]:
    """The p-value of one sample, whether `check` rejects it for a fact, and whether the test cannot tell.

    `level` is the largest.
    """
    for_draws, for_test = rng.spawn(2)
    with without_user_warnings():
        result = test(draw(n, for_draws), target, rng=for_test)
    pvalue: Any = getattr(result, "pvalue", None)
    if not is_number(pvalue):
        raise TypeError(f"`test` must return an object with a number `pvalue`, got {type(result).__name__}")
    if isinstance(result, Verdict):
        by_fact = result.fits is False and not pvalue <= result.alpha
        return pvalue, by_fact, result.fits is None
    inconclusive = result.inconclusive(level) if isinstance(result, GofResult) else np.isnan(pvalue)
    return pvalue, False, bool(inconclusive)


def _rates(outcomes: Sequence[tuple[float, bool, bool]], levels: np.ndarray) -> dict[str, Any]:
    """Rejection rates with exact intervals, and whether p-values are too small."""
    from scipy import stats  # slow to import

    pvalues, fact, unclear = np.array(outcomes, dtype=float).T
    counts = [int(np.sum((fact > 0) | (pvalues <= level))) for level in levels]
    intervals = [stats.binomtest(count, len(pvalues)).proportion_ci(method="exact") for count in counts]
    finite = pvalues[np.isfinite(pvalues)]
    excess = stats.kstest(finite, "uniform", alternative="greater").pvalue if len(finite) else np.nan
    return {
        "rates": np.array(counts) / len(pvalues),
        "intervals": np.array([(interval.low, interval.high) for interval in intervals]),
        "pvalues": pvalues,
        "n_inconclusive": int(unclear.sum()),
        "excess_pvalue": float(excess),
    }
