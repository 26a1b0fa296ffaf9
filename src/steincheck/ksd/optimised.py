"""The kernel Stein discrepancy after the perturbation that promises most power on a part of the draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._validation import RandomSource, announce, check_fraction
from ..modes.known import as_modes, search_from_draws
from ..modes.search import box_search_core, require_mode
from ..perturbation.maps import Accept
from ..perturbation.move import (
    Jumps,
    Perturbation,
    affordable_rows,
    as_jumps,
    check_same_draws,
    move_warnings,
    perturb_core,
    perturbed_stack,
)
from ..result import OspksdResult
from ..stein.bootstrap import Bootstrap
from ..stein.kernels import IMQ, Kernel
from ..stein.quadratic import Inputs, choose_bandwidth, prepare, replicate, split_rows
from ..stein.tiles import quadratic_forms
from ..target import Target
from ..target.evaluation import Budget
from ..typing import BoundsLike, DrawsLike, ModesLike
from .summed import ksd_result


def ospksd_test(
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
    train_fraction: float = 0.5,
    check_score: bool = True,
    independent: bool = False,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    rng: RandomSource = None,
) -> OspksdResult:
    """KSD test summed over the identity and one perturbation chosen on a training half (ospKSD).

    H0: the draws are independent and come from the target. On the training draws the theta is chosen that
    maximises the estimated power of the pair {identity, theta}, with y_i the perturbed draws::

        mean over i != j of H_ij / sigma,   H_ij = u(x_i, x_j) + u(y_i, y_j),   sigma^2 = 4 var_i(mean_j H_ij)

    The test uses the other draws only. The bandwidth is the training draws' median too, so that nothing of
    the test depends on the draws it is made with.

    Parameters
    ----------
    draws, target, kernel, precondition, bootstrap, n_resamples, check_score, independent
        As in `ksd_test`; Markov chains are tested as there.
    weights, log_weights, rng
        As in `ksd_test`.
    modes, bounds, n_steps, accept, perturbation, max_evaluations, max_seconds
        As in `pksd_test`; the mode search also starts from up to 100 training draws.
    theta : array, optional
        Jump scales to choose from; by default the paper's 51 in [0.5, 1.5].
    train_fraction : float
        Share of the draws used for training, in (0, 1): a random part of independent draws, the beginning of
        every Markov chain.

    Returns
    -------
    OspksdResult

    References
    ----------
    Liu, Duncan and Gandy (2023). Using perturbation to improve goodness-of-fit tests based on kernelized
    Stein discrepancy. ICML. Sec. 5.3.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> one_mode_only = np.random.default_rng(0).normal(-3.0, 1.0, size=(500, 1))
    >>> sc.ospksd_test(one_mode_only, target, rng=0).reject()
    True
    """
    arguments = locals()
    jumps = as_jumps(arguments)
    check_fraction(train_fraction, "train_fraction")
    inputs = prepare(arguments | jumps.settings)
    result = _ospksd_core(inputs, jumps, train_fraction)
    announce(result.warnings)
    return result


class _Halves(NamedTuple):
    """Draws to train and to test with, and the jumps between the modes that are known from the former."""

    train: np.ndarray  # rows
    test: np.ndarray
    jumps: Jumps
    warnings: tuple[str, ...] = ()


def _halves(inputs: Inputs, jumps: Jumps, train_fraction: float) -> _Halves:
    """Split the draws, find modes from the training draws, and leave out what the budget does not allow."""
    train, test = split_rows(inputs.sample, train_fraction, inputs.streams.split)
    if jumps.made is not None:
        check_same_draws(jumps.made, inputs.sample)
        return _Halves(train, test, jumps)
    budget, target, stream = inputs.budget, inputs.target, inputs.streams.modes
    if jumps.modes is not None:
        modes = as_modes(jumps.modes, target, budget)
    else:
        x = inputs.sample.x
        part = Budget(budget.left / 2)
        starts = x[train][stream.permutation(len(train))[:100]]  # so many in the paper
        if jumps.box is not None:
            modes = box_search_core(target, jumps.box, starts, stream, budget=part)
        else:
            modes = search_from_draws(target, x, train, None, starts=starts, rng=stream, budget=part)
            require_mode(modes)
        budget.made += part.made
    told = () if jumps.modes is not None else modes.warnings
    train, few = affordable_rows(train, inputs, jumps, Budget(budget.left / 2))
    test, _ = affordable_rows(test, inputs, jumps, Budget(budget.left / 2))
    return _Halves(train, test, jumps._replace(modes=modes), (*told, *few))


def _ospksd_core(inputs: Inputs, asked: Jumps, train_fraction: float) -> OspksdResult:
    """Choose theta by the training draws, and test the others with it."""
    sample = inputs.sample
    train, test, jumps, warnings = _halves(inputs, asked, train_fraction)
    trained = _perturbed_rows(inputs, jumps, train)
    bandwidth = choose_bandwidth(inputs, trained.draws)
    stack, weight = perturbed_stack(inputs, trained), sample.rows(train).weight
    rows = quadratic_forms(*stack, inputs.options.kernel, bandwidth, weight=weight, row_sums=True).row_sums
    assert rows is not None
    criterion = power_criterion(rows[0, 0] + rows[0, 1:])  # of the identity and each theta
    chosen = trained.theta[[int(np.argmax(criterion))]]
    final = _perturbed_rows(inputs, jumps._replace(theta=chosen), test)
    stack = perturbed_stack(inputs, final)
    found = replicate([stack], sample.rows(test), inputs.options, bandwidth, inputs.streams, parts=True)
    return ksd_result(
        OspksdResult,
        "ospKSD test",
        inputs,
        found,
        rows=np.sort(test),
        warnings=(*warnings, *move_warnings(trained)),
        bandwidth=bandwidth,
        modes=trained.modes,
        theta=trained.theta,
        acceptance=trained.acceptance,
        power_criterion=criterion,
        chosen_theta=float(final.theta[0]),
        identity_statistic=float(found.parts[0, 0]),
        theta_statistic=float(found.parts[0, 1]),
    )


def _perturbed_rows(inputs: Inputs, jumps: Jumps, rows: np.ndarray) -> Perturbation:
    """A part of the draws, perturbed with the theta of `jumps`."""
    made = jumps.made
    if made is None:
        stream = inputs.streams.perturbation.spawn(1)[0]
        return perturb_core(inputs.sample.rows(rows), inputs.target, jumps.modes, jumps, stream)
    chosen = [int(np.argmax(made.theta == scale)) for scale in jumps.theta]
    return replace(
        made,
        samples=made.samples[chosen][:, rows],
        theta=made.theta[chosen],
        acceptance=made.acceptance[chosen],
        draws=made.draws[rows],
        log_density=made.log_density[rows],
    )


def power_criterion(row_sums: np.ndarray) -> np.ndarray:
    """Estimated power proxy of a U-statistic from the row sums H1 (..., n) of its matrix.

    1'H1/n^2 over sigma, sigma^2 = 4/n^3 sum_i (H1)_i^2 - 4/n^4 (1'H1)^2 + 1e-12, as in the paper's code.
    """
    n = row_sums.shape[-1]
    total = row_sums.sum(axis=-1)
    variance = 4 / n**3 * np.sum(row_sums**2, axis=-1) - 4 / n**4 * total**2
    return total / n**2 / np.sqrt(np.maximum(variance, 0.0) + 1e-12)
