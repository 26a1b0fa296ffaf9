"""The paper's models, each a `Target` with ``sample(n, rng)``; formulas and proofs: docs/theory/models.md."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from math import lgamma, log, pi
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.tree_util import Partial

from ._validation import (
    RandomSource,
    as_count,
    as_generator,
    as_numbers,
    as_one_positive,
    check_switch,
    is_number,
    shown,
)
from .draws import as_matrix
from .samplers import MAX_ENUMERATED, MAX_INTEGER, as_rbm, exact_rbm, gibbs_rbm, has_orthogonal_columns
from .target import MAX_DIM, Target, jax_target, made_by

__all__ = ["gaussian_mixture", "gb_rbm", "sensor_labels", "sensor_network", "t_banana_mixture"]

# the batch shapes compiled: more than for a user's function, which compiles anew
MODEL_CHUNKS = (1, 32, 256, 2048, 8192)

# The sensor problem: sensors 0 to 3 are unknown, 4 and 5 known; the observed distances of pairs.
KNOWN_SENSORS = np.array([[0.5, 0.3], [0.3, 0.7]])
OBSERVED_DISTANCES = {
    (0, 4): 0.6103,
    (0, 5): 0.3631,
    (2, 4): 0.2995,
    (2, 5): 0.5656,
    (0, 3): 0.9266,
    (1, 2): 0.297,
    (1, 3): 0.8524,
}
UNOBSERVED_PAIRS = ((0, 1), (0, 2), (1, 4), (1, 5), (2, 3), (3, 4), (3, 5))
# standard deviations
NOISE = 0.02
RANGE = 0.3
PRIOR = 10.0
# exp(-(y - r)^2 / (2 NOISE^2) - r^2 / (2 RANGE^2)) is a Gaussian in r with mean SHRINK y and deviation SPREAD
SHRINK = 1 / (1 + (NOISE / RANGE) ** 2)
SPREAD = (NOISE**-2 + RANGE**-2) ** -0.5
CUT = 6.5  # radii of rings are cut off at so many deviations
# How a draw is built up: a sensor, the pair whose ring it is put on, the pair whose ring its angle must fit,
# the unobserved pairs now accounted for, and an upper bound of the acceptance probability.
PLAN: list[tuple[int, tuple, tuple | None, list[tuple[int, int]], float]] = [
    (0, (0, 5), (0, 4), [], 0.056),
    (2, (2, 4), (2, 5), [(0, 2)], 0.064),
    (1, (1, 2), None, [(1, 4), (1, 5)], 1.0),
    (3, (0, 3), (1, 3), [(0, 1), (2, 3), (3, 4), (3, 5)], 0.039),
]


def __dir__() -> list[str]:
    return __all__


def gaussian_mixture(means: Any, covariances: Any = None, weights: Any = None) -> Target:
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
    Target
        ``sample(n, rng, weights=None, return_labels=False)``: draws, with other weights if given (zero
        allowed: a missing mode), and the component of every draw if asked.

    Examples
    --------
    >>> from steincheck import models
    >>> target = models.gaussian_mixture([[-3.0], [3.0]])
    >>> draws, labels = target.sample(4, 0, weights=[1, 0], return_labels=True)
    >>> labels
    array([0, 0, 0, 0])
    """
    means = as_numbers(means, "means")
    if means.ndim != 2 or 0 in means.shape or not np.isfinite(means).all():
        raise ValueError(f"`means` must be finite with one mean per row, (M, d), got shape {means.shape}")
    count, d = means.shape
    shares = _as_weights(weights, count)
    roots = _covariance_roots(covariances, count, d)  # (M or 1, d, d)
    whiten = np.linalg.inv(roots)
    middle = means.mean(axis=0)  # differences from the middle stay accurate far from the origin
    centres = np.einsum("kij,kj->ki", np.broadcast_to(whiten, (count, d, d)), means - middle)
    log_dets = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    heights = np.log(shares) - 0.5 * d * log(2 * pi) - log_dets

    def draw(k: int, size: int, rng: np.random.Generator) -> np.ndarray:
        return means[k] + rng.standard_normal((size, d)) @ roots[min(k, len(roots) - 1)].T

    sample = _mixture_sampler(shares, d, draw)
    target = _model(_log_gaussians, (middle, whiten, centres, heights), d, sample)
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
    weights: Any = None,
    rng: RandomSource = None,
) -> Target:
    """Mixture of multivariate t and banana-shaped t distributions, normalised (paper, App. H.2).

    The first `n_t` components have density t(x; mu, S), S = 0.1 sqrt(d) I, the others t(phi(x); mu, C) with
    C = diag(100, 1, ..., 1) and

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
    Target
        ``sample(n, rng, weights=None, return_labels=False)``: draws, with other weights if given, and the
        component of every draw if asked.

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
    count = _count_of_parts(dim, n_t, n_banana)
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
    sample = _mixture_sampler(shares, dim, draw)
    again = {"n_t": n_t, "n_banana": n_banana, "df": df, "b": b, "box": box, "weights": weights, "rng": seed}
    return made_by(_model(_log_t_bananas, parameters, dim, sample), t_banana_mixture, dim, **again)


def _count_of_parts(dim: Any, n_t: Any, n_banana: Any) -> int:
    """The number of components, if all three numbers are ones."""
    for name, value, least in (("dim", dim, 2), ("n_t", n_t, 0), ("n_banana", n_banana, 0)):
        as_count(value, name, minimum=least, maximum=MAX_DIM)
    count = int(n_t) + int(n_banana)
    if not count:
        raise ValueError("`n_t` and `n_banana` must not both be 0")
    return count


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


def sensor_network() -> Target:
    """Posterior of four sensor locations in the plane, d = 8 (paper, App. H.3; data of Tak et al. 2018).

    Two further sensors are known. The distance of sensors i and j is observed, with Gaussian error of
    standard deviation 0.02, with probability exp(-|x_i - x_j|^2 / (2 0.3^2)); the prior is N(0, 10^2 I).
    There are eight modes, arcs and rings, see `sensor_labels`. ``sample(n, rng, return_labels=False)`` makes
    independent draws by rejection, exact up to cut-offs of probability 1e-9.

    Returns
    -------
    Target

    Examples
    --------
    >>> from steincheck import models
    >>> target = models.sensor_network()
    >>> target.sample(1000, rng=0).shape
    (1000, 8)
    """

    def sample(n: int, rng: Any = None, *, return_labels: bool = False) -> Any:
        check_switch(return_labels, "return_labels")
        as_count(n, "n", maximum=MAX_INTEGER)
        rng = as_generator(rng)
        found = [_propose_sensors(4096, rng)]
        while sum(map(len, found)) < n:
            found.append(_propose_sensors(4096, rng))
        x = np.concatenate(found)[:n]
        return (x, sensor_labels(x)) if return_labels else x

    names = [f"{axis}{i}" for i in range(1, 5) for axis in "xy"]
    return made_by(_model(_log_sensors, (), 8, sample, names=names), sensor_network)


def sensor_log_density(x: Any) -> Any:
    """Log density of `sensor_network` at one point (8,) in JAX operations, for compiled samplers."""
    points = jnp.concatenate([jnp.reshape(x, (4, 2)), jnp.asarray(KNOWN_SENSORS, dtype=x.dtype)])

    def squared_distances(pairs: Any) -> Any:
        first, second = np.array(list(pairs)).T
        return jnp.sum((points[first] - points[second]) ** 2, axis=1)

    r2 = squared_distances(OBSERVED_DISTANCES)
    distance = jnp.sqrt(jnp.maximum(r2, 1e-300))  # where sensors coincide, it still has a gradient
    errors = (np.array(list(OBSERVED_DISTANCES.values())) - distance) / NOISE
    unseen = jnp.log(-jnp.expm1(-0.5 * squared_distances(UNOBSERVED_PAIRS) / RANGE**2))
    square = jnp.sum(errors**2) + jnp.sum(r2) / RANGE**2 + jnp.sum(x**2) / PRIOR**2
    return jnp.sum(unseen) - 0.5 * square


def _log_sensors(_: Any, x: Any) -> Any:
    return sensor_log_density(x)


def sensor_labels(x: Any) -> np.ndarray:
    """Which of the eight modes of `sensor_network` the draws belong to.

    Sensors 1 and 3 may lie on either side of the line through the known sensors, sensor 4 on either side of
    the line from sensor 1 to 2: label = side of sensor 1 + 2 (side of sensor 3) + 4 (side of sensor 4).

    Parameters
    ----------
    x : array (n, 8)
        The draws.

    Returns
    -------
    array (n,)
        Integers 0 to 7.

    Examples
    --------
    >>> target = sensor_network()
    >>> sorted(set(sensor_labels(target.sample(500, 0)).tolist()))
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    one, two, three, four = np.moveaxis(as_matrix(x, 8, minimum=1).reshape(-1, 4, 2), 1, 0)

    def side(start: np.ndarray, end: np.ndarray, point: np.ndarray) -> np.ndarray:
        along, away = end - start, point - start
        return (along[..., 0] * away[..., 1] > along[..., 1] * away[..., 0]).astype(int)

    first, second = KNOWN_SENSORS
    return side(first, second, one) + 2 * side(first, second, three) + 4 * side(one, two, four)


def _propose_sensors(size: int, rng: np.random.Generator) -> np.ndarray:
    """What rejection leaves of `size` proposals: exact independent draws of the sensor posterior, (m, 8)."""
    places = {4 + k: np.tile(known, (size, 1)) for k, known in enumerate(KNOWN_SENSORS)}
    for sensor, ring, fit, unseen, bound in PLAN:
        anchor = places[sum(ring) - sensor]
        other = places[sum(fit) - sensor] if fit else None
        other_distance = OBSERVED_DISTANCES[fit] if fit else 0.0
        x, probability = _on_rings(anchor, OBSERVED_DISTANCES[ring], other, other_distance, rng)
        places[sensor] = x
        for i, j in unseen:
            probability *= -np.expm1(-0.5 * np.sum((places[i] - places[j]) ** 2, axis=1) / RANGE**2)
        probability *= np.exp(-0.5 * np.sum(x**2, axis=1) / PRIOR**2)
        keep = bound * rng.random(len(x)) < probability
        places = {k: place[keep] for k, place in places.items()}
    return np.concatenate([places[k] for k in range(4)], axis=1)


def _on_rings(
    anchor: np.ndarray, distance: float, other: np.ndarray | None, other_distance: float, rng: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Points on rings about `anchor` at angles that fit the rings about `other`; acceptance probabilities.

    In the plane a ring has density exp(-(r - SHRINK y)^2 / (2 SPREAD^2)), in r it is r times this: Gaussian
    radii are accepted with a probability proportional to r. Of evenly spaced angles, turned at random, one is
    picked in proportion to its fit, and accepted with the mean fit: exact however many angles there are.
    """
    z = rng.standard_normal(len(anchor))
    turn = rng.uniform(0, 2 * pi, len(anchor))
    radius = SHRINK * distance + SPREAD * z
    probability = np.where(np.abs(z) < CUT, radius, 0) / (SHRINK * distance + SPREAD * CUT)
    if other is not None:
        angles = np.linspace(0, 2 * pi, num=int(4 * distance / SPREAD), endpoint=False)
        gap = anchor - other
        cos = np.cos(turn)
        sin = np.sin(turn)
        turned = np.column_stack([gap[:, 0] * cos + gap[:, 1] * sin, gap[:, 1] * cos - gap[:, 0] * sin])
        r2 = (2 * radius[:, None] * turned) @ np.stack([np.cos(angles), np.sin(angles)])
        r2 += (radius**2 + np.sum(gap**2, axis=1))[:, None]
        error = (np.sqrt(np.maximum(r2, 0)) - SHRINK * other_distance) / SPREAD
        total = np.cumsum(np.exp(-0.5 * error**2), axis=1)
        pick = np.sum(total[:, :-1] < total[:, -1:] * rng.random((len(total), 1)), axis=1)
        turn = turn + angles[pick]
        probability *= total[:, -1] / len(angles)
    return anchor + radius[:, None] * np.column_stack([np.cos(turn), np.sin(turn)]), probability


def gb_rbm(B: Any, b: Any = None, c: Any = None) -> Target:
    """Gaussian-Bernoulli restricted Boltzmann machine (paper, App. H.4), up to a constant.

    p(x) is the sum over h in {-1, 1}^d_h of exp(x'Bh/2 + b'x + c'h - |x|^2/2), a mixture of 2^d_h Gaussians
    N(Bh/2 + b, I) with weights proportional to exp(|Bh/2 + b|^2/2 + c'h). The sum factorises:

        log p(x) = b'x - |x|^2/2 + sum_j log(2 cosh((B'x)_j/2 + c_j)).

    Parameters
    ----------
    B, b, c : arrays (d, d_h), (d,), (d_h,)
        b and c are zero by default.

    Returns
    -------
    Target
        ``sample(n, rng, burn_in=2000, return_labels=False)``, with h (n, d_h) if asked. Draws are exact if
        the columns of B are orthogonal (any d_h; what the paper's lambda' = 0 trick amounts to) or d_h <= 16
        (by enumeration). Otherwise they are the ends of independent chains of
        `samplers.gibbs_rbm` with `burn_in` sweeps: good where the components overlap, as in the paper's
        standard setting, not where they are well separated.

    Examples
    --------
    >>> import numpy as np
    >>> from steincheck import models
    >>> target = models.gb_rbm(6 * np.eye(50, 40))
    >>> x, h = target.sample(100, rng=0, return_labels=True)
    >>> x.shape, h.shape
    ((100, 50), (100, 40))
    """
    B, b, c = as_rbm(B, b, c)
    exact = has_orthogonal_columns(B) or len(c) <= MAX_ENUMERATED

    def sample(n: int, rng: Any = None, *, burn_in: int = 2000, return_labels: bool = False) -> Any:
        check_switch(return_labels, "return_labels")
        x, h = exact_rbm(B, b, c, n, rng) if exact else gibbs_rbm(B, b, c, n, burn_in, rng)
        return (x, h) if return_labels else x

    return made_by(_model(_log_rbm, (B, b, c), len(b), sample), gb_rbm, B, b, c)


def _log_rbm(parameters: Any, x: Any) -> Any:
    B, b, c = parameters
    a = 0.5 * (x @ B) + c
    return b @ x - 0.5 * (x @ x) + jnp.sum(jnp.logaddexp(a, -a))


def _mixture_sampler(shares: np.ndarray, dim: int, draw: Callable[..., np.ndarray]) -> Callable[..., Any]:
    def sample(n: int, rng: Any = None, *, weights: Any = None, return_labels: bool = False) -> Any:
        as_count(n, "n", maximum=MAX_INTEGER)
        rng = as_generator(rng)
        check_switch(return_labels, "return_labels")
        chosen = shares if weights is None else _as_weights(weights, len(shares), zero=True)
        labels = rng.choice(len(chosen), size=n, p=chosen)
        x = np.empty((n, dim))
        for k in np.unique(labels):
            mine = labels == k
            x[mine] = draw(int(k), int(mine.sum()), rng)
        return (x, labels) if return_labels else x

    return sample


def _model(formula: Any, parameters: tuple, dim: int, sample: Any, names: Any = None) -> Target:
    """Target of a JAX formula (parameters, x) -> log p."""
    return jax_target(Partial(formula, parameters), dim, chunks=MODEL_CHUNKS, names=names, sample=sample)


def _as_weights(weights: Any, count: int, *, zero: bool = False) -> np.ndarray:
    w = np.full(count, 1 / count) if weights is None else as_numbers(weights, "weights")
    if w.shape != (count,) or not (abs(w.sum() - 1) < 1e-8 and w.min() >= 0 and (zero or w.min() > 0)):
        rule = "non-negative" if zero else "positive"
        raise ValueError(f"`weights` must be {count} {rule} numbers with sum 1, got {shown(weights)}")
    return w / w.sum()


def _covariance_roots(covariances: Any, count: int, d: int) -> np.ndarray:
    """Cholesky factors, (M, d, d) or (1, d, d)."""
    given = as_numbers(1.0 if covariances is None else covariances, "covariances")
    matrices = given * np.eye(d) if given.ndim == 0 else given
    if matrices.shape not in ((d, d), (count, d, d)):
        raise ValueError(
            f"`covariances` must be a variance or have shape {(d, d)} or {(count, d, d)}, got {given.shape}"
        )
    for k, matrix in enumerate(matrices.reshape(-1, d, d)):
        smallest = np.linalg.eigvalsh(matrix)[0] if np.isfinite(matrix).all() else np.nan
        if not (smallest > 0 and np.allclose(matrix, matrix.T, rtol=1e-8, atol=0)):
            raise ValueError(
                f"`covariances` must be symmetric and positive definite, number {k} is not: its smallest "
                f"eigenvalue is {smallest:.3g}"
            )
    return np.linalg.cholesky(matrices.reshape(-1, d, d))
