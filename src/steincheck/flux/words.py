"""Words about net flows, one by one."""

from __future__ import annotations

import numpy as np

from .shares import LEVEL


def beyond(net: np.ndarray, error: np.ndarray, degrees_of_freedom: float = np.inf) -> np.ndarray:
    """Which net flows differ from 0 by Student's t (normal by default), all of them at one level."""
    from scipy.special import ndtri, stdtrit

    tail = 0.5 * LEVEL / len(net)
    quantile = ndtri(tail) if np.isinf(degrees_of_freedom) else stdtrit(degrees_of_freedom, tail)
    return np.abs(net) > -quantile * error


def flow_words(
    net: np.ndarray, significant: np.ndarray, examined: np.ndarray, choice: tuple[str, str]
) -> tuple[str, ...]:
    """Say "as expected", "not examined", or one of `choice`: of a significant flow out, of one in."""
    said = np.where(significant, np.where(net < 0, *choice), "as expected")
    return tuple(np.where(examined, said, "not examined").tolist())
