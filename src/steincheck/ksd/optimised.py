"""The kernel Stein discrepancy after the perturbation that promises most power on a part of the draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._validation import RandomSource, announce
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
from ..stein.inputs import Prepared, QuadraticOptions, check_fraction, prepare, split_rows
from ..stein.kernels import IMQ, Kernel
from ..stein.quadratic import choose_bandwidth
from ..stein.resampling import with_settings
from ..stein.tiles import quadratic_forms
from ..target import Target
from ..typing import BoundsLike, DrawsLike, ModesLike
from .perturbed import perturbed_stack, perturbed_statistic
from .plain import ksd_record


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
    options = QuadraticOptions(kernel, precondition, bootstrap, n_resamples, check_score, independent)
    inputs = prepare(draws, target, options, rng)
    sample = inputs.sample
    train, test = split_rows(len(sample.x), train_fraction, inputs.streams.split, sample.chain)
    result = _ospksd_core(inputs, target, jumps, train, test)
    announce(result.warnings)
    asked = {**jump_settings(jumps), "train_fraction": train_fraction}
    return with_settings(result, inputs, multinomial, np.sort(test), **asked)


def _ospksd_core(
    inputs: Prepared, target: Target, jumps: Jumps, train: np.ndarray, test: np.ndarray
) -> OspksdResult:
    """The test of `ospksd_test`, trained and tested with these rows."""
    sample = inputs.sample
    warnings = inputs.warnings
    if jumps.made is not None:
        check_same_draws(jumps.made, sample)
    else:
        known = _trained_modes(inputs, target, jumps, train)
        jumps = jumps._replace(modes=known.modes)
        warnings = (*warnings, *known.warnings)
    choice = _choose_theta(inputs, target, jumps, train)
    final = _perturbed_rows(inputs, target, jumps._replace(theta=choice.theta), test)
    chain = sample.rows(test).chain
    found = perturbed_statistic(inputs, target, final, chain, choice.bandwidth, identity=True)
    return ksd_record(
        OspksdResult,
        "ospKSD test",
        found,
        final.draws,
        (*warnings, *move_warnings(choice.moved)),
        modes=choice.moved.modes,
        theta=choice.moved.theta,
        acceptance=choice.moved.acceptance,
        power_criterion=choice.criterion,
        chosen_theta=float(final.theta[0]),
        test_acceptance=float(final.acceptance[0]),
        identity_statistic=float(found.parts[0]),
        theta_statistic=float(found.parts[1]),
    )


class _Choice(NamedTuple):
    """What the training draws say."""

    moved: Perturbation
    criterion: np.ndarray  # (J,)
    bandwidth: float | None

    @property
    def theta(self) -> np.ndarray:
        """The jump scale of the largest criterion, shape (1,)."""
        return self.moved.theta[[int(np.argmax(self.criterion))]]


def _trained_modes(inputs: Prepared, target: Target, jumps: Jumps, train: np.ndarray) -> KnownModes:
    """The user's modes, or those found from the training draws."""
    if jumps.modes is not None:
        return KnownModes(as_modes(jumps.modes, target), train, ())
    stream = inputs.streams.modes
    x = inputs.sample.x
    starts = x[train][stream.permutation(len(train))[:100]]  # so many in the paper
    if jumps.box is not None:
        found = box_search_core(target, jumps.box, starts, stream)
    else:
        found = search_from_draws(target, x, train, None, starts=starts, rng=stream)
        require_mode(found)
    return KnownModes(found, train, found.warnings)


def _choose_theta(inputs: Prepared, target: Target, jumps: Jumps, train: np.ndarray) -> _Choice:
    """Perturb the training draws with every theta and compute the criterion."""
    moved = _perturbed_rows(inputs, target, jumps, train)
    bandwidth = choose_bandwidth(moved.draws, inputs.options.kernel, inputs.whiten, inputs.streams.bandwidth)
    stack = perturbed_stack(inputs, target, moved, identity=True)
    rows = quadratic_forms(*stack, inputs.options.kernel, bandwidth, row_sums=True).row_sums
    assert rows is not None
    return _Choice(moved, power_criterion(rows[0, 0] + rows[0, 1:]), bandwidth)


def _perturbed_rows(inputs: Prepared, target: Target, jumps: Jumps, rows: np.ndarray) -> Perturbation:
    """A part of the draws, perturbed with the theta of `jumps`."""
    made = jumps.made
    if made is None:
        stream = inputs.streams.perturbation.spawn(1)[0]
        return perturb_core(inputs.sample.rows(rows), target, jumps.modes, jumps, stream)
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
