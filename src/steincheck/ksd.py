"""Tests based on the kernel Stein discrepancy, plain and after perturbation (paper, Sec. 4 and 5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._validation import as_positive, check_count
from .modes.search import Modes, known_modes
from .perturbation import Accept, metropolis, note_moves, perturb
from .result import GofResult
from .stein.bootstrap import multinomial, pvalue
from .stein.kernels import IMQ
from .stein.quadratic import Bootstrap, Prepared, choose_bandwidth, prepare, settings, split, stacked_forms
from .target import Target

THETA = np.linspace(0.5, 1.5, 51)  # the paper's jump scales


def ksd_test(
    x: Any,
    target: Target,
    *,
    kernel: Any = IMQ(),
    precondition: np.ndarray | None = None,
    bootstrap: Bootstrap = multinomial,
    n_resamples: int = 999,
    check_score: bool = True,
    n_jobs: int | None = None,
    rng: np.random.Generator | int | None = None,
) -> GofResult:
    """Kernel Stein discrepancy test.

    H0: the draws are independent and come from the target. The statistic is the U-statistic

        1/(n(n-1)) sum_{i != j} u(x_i, x_j)

    of the Stein kernel u, its null distribution comes from weighted forms w'Hw in the same matrix. It sees
    misfit inside the modes, and is blind to wrong weights of well-separated modes.

    Parameters
    ----------
    x : array (n, d)
        The draws.
    target : Target
        The density.
    kernel : IMQ, RBF or alike
        Without a bandwidth, the median squared distance of the draws is used.
    precondition : array (d, d), optional
        Positive definite matrix C: distances become (x-y)' C^-1 (x-y), so that coordinates on different
        scales count alike. With a covariance of the target the p-value does not depend on linear maps.
    bootstrap : callable
        ``(n, size, rng) -> weights``: `multinomial` (the paper's) or `wild`.
    n_resamples : int
        Number of bootstrap replicates B.
    check_score : bool
        Compare the score with finite differences at a few draws first.
    n_jobs : int, optional
        Accepted by all tests for the search of modes; this one has none and always uses every core.
    rng : Generator or int, optional
        Source of randomness.

    References
    ----------
    Liu, Lee and Jordan (2016); Chwialkowski, Strathmann and Gretton (2016).

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
    ready = prepare(x, target, precondition, n_resamples, check_score, rng)
    width = choose_bandwidth(ready, ready.x, kernel)
    forms, null = stacked_forms(ready, target, ready.x[None], kernel, width, bootstrap, n_resamples)
    n, d = ready.x.shape
    statistic = float(forms.total[0] / (n * (n - 1)))
    return GofResult(
        "KSD test", statistic, pvalue(statistic, null), null, n, d, tuple(ready.warnings),
        settings(kernel, width, precondition, bootstrap, n_resamples, rng),
    )  # fmt: skip


def pksd_test(
    x: Any,
    target: Target,
    *,
    kernel: Any = IMQ(),
    precondition: np.ndarray | None = None,
    bootstrap: Bootstrap = multinomial,
    n_resamples: int = 999,
    modes: Any = None,
    bounds: Any = None,
    theta: float = 0.9,
    n_steps: int = 10,
    accept: Accept = metropolis,
    check_score: bool = True,
    n_jobs: int | None = None,
    rng: np.random.Generator | int | None = None,
) -> GofResult:
    """KSD test after one perturbation (pKSD).

    H0: the draws are independent and come from the target P. `n_steps` transitions of the P-invariant jump
    kernel K_theta are applied to every draw, and the KSD test is run on what comes out: under H0 the
    perturbed draws come from P too. One theta alone need not see every alternative; `spksd_test` does.

    Parameters
    ----------
    x, target, kernel, precondition, bootstrap, n_resamples, check_score, rng
        As in `ksd_test`.
    modes : Modes, (locations, covariances) or locations, optional
        Modes of the target; found by `find_modes` from uniform starts if not given.
    bounds : (low, high) or one pair a coordinate, optional
        Box of the starts; by default the range of the draws, widened.
    theta : float
        Jump scale. At 1 modes are laid exactly upon each other, which the score does not notice: choose
        a value near but not at 1.
    n_steps : int
        Number of transitions T.
    accept : callable
        `metropolis` or `barker`.
    n_jobs : int, optional
        Processes for the search of modes.

    References
    ----------
    Liu, Duncan and Gandy (2023), Sec. 4.1.
    """
    scales = as_positive(theta, "theta")
    if len(scales) != 1:
        raise ValueError(f"`theta` of pksd_test must be one number, got {len(scales)}; see spksd_test")
    check_count(n_steps, "n_steps")
    ready = prepare(x, target, precondition, n_resamples, check_score, rng)
    found = _known_modes(ready, target, modes, bounds, None, n_jobs)
    moved = _perturb(ready, ready.x, target, found, scales, n_steps, accept, ready.streams[3])
    width = choose_bandwidth(ready, ready.x, kernel)
    forms, null = stacked_forms(ready, target, moved.samples, kernel, width, bootstrap, n_resamples)
    n, d = ready.x.shape
    statistic = float(forms.total[0] / (n * (n - 1)))
    return GofResult(
        "pKSD test", statistic, pvalue(statistic, null), null, n, d, tuple(ready.warnings),
        settings(kernel, width, precondition, bootstrap, n_resamples, rng, theta=theta, n_steps=n_steps,
                 accept=accept.__name__),
        {"modes": found, "theta": scales, "acceptance": moved.acceptance},
    )  # fmt: skip


def spksd_test(
    x: Any,
    target: Target,
    *,
    kernel: Any = IMQ(),
    precondition: np.ndarray | None = None,
    bootstrap: Bootstrap = multinomial,
    n_resamples: int = 999,
    modes: Any = None,
    bounds: Any = None,
    theta: Any = THETA,
    n_steps: int = 10,
    accept: Accept = metropolis,
    check_score: bool = True,
    n_jobs: int | None = None,
    rng: np.random.Generator | int | None = None,
) -> GofResult:
    """KSD test summed over the identity and a grid of perturbations (spKSD).

    H0: the draws are independent and come from the target. The statistic is the U-statistic of

        u(x_i, x_j) + sum_s u(x_i^s, x_j^s),

    x^s the draws after `n_steps` transitions of the jump kernel with scale theta_s; all summands share the
    bootstrap weights. It sees wrong weights of modes that `ksd_test` is blind to, provided that the modes
    are known or found.

    Parameters
    ----------
    x, target, kernel, precondition, bootstrap, n_resamples, check_score, rng
        As in `ksd_test`.
    modes, bounds, n_steps, accept, n_jobs
        As in `pksd_test`.
    theta : array
        Jump scales; by default the paper's 51 in [0.5, 1.5].

    Returns
    -------
    GofResult
        With `modes`, `theta`, `acceptance` (by theta), `theta_statistics` and `identity_statistic`.

    References
    ----------
    Liu, Duncan and Gandy (2023), Sec. 4.2, 4.3 and Alg. 1.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> one_mode_only = np.random.default_rng(0).normal(-3.0, 1.0, size=(500, 1))
    >>> sc.spksd_test(one_mode_only, target, rng=0).pvalue
    0.001
    """
    theta = as_positive(theta, "theta")
    check_count(n_steps, "n_steps")
    ready = prepare(x, target, precondition, n_resamples, check_score, rng)
    found = _known_modes(ready, target, modes, bounds, None, n_jobs)
    moved = _perturb(ready, ready.x, target, found, theta, n_steps, accept, ready.streams[3])
    width = choose_bandwidth(ready, ready.x, kernel)
    stack = np.concatenate([ready.x[None], moved.samples])
    forms, null = stacked_forms(ready, target, stack, kernel, width, bootstrap, n_resamples, row_sums=True)
    n, d = ready.x.shape
    each = forms.row_sums[0].sum(axis=1) / (n * (n - 1))
    statistic = float(forms.total[0] / (n * (n - 1)))
    return GofResult(
        "spKSD test", statistic, pvalue(statistic, null), null, n, d, tuple(ready.warnings),
        settings(kernel, width, precondition, bootstrap, n_resamples, rng, theta=theta, n_steps=n_steps,
                 accept=accept.__name__),
        {"modes": found, "theta": theta, "acceptance": moved.acceptance, "theta_statistics": each[1:],
         "identity_statistic": each[0]},
    )  # fmt: skip


def ospksd_test(
    x: Any,
    target: Target,
    *,
    kernel: Any = IMQ(),
    precondition: np.ndarray | None = None,
    bootstrap: Bootstrap = multinomial,
    n_resamples: int = 999,
    modes: Any = None,
    bounds: Any = None,
    theta: Any = THETA,
    n_steps: int = 10,
    accept: Accept = metropolis,
    train_fraction: float = 0.5,
    check_score: bool = True,
    n_jobs: int | None = None,
    rng: np.random.Generator | int | None = None,
) -> GofResult:
    """KSD test summed over the identity and one perturbation chosen on a training half (ospKSD).

    H0: the draws are independent and come from the target. On the training draws the theta is chosen that
    maximises the estimated power, statistic / sigma, of the pair {identity, theta} (see `power_criterion`);
    the test uses the other draws only. The bandwidth is the training draws' median too, so that nothing of
    the test depends on the draws it is made with.

    Parameters
    ----------
    x, target, kernel, precondition, bootstrap, n_resamples, check_score, rng
        As in `ksd_test`.
    modes, bounds, n_steps, accept, n_jobs
        As in `pksd_test`; modes are searched from up to 100 training draws too.
    theta : array
        Jump scales to choose from; by default the paper's 51 in [0.5, 1.5].
    train_fraction : float
        Share of the draws used for training, in (0, 1).

    Returns
    -------
    GofResult
        With `modes`, `theta`, `criterion` (by theta), `chosen_theta`, `acceptance` of the training draws by
        theta, `test_acceptance`, `theta_statistics` (identity and chosen theta on the test draws).

    References
    ----------
    Liu, Duncan and Gandy (2023), Sec. 5.3.
    """
    theta = as_positive(theta, "theta")
    check_count(n_steps, "n_steps")
    ready = prepare(x, target, precondition, n_resamples, check_score, rng)
    n, d = ready.x.shape
    train, test = split(ready, train_fraction)
    found = _known_modes(ready, target, modes, bounds, train, n_jobs)
    selection, trial = ready.streams[3].spawn(2)
    moved = _perturb(ready, train, target, found, theta, n_steps, accept, selection)
    width = choose_bandwidth(ready, train, kernel)
    stack = np.concatenate([train[None], moved.samples])
    rows = stacked_forms(ready, target, stack, kernel, width, None, 0, row_sums=True)[0].row_sums[0]
    criterion = power_criterion(rows[0] + rows[1:])
    best = theta[[int(np.argmax(criterion))]]
    final = perturb(test, target, found, best, n_steps=n_steps, accept=accept, rng=trial)
    stack = np.concatenate([test[None], final.samples])
    forms, null = stacked_forms(ready, target, stack, kernel, width, bootstrap, n_resamples, row_sums=True)
    m = len(test)
    statistic = float(forms.total[0] / (m * (m - 1)))
    return GofResult(
        "ospKSD test", statistic, pvalue(statistic, null), null, n, d, tuple(ready.warnings),
        settings(kernel, width, precondition, bootstrap, n_resamples, rng, theta=theta, n_steps=n_steps,
                 accept=accept.__name__, train_fraction=train_fraction),
        {"modes": found, "theta": theta, "criterion": criterion, "chosen_theta": float(best[0]),
         "acceptance": moved.acceptance, "test_acceptance": float(final.acceptance[0]),
         "theta_statistics": forms.row_sums[0].sum(axis=1) / (m * (m - 1))},
    )  # fmt: skip


def power_criterion(row_sums: np.ndarray) -> np.ndarray:
    """Estimated power proxy of a U-statistic from the row sums H1 (..., n) of its matrix.

    1'H1/n^2 over sigma, sigma^2 = 4/n^3 sum_i (H1)_i^2 - 4/n^4 (1'H1)^2 + 1e-12, as in the paper's code.
    """
    n = row_sums.shape[-1]
    total = row_sums.sum(axis=-1)
    variance = 4 / n**3 * np.sum(row_sums**2, axis=-1) - 4 / n**4 * total**2
    return total / n**2 / np.sqrt(np.maximum(variance, 0.0) + 1e-12)


def _known_modes(
    ready: Prepared, target: Target, modes: Any, bounds: Any, train: np.ndarray | None, n_jobs: int | None
) -> Modes:
    """The user's modes, or those found in a box (and, for ospKSD, from training draws)."""
    box, stream, starts = ready.x, ready.streams[2], None
    if modes is None and train is not None:
        box, starts = train, train[stream.permutation(len(train))[:100]]
    return known_modes(
        modes, target, box, bounds, starts=starts, in_box=True, rng=stream, notes=ready.warnings
    )[0]


def _perturb(
    ready: Prepared, x: np.ndarray, target: Target, modes: Modes, theta: np.ndarray, n_steps: int,
    accept: Accept, stream: np.random.Generator,
) -> Any:  # fmt: skip
    """Perturb and pass on what the user should know."""
    moved = perturb(x, target, modes, theta, n_steps=n_steps, accept=accept, rng=stream)
    note_moves(moved, ready.warnings)
    return moved
