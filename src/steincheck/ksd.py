"""Tests based on the kernel Stein discrepancy, plain and after perturbation (paper, Sec. 4 and 5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .bootstrap import multinomial, pvalue
from .kernels import IMQ
from .result import GofResult
from .stein import Bootstrap, choose_bandwidth, prepare, settings, stacked_forms
from .target import Target


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
