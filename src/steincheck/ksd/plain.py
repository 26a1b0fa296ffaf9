"""The kernel Stein discrepancy test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._validation import announce
from ..result import KsdResult
from ..stein.bootstrap import multinomial, pvalue
from ..stein.kernels import IMQ, check_kernel
from ..stein.quadratic import (
    Bootstrap,
    Calibrated,
    Resampling,
    Streams,
    calibrated_statistics,
    chain_blocks,
    choose_bandwidth,
    prepare,
    resampling,
    settings,
    whitened,
    whitened_scores,
)
from ..target import Target, score_at


def ksd_test(
    draws: Any,
    target: Target,
    *,
    kernel: Any = IMQ(),
    precondition: np.ndarray | None = None,
    bootstrap: Bootstrap | str | None = None,
    n_resamples: int = 999,
    check_score: bool = True,
    independent: bool = False,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> KsdResult:
    """Kernel Stein discrepancy test.

    H0: the draws are independent and come from the target. The statistic is the U-statistic

        1/(n(n-1)) sum_{i != j} u(x_i, x_j)

    of the Stein kernel u; its null distribution comes from weighted forms w'Hw in the same matrix. The test
    sees misfit within modes, and is blind to wrong weights of well-separated modes. Pairs of identical draws
    are left out.

    For Markov chains H0 is: the chains are stationary with the target as distribution, and independent of
    each other. They are cut into at most 20 long blocks whose signs are flipped, and pairs within a block are
    left out of the statistic: the p-value is valid whatever the autocorrelation. If the chains are too short
    for 8 blocks the p-value is NaN, and a warning says how much longer to run them.

    Parameters
    ----------
    draws : array (n, d) or (chain, draw, d), a list of chains, or anything that `as_draws` takes
        Independent draws or Markov chains. An array (n, d) whose order shows autocorrelation is tested as
        one chain, with a warning.
    target : Target
        The density.
    kernel : IMQ, RBF or any object with `profile`
        Without a bandwidth, the median squared distance of the draws is used.
    precondition : array (d, d), optional
        Positive definite matrix C: distances become (x-y)' C^-1 (x-y), so that coordinates on different
        scales count alike. With a covariance of the target the p-value does not depend on linear maps.
    bootstrap : callable or "blocks", optional
        ``(n, size, rng) -> weights``: `multinomial` (the paper's) or `wild`. "blocks": the draws are put into
        100 random blocks whose signs are flipped; pairs within a block are left out of the statistic. As
        powerful, and the bootstrap costs nothing. By default `multinomial` up to 10,000 draws, blocks beyond.
        Chains have their own blocks; a function given for them must imitate their dependence.
    n_resamples : int
        Number of bootstrap replicates B.
    check_score : bool
        Compare the score with finite differences at a few draws first.
    independent : bool
        The draws are independent, whatever their order or shape suggests.
    rng : int, Generator or SeedSequence, optional
        Source of randomness.

    Returns
    -------
    KsdResult

    References
    ----------
    Liu, Lee and Jordan (2016); Chwialkowski, Strathmann and Gretton (2016); docs/theory/chains.md.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    >>> draws = np.random.default_rng(0).normal(loc=0.5, size=(500, 2))
    >>> sc.ksd_test(draws, target, rng=0).pvalue
    0.001
    """
    check_kernel(kernel)
    inputs = prepare(
        draws,
        target,
        precondition,
        n_resamples,
        check_score,
        rng,
        independent=independent,
        bootstrap=bootstrap,
    )
    result = ksd_core(
        inputs.x,
        score_at(target, inputs.x),
        kernel=kernel,
        whiten=inputs.whiten,
        bootstrap=bootstrap,
        chain=inputs.chain,
        n_resamples=n_resamples,
        streams=inputs.streams,
        notes=inputs.warnings,
    )
    announce(result.warnings)
    return replace(result, settings={**result.settings, "independent": independent, "rng": inputs.seed})


def ksd_core(
    x: np.ndarray,
    scores: np.ndarray,
    *,
    streams: Streams,
    notes: list[str],
    kernel: Any = IMQ(),
    whiten: np.ndarray | None = None,
    bootstrap: Bootstrap | str | None = None,
    chain: np.ndarray | None = None,
    n_resamples: int = 999,
) -> KsdResult:
    """The test of `ksd_test` on validated draws and their scores; `whiten` is L with precondition = L L'.

    `chain` (n,) numbers the chains of the draws, 0, 1, ... in order; None for independent draws.
    """
    width = choose_bandwidth(x, kernel, whiten, streams.bandwidth)
    stack = (whitened(x, whiten)[None], whitened_scores(scores, whiten)[None])
    blocks = chain_blocks(chain, bootstrap, [stack], kernel, width)
    resampled = resampling(x, bootstrap, multinomial, n_resamples, streams, notes=notes, blocks=blocks)
    found = calibrated_statistics(*stack, kernel, width, resampled)
    return KsdResult(
        **outcome("KSD test", found, x, notes, resampled),
        settings=settings(kernel, whiten, resampled.name, n_resamples),
        bandwidth=width,
    )


def outcome(
    name: str, found: Calibrated, x: np.ndarray, notes: list[str], resampled: Resampling
) -> dict[str, Any]:
    """The fields that all results have, but for the settings."""
    statistic = float(found.statistics[0])
    null = found.replicates[0]
    return {
        "test": name,
        "statistic": statistic,
        "pvalue": pvalue(statistic, null),
        "null_distribution": null if len(null) else None,
        "n": x.shape[0],
        "dim": x.shape[1],
        "warnings": tuple(notes),
        "chains": resampled.chains,
    }
