"""The kernel Stein discrepancy after perturbation: with one jump scale, or summed over many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from numpy.typing import ArrayLike

from .._validation import RandomSource, announce
from ..perturbation.maps import Accept
from ..perturbation.move import (
    Jumps,
    Perturbation,
    as_jumps,
    jump_settings,
    perturbed_stack,
    requested_perturbation,
)
from ..result import PksdResult, Result, SpksdResult
from ..stein.bootstrap import Bootstrap
from ..stein.kernels import IMQ, Kernel
from ..stein.quadratic import (
    Inputs,
    QuadraticOptions,
    choose_bandwidth,
    prepare,
    replicate,
)
from ..target import Target
from ..typing import BoundsLike, DrawsLike, ModesLike
from .plain import ksd_result

PKSD_THETA = 0.9  # near 1, where jumps are accepted, but not at 1


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
    jumps = as_jumps(
        target,
        modes,
        bounds,
        theta,
        n_steps,
        accept,
        perturbation,
        max_evaluations,
        max_seconds,
        default_theta=PKSD_THETA,
    )
    if len(jumps.theta) != 1:
        raise ValueError(f"`theta` of pksd_test must be one number, got {len(jumps.theta)}; see spksd_test")
    options = QuadraticOptions(
        kernel, precondition, bootstrap, n_resamples, check_score, independent, weights, log_weights
    )
    inputs = prepare(draws, target, options, rng)
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
    jumps = as_jumps(
        target, modes, bounds, theta, n_steps, accept, perturbation, max_evaluations, max_seconds
    )
    options = QuadraticOptions(
        kernel, precondition, bootstrap, n_resamples, check_score, independent, weights, log_weights
    )
    inputs = prepare(draws, target, options, rng)
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
    return ksd_result(
        kind,
        test,
        inputs,
        found,
        rows=rows,
        warnings=warnings,
        settings=jump_settings(jumps),
        bandwidth=bandwidth,
        **fields,
    )
