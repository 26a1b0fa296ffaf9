"""The verdict of `check` and its findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from ..wording.verdict import verdict_lines
from .accuracy import ParameterAccuracy
from .gof import GofResult
from .html import verdict_html
from .mode_table import ImportanceWeights, ModeTable
from .modes import Modes
from .plain import Record, as_plain
from .table import Table

FindingKind = Literal[
    "impossible draws", "missing mode", "mode share", "flow", "mean", "sd", "shape", "chains"
]


@dataclass(frozen=True, eq=False)
class Finding(Record):
    """One thing that is wrong, with its size.

    Attributes
    ----------
    kind : str
        "impossible draws", "missing mode", "mode share", "flow", "mean", "sd", "shape" or "chains".
    mode : int or None
        The mode it is about; None if it is about all of them or the density has one.
    parameters : tuple of str
        The parameters it is about.
    estimate, interval : float, (float, float)
        Share of the density at a mode; error of a mean in standard deviations of the density; ratio of the
        standard deviations of the draws and of the density. With a 95 % interval; NaN where there is no size.
    pvalue : float
        Adjusted for the number of tests, modes or parameters; NaN for a fact that needs no test.
    text : str
        The finding as a sentence.
    """

    kind: FindingKind
    mode: int | None = None
    parameters: tuple[str, ...] = ()
    estimate: float = np.nan
    interval: tuple[float, float] = (np.nan, np.nan)
    pvalue: float = np.nan
    text: str = ""

    def __str__(self) -> str:
        return self.text


class StepEvaluations(NamedTuple):
    """Evaluations of the density in one step of `check`."""

    step: str
    planned: int
    made: int


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Verdict(Record):
    """The answer of `check`: do the draws fit the density, and how far off are their numbers?

    Attributes
    ----------
    fits : bool or None
        False: misfit found. True: no misfit found, which is no proof that there is none. None: cannot tell,
        for the reasons in `inconclusive_reasons`.
    sentence : str
        The answer in one sentence.
    pvalue, alpha : float
        Smallest p-value of the tests, adjusted for their number by Holm's method, and the level.
    tolerance : float or None
        The errors that the user allows; None if the tests alone decide.
    tests, adjusted_pvalues : mappings of str to GofResult and to float
        The tests that ran and their adjusted p-values: "kernel" and "moments" look at the shape, "weights" at
        the mode weights, "chains" at whether Markov chains agree with each other. Read-only.
    accuracy : tuple of ParameterAccuracy
        Per parameter: mean and standard deviation of the draws, those of the density with 95 % intervals, and
        the errors. Empty where they could not be estimated.
    mode_table : ModeTable or None
        Share of the draws and of the density at each mode; None unless at least two modes can be listed.
    findings : tuple of Finding
        What is wrong and by how much; empty unless `fits` is False.
    advice : tuple of str
        What to do about the answer.
    importance_weights : ImportanceWeights or None
        Weights of the draws, in the user's order, that give the modes the shares of the density. None if a
        mode has no draws, or its share is unknown.
    modes : Modes or None
        The modes of the density, given or found.
    mode_descriptions : tuple of str
        Where each mode is, in the user's own parameters: "mu = 2.03, tau = 0.5".
    mode_means, mode_covariances : arrays (M, d), (M, d, d), or None
        Mean and covariance of the density within each mode, in the coordinates of the target.
    mode_of_draw : array (n,) or None
        The mode of each draw.
    parameter_table : Table
        What `summary` returns.
    inconclusive_reasons, not_examined, context, warnings : tuples of str
        Why a non-rejection is inconclusive; what the answer does not cover; how the draws were treated; what
        qualifies the answer. None of it is raised as a Python warning.
    evaluations : tuple of StepEvaluations
        Evaluations of the density per step.
    n, dim, names : int, int, tuple of str
        Number of draws given, their dimension, and the coordinate names.
    seed, version, settings : int, str, mapping
        ``check(draws, target, **verdict.settings)`` gives the same verdict again.
    """

    fits: bool | None
    sentence: str
    pvalue: float
    alpha: float
    tolerance: float | None = None
    tests: Mapping[str, GofResult]
    adjusted_pvalues: Mapping[str, float]
    accuracy: tuple[ParameterAccuracy, ...] = ()
    mode_table: ModeTable | None = None
    findings: tuple[Finding, ...] = ()
    advice: tuple[str, ...] = ()
    importance_weights: ImportanceWeights | None = None
    modes: Modes | None = None
    mode_descriptions: tuple[str, ...] = ()
    mode_means: np.ndarray | None = None
    mode_covariances: np.ndarray | None = None
    mode_of_draw: np.ndarray | None = None
    parameter_table: Table = field(default_factory=lambda: Table(("parameter",), ()))
    inconclusive_reasons: tuple[str, ...] = ()
    not_examined: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    evaluations: tuple[StepEvaluations, ...] = ()
    n: int
    dim: int
    names: tuple[str, ...]
    seed: int
    version: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(verdict_lines(self))

    def _repr_html_(self) -> str:
        return verdict_html(self)

    def __repr__(self) -> str:
        return f"<Verdict: {self.sentence} n = {self.n}, d = {self.dim}, {len(self.findings)} findings>"

    def summary(self) -> Table:
        """One row per parameter: the draws, the density, the errors, and how well the chains mixed.

        Columns: ``parameter``; ``mean`` and ``sd`` of the draws; ``density_mean`` and ``density_sd``;
        ``mean_error``, draws minus density in standard deviations of the density, and ``sd_ratio``, draws to
        density, each with the ends of its 95 % interval; ``rough``, whether the density is hard to explore
        there; ``ess_bulk``, ``ess_tail`` and ``r_hat`` as ArviZ computes them (NaN for independent draws).
        """
        return self.parameter_table

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON; described by docs/verdict.schema.json."""
        of_test = ("test", "statistic", "pvalue", "n", "n_tested", "settings")
        tests = {
            name: {key: getattr(result, key) for key in of_test}
            | {"adjusted_pvalue": self.adjusted_pvalues[name]}
            for name, result in self.tests.items()
        }
        left_out = {"adjusted_pvalues", "importance_weights", "modes", "mode_means", "mode_covariances"}
        left_out |= {"mode_of_draw"}
        record = {name: value for name, value in self.__dict__.items() if name not in left_out}
        return as_plain({"schema": 6} | record | {"tests": tests})
