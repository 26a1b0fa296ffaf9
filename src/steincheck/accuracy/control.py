"""Means and log sds of functionals from states of walkers: control variates, intervals, tails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from ..result import Estimate
from ..target import Batch
from .walkers import Ensemble, cutoff

_Influences = tuple[np.ndarray, np.ndarray]


class Moments(NamedTuple):
    """Of q functionals."""

    estimate: Estimate  #: arrays (2, q): means, and logs of the standard deviations
    memory: np.ndarray  #: (q,) correlation over walkers between the halves of the window, the larger of both


class Features(NamedTuple):
    """Features in cumulative orders."""

    values: np.ndarray  #: (n, p)
    sizes: list[int]  #: the number of features up to each order


def stein_features(
    z: np.ndarray, scores: np.ndarray, metric: np.ndarray, h: np.ndarray, slope: np.ndarray, limit: int
) -> Features:
    """Features at states less their centre z (n, d); orders are added while there are at most `limit`.

    With u_i = z_i / sqrt(M_ii), the vector field h g(u_i) M e_j / sqrt(M_jj) has the feature::

        g(u_i) t_j + h g'(u_i) R_ij,    t_j = (M (h s + grad h))_j / sqrt(M_jj),

    R being the correlation matrix of M. h (n,), with gradient `slope` (n, d), is 0 at the border of the
    walkers' cell.
    """
    d = len(metric)
    width = np.sqrt(np.diag(metric))
    correlation = metric / np.outer(width, width)
    u = z / width
    h = h[:, None]
    t = (h * scores + slope) @ (metric / width)
    q = 1 + u**2 / 9  # squares and cubes are damped beyond three standard deviations
    square, twice = u**2 / q, 2 * u / q**2
    low, high = np.triu_indices(d, 1)
    i, j = np.hstack([low, high]), np.hstack([high, low])
    orders = (
        lambda: t,
        lambda: u * t + h,
        lambda: np.hstack([square * t + h * twice, (u / q**0.5) ** 3 * t + 3 * h * u**2 / q**2.5]),
        lambda: u[:, low] * t[:, high] + u[:, high] * t[:, low] + 2 * h * correlation[low, high],
        lambda: square[:, i] * t[:, j] + h * twice[:, i] * correlation[i, j],
    )
    sizes = [size for size in np.cumsum([d, d, 2 * d, len(low), len(i)]).tolist() if size <= limit]
    return Features(np.hstack([t[:, :0], *(order() for order in orders[: len(sizes)])]), sizes)


def window_moments(ensemble: Ensemble, functionals: Batch, ordered: bool) -> Moments:
    """Moments of functionals at the states of a window, within one mode."""
    x, _, scores = ensemble.states
    border = cutoff(x, ensemble.mode, ensemble.gaussians)
    features = stein_features(x - ensemble.centre, scores, ensemble.metric, *border, len(x) // 5)
    return estimate_moments(functionals(x), features, len(ensemble.walkers.x), ordered)


def residuals(features: Features, targets: np.ndarray, n_walkers: int) -> np.ndarray:
    """Means (orders + 1, 2, m, c) of targets less control variates, per half of the window and walker.

    `targets` (T m, c) and the features stand transition after transition. The coefficients of each of five
    folds of walkers come from the others, so that a feature of mean 0 leaves the mean of a target unchanged.
    The ridge is 1e-3, in units of the features' variances. Order 0 is no control variate.
    """
    values, sizes = features
    p = values.shape[1]
    spread = values.std(axis=0)
    spread[spread <= 1e-9 * np.abs(values).mean(axis=0)] = 1.0  # constant, as for a density with an edge
    centre = targets.mean(axis=0)
    both = np.hstack([values / spread, np.ones((len(values), 1)), targets - centre])
    both = both.reshape(-1, n_walkers, both.shape[1])
    halves = np.array([half.mean(axis=0) for half in np.split(both, 2)])
    left = np.repeat(halves[None, :, :, p + 1 :], len(sizes) + 1, axis=0)
    folds = np.array_split(np.arange(n_walkers), 5)
    blocks = [both[:, fold].reshape(-1, both.shape[2]) for fold in folds]
    sums = np.array([block[:, : p + 1].T @ block for block in blocks])
    sums = sums.sum(axis=0) - sums
    sums /= sums[:, p, None, p, None]
    covariances = sums[:, :p] - sums[:, :p, p, None] * sums[:, None, p]
    covariances[:, range(p), range(p)] += 1e-3
    for order, size in enumerate(sizes, start=1):
        beta = np.linalg.solve(covariances[:, :size, :size], covariances[:, :size, p + 1 :])
        for fold, coefficients in zip(folds, beta, strict=True):
            left[order][:, fold] -= halves[:, fold, :size] @ coefficients
    return left + centre


def estimate_moments(values: np.ndarray, features: Features, n_walkers: int, ordered: bool) -> Moments:
    """Moments of the columns of values (T m, q) over a window.

    Per column and power the order of control variates is the one whose walker means vary least. With
    `ordered`, walkers that started at neighbouring draws of chains may be dependent.
    """
    centre, scale = values.mean(axis=0), values.std(axis=0)
    g = (values - centre) / scale
    left = residuals(features, np.hstack([g, g**2]), n_walkers)
    best = left.mean(axis=1).var(axis=1).argmin(axis=0)
    chosen = np.take_along_axis(left, best[None, None, None], axis=0)[0]
    value, error, bias, memory = _errors(_influences(chosen), _influences(left[0]), ordered)
    unit = np.stack([scale, np.ones_like(scale)])
    value = unit * value + np.stack([centre, np.log(scale)])
    return Moments(Estimate(value, unit * error, unit * bias, np.full(unit.shape, n_walkers - 1.0)), memory)


def _influences(means: np.ndarray) -> _Influences:
    """Mean and log sd (2, q), and influences (2, m, 2, q) on them of halves of walkers.

    From residual means (2, m, 2 q) of functionals and of their squares, by the delta method.
    """
    first, second = np.split(means, 2, axis=2)
    mean, square = first.mean(axis=(0, 1)), second.mean(axis=(0, 1))
    variance = square - mean**2
    with np.errstate(invalid="ignore", divide="ignore"):
        on_log_sd = (second - square - 2 * mean * (first - mean)) / (2 * variance)
        return np.stack([mean, 0.5 * np.log(variance)]), np.stack([first - mean, on_log_sd], axis=2)


def _errors(corrected: _Influences, plain: _Influences, ordered: bool) -> tuple[np.ndarray, ...]:
    """Estimate, noise between walkers and bias (2, q), and memory (q,).

    The bias is drift within the window and by how much more than noise the control moved the estimate.
    """
    value, influence = corrected
    early, late = influence - influence.mean(axis=1, keepdims=True)
    spread = np.maximum(early.std(axis=0) * late.std(axis=0), 1e-300)
    memory = np.clip(np.mean(early * late, axis=0) / spread, 0, 0.95)
    shift = np.diff(influence.mean(axis=1), axis=0)[0]
    drift = np.abs(shift) * (1 + memory) / (2 * (1 - memory))
    noise = standard_error((plain[1] - influence).mean(axis=0), False)
    gap = np.maximum(np.abs(plain[0] - value) - 2 * noise, 0)
    return value, standard_error(influence.mean(axis=0), ordered), np.hypot(drift, gap), memory.max(axis=0)


def standard_error(influence: np.ndarray, ordered: bool) -> np.ndarray:
    """Standard errors (...) of means over walkers (m, ...).

    With `ordered`, those of 20 groups of neighbours if they give a longer interval. Walkers
    beyond three standard deviations are rare, and up to three times as many may be missing (the rule of
    three). Half of what these would add to the mean is added to the standard error, that is all of it to a
    95 % interval.
    """
    m = len(influence)
    spread = influence.std(axis=0, ddof=1)
    centred = influence - influence.mean(axis=0)
    outlying = np.abs((centred - np.clip(centred, -3 * spread, 3 * spread)).mean(axis=0))
    error = spread / np.sqrt(m)
    if ordered and m >= 40:
        groups = np.array([part.mean(axis=0) for part in np.array_split(influence, 20)])
        quantiles = special.stdtrit([19.0, m - 1.0], 0.975)
        error = np.maximum(error, groups.std(axis=0, ddof=1) / np.sqrt(20) * quantiles[0] / quantiles[1])
    return error + 1.5 * outlying


def add_window(earlier: Moments, window: Moments) -> Moments:
    """A window together with the earlier ones, which have about half as many transitions.

    The last window is the last because no interval of it is long. That happens most easily if no walker
    visits a rare tail, hence what earlier windows saw of it still counts by a third. It does not where the
    windows are more than two standard errors apart, as after a start far from the density.
    """
    both = mixture([earlier, window], np.array([1, 2]) / 3, np.zeros((2, 2)))
    old, new = earlier.estimate, window.estimate
    agree = np.abs(old.value - new.value) <= 2 * np.hypot(old.standard_error, new.standard_error)
    return Moments(Estimate(*np.where(agree, both.estimate, new)), window.memory)


def mixture(parts: Sequence[Moments], share: np.ndarray, covariance: np.ndarray) -> Moments:
    """m = sum w_k m_k and v = sum w_k (v_k + (m_k - m)^2), the latter as log sd, by the delta method.

    w are the shares (M,) of the parts, modes or windows, with their covariance (M, M). With g_k = m_k - m
    and c_k = v_k + g_k^2 - v::

        var(m) = g' Cov(w) g + sum w_k^2 var(m_k)
        var(v) = c' Cov(w) c + sum w_k^2 (var(v_k) + 4 g_k^2 var(m_k))

    Bounds of bias are combined as standard errors are, without the part of the shares.
    """
    w = share[:, None]
    value, error, bias, freedom = map(np.array, zip(*(one.estimate for one in parts), strict=True))
    mean = np.sum(w * value[:, 0], axis=0)
    g, v = value[:, 0] - mean, np.exp(2 * value[:, 1])
    variance = np.sum(w * (v + g**2), axis=0)

    def combined(errors: np.ndarray) -> np.ndarray:
        of_mean = np.sum((w * errors[:, 0]) ** 2, axis=0)
        of_variance = np.sum((2 * w) ** 2 * ((v * errors[:, 1]) ** 2 + (g * errors[:, 0]) ** 2), axis=0)
        return np.stack([of_mean, of_variance / (2 * variance) ** 2])

    slopes = np.stack([g, (v + g**2 - variance) / (2 * variance)])
    between = np.einsum("pkq,kl,plq->pq", slopes, covariance, slopes)
    errors = np.sqrt(combined(error) + between), np.sqrt(combined(bias))
    memory = np.max([one.memory for one in parts], axis=0)
    return Moments(Estimate(np.stack([mean, 0.5 * np.log(variance)]), *errors, freedom.min(axis=0)), memory)


def tail_weights(x: np.ndarray, scores: np.ndarray, functionals: Batch) -> np.ndarray:
    """The larger 1 / (nu + 1) of both tails (q,) of functionals at states x (n, d), nu being the tail index.

    Let f have the marginal density ~ (1 + f^2 / (nu s^2))^(-(nu + 1) / 2) far from its centre. Then
    y = -f (log p)'(f) obeys y (alpha + beta / f^2) = 1 with alpha = 1 / (nu + 1). The equation is linear in
    y, whose mean given f is known: (log p)'(f) = E[s.v + div v | f] for any field v with v.grad f = 1. Here v
    is w / (w.grad f), w = cov(x, f), with derivatives along w by differences.
    """
    values = functionals(x)
    size = min(max(len(x) // 10, 20), len(x) // 2)
    weights = np.zeros(values.shape[1])
    for j, column in enumerate(values.T):
        f = column - np.median(column)
        w = (x - x.mean(axis=0)).T @ f / len(x)
        h = 1e-4 * np.median(x.std(axis=0) / np.maximum(np.abs(w), 1e-300))
        order = np.argsort(f)
        for rows in (order[:size], order[-size:]):
            behind, ahead = functionals(x[rows] - h * w)[:, j], functionals(x[rows] + h * w)[:, j]
            with np.errstate(all="ignore"):  # states at which f does not change along w are left out
                first = (ahead - behind) / (2 * h)
                second = (ahead - 2 * column[rows] + behind) / h**2
                y = -f[rows] * (scores[rows] @ w / first - second / first**2)
            weights[j] = max(weights[j], _tail_weight(f[rows], y, f.std()))
    return weights


def _tail_weight(f: np.ndarray, y: np.ndarray, sd: float) -> float:
    """alpha less its standard error, from sum y (alpha + beta / f^2) = n and the same with weights 1 / f^2.

    A side that ends within 2.5 sd has no tail.
    """
    usable = np.isfinite(y) & (f != 0)
    y, f = y[usable], f[usable]
    if len(y) < 3 or np.abs(f).max() < 2.5 * sd:
        return 0.0
    both = np.stack([np.ones(len(f)), np.mean(f**2) / f**2])
    inverse = np.linalg.pinv(both * y @ both.T, rcond=1e-10)
    solution = inverse @ both.sum(axis=1)
    influence = inverse[0] @ (both * (y * (solution @ both) - 1))
    return float(solution[0] - np.sqrt(np.sum(influence**2)))


def pareto_k(log_weights: np.ndarray) -> float:
    """The tail index k-hat of importance weights, as ArviZ's `psislw` has it: usable below .7.

    A generalised Pareto distribution is fitted to the largest weights, by the estimate of Zhang and Stephens
    (2009) with a weak prior (Vehtari, Simpson, Gelman, Yao and Gabry 2024). Where these are equal there is no
    tail, and k-hat is 0.
    """
    n = len(log_weights)
    weights = np.sort(np.exp(log_weights - log_weights.max()))
    threshold = max(weights[-int(np.ceil(min(n / 5, 3 * n**0.5))) - 1], np.finfo(float).tiny)
    if weights[-1] - threshold < 1e-8:
        return 0.0
    tail = weights[weights > threshold] - threshold
    if len(tail) < 5:
        return np.inf
    grid = 30 + int(len(tail) ** 0.5)
    quartile = tail[int(len(tail) / 4 + 0.5) - 1]
    b = 1 / tail[-1] + (1 - np.sqrt(grid / (np.arange(grid) + 0.5))) / (3 * quartile)
    k = np.log1p(-b[:, None] * tail).mean(axis=1)
    posterior = special.softmax(len(tail) * (np.log(-b / k) - k - 1))
    k_hat = np.log1p(-(posterior @ b) * tail).mean()
    return float((len(tail) * k_hat + 5) / (len(tail) + 10))
