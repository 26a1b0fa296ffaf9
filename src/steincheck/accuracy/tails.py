"""How heavy the tails of a function of the states are, told by the score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Functions = Callable[[np.ndarray], np.ndarray]


def tail_weights(
    x: np.ndarray, scores: np.ndarray, values: np.ndarray, functions: Functions | None, outer: float = 0.1
) -> np.ndarray:
    """The larger 1 / (nu + 1) of both tails per column of values (n, q), nu being the tail index.

    Let f have the marginal density ~ (1 + f^2 / (nu s^2))^(-(nu + 1) / 2) far from its centre. Then
    y = -f (log p)'(f) obeys y (alpha + beta / f^2) = 1 with alpha = 1 / (nu + 1): linear in y, whose
    conditional mean given f is known, as (log p)'(f) = E[s.v + div v | f] for any field v with v.grad f = 1.
    Here v is w / (w.grad f), w = cov(x, f). Both equations, with weights 1 and 1 / f^2, are solved over the
    outermost states of each side.
    """
    n, q = values.shape
    centred = x - x.mean(axis=0)
    size = max(int(outer * n), 20)
    weights = np.empty(q)
    for j in range(q):
        f = values[:, j] - np.median(values[:, j])
        order = np.argsort(f)
        direction = centred.T @ f / n
        sides = []
        for rows in (order[:size], order[-size:]):
            slope = _marginal_slope(x[rows], scores[rows], direction, j, functions)
            sides.append(_tail_weight(f[rows], -f[rows] * slope, f.std()))
        weights[j] = max(sides)
    return weights


def _marginal_slope(
    x: np.ndarray, scores: np.ndarray, direction: np.ndarray, column: int, functions: Functions | None
) -> np.ndarray:
    """s.v + div v at rows x; the derivatives of the function along w by differences."""
    if functions is None:
        return scores @ direction / direction[column]
    h = 1e-4 * np.median(x.std(axis=0) / np.maximum(np.abs(direction), 1e-300))
    values = [functions(x + k * h * direction)[:, column] for k in (-1, 0, 1)]
    first = (values[2] - values[0]) / (2 * h)
    second = (values[2] - 2 * values[1] + values[0]) / h**2
    return scores @ direction / first - second / first**2


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
