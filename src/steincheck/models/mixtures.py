"""The paper's mixtures: Gaussians, t distributions and bananas, the Gaussian-Bernoulli Boltzmann machine."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import lgamma, log, pi
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from .._validation import (
    RandomSource,
    as_count,
    as_generator,
    as_numbers,
    as_one_positive,
    check_covariances,
    is_number,
    shown,
)
from ..samplers import MAX_INTEGER, as_rbm, exact_rbm, gibbs_rbm, has_orthogonal_columns
from ..target.record import MAX_DIM, Target, jax_target, made_by


class LabelledDraws(NamedTuple):
    """Draws of a model, and the component of each.

    Attributes
    ----------
    draws : array (n, d)
    labels : array (n,)
        Of a Boltzmann machine the hidden units, (n, d_h).
    """

    draws: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class ModelTarget(Target):
    """A `Target` with exact draws, whose components are known.

    Parameters
    ----------
    sample : callable
        ``sample(n, rng) -> (n, d)``; the models say which further arguments theirs take.
    sample_with_labels : callable
        ``sample_with_labels(n, rng) -> LabelledDraws``: the same draws, and the component of each.

    Examples
    --------
    >>> from steincheck import models
    >>> target = models.gaussian_mixture([[-3.0], [3.0]])
    >>> draws, labels = target.sample_with_labels(4, rng=0, weights=[1, 0])
    >>> labels
    array([0, 0, 0, 0])
    """

    sample: Callable[..., np.ndarray] = field(kw_only=True)
    sample_with_labels: Callable[..., LabelledDraws] = field(kw_only=True)


def formula_target(
    log_density: Partial, dim: int, sample_with_labels: Callable[..., LabelledDraws], names: Any = None
) -> ModelTarget:
    """Target of a JAX function of one point and of a function that makes exact draws."""

    def sample(n: int, rng: RandomSource = None, **options: Any) -> np.ndarray:
        return sample_with_labels(n, rng, **options).draws

    own = {"names": names, "sample": sample, "sample_with_labels": sample_with_labels}
    return jax_target(log_density, dim, ModelTarget, **own)


def gaussian_mixture(
    means: ArrayLike, covariances: ArrayLike | None = None, weights: ArrayLike | None = None
) -> ModelTarget:
    """Mixture of Gaussians, normalised: p(x) = sum_k w_k N(x; mu_k, S_k).

    Parameters
    ----------
    means : array (M, d)
    covariances : array (M, d, d) or (d, d), or float, optional
        One per component, one for all, or a variance; the identity by default.
    weights : array (M,), optional
        Positive, with sum 1; equal by default.

    Returns
    -------
    ModelTarget
        ``sample(n, rng, weights=None)``: draws, with other weights if given (zero allowed: a missing mode);
        ``sample_with_labels`` takes the same and gives the component of every draw too.

    Examples
    --------
    >>> from steincheck import models
    >>> target = models.gaussian_mixture([[-3.0], [3.0]])
    >>> draws, labels = target.sample_with_labels(4, 0, weights=[1, 0])
    >>> labels
    array([0, 0, 0, 0])
    """
    means = as_numbers(means, "means")
    if means.ndim != 2 or 0 in means.shape or not np.isfinite(means).all():
        raise ValueError(f"`means` must be finite with one mean per row, (M, d), got shape {means.shape}")
    count, d = means.shape
    shares = _as_weights(weights, count)
    given = as_numbers(1.0 if covariances is None else covariances, "covariances")
    matrices = given * np.eye(d) if given.ndim == 0 else given
    if matrices.shape not in ((d, d), (count, d, d)):
        raise ValueError(
            f"`covariances` must be a variance or have shape {(d, d)} or {(count, d, d)}, got {given.shape}"
        )
    matrices = matrices.reshape(-1, d, d)
    check_covariances(matrices, "`covariances`")
    roots = np.linalg.cholesky(matrices)  # (M or 1, d, d)
    whiten = np.linalg.inv(roots)
    middle = means.mean(axis=0)  # differences from the middle stay accurate far from the origin
    centres = np.einsum("kij,kj->ki", np.broadcast_to(whiten, (count, d, d)), means - middle)
    log_dets = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    heights = np.log(shares) - 0.5 * d * log(2 * pi) - log_dets

    def draw(k: int, size: int, rng: np.random.Generator) -> np.ndarray:
        return means[k] + rng.standard_normal((size, d)) @ roots[min(k, len(roots) - 1)].T

    log_density = Partial(_log_gaussians, (middle, whiten, centres, heights))
    target = formula_target(log_density, d, _mixture_sampler(shares, d, draw))
    return made_by(target, gaussian_mixture, means, covariances, weights)


def _log_gaussians(parameters: Any, x: Any) -> Any:
    middle, whiten, centres, heights = parameters
    z = whiten @ (x - middle) - centres
    return logsumexp(heights - 0.5 * jnp.sum(z * z, axis=1))


def t_banana_mixture(
    dim: int = 50,
    *,
    n_t: int = 10,
    n_banana: int = 10,
    df: float = 7.0,
    b: float = 0.003,
    box: float = 20.0,
    weights: ArrayLike | None = None,
    rng: RandomSource = None,
) -> ModelTarget:
    """Mixture of multivariate t and banana-shaped t distributions, normalised (paper, App. H.2).

    The first `n_t` components have density t(x; mu, S), S = 0.1 sqrt(d) I, the others t(phi(x); mu, C) with
    C = diag(100, 1, ..., 1) and::

        phi(x) = (x_1, x_2 + b x_1^2 - 100 b, x_3, ..., x_d)

    as in the paper's appendix: bananas open downwards, x_2 = mu_2 - b x_1^2 + 100 b along the ridge, and bend
    about x_1 = 0 wherever their centre is. (The authors' code has the opposite sign.) S and C are shape
    matrices; covariances are df / (df - 2) times as large. phi has Jacobian 1.

    Parameters
    ----------
    dim : int
        Dimension, at least 2.
    n_t, n_banana : int
        Number of components of each kind.
    df, b, box : float
        Degrees of freedom; curvature of the bananas; the centres mu are uniform in [-box, box]^d.
    weights : array (n_t + n_banana,), optional
        Positive, with sum 1; equal by default.
    rng : int, Generator or SeedSequence, optional
        Draws the centres: the same int gives the same centres.

    Returns
    -------
    ModelTarget
        ``sample(n, rng, weights=None)``: draws, with other weights if given; ``sample_with_labels`` takes the
        same and gives the component of every draw too.

    Examples
    --------
    The same modes with wrong weights:

    >>> import numpy as np
    >>> from steincheck import models
    >>> target = models.t_banana_mixture(5, rng=0)
    >>> wrong = np.exp(0.5 * np.random.default_rng(1).standard_normal(20))
    >>> target.sample(1000, rng=2, weights=wrong / wrong.sum()).shape
    (1000, 5)
    """
    for name, value, least in (("dim", dim, 2), ("n_t", n_t, 0), ("n_banana", n_banana, 0)):
        as_count(value, name, minimum=least, maximum=MAX_DIM)
    count = int(n_t) + int(n_banana)
    if not count:
        raise ValueError("`n_t` and `n_banana` must not both be 0")
    df = as_one_positive(df, "df")
    box = as_one_positive(box, "box")
    if not is_number(b) or not abs(b) <= sys.float_info.max:
        raise ValueError(f"`b` must be one finite number, got {shown(b)}")
    shares = _as_weights(weights, count)
    rng = as_generator(rng)
    seed = copy.deepcopy(rng)  # gives the same centres when the target is unpickled
    means = rng.uniform(-box, box, size=(count, dim))
    scales = np.ones((2, dim))  # roots of the two shape matrices
    scales[0] = (0.1 * dim**0.5) ** 0.5
    scales[1, 0] = 10.0
    kind = np.repeat([0, 1], [n_t, n_banana])
    middle = means.mean(axis=0)
    centres = (means - middle) / scales[kind]
    heights = np.log(shares) - np.log(scales).sum(axis=1)[kind] - 0.5 * dim * log(df * pi)
    heights += lgamma(0.5 * (df + dim)) - lgamma(0.5 * df)

    def draw(k: int, size: int, rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal((size, dim)) / np.sqrt(rng.chisquare(df, size=(size, 1)) / df)
        x = means[k] + x * scales[kind[k]]
        if kind[k]:
            x[:, 1] -= b * (x[:, 0] ** 2 - 100)
        return x

    parameters = (middle, 1 / scales, centres[:n_t], centres[n_t:], heights, float(df), float(b))
    target = formula_target(Partial(_log_t_bananas, parameters), dim, _mixture_sampler(shares, dim, draw))
    again = {"n_t": n_t, "n_banana": n_banana, "df": df, "b": b, "box": box, "weights": weights, "rng": seed}
    return made_by(target, t_banana_mixture, dim, **again)


def _log_t_bananas(parameters: Any, x: Any) -> Any:
    middle, shrink, t_centres, banana_centres, heights, df, b = parameters

    def squared_distances(y: Any, centres: Any) -> Any:
        # For a batch one matrix product. It loses about eps |centres|^2: 1e-12 for a box of 20. Not cut off
        # at 0, where the Hessian would be lost at the very modes.
        return jnp.sum(y * y) - 2 * (centres @ y) + jnp.sum(centres * centres, axis=1)

    straight = x + b * (x[0] ** 2 - 100) * (np.arange(len(x)) == 1)
    to_t = squared_distances((x - middle) * shrink[0], t_centres)
    to_bananas = squared_distances((straight - middle) * shrink[1], banana_centres)
    r2 = jnp.concatenate([to_t, to_bananas])
    return logsumexp(heights - 0.5 * (df + len(x)) * jnp.log(1 + r2 / df))


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
        if has_orthogonal_columns(B) or B.shape[1] <= 16:  # 2^16 states can be enumerated
            return LabelledDraws(*exact_rbm(B, b, c, n, rng))
        return LabelledDraws(*gibbs_rbm(B, b, c, n, burn_in=burn_in, rng=rng))

    target = formula_target(Partial(_log_rbm, (B, b, c)), len(b), sample_with_labels)
    return made_by(target, gb_rbm, B, b, c)


def _log_rbm(parameters: Any, x: Any) -> Any:
    B, b, c = parameters
    a = 0.5 * (x @ B) + c
    return b @ x - 0.5 * (x @ x) + jnp.sum(jnp.logaddexp(a, -a))


def _mixture_sampler(
    shares: np.ndarray, dim: int, draw: Callable[..., np.ndarray]
) -> Callable[..., LabelledDraws]:
    """The function that makes draws of a mixture with their components."""

    def sample_with_labels(n: int, rng: RandomSource = None, *, weights: Any = None) -> LabelledDraws:
        as_count(n, "n", maximum=MAX_INTEGER)
        generator = as_generator(rng)
        chosen = shares if weights is None else _as_weights(weights, len(shares), zero=True)
        labels = generator.choice(len(chosen), size=n, p=chosen)
        x = np.empty((n, dim))
        for k in np.unique(labels):
            mine = labels == k
            x[mine] = draw(int(k), int(mine.sum()), generator)
        return LabelledDraws(x, labels)

    return sample_with_labels


def _as_weights(weights: Any, count: int, *, zero: bool = False) -> np.ndarray:
    w = np.full(count, 1 / count) if weights is None else as_numbers(weights, "weights")
    if w.shape != (count,) or not (abs(w.sum() - 1) < 1e-8 and w.min() >= 0 and (zero or w.min() > 0)):
        rule = "non-negative" if zero else "positive"
        raise ValueError(f"`weights` must be {count} {rule} numbers with sum 1, got {shown(weights)}")
    return w / w.sum()
