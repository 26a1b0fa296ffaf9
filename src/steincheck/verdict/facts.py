"""All that is known when the answer is given, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..draws import read_as_parameters
from ..result import AgreementResult, Finding
from ..target import Target
from ..wording import results as flux_words
from ..wording import verdict as words
from ..wording.verdict import Obstacle, Situation
from .case import Case, ModesOfCase, Remarks
from .combine import Combined
from .examine import Tested
from .measure import Measured

MIN_DRAWS_FOR_VERDICT = 50  # below this n a non-rejection is inconclusive
USUAL_TOLERANCE = 0.1  # of the shares of chains that never change mode, if the user gives none


class Facts(NamedTuple):
    """What the steps of `check` found."""

    case: Case
    known: ModesOfCase
    tested: Tested
    combined: Combined
    measured: Measured
    tolerance: float | None

    @property
    def allowed_error(self) -> float:
        """The tolerance, or the usual one."""
        return USUAL_TOLERANCE if self.tolerance is None else self.tolerance

    @property
    def stuck(self) -> bool:
        """Whether chains change mode too rarely for a test of the mode weights."""
        weights = self.tested.weights
        return weights is not None and weights.chains is not None and bool(np.isnan(weights.pvalue))

    @property
    def wrong_shares(self) -> np.ndarray:
        """Which modes have a share in the draws that is off by more than the allowed error."""
        table = self.tested.mode_table
        low, high = np.empty((2, 0)) if table is None else table.error_interval.T
        return (low > self.allowed_error) | (high < -self.allowed_error)

    @property
    def share_answer(self) -> bool | None:
        """Whether all shares are within the allowed error; True with one mode."""
        table = self.tested.mode_table
        if table is None:
            return True if len(self.known.modes) == 1 else None
        within = np.abs(table.error_interval) <= self.allowed_error
        return False if self.wrong_shares.any() else True if within.all() else None

    def answer(self, reasons: Sequence[str]) -> bool | None:
        """Whether the draws fit: by the tests and facts, or by the errors if there is a tolerance."""
        shares = self.share_answer
        if self.tolerance is not None:
            accuracy = self.measured.accuracy
            errors = None if accuracy is None else accuracy.answer(self.tolerance)
            if not self.case.valid or self.known.improper:
                return None
            return False if False in (errors, shares) else True if errors and shares else None
        if self.combined.rejected or self.tested.impossible_rows or (self.stuck and shares is False):
            return False
        return None if reasons else True

    @property
    def notes(self) -> Remarks:
        """Reasons why a non-rejection is inconclusive."""
        reasons = []
        n = len(self.case.sample.x)
        if n < MIN_DRAWS_FOR_VERDICT:
            reasons.append(words.few_draws_reason(n, MIN_DRAWS_FOR_VERDICT))
        weights = self.tested.weights
        harmless = (None, "light modes")  # where all modes but one are light there is nothing to compare
        if weights is not None and weights.inconclusive_reason not in harmless:
            reasons.append(flux_words.weight_reason(weights))
        tests = self.combined.tests
        for result in tests.values():
            floor = len(tests) * result.pvalue_floor
            if floor > self.combined.alpha:
                reasons.append(words.level_reason(result.test, self.combined.alpha, floor))
        return Remarks(reasons=tuple(reasons))

    def situation(self, target: Target, findings: Sequence[Finding], *, reweightable: bool) -> Situation:
        """What advice depends on."""
        kinds = frozenset(finding.kind for finding in findings)
        chains = self.combined.tests.get("chains")
        misread = read_as_parameters(self.case.sample.x, target) if findings else None
        symmetries = self.known.modes.symmetries
        obstacle: Obstacle | None = None
        if self.known.improper:
            obstacle = "density"
        elif not self.case.valid:
            obstacle = "order of the draws"
        elif len(self.case.sample.x) < MIN_DRAWS_FOR_VERDICT:
            obstacle = "few draws"
        elif self.tolerance is not None:
            obstacle = "wide intervals"
        return Situation(
            kinds=kinds,
            chains=self.case.sample.chain is not None,
            reweightable=reweightable,
            stuck=self.stuck and reweightable,
            relabelled=any(symmetry.kind == "exchange of coordinates" for symmetry in symmetries),
            warm_up="chains" in kinds and isinstance(chains, AgreementResult) and chains.starts_differ,
            misread=misread.parameters if misread is not None and misread.gain > 0 else (),
            obstacle=obstacle,
            locations="verdict.modes.locations"
            if target.constrain is None
            else "target.constrain(verdict.modes.locations)",
        )
