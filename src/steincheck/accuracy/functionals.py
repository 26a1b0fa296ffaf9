"""The parameters as functions of the coordinates, and how heavy their tails are, told by the score."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..target import Target, to_constrained


class Functionals(NamedTuple):
    """Columns of `constrain`, or the coordinates themselves where there is none."""

    target: Target
    columns: np.ndarray
    names: tuple[str, ...]

    @property
    def identity(self) -> bool:
        """Whether they are the coordinates themselves."""
        return self.target.constrain is None or self.target.constrained_names is None

    def values(self, x: np.ndarray) -> np.ndarray:
        """Values (n, q) at the rows of x."""
        with np.errstate(over="ignore"):
            return to_constrained(x, self.target)[0][:, self.columns]


def functionals_of(target: Target, x: np.ndarray) -> Functionals:
    """All parameters but those that are constant, such as the diagonal of a correlation matrix.

    A parameter that only the draws x keep constant is none of these, hence the points beside the draws.
    """
    beside = x + 1e-3 * (1 + np.abs(x))
    values, names = to_constrained(np.concatenate([x, beside]), target)
    columns = np.flatnonzero(np.ptp(values, axis=0) > 0)
    return Functionals(target, columns, tuple(names[k] for k in columns))


def tail_weights(
    x: np.ndarray, scores: np.ndarray, values: np.ndarray, functionals: Functionals, outer: float = 0.1
) -> np.ndarray:
    """The larger 1 / (nu + 1) of both tails per column of values (n, q), nu being the tail index.

    Let f have the marginal density ~ (1 + f^2 / (nu s^2))^(-(nu + 1) / 2) far from its centre. Then
    y = -f (log p)'(f) obeys y (alpha + beta / f^2) = 1 with alpha = 1 / (nu + 1). The equation is linear in
    y, whose mean given f is known: (log p)'(f) = E[s.v + div v | f] for any field v with v.grad f = 1. Here v
    is w / (w.grad f), w = cov(x, f).
    """
    n, q = values.shape
    size = min(max(int(outer * n), 20), n // 2)
    centred = x - x.mean(axis=0)
    weights = np.empty(q)
    for j in range(q):
        f = values[:, j] - np.median(values[:, j])
        order = np.argsort(f)
        rows = np.concatenate([order[:size], order[-size:]])
        direction = centred.T @ f / n
        with np.errstate(all="ignore"):  # states at which f does not change along w are left out
            y = -f[rows] * _marginal_slope(x[rows], scores[rows], direction, functionals, j)
        weights[j] = max(_tail_weight(f[rows[k]], y[k], f.std()) for k in np.split(np.arange(2 * size), 2))
    return weights


def _marginal_slope(
    x: np.ndarray, scores: np.ndarray, direction: np.ndarray, functionals: Functionals, column: int
) -> np.ndarray:
    """s.v + div v at rows x; the derivatives of the function along w by differences."""
    if functionals.identity:
        return scores @ direction / direction[functionals.columns[column]]
    h = 1e-4 * np.median(x.std(axis=0) / np.maximum(np.abs(direction), 1e-300))
    moved = np.concatenate([x - h * direction, x, x + h * direction])
    behind, here, ahead = np.split(functionals.values(moved)[:, column], 3)
    first = (ahead - behind) / (2 * h)
    second = (ahead - 2 * here + behind) / h**2
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
