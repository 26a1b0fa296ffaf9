"""The verdict of `check` and its findings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from .gof import FluxResult, GofResult
from .html import answer_html, list_html, modes_html
from .mode_table import ImportanceWeights, ModeTable, mode_lines
from .modes import Modes
from .moments import FeatureKind
from .per_draw import per_draw_group
from .plain import as_plain, freeze_mappings, picklable_state, pvalue_text
from .table import Table, aligned, html_table

FindingKind = (
    FeatureKind
    | Literal["missing mode", "mode share", "trend", "flow", "impossible draws", "shape", "chains"]
)
QUANTITIES = {  # of findings that have a size
    "missing mode": "share of the density",
    "mode share": "share of the density",
    "location": "shift of the mean in standard deviations",
    "scale": "ratio of standard deviations, draws to density",
    "overall scale": "ratio of standard deviations, draws to density",
    "correlation": "difference of correlations, draws minus density",
}
NO_ROWS = Table(("parameter",), ())
READ_ONLY = ("tests", "adjusted_pvalues", "settings")  # mappings of a verdict
EXAMINED_BY_TEST = {
    "kernel": ("shape", "kernel test"),
    "moments": ("location, spread, correlation, tails", "moment test"),
    "weights": ("mode weights", "flux test"),
    "chains": ("agreement of the chains", "block permutation test"),
}
WEIGHTS_OF_SET = "mode weights of this set of draws"


@dataclass(frozen=True, eq=False)
class Finding:
    """One thing that is wrong, with its size.

    Attributes
    ----------
    kind : str
        "missing mode", "mode share", "trend", "flow", "location", "scale", "correlation", "overall scale",
        "skewness", "tails", "extremes", "radius", "radius spread", "impossible draws", "shape" or "chains".
    mode : int or None
        The mode it is about; None if it is about all of them or the density has one.
    parameters : tuple of str
        The coordinates it is about.
    estimate, interval : float, (float, float)
        The quantity named by `quantity` and its 95 % confidence interval, NaN where there is none.
    quantity : str
        What `estimate` is: "share of the density" (of a mode), "shift of the mean in standard deviations",
        "ratio of standard deviations, draws to density", "difference of correlations, draws minus density";
        empty where there is no estimate.
    pvalue : float
        Adjusted for all findings of the verdict.
    text : str
        The finding as a sentence.
    """

    kind: FindingKind
    mode: int | None
    parameters: tuple[str, ...]
    estimate: float
    interval: tuple[float, float]
    pvalue: float
    text: str

    @classmethod
    def without_size(
        cls, kind: FindingKind, mode: int | None, pvalue: float, text: str, parameters: tuple[str, ...] = ()
    ) -> Finding:
        """A finding that has no size."""
        return cls(kind, mode, parameters, np.nan, (np.nan, np.nan), pvalue, text)

    @property
    def quantity(self) -> str:
        """What `estimate` is; empty where there is none."""
        return "" if np.isnan(self.estimate) else QUANTITIES.get(self.kind, "")

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        record = {item.name: getattr(self, item.name) for item in fields(self)}
        return as_plain(record | {"quantity": self.quantity})


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """The answer of `check`: do the draws fit the density?

    Attributes
    ----------
    fits : bool or None
        False: misfit found at level `alpha`. True: no misfit found, which is no proof that there is none.
        None: cannot tell, for the reasons in `inconclusive_reasons`.
    pvalue : float
        Smallest p-value of the tests, adjusted for their number by Holm's method.
    alpha : float
        The level.
    tests : mapping of str to GofResult
        The tests that ran: "kernel" and "moments" look at the shape, "weights" at the mode weights, "chains"
        at whether Markov chains agree with each other. Read-only, as are `adjusted_pvalues` and `settings`.
    adjusted_pvalues : mapping of str to float
        The p-values of the tests, adjusted.
    findings : tuple of Finding
        What is wrong and by how much, most serious first; empty unless `fits` is False.
    inconclusive_reasons : tuple of str
        Why a non-rejection is inconclusive.
    mode_table : ModeTable or None
        Observed and implied share of each mode; None unless at least two modes can be listed.
    importance_weights : ImportanceWeights or None
        Importance weights of the draws, in the user's order, that give the modes the shares of the density,
        and their effective sample size: a repair of the mode weights, not of the fit within modes. None
        if a mode of non-negligible weight has no draws, or its share is unknown.
    modes : Modes or None
        The modes of the density, given or found; None if none was found.
    mode_descriptions : tuple of str
        Where each mode is, in the user's own parameters: "mu = 2.03, tau = 0.5".
    mode_of_draw : array (n,) or None
        The mode of each draw; None without a mode table.
    chain : array (n,) or None
        The chain of each draw; None for independent draws.
    parameter_table : Table
        What `summary` returns.
    advice : tuple of str
        What to do about the answer.
    accuracy : tuple
        The errors of the draws' means and standard deviations, one record per parameter.
    mode_means, mode_covariances : arrays (M, d), (M, d, d), or None
        Of the density within each mode.
    context : tuple of str
        How the draws were treated, their effective sample size, and how thorough the mode search was.
    not_examined : tuple of str
        What the answer does not cover: read it before you trust a "no misfit found".
    warnings : tuple of str
        What qualifies the answer; none of it is raised as a Python warning.
    n, dim : int
        Number of draws given, and their dimension.
    names : tuple of str
        Coordinate names.
    seed : int
        The one in `settings`.
    version : str
        Version of the package.
    settings : mapping
        The arguments that give the same verdict again: ``check(draws, target, **verdict.settings)``. They run
        all of `tests`, which have no settings of their own. Where the target is so slow that the clock stops
        the mode search, only ``max_seconds=None`` gives the same on every machine.
    sentence : str
        The answer in one sentence.
    """

    fits: bool | None
    pvalue: float
    alpha: float
    tests: Mapping[str, GofResult]
    adjusted_pvalues: Mapping[str, float]
    findings: tuple[Finding, ...]
    inconclusive_reasons: tuple[str, ...]
    mode_table: ModeTable | None
    modes: Modes | None
    context: tuple[str, ...]
    not_examined: tuple[str, ...]
    warnings: tuple[str, ...]
    n: int
    dim: int
    names: tuple[str, ...]
    seed: int
    version: str
    importance_weights: ImportanceWeights | None = None
    sentence: str = ""
    mode_descriptions: tuple[str, ...] = ()
    mode_of_draw: np.ndarray | None = None
    chain: np.ndarray | None = None
    parameter_table: Table = NO_ROWS
    advice: tuple[str, ...] = ()
    accuracy: tuple[Any, ...] = ()
    mode_means: np.ndarray | None = None
    mode_covariances: np.ndarray | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze_mappings(self, READ_ONLY)

    def __getstate__(self) -> dict[str, Any]:
        return picklable_state(self, READ_ONLY)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze_mappings(self, READ_ONLY)

    @property
    def text(self) -> str:
        """All that ``print(verdict)`` shows: the answer, what qualifies it, what is wrong, the numbers."""
        lines = [self.sentence]
        lines += [f"  Warning: {text}" for text in self.warnings]
        lines += [f"  - {finding}" for finding in self.findings]
        if self.advice:
            lines += ["", "What to do:", *(f"  - {text}" for text in self.advice)]
        tests = rows_of_tests(self)
        if tests:
            lines += ["", *aligned([("what was tested", "p", "adjusted", ""), *tests], "lrrl")]
        if self.mode_table is not None:
            lines += ["", *mode_lines(self.mode_table, self.mode_descriptions)]
        if self.context:
            lines += ["", *self.context]
        if self.not_examined:
            lines += ["", "Not examined:", *(f"  - {text}" for text in self.not_examined)]
        return "\n".join([*lines, "", self._foot()])

    def _foot(self) -> str:
        return f"n = {self.n}, d = {self.dim}, seed {self.seed}, steincheck {self.version}"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        parts = [
            answer_html(self.sentence, self.fits),
            list_html(self.warnings, "Warnings"),
            list_html([finding.text for finding in self.findings]),
            list_html(self.advice, "What to do"),
        ]
        if self.mode_table is not None:
            parts.append(modes_html(self.mode_table, self.mode_descriptions))
        tests = rows_of_tests(self)
        head = ("what was tested", "p-value", "adjusted", "result")
        folded = html_table(head, "lrrl", tests) if tests else ""
        folded += self.parameter_table._repr_html_() if len(self.parameter_table) else ""
        folded += list_html(self.context, "How it was examined")
        folded += list_html(self.not_examined, "Not examined")
        parts.append(f"<details><summary>Tests, parameters, how it was examined</summary>{folded}</details>")
        return f"<div>{''.join(parts)}<p>{self._foot()}</p></div>"

    def summary(self) -> Table:
        """One row per parameter: mean and standard deviation of the draws, convergence, misfit.

        Columns: ``parameter``; ``mean`` and ``sd`` of the draws on the parameter's own scale; ``ess_bulk``,
        ``ess_tail`` and ``r_hat`` as ArviZ computes them (NaN for independent draws); ``scale`` ("log",
        "logit" or "") on which the rest holds: ``shift``, by how many standard deviations the mean is too
        high, ``sd_factor``, by which factor the draws are too wide, and ``pvalue``, the smallest of all
        features of this parameter (mean, spread, skewness, tails), adjusted for all that were tested. Where
        the density has several modes, shift, factor and p-value are about the draws within modes: wrong mode
        shares, which move the overall mean, are in `mode_table`.
        """
        return self.parameter_table

    def to_arviz(self) -> Any:
        """What is known of each draw, as InferenceData (a DataTree with ArviZ 1.x).

        The group ``steincheck`` has the variables ``mode`` and, where every mode has draws,
        ``importance_weight``, which gives the modes the shares of the density; its attributes are the answer
        and its numbers. ``idata.extend(verdict.to_arviz())`` puts it beside the draws; `to_arviz` merges
        both into ``sample_stats``.
        """
        weights = None if self.importance_weights is None else self.importance_weights.weights
        attributes = {
            "sentence": self.sentence,
            "findings": [finding.text for finding in self.findings],
            "pvalue": float(self.pvalue),
            "alpha": float(self.alpha),
            "seed": self.seed,
            "version": self.version,
        }
        lengths = [self.n] if self.chain is None else np.bincount(self.chain).tolist()
        return per_draw_group(lengths, self.mode_of_draw, weights, attributes)

    def __repr__(self) -> str:
        return f"<Verdict: {self.sentence} n = {self.n}, d = {self.dim}, {len(self.findings)} findings>"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON; described by docs/verdict.schema.json."""
        record: dict[str, Any] = {"schema": 5}
        record |= {name: getattr(self, name) for name in ("fits", "sentence", "pvalue", "alpha")}
        of_test = ("test", "statistic", "pvalue", "n", "n_tested", "settings")
        record["tests"] = {
            name: {key: getattr(result, key) for key in of_test}
            | {"adjusted_pvalue": self.adjusted_pvalues[name]}
            for name, result in self.tests.items()
        }
        names = (
            "findings advice inconclusive_reasons mode_table mode_descriptions parameter_table context "
            "not_examined warnings n dim names seed version settings"
        )
        return as_plain(record | {name: getattr(self, name) for name in names.split()})

    def to_json(self) -> str:
        """JSON text; infinities and NaN become null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def smallest_at_floor(tests: Mapping[str, GofResult], adjusted: Mapping[str, float]) -> bool:
    """Whether a test with the smallest adjusted p-value cannot give a smaller one."""
    smallest = min(adjusted.values(), default=1.0)
    return any(result.at_floor and adjusted[key] == smallest for key, result in tests.items())


def rows_of_tests(verdict: Verdict) -> list[tuple[str, str, str, str]]:
    """The tests as rows of text: what was tested, p-value, adjusted p-value, what it says."""
    rows = []
    several = verdict.modes is not None and len(verdict.modes) > 1
    for key, result in verdict.tests.items():
        what, test = EXAMINED_BY_TEST[key]
        if isinstance(result, FluxResult) and result.variant == "set" and result.chains is not None:
            what = WEIGHTS_OF_SET
            test = f"against {result.chains.set_size} independent draws"
        where = " within modes" if several and key != "weights" else ""
        answer = "misfit found" if verdict.adjusted_pvalues[key] <= verdict.alpha else "no misfit found"
        inconclusive = isinstance(result, FluxResult) and bool(result.inconclusive_reason)
        inconclusive |= len(verdict.tests) * result.pvalue_floor > verdict.alpha
        if np.isnan(result.pvalue) or (inconclusive and answer == "no misfit found"):
            answer = "cannot tell"
        raw = pvalue_text(result.pvalue, smallest=result.at_floor).removeprefix("= ")
        adjusted = pvalue_text(verdict.adjusted_pvalues[key], smallest=result.at_floor).removeprefix("= ")
        rows.append((f"{what}{where} ({test})", raw, adjusted, answer))
    return rows
