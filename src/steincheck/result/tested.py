"""Results of a part of the draws, told in terms of all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from .gof import FluxResult, GofResult

Result = TypeVar("Result", bound=GofResult)


def among_all(result: Result, rows: np.ndarray, n: int) -> Result:
    """The result of a test of the rows `rows` of n draws, as one about all of these."""
    if isinstance(result, FluxResult) and result.mode_of_draw is not None:
        mode = np.full(n, -1)
        mode[rows] = result.mode_of_draw
        result = replace(result, mode_of_draw=mode)
    tested = rows if result.tested_rows is None else rows[result.tested_rows]
    return replace(result, n=n, tested_rows=None if len(tested) == n else tested)
