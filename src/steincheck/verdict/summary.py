"""One row per parameter: what the draws say of it, how well the chains mixed, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..result import GofResult, MomentFeature, MomentResult, Table
from ..target import Target
from ..target.parameter_scale import ParameterScale, parameter_scales
from .case import Case

SUMMARY_COLUMNS = (
    "parameter",
    "mean",
    "sd",
    "ess_bulk",
    "ess_tail",
    "r_hat",
    "scale",
    "shift",
    "sd_factor",
    "pvalue",
)


def parameter_table(case: Case, target: Target, moments: GofResult | None) -> Table:
    """The table of ``Verdict.summary``."""
    names = target.coordinate_names
    scales = parameter_scales(target)
    by_parameter = _features(moments)
    rows = []
    for j, name in enumerate(names):
        scale = scales.get(name, ParameterScale(name, j, ""))
        values = scale.values(case.x[:, j])
        common = [np.nan] * 3
        if case.convergence is not None:
            columns = (case.convergence.ess_bulk, case.convergence.ess_tail, case.convergence.rhat)
            common = [float(column[j]) for column in columns]
        misfit = _misfit(by_parameter.get(scale.parameter, []))
        spread = float(values.std(ddof=1)) if len(values) > 1 else np.nan
        rows.append((scale.parameter, float(values.mean()), spread, *common, scale.scale, *misfit))
    return Table(SUMMARY_COLUMNS, tuple(rows))


def _features(moments: GofResult | None) -> Mapping[str, list[MomentFeature]]:
    """Features about single parameters as named."""
    found: dict[str, list[MomentFeature]] = {}
    for feature in moments.features if isinstance(moments, MomentResult) else ():
        if feature.basis == "parameter" and len(feature.parameters) == 1:
            found.setdefault(feature.parameters[0], []).append(feature)
    return found


def _misfit(features: list[MomentFeature]) -> tuple[float, float, float]:
    """Shift in standard deviations, factor of the spread, smallest p-value."""
    return np.nan, np.nan, min((feature.pvalue for feature in features), default=np.nan)
