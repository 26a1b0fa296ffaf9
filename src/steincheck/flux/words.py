"""Words about net flows, one by one."""

from __future__ import annotations

import numpy as np

from ..result.mode_table import AS_EXPECTED, NOT_COMPARED, NOT_EXAMINED, TOO_FEW, TOO_MANY


def flow_words(
    net: np.ndarray,
    significant: np.ndarray,
    examined: np.ndarray,
    choice: tuple[str, str],
    otherwise: str = AS_EXPECTED,
) -> tuple[str, ...]:
    """Say "not examined", `otherwise`, or one of `choice`: of a significant flow out, of one in."""
    words = np.where(significant, np.where(net < 0, *choice), otherwise)
    return tuple(np.where(examined, words, NOT_EXAMINED).tolist())


def mode_words(
    net: np.ndarray, error: np.ndarray, pvalues: np.ndarray, level: float, *, all_compared: bool = True
) -> tuple[str, ...]:
    """What the net flow into each mode says at a level, by the p-values of the modes.

    A mode without a p-value was not examined; neither was one without a standard error of its flow, for which
    only the set of draws was assessed, unless the set is clearly wrong there. No share is called as expected
    unless `all_compared`: the net flows of a group of modes say nothing about the share of the group.
    """
    significant = pvalues <= level
    examined = significant | (np.isfinite(pvalues) & np.isfinite(error))
    otherwise = AS_EXPECTED if all_compared else NOT_COMPARED
    return flow_words(net, significant, examined, (TOO_MANY, TOO_FEW), otherwise)
