"""Independent parts of a run of nested sampling."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MAX_BUNDLES = 50  # of threads: as many signs as a null distribution needs, see block_study
N_SEGMENTS = 10  # of equal weight; rows of nested_study


class Threads(NamedTuple):
    """How sums over a run of nested sampling divide among independent parts of its threads.

    Attributes
    ----------
    cell : array (n,)
        The cell of each draw: its part and its segment of the run. Cells of no draw are left out.
    share : array (q, cells)
        What of the sum over each cell belongs to each part; columns add up to 1.
    """

    cell: np.ndarray
    share: np.ndarray

    def rows(self, index: np.ndarray) -> Threads:
        """Some of the draws; their volumes depend on the threads of all."""
        kept, cell = np.unique(self.cell[index], return_inverse=True)
        return Threads(cell, self.share[:, kept])


def nested_threads(thread: Any, log_volume: Any, weight: np.ndarray) -> tuple[np.ndarray, Threads]:
    """Bundles of the threads of a run, and how sums divide among them; draws are in order of their density.

    Threads, one per live point, are independent runs (Higson et al. 2018, "Sampling errors in nested sampling
    parameter estimation"), but volumes are counted over all of them: a draw shrinks the volumes, and so the
    weights, of all later draws by 1/l, where l is the number of live points. To first order a sum of w f is
    therefore the sum over bundles b of::

        sum_{i in b} w_i f_i - sum_j w_j f_j a_bj,    a_bj = sum_{i < j} ([i in b] - share of b) / l_i,

    which are independent. Within a segment of the run a_bj is replaced by its mean.
    """
    number = np.unique(thread, return_inverse=True)[1]
    bundle = number % MAX_BUNDLES
    shrinkage = np.expm1(-np.diff(np.asarray(log_volume, dtype=float), prepend=0.0))  # (l + 1) / l - 1
    member = bundle == np.arange(bundle.max() + 1)[:, None]
    share = np.bincount(np.arange(number.max() + 1) % MAX_BUNDLES) / (number.max() + 1)
    steps = (member - share[:, None]) * shrinkage
    ahead = np.cumsum(steps, axis=1) - steps
    middle = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    segment = np.minimum(middle * N_SEGMENTS, N_SEGMENTS - 1).astype(int)
    inside = (segment == np.arange(N_SEGMENTS)[:, None]) * weight
    mean = ahead @ inside.T / np.maximum(inside.sum(axis=1), np.finfo(float).tiny)
    divided = np.repeat(np.eye(len(share)), N_SEGMENTS, axis=1) - np.tile(mean, len(share))
    return bundle, Threads(N_SEGMENTS * bundle + segment, divided).rows(np.arange(len(weight)))
