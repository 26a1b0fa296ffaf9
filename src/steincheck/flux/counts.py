"""Counts of draws at modes, and their law given where else the draws could be. See docs/theory/flux.md."""

from __future__ import annotations

import numpy as np

RESAMPLES = 999  # jumps of every draw
ELEMENTS = 4_000_000  # uniforms at once
LEAST = 0.5  # directions in which the counts have a smaller variance are left to the counts of single modes
TREND = 0.2  # part of the level for a trend of the weights over the places of the modes
SOME = 0.01  # a mode at which fewer draws are expected exchanges none
# modes exchange draws if worth so many independent draws, or so large a part of them
LINKED, PART = 50.0, 0.1


def directions(covariance: np.ndarray, locations: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Combinations of the counts, columns (M, k), without correlation and of variance 1.

    Eigenvectors of the covariance with a variance below `LEAST` are left out; the variances (k,) of the
    others are returned too. The columns are turned such that weights with a log-linear trend over the places
    (M, d) of the modes, to first order, show in the first r alone.
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = values >= LEAST
    root = np.sqrt(values[kept])
    gaps = locations - locations.mean(axis=0)
    basis, size, _ = np.linalg.svd(gaps / np.ptp(gaps, axis=0).clip(1e-300), full_matrices=False)
    basis = basis[:, size > 1e-6 * size[0]]
    turn, size, _ = np.linalg.svd(root[:, None] * (vectors[:, kept].T @ basis))
    return (vectors[:, kept] / root) @ turn, values[kept], int(np.sum(size**2 >= LEAST))


def compare(
    gap: np.ndarray, scale: np.ndarray, r: int, jumped: np.ndarray | None
) -> tuple[float, float, float, np.ndarray | None]:
    """Q = |scale' gap|^2, the p-value, that of the trend alone, and the null distribution of Q.

    The latter from `jumped` samples (B, M), where given, else the limit laws are used. A trend in r of k
    directions is looked for if 3 r <= k; the p-value is then that of min(p_Q / 0.8, p_trend / 0.2).
    """
    from scipy.special import chdtrc

    squares = (np.vstack([gap, *([] if jumped is None else [jumped])]) @ scale) ** 2
    q, t, k = squares.sum(axis=1), squares[:, :r].sum(axis=1), scale.shape[1]
    looked = 0 < 3 * r <= k
    if jumped is None:
        p, trend = float(chdtrc(k, q[0])), float(chdtrc(r, t[0])) if looked else np.nan
        return float(q[0]), _joint(min(p / (1 - TREND), trend / TREND), k, r) if looked else p, trend, None
    ranks, trends = _ranks(q), _ranks(t)
    least = np.minimum(ranks / (1 - TREND), trends / TREND) if looked else ranks
    p = float(np.mean(least <= least[0] * (1 + 1e-12)))
    return float(q[0]), p, float(trends[0]) if looked else np.nan, q[1:]


def _ranks(values: np.ndarray) -> np.ndarray:
    """Share of the values at least as large as each, equal but for rounding being equal."""
    return 1 - np.searchsorted(np.sort(values), values * (1 - 1e-9)) / len(values)


def _joint(least: float, k: int, r: int) -> float:
    """P(min(p_Q / 0.8, p_T / 0.2) <= least), Q chi-square in k directions and T its part in r of them.

    It is P(Q >= a) + P(T >= b, Q < a), a and b the quantiles; Q - T is independent of T.
    """
    from scipy.integrate import quad
    from scipy.special import chdtr, chdtri, gammaln

    if least >= 1 / (1 - TREND):
        return 1.0
    a, b = chdtri(k, (1 - TREND) * least), chdtri(r, TREND * least)
    if b >= a:
        return (1 - TREND) * least

    def density(t: float) -> float:
        log_density = (0.5 * r - 1) * np.log(t) - 0.5 * t - 0.5 * r * np.log(2) - gammaln(0.5 * r)
        return float(np.exp(log_density) * chdtr(k - r, a - t))

    only_trend = quad(density, b, a, epsabs=0, epsrel=1e-8, limit=200)[0]
    return min(1.0, (1 - TREND) * least + only_trend)


def jumped_counts(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Counts (resamples, M) of the modes after every draw has jumped by its chances (n, M)."""
    n, n_modes = chances.shape
    below = np.zeros((RESAMPLES, n_modes))  # draws that jump to modes up to each
    ladder, rows = np.cumsum(chances, axis=1), max(1, ELEMENTS // RESAMPLES)
    for start in range(0, n, rows):
        uniform = rng.random((min(rows, n - start), RESAMPLES))
        for k in range(n_modes - 1):
            below[:, k] += np.sum(uniform < ladder[start : start + rows, k, None], axis=0)
    below[:, -1] = n
    return np.diff(below, axis=1, prepend=0.0)


def tails(counts: np.ndarray, expected: np.ndarray, n: int) -> np.ndarray:
    """Bounds of the two-sided p-values of single counts, (M,).

    A count is a sum of independent indicators with different chances. Beyond one from its mean its tails are
    at most those of the binomial law with the mean chance (Hoeffding 1956).
    """
    from scipy.special import bdtr, bdtrc

    chance = np.clip(expected / n, 0, 1)
    above = np.where(counts >= expected + 1, bdtrc(np.maximum(counts - 1, 0), n, chance), 1)
    below = np.where(counts <= expected - 1, bdtr(counts, n, chance), 1)
    return np.minimum(1, 2 * np.minimum(above, below))


def groups(covariance: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Number the groups of modes between which there is exchange, (M,).

    If all draws could be anywhere, minus the covariance of two counts would be n times the product of the
    shares: what it is instead tells how many such draws the comparison of the two is worth.
    """
    from scipy.sparse.csgraph import connected_components

    n, some = expected.sum(), expected >= SOME
    worth = -covariance * n**2 >= min(LINKED, PART * n) * np.outer(expected, expected)
    return connected_components(worth & np.outer(some, some), directed=False)[1]
