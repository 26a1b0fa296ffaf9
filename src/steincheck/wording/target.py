"""What a target's own log density says against a test, as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._validation import listed

if TYPE_CHECKING:
    from ..target import Discontinuity

NO_SCORE = "the target has no score: finite differences of its log density are used"


def constant_coordinates(coordinates: Sequence[int]) -> str:
    """Coordinates that are the same in all draws."""
    return (
        f"coordinate {listed(coordinates, 5)} is the same in all draws: no density produces this, "
        "whatever the p-value"
    )


def discontinuity_warning(gap: Discontinuity) -> str:
    """Where a density is discontinuous, and what that does to Stein tests."""
    where = np.array2string(gap.x, precision=4, threshold=8)
    return (
        f"the density {discontinuity_text(gap)} near x = {where}: Stein tests {discontinuity_remedy(gap)}; "
        "correct draws may be rejected and wrong ones accepted"
    )


def discontinuity_text(gap: Discontinuity) -> str:
    """What the density does there, to follow "the density"."""
    if gap.kind == "slow edge":
        return f"vanishes at its edge only about as the distance to the power {gap.exponent:.2g}"
    return "ends abruptly" if gap.kind == "edge" else f"jumps by a factor of {np.exp(gap.drop):.3g}"


def discontinuity_remedy(gap: Discontinuity) -> str:
    """What tests of the shape need instead, to follow their name."""
    if gap.kind == "jump":
        return "need a continuous one: check the parts on either side separately"
    need = "a power of at least 2" if gap.kind == "slow edge" else "one that vanishes at its edge"
    return f"need {need}: transform the parameters to unconstrained space, as steincheck.unbounded does"
