"""The Gaussian-Bernoulli restricted Boltzmann machine."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from .._validation import RandomSource
from ..samplers import as_rbm, exact_rbm, gibbs_rbm, has_exact_draws
from ..target import made_by
from .formula import LabelledDraws, ModelTarget, formula_target


def gb_rbm(B: ArrayLike, b: ArrayLike | None = None, c: ArrayLike | None = None) -> ModelTarget:
    """Gaussian-Bernoulli restricted Boltzmann machine (paper, App. H.4), up to a constant.

    p(x) is the sum over h in {-1, 1}^d_h of exp(x'Bh/2 + b'x + c'h - |x|^2/2), a mixture of 2^d_h Gaussians
    N(Bh/2 + b, I) with weights proportional to exp(|Bh/2 + b|^2/2 + c'h). The sum factorises::

        log p(x) = b'x - |x|^2/2 + sum_j log(2 cosh((B'x)_j/2 + c_j)).

    Parameters
    ----------
    B, b, c : arrays (d, d_h), (d,), (d_h,)
        b and c are zero by default.

    Returns
    -------
    ModelTarget
        ``sample(n, rng, burn_in=2000)``; ``sample_with_labels`` gives h (n, d_h) too. Draws are exact if the
        columns of B are orthogonal (any d_h; what the paper's lambda' = 0 trick amounts to) or d_h <= 16 (by
        enumeration). Otherwise they are the ends of independent chains of `samplers.gibbs_rbm` with `burn_in`
        sweeps: good where the components overlap, as in the paper's standard setting, not where they are well
        separated.

    Examples
    --------
    >>> import numpy as np
    >>> from steincheck import models
    >>> target = models.gb_rbm(6 * np.eye(50, 40))
    >>> x, h = target.sample_with_labels(100, rng=0)
    >>> x.shape, h.shape
    ((100, 50), (100, 40))
    """
    B, b, c = as_rbm(B, b, c)

    def sample_with_labels(n: int, rng: RandomSource = None, *, burn_in: int = 2000) -> LabelledDraws:
        if has_exact_draws(B):
            return LabelledDraws(*exact_rbm(B, b, c, n, rng))
        return LabelledDraws(*gibbs_rbm(B, b, c, n, burn_in=burn_in, rng=rng))

    target = formula_target(Partial(_log_rbm, (B, b, c)), len(b), sample_with_labels)
    return made_by(target, gb_rbm, B, b, c)


def _log_rbm(parameters: Any, x: Any) -> Any:
    B, b, c = parameters
    a = 0.5 * (x @ B) + c
    return b @ x - 0.5 * (x @ x) + jnp.sum(jnp.logaddexp(a, -a))
