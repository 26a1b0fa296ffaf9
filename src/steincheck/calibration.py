"""The level of a test on the user's own target, and its power against a wrong sampler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._progress import progress_bar
from ._validation import (
    RandomSource,
    as_count,
    as_positive,
    check_jobs,
    check_level,
    check_switch,
    seeded,
    without_user_warnings,
)
from .draws import Draws, to_unconstrained
from .result import CalibrationResult, GofResult
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
    larger. With draws of another distribution the rate is the power against it.

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
        Number of worker processes (joblib), -1 for all cores. The outcome does not depend on it.
    progress : bool, optional
        Show a progress bar; by default on a terminal.
    rng : int, Generator or SeedSequence, optional
        Source of randomness.

    Returns
    -------
    CalibrationResult
        Rejection rates with intervals, the p-values, and whether they are uniform.

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
    draw = _sampler(target, sample)
    if not callable(test):
        raise TypeError(f"`test` must be a function test(draws, target, rng=...), got {test!r}")
    as_count(n, "n", maximum=10**9)
    as_count(repetitions, "repetitions")
    levels = as_positive(alpha, "alpha")
    for level in levels:
        check_level(float(level))
    check_jobs(n_jobs)
    check_switch(progress, "progress", optional=True)
    generator, seed = seeded(rng)
    work = partial(_repetition, draw, test, target, int(n), float(levels.max()))
    outcomes = list[tuple[float, bool]]()
    with progress_bar(progress) as tick:
        for outcome in _run(work, generator, int(repetitions), int(n_jobs)):
            outcomes.append(outcome)
            tick(f"sample {len(outcomes)} of {repetitions}", len(outcomes), repetitions)
    inner = test.func if isinstance(test, partial) else test
    name = str(getattr(inner, "__name__", type(inner).__name__))
    return CalibrationResult(
        test=name,
        n=int(n),
        dim=target.dim,
        repetitions=int(repetitions),
        alpha=levels,
        **_rates(np.array([pvalue for pvalue, _ in outcomes]), levels),
        n_inconclusive=sum(inconclusive for _, inconclusive in outcomes),
        seed=seed,
    )


def _sampler(target: Target, sample: Any) -> Callable[[int, np.random.Generator], Any]:
    if sample is None and target.sample is None:
        raise ValueError("`sample` must be a function (n, rng) -> draws: the target has none of its own")
    if sample is not None and not callable(sample):
        raise TypeError(f"`sample` must be a function (n, rng) -> draws, got {type(sample).__name__}")
    return target.sample if sample is None else sample  # type: ignore[return-value]


def _run(
    work: Callable[..., tuple[float, bool]], rng: np.random.Generator, repetitions: int, n_jobs: int
) -> Iterator[tuple[float, bool]]:
    """The outcomes in the order of the repetitions, each with a stream of its own."""
    streams = rng.spawn(repetitions)
    if n_jobs == 1:
        yield from (work(k, stream) for k, stream in enumerate(streams))
        return
    try:
        from joblib import Parallel, delayed
    except ImportError:
        raise ImportError("`n_jobs` other than 1 needs joblib: pip install 'steincheck[parallel]'") from None
    from pickle import PicklingError

    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    try:
        yield from parallel(delayed(work)(k, stream) for k, stream in enumerate(streams))
    except PicklingError as error:
        raise ValueError(
            "`n_jobs` must be 1 here: the target, the sampler or the test cannot be sent to another process "
            f"({error.__cause__ or error})"
        ) from None


def _repetition(
    draw: Callable[[int, np.random.Generator], Any],
    test: Callable[..., Any],
    target: Target,
    n: int,
    level: float,
    k: int,
    rng: np.random.Generator,
) -> tuple[float, bool]:
    """The p-value of one sample, and whether the test cannot tell at this level."""
    for_draws, for_test = rng.spawn(2)
    with without_user_warnings():
        try:
            draws = draw(n, for_draws)
        except TypeError as error:
            raise TypeError(f"`sample` must be a function (n, rng) -> draws: {error}") from error
        try:
            _check_sample(draws, target, n)
            result = test(draws, target, rng=for_test)
        except Exception as error:
            error.add_note(f"in repetition {k} of calibrate")
            raise
    if not isinstance(getattr(result, "pvalue", None), (int, float, np.number)):
        raise TypeError(f"`test` must return an object with a number `pvalue`, got {type(result).__name__}")
    pvalue = float(result.pvalue)
    if not (np.isnan(pvalue) or 0 <= pvalue <= 1):
        raise ValueError(f"`test` must return a `pvalue` between 0 and 1, got {pvalue}")
    inconclusive = result.inconclusive(level) if isinstance(result, GofResult) else np.isnan(pvalue)
    return pvalue, bool(inconclusive or getattr(result, "fits", True) is None)


def _check_sample(draws: Any, target: Target, n: int) -> None:
    """Raise unless a sampler returned n draws, or chains of n draws each."""
    if not isinstance(draws, (np.ndarray, list, tuple, Draws)):
        return  # what else the test takes
    found = to_unconstrained(draws, target, name="sample", minimum=1)
    lengths = [] if found.chain is None else np.bincount(found.chain).tolist()
    if len(found.values) != n and (not lengths or set(lengths) != {n}):
        raise ValueError(f"`sample` must return n = {n} draws, got {len(found.values)}")


def _rates(pvalues: np.ndarray, levels: np.ndarray) -> dict[str, Any]:
    """Rejection rates with exact intervals, and tests of uniformity."""
    from scipy import stats  # slow to import

    counts = [int(np.sum(pvalues <= level)) for level in levels]
    intervals = [stats.binomtest(count, len(pvalues)).proportion_ci(method="exact") for count in counts]
    finite = pvalues[np.isfinite(pvalues)]
    uniform = stats.kstest(finite, "uniform").pvalue if len(finite) else np.nan
    excess = stats.kstest(finite, "uniform", alternative="greater").pvalue if len(finite) else np.nan
    return {
        "rates": np.array(counts) / len(pvalues),
        "intervals": np.array([(interval.low, interval.high) for interval in intervals]),
        "pvalues": pvalues,
        "uniform_pvalue": float(uniform),
        "excess_pvalue": float(excess),
    }
