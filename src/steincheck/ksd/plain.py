"""The kernel Stein discrepancy test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._validation import RandomSource, announce
from .._whitening import whitened, whitened_scores
from ..result import KsdResult, Result
from ..stein.bootstrap import Bootstrap, pvalue
from ..stein.kernels import IMQ, Kernel
from ..stein.quadratic import (
    Inputs,
    QuadraticOptions,
    Replicated,
    choose_bandwidth,
    prepare,
    replicate,
    with_settings,
)
from ..target import Target, score_at
from ..typing import DrawsLike


def ksd_test(
    draws: DrawsLike,
    target: Target,
    *,
    kernel: Kernel = IMQ(),
    precondition: ArrayLike | None = None,
    bootstrap: Bootstrap | Literal["blocks"] | None = None,
    n_resamples: int = 999,
    check_score: bool = True,
    independent: bool = False,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    rng: RandomSource = None,
) -> KsdResult:
    """Kernel Stein discrepancy test.

    H0: the draws are independent and come from the target. The statistic is the U-statistic::

        1/(n(n-1)) sum_{i != j} u(x_i, x_j)

    of the Stein kernel u; its null distribution comes from weighted forms w'Hw in the same matrix. The test
    sees misfit within modes, and is blind to wrong weights of well-separated modes. With weights w of the
    draws u(x_i, x_j) is multiplied by w_i w_j, and signs of blocks give the null distribution. Draws that are
    identical, or of one group (see `as_draws`), are in one block.

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
        powerful, and the bootstrap adds next to no cost. By default `multinomial` for 50 to 10,000 tested
        draws, blocks beyond; blocks of one draw each below, where `multinomial` rejects correct samples too
        often, and "cannot tell" with 5 draws or fewer, whose 16 sign patterns allow no p-value of .05;
        blocks also for draws with weights or in groups.
        Chains have their own blocks; a function given for them must imitate their dependence.
    n_resamples : int
        Number of bootstrap replicates B.
    check_score : bool
        Compare the score with finite differences at a few draws first.
    independent : bool
        The draws are independent, whatever their order or shape suggests.
    weights, log_weights : array (n,), optional
        Importance weights p/q of draws that come from another density q, up to a constant, or their
        logarithms: at most one of both. H0 is then that the weighted draws have the target as distribution.
    rng : int, Generator or SeedSequence, optional
        Source of randomness.

    Returns
    -------
    KsdResult

    References
    ----------
    Liu, Lee and Jordan (2016). A kernelized Stein discrepancy for goodness-of-fit tests. ICML.
    Chwialkowski, Strathmann and Gretton (2016). A kernel test of goodness of fit. ICML.

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
    options = QuadraticOptions(
        kernel, precondition, bootstrap, n_resamples, check_score, independent, weights, log_weights
    )
    inputs = prepare(draws, target, options, rng)
    sample = inputs.sample
    bandwidth = choose_bandwidth(inputs, sample.x)
    scores = whitened_scores(score_at(target, sample.x), inputs.whiten)
    stack = (whitened(sample.x, inputs.whiten)[None], scores[None])
    found = replicate([stack], sample, options, bandwidth, inputs.streams)
    result = ksd_result(KsdResult, "KSD test", inputs, found, bandwidth=bandwidth)
    announce(result.warnings)
    return result


def ksd_result(
    kind: Callable[..., Result],
    test: str,
    inputs: Inputs,
    found: Replicated,
    *,
    rows: np.ndarray | None = None,
    warnings: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    **fields: Any,
) -> Result:
    """The result of a test of the rows `rows`, or all, with `fields` that not all tests have.

    `warnings` and `settings` are more than those of `inputs`.
    """
    n, dim = inputs.sample.x.shape
    null = found.replicates[0]
    result = kind(
        test,
        float(found.statistics[0]),
        pvalue(found.statistics[0], null),
        null if len(null) else None,
        n if rows is None else len(rows),
        dim,
        (*inputs.warnings, *warnings, *found.how.warnings),
        chains=found.how.chains,
        **fields,
    )
    return with_settings(result, inputs, found, rows, **(settings or {}))
