"""The kernel Stein discrepancy: of the draws, after one perturbation, or summed over many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._validation import RandomSource, announce
from .._whitening import whitened, whitened_scores
from ..perturbation.maps import Accept
from ..perturbation.move import Jumps, Perturbation, as_jumps, perturbed_stack, requested_perturbation
from ..result import KsdResult, PksdResult, Result, SpksdResult
from ..stein.bootstrap import Bootstrap, pvalue
from ..stein.kernels import IMQ, Kernel
from ..stein.quadratic import Inputs, Replicated, choose_bandwidth, prepare, replicate, with_settings
from ..target import Target, score_at
from ..typing import BoundsLike, DrawsLike, ModesLike

PKSD_THETA = 0.9  # near 1, where jumps are accepted, but not at 1


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
    inputs = prepare(locals())
    sample = inputs.sample
    bandwidth = choose_bandwidth(inputs, sample.x)
    scores = whitened_scores(score_at(target, sample.x), inputs.whiten)
    stack = (whitened(sample.x, inputs.whiten)[None], scores[None])
    found = replicate([stack], sample, inputs.options, bandwidth, inputs.streams)
    result = ksd_result(KsdResult, "KSD test", inputs, found, bandwidth=bandwidth)
    announce(result.warnings)
    return result


def pksd_test(
    draws: DrawsLike,
    target: Target,
    *,
    kernel: Kernel = IMQ(),
    precondition: ArrayLike | None = None,
    bootstrap: Bootstrap | Literal["blocks"] | None = None,
    n_resamples: int = 999,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    theta: float | None = None,
    n_steps: int | None = None,
    accept: Accept | None = None,
    perturbation: Perturbation | None = None,
    max_evaluations: int | None = None,
    max_seconds: float | None = 60.0,
    check_score: bool = True,
    independent: bool = False,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    rng: RandomSource = None,
) -> PksdResult:
    """KSD test after one perturbation (pKSD).

    H0: the draws are independent and come from the target P. `n_steps` transitions of the P-invariant jump
    kernel K_theta are applied to every draw, and the KSD test is applied to the perturbed draws: under H0 the
    perturbed draws come from P too. One theta alone need not see every alternative; `spksd_test` does. The
    statistic is that of `ksd_test` at y_i ~ K_theta^T(x_i, .), T = `n_steps`::

        1 / (n (n - 1)) sum over i != j of u(y_i, y_j)

    Parameters
    ----------
    draws, target, kernel, precondition, bootstrap, n_resamples, check_score, independent
        As in `ksd_test`; Markov chains are tested as there.
    weights, log_weights, rng
        As in `ksd_test`.
    modes : Modes, (locations, covariances) or locations, optional
        Modes of the target; if not given they are searched for, from a tenth of the draws (20 to 100), which
        are then not tested.
    bounds : (low, high), or one such pair per coordinate, optional
        The box of the paper's search, from uniform starts, which holds no draws out (in `check`, `flux_test`
        and `moment_test` a box adds starts to the search from held-out draws). Mutually exclusive with
        `modes`.
    theta : float
        Jump scale, 0.9 by default. At 1 the maps superimpose the modes, which the score cannot detect:
        choose a value near but not at 1.
    n_steps : int, optional
        Number of transitions T, 10 by default.
    accept : callable, optional
        `metropolis`, the default, or `barker`.
    perturbation : Perturbation, optional
        Made by `perturb` of the same draws, to be used by several tests. It has its own `modes`, `theta`,
        `n_steps` and `accept`: none of these, nor `bounds`, may be given beside it.
    max_evaluations : int, optional
        Evaluations of the density in all, at least one per draw. The mode search takes at most half of those
        that are left after the draws; where the rest does not suffice to perturb all draws, some are tested.
    max_seconds : float or None
        As many evaluations as fit into this time, by their cost at the first draws.

    Returns
    -------
    PksdResult

    References
    ----------
    Liu, Duncan and Gandy (2023). Using perturbation to improve goodness-of-fit tests based on kernelized
    Stein discrepancy. ICML. Sec. 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> one_mode_only = np.random.default_rng(0).normal(-3.0, 1.0, size=(500, 1))
    >>> sc.pksd_test(one_mode_only, target, modes=[[-3.0], [3.0]], theta=0.8, rng=0).reject()
    True
    """
    arguments = locals()
    jumps = as_jumps(arguments, default=PKSD_THETA)
    if len(jumps.theta) != 1:
        raise ValueError(f"`theta` of pksd_test must be one number, got {len(jumps.theta)}; see spksd_test")
    inputs = prepare(arguments | jumps.settings)
    result = _perturbed_core(PksdResult, "pKSD test", inputs, jumps, identity=False)
    announce(result.warnings)
    return result


def spksd_test(
    draws: DrawsLike,
    target: Target,
    *,
    kernel: Kernel = IMQ(),
    precondition: ArrayLike | None = None,
    bootstrap: Bootstrap | Literal["blocks"] | None = None,
    n_resamples: int = 999,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    theta: ArrayLike | None = None,
    n_steps: int | None = None,
    accept: Accept | None = None,
    perturbation: Perturbation | None = None,
    max_evaluations: int | None = None,
    max_seconds: float | None = 60.0,
    check_score: bool = True,
    independent: bool = False,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    rng: RandomSource = None,
) -> SpksdResult:
    """KSD test summed over the identity and a grid of perturbations (spKSD).

    H0: the draws are independent and come from the target. The statistic is the U-statistic of::

        u(x_i, x_j) + sum_s u(x_i^s, x_j^s),

    x^s the draws after `n_steps` transitions of the jump kernel with scale theta_s; all summands share the
    bootstrap weights. It sees wrong weights of modes that `ksd_test` is blind to, provided that the modes
    are known or found.

    Parameters
    ----------
    draws, target, kernel, precondition, bootstrap, n_resamples, check_score, independent
        As in `ksd_test`; Markov chains are tested as there.
    weights, log_weights, rng
        As in `ksd_test`.
    modes, bounds, n_steps, accept, perturbation, max_evaluations, max_seconds
        As in `pksd_test`.
    theta : array, optional
        Jump scales; by default the paper's 51 in [0.5, 1.5].

    Returns
    -------
    SpksdResult

    References
    ----------
    Liu, Duncan and Gandy (2023). Using perturbation to improve goodness-of-fit tests based on kernelized
    Stein discrepancy. ICML. Sec. 4.2, 4.3 and Alg. 1.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> one_mode_only = np.random.default_rng(0).normal(-3.0, 1.0, size=(500, 1))
    >>> sc.spksd_test(one_mode_only, target, rng=0).pvalue
    0.001
    """
    arguments = locals()
    jumps = as_jumps(arguments)
    inputs = prepare(arguments | jumps.settings)
    result = _perturbed_core(SpksdResult, "spKSD test", inputs, jumps, identity=True)
    announce(result.warnings)
    return result


def _perturbed_core(
    kind: Callable[..., Result], test: str, inputs: Inputs, jumps: Jumps, *, identity: bool
) -> Result:
    """The test of the draws after the jumps, the unperturbed ones added if `identity`."""
    moved, sample, rows, warnings = requested_perturbation(inputs, jumps)
    bandwidth = choose_bandwidth(inputs, sample.x)
    samples, scores = perturbed_stack(inputs, moved)
    stack = (samples, scores) if identity else (samples[1:], scores[1:])
    found = replicate([stack], sample, inputs.options, bandwidth, inputs.streams, parts=identity)
    fields: dict[str, Any] = {"modes": moved.modes, "theta": moved.theta, "acceptance": moved.acceptance}
    if identity:
        parts = found.parts[0]
        fields |= {"identity_statistic": float(parts[0]), "theta_statistics": parts[1:]}
    return ksd_result(kind, test, inputs, found, rows=rows, warnings=warnings, bandwidth=bandwidth, **fields)


def ksd_result(
    kind: Callable[..., Result],
    test: str,
    inputs: Inputs,
    found: Replicated,
    *,
    rows: np.ndarray | None = None,
    warnings: tuple[str, ...] = (),
    **fields: Any,
) -> Result:
    """The result of a test of the rows `rows`, or all, with `fields` that not all tests have.

    `warnings` are more than those of `inputs`.
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
    return with_settings(result, inputs, found, rows)
