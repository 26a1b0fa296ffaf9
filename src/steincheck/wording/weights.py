"""What is wrong with the mode weights, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..result import Finding, FindingKind, FluxResult, ImportanceWeights, ModeTable
from ..result.mode_table import TOO_FEW, TOO_MANY
from ..target.parameter_scale import ParameterScale
from .locations import MAX_COORDINATES_NAMED

MANY_CHAINS = 10  # this many starting points represent the weights well more often than not
MAX_MODES_NAMED = 5  # findings about single modes; the mode table has the rest


def weight_findings(
    result: FluxResult,
    descriptions: Sequence[str],
    names: Sequence[str],
    scales: Mapping[str, ParameterScale],
    pvalue: float,
    factor: float = 1.0,
) -> list[Finding]:
    """What is wrong with the mode weights, missing modes first.

    `descriptions` say where the modes are, `names` are those of the coordinates, of which `scales` knows
    the user's parameters. The test has the adjusted `pvalue`; those of single modes are to be multiplied by
    `factor`.
    """
    table = result.mode_table
    if table is None:
        return [_wrong_flow(result, names, pvalue)]
    gap = np.nan_to_num(table.observed - table.implied).round(4)  # ties up to rounding count as equal
    order = np.lexsort((gap, -np.abs(gap)))
    wrong = [int(k) for k in order if table.words[k] in (TOO_MANY, TOO_FEW)]
    wrong.sort(key=lambda k: table.n_draws[k] > 0)
    if not wrong:
        parameters = [scales[name].parameter if name in scales else name for name in names]
        return [_wrong_as_a_whole(result, table, parameters, pvalue)]
    assert result.mode_pvalues is not None
    # a mode is named only if the test as a whole rejects too
    single = np.clip(factor * result.mode_pvalues, pvalue, 1.0)
    found = [_wrong_share(table, k, descriptions[k], float(single[k])) for k in wrong[:MAX_MODES_NAMED]]
    if rest := wrong[MAX_MODES_NAMED:]:
        text = f"And {len(rest)} more modes have wrong shares"
        found.append(Finding.without_size("mode share", None, float(single[rest].max()), text))
    return found


def weight_context(result: FluxResult) -> list[str]:
    """What shares of missing modes rest on, H0 for rarely visited ones, why a share has no interval."""
    table = result.mode_table
    if table is None:
        return []
    sentences = []
    from_elsewhere = (table.n_draws == 0) & np.isfinite(table.implied_interval[:, 0])
    if table.n_local is not None:
        from_elsewhere &= table.n_local == 0
    if from_elsewhere.any():
        sentences.append(
            "The share of a mode without draws is that of the density near draws mapped there: if its tails "
            "are heavier than those of the other modes, it is larger, and its interval is too short."
        )
    if result.chains is None:
        return sentences
    if result.set_hypothesis:
        sentences.append(result.set_hypothesis + _about_sampler(result))
    if np.isnan(table.observed_interval).any():
        sentences.append(
            "The share of the draws has no interval at a mode that no chain ever enters or leaves: it is "
            "that of the starting points."
        )
    return sentences


def share_context(repair: ImportanceWeights | None, *, shape_is_wrong: bool) -> list[str]:
    """Where mode weights are wrong: what `repair` would make of the draws, what the shares rest on."""
    sentences = []
    if repair is not None:
        sentences.append(
            "Importance weights, verdict.importance_weights, give the modes the shares of the density; the "
            f"effective sample size is then about {repair.effective_sample_size:.0f}."
        )
    if shape_is_wrong:
        sentences.append(
            "The shares that the density implies hold for draws of the right shape within modes, which these "
            "are not: small differences between shares may come from that."
        )
    return sentences


def _about_sampler(result: FluxResult) -> str:
    """What a rejection of the set means; nothing where chains were tested beside it."""
    chains = result.chains
    if chains is None or result.variant != "set":
        return ""
    few = chains.n_chains < MANY_CHAINS
    often = ": correct chains often fail" if few and not chains.n_changes else ""
    return f" A rejection says nothing about the sampler{often}."


def _wrong_share(table: ModeTable, k: int, where: str, pvalue: float) -> Finding:
    low, high = table.implied_interval[k]
    known = not np.isnan(low)
    missing = table.n_draws[k] == 0
    kind: FindingKind = "missing mode" if missing else "mode share"
    state = ""
    if missing:
        state = " is missing"
    elif known and table.observed_interval[k, 1] < 0.1 * low:
        state = " is nearly missing"
    more = "fewer" if table.words[k] == TOO_MANY else "more"
    says = f"{table.implied[k]:.1%} ({low:.1%} to {high:.1%})" if known else more
    text = f"Mode {k} ({where}){state}: {table.observed[k]:.1%} of the draws, but the density implies {says}"
    return Finding(kind, k, (), float(table.implied[k]), (float(low), float(high)), pvalue, text)


def _wrong_as_a_whole(result: FluxResult, table: ModeTable, names: Sequence[str], pvalue: float) -> Finding:
    text = "The mode weights are wrong, though no mode by itself stands out"
    if not result.trend_pvalue <= result.pvalue:
        return Finding.without_size("mode share", None, pvalue, text)
    assert result.net_flow is not None
    extent = np.ptp(table.locations, axis=0).clip(1e-300)
    shift = -result.net_flow @ table.locations / extent
    k = int(np.argmax(np.abs(shift)))
    side = "large" if shift[k] > 0 else "small"
    text += f": too many draws at modes with a {side} {names[k]}"
    return Finding.without_size("trend", None, pvalue, text, (names[k],))


def _wrong_flow(result: FluxResult, names: Sequence[str], pvalue: float) -> Finding:
    """The displacement of a lattice of modes along which the flow is farthest from balance."""
    lattice = result.lattice
    assert lattice is not None
    error = np.where(lattice.net_flow_se > 0, lattice.net_flow_se, np.inf)
    k = int(np.argmax(np.abs(lattice.net_flow) / error))
    step = lattice.displacements[k] * np.sign(lattice.net_flow[k])
    order = np.argsort(-np.abs(step), kind="stable")[:MAX_COORDINATES_NAMED]
    largest = [j for j in order if abs(step[j]) > 0.1 * np.abs(step).max()]
    direction = ", ".join(f"{names[j]} {step[j]:+.3g}" for j in largest)
    text = f"The mode weights are wrong: too little mass in direction ({direction})"
    return Finding.without_size("flow", None, pvalue, text, tuple(names[j] for j in largest))
