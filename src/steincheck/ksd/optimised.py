"""The kernel Stein discrepancy after the perturbation that promises most power on a part of the draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._validation import RandomSource, announce
from ..draws.record import chain_of_rows
from ..modes.arguments import as_modes
from ..modes.box import box_search_core
from ..modes.held_out import KnownModes, search_from_draws
from ..modes.search import require_mode
from ..perturbation.maps import Accept
from ..perturbation.move import (
    Jumps,
    Perturbation,
    as_jumps,
    check_same_draws,
    jump_settings,
    move_warnings,
    perturb_core,
)
from ..result import OspksdResult
from ..stein.bootstrap import Bootstrap, multinomial
from ..stein.inputs import Prepared, check_fraction, prepare, split_rows
from ..stein.kernels import IMQ, Kernel
from ..stein.quadratic import choose_bandwidth
from ..stein.resampling import identical_draws, with_settings
from ..stein.tiles import quadratic_forms
from ..target import Target
from ..typing import BoundsLike, DrawsLike, ModesLike
from .perturbed import perturbed_stack
from .plain import ksd_record, ksd_statistic


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
    train_fraction: float = 0.5,
    check_score: bool = True,
    independent: bool = False,
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
    draws, target, kernel, precondition, bootstrap, n_resamples, check_score, independent, rng
        As in `ksd_test`; Markov chains are tested as there.
    modes, bounds, n_steps, accept, perturbation
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
    jumps = as_jumps(target, modes, bounds, theta, n_steps, accept, perturbation)
    check_fraction(train_fraction)
    inputs = prepare(
        draws,
        target,
        kernel=kernel,
        precondition=precondition,
        bootstrap=bootstrap,
        n_resamples=n_resamples,
        check_score=check_score,
        independent=independent,
        rng=rng,
    )
    train, test = split_rows(len(inputs.x), train_fraction, inputs.streams.split, inputs.chain)
    trained = jumps
    if jumps.made is not None:
        check_same_draws(jumps.made, inputs.x, inputs.log_p)
    else:
        known = _trained_modes(inputs, target, jumps, train)
        trained = jumps._replace(modes=known.modes)
        inputs = replace(inputs, warnings=(*inputs.warnings, *known.warnings))
    choice = _choose_theta(inputs, target, trained, train)
    final = _moved_part(inputs, target, trained, test, choice)
    chain = chain_of_rows(inputs.chain, test)
    result = _tested_pair(inputs, target, final, choice, chain)
    announce(result.warnings)
    asked = {**jump_settings(jumps), "train_fraction": train_fraction}
    return with_settings(result, inputs, multinomial, np.sort(test), **asked)


class _Choice(NamedTuple):
    """What the training draws say."""

    moved: Perturbation
    criterion: np.ndarray
    best: int
    bandwidth: float | None


def _trained_modes(inputs: Prepared, target: Target, jumps: Jumps, train: np.ndarray) -> KnownModes:
    """The user's modes, or those found from the training draws."""
    if jumps.modes is not None:
        return KnownModes(as_modes(jumps.modes, target), train, ())
    stream = inputs.streams.modes
    starts = inputs.x[train][stream.permutation(len(train))[:100]]  # so many in the paper
    if jumps.box is not None:
        found = box_search_core(target, jumps.box, starts, stream)
    else:
        found = search_from_draws(target, inputs.x, train, None, starts=starts, rng=stream)
        require_mode(found)
    return KnownModes(found, train, found.warnings)


def _choose_theta(inputs: Prepared, target: Target, jumps: Jumps, train: np.ndarray) -> _Choice:
    """Perturb the training draws with every theta and take the one with the largest criterion."""
    moved = _moved_part(inputs, target, jumps, train, None)
    x = moved.draws
    bandwidth = choose_bandwidth(x, inputs.kernel, inputs.whiten, inputs.streams.bandwidth)
    samples = np.concatenate([x[None], moved.samples])
    rows = quadratic_forms(
        *perturbed_stack(inputs, target, x, samples),
        inputs.kernel,
        bandwidth,
        identity=identical_draws(x),
        row_sums=True,
    ).row_sums
    assert rows is not None
    criterion = power_criterion(rows[0, 0] + rows[0, 1:])
    return _Choice(moved, criterion, int(np.argmax(criterion)), bandwidth)


def _moved_part(
    inputs: Prepared, target: Target, jumps: Jumps, rows: np.ndarray, choice: _Choice | None
) -> Perturbation:
    """A part of the draws perturbed with every theta, or with the chosen one."""
    chosen = slice(None) if choice is None else slice(choice.best, choice.best + 1)
    made = jumps.made
    if made is not None:
        return replace(
            made,
            samples=made.samples[chosen][:, rows],
            theta=made.theta[chosen],
            acceptance=made.acceptance[chosen],
            draws=made.draws[rows],
            log_density=None if made.log_density is None else made.log_density[rows],
        )
    stream = inputs.streams.perturbation.spawn(1)[0]
    return perturb_core(
        inputs.x[rows],
        inputs.log_p[rows],
        target,
        jumps.modes,
        jumps.theta[chosen],
        n_steps=jumps.n_steps,
        accept=jumps.accept,
        rng=stream,
    )


def _tested_pair(
    inputs: Prepared, target: Target, final: Perturbation, choice: _Choice, chain: np.ndarray | None
) -> OspksdResult:
    """The test on the other draws, unperturbed and perturbed with the chosen theta."""
    x = final.draws
    samples = np.concatenate([x[None], final.samples])
    stack = perturbed_stack(inputs, target, x, samples)
    found = ksd_statistic(inputs, stack, x, chain, choice.bandwidth, parts=True)
    moved = choice.moved
    return ksd_record(
        OspksdResult,
        "ospKSD test",
        found,
        x,
        (*inputs.warnings, *move_warnings(moved)),
        modes=moved.modes,
        theta=moved.theta,
        acceptance=moved.acceptance,
        power_criterion=choice.criterion,
        chosen_theta=float(final.theta[0]),
        test_acceptance=float(final.acceptance[0]),
        identity_statistic=float(found.parts[0]),
        theta_statistic=float(found.parts[1]),
    )


def power_criterion(row_sums: np.ndarray) -> np.ndarray:
    """Estimated power proxy of a U-statistic from the row sums H1 (..., n) of its matrix.

    1'H1/n^2 over sigma, sigma^2 = 4/n^3 sum_i (H1)_i^2 - 4/n^4 (1'H1)^2 + 1e-12, as in the paper's code.
    """
    n = row_sums.shape[-1]
    total = row_sums.sum(axis=-1)
    variance = 4 / n**3 * np.sum(row_sums**2, axis=-1) - 4 / n**4 * total**2
    return total / n**2 / np.sqrt(np.maximum(variance, 0.0) + 1e-12)
