"""What is wrong with the mode weights: findings of the flux test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..result import Finding, FindingKind, FluxResult, ModeTable
from ..target.parameter_scale import ParameterScale
from ..wording.flux import more_wrong_shares, wrong_flow, wrong_share, wrong_weights


def weight_findings(
    result: FluxResult,
    descriptions: Sequence[str],
    names: Sequence[str],
    scales: Mapping[str, ParameterScale],
    pvalue: float,
    factor: float = 1.0,
) -> list[Finding]:
    """What is wrong with the mode weights, missing modes first; five modes at most are named.

    `descriptions` say where the modes are, `names` are those of the coordinates, of which `scales` knows
    the user's parameters. The test has the adjusted `pvalue`; those of single modes are to be multiplied by
    `factor`.
    """
    table = result.mode_table
    if table is None:
        return [_flow_finding(result, names, pvalue)]
    gap = np.nan_to_num(table.error).round(4)  # ties up to rounding count as equal
    order = np.lexsort((gap, -np.abs(gap)))
    wrong = [int(k) for k in order if table.words[k] in ("too many draws", "too few draws")]
    wrong.sort(key=lambda k: table.n_draws[k] > 0)
    if not wrong or result.mode_pvalues is None:
        parameters = [scales[name].parameter if name in scales else name for name in names]
        return [_whole_finding(result, table, parameters, pvalue)]
    # a mode is named only if the test as a whole rejects too
    single = np.clip(factor * result.mode_pvalues, pvalue, 1.0)
    found = [_share_finding(table, k, descriptions[k], float(single[k])) for k in wrong[:5]]
    if rest := wrong[5:]:
        text = more_wrong_shares(len(rest))
        found.append(Finding.without_size("mode share", None, float(single[rest].max()), text))
    return found


def _share_finding(table: ModeTable, k: int, where: str, pvalue: float) -> Finding:
    low, high = table.implied_interval[k].tolist()
    kind: FindingKind = "missing mode" if table.n_draws[k] == 0 else "mode share"
    return Finding(kind, k, (), float(table.implied[k]), (low, high), pvalue, wrong_share(table, k, where))


def _whole_finding(result: FluxResult, table: ModeTable, names: Sequence[str], pvalue: float) -> Finding:
    """No mode stands out: a trend of the weights over the mode locations, if that is what was seen."""
    if result.net_flow is None or not result.trend_pvalue <= result.pvalue:
        return Finding.without_size("mode share", None, pvalue, wrong_weights())
    extent = np.ptp(table.locations, axis=0).clip(1e-300)
    shift = -result.net_flow @ table.locations / extent
    k = int(np.argmax(np.abs(shift)))
    text = wrong_weights(f"{'large' if shift[k] > 0 else 'small'} {names[k]}")
    return Finding.without_size("trend", None, pvalue, text, (names[k],))


def _flow_finding(result: FluxResult, names: Sequence[str], pvalue: float) -> Finding:
    """The displacement along which the flow is farthest from balance, by its three largest coordinates."""
    lattice = result.lattice
    assert lattice is not None
    error = np.where(lattice.net_flow_se > 0, lattice.net_flow_se, np.inf)
    k = int(np.argmax(np.abs(lattice.net_flow) / error))
    step = lattice.displacements[k] * np.sign(lattice.net_flow[k])
    order = np.argsort(-np.abs(step), kind="stable")[:3]
    largest = [(names[j], float(step[j])) for j in order if abs(step[j]) > 0.1 * np.abs(step).max()]
    parameters = tuple(name for name, _ in largest)
    return Finding.without_size("flow", None, pvalue, wrong_flow(largest), parameters)
