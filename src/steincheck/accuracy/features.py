"""Stein features of the states of walkers: functions of mean 0 under the density."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .cells import Cutoff


class Features(NamedTuple):
    """Features in cumulative orders."""

    values: np.ndarray  #: (n, p)
    sizes: list[int]  #: the number of features up to each order


def stein_features(
    z: np.ndarray, scores: np.ndarray, metric: np.ndarray, limit: int, cutoff: Cutoff
) -> Features:
    """Features at states less their centre z (n, d); orders are added while there are at most `limit`.

    With u_i = z_i / sqrt(M_ii), the vector field h g(u_i) M e_j / sqrt(M_jj) has the feature::

        g(u_i) t_j + h g'(u_i) R_ij,    t_j = (M (h s + grad h))_j / sqrt(M_jj),

    R being the correlation matrix of M. h ends at the border of the walkers' cell.
    """
    d = len(metric)
    width = np.sqrt(np.diag(metric))
    u = z / width
    h = cutoff.value[:, None]
    t = (h * scores + cutoff.gradient) @ (metric / width)
    correlation = metric / np.outer(width, width)
    q = 1 + u**2 / 9  # squares and cubes are damped beyond three standard deviations
    square, square_slope = u**2 / q, 2 * u / q**2
    low, high = np.triu_indices(d, 1)
    one, other = np.nonzero(~np.eye(d, dtype=bool))
    orders = (
        (d, lambda: [t]),
        (d, lambda: [u * t + h]),
        (2 * d, lambda: [square * t + h * square_slope, u**3 / q**1.5 * t + h * 3 * u**2 / q**2.5]),
        (
            len(low),
            lambda: [u[:, low] * t[:, high] + u[:, high] * t[:, low] + 2 * h * correlation[low, high]],
        ),
        (
            len(one),
            lambda: [square[:, one] * t[:, other] + h * square_slope[:, one] * correlation[one, other]],
        ),
    )
    values: list[np.ndarray] = []
    sizes: list[int] = []
    for size, make in orders:
        total = size + (sizes[-1] if sizes else 0)
        if size and total > limit:
            break
        values += make()
        sizes.append(total)
    return Features(np.concatenate(values, axis=1) if values else np.empty((len(z), 0)), sizes)
