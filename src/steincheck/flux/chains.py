"""Weights of the modes from Markov chains: net flows under random signs of blocks.

Under H0 the chains are stationary with the target as distribution, and independent of each other. Net flows
then have mean 0 for any dependence between draws, and their sums over long blocks are nearly independent and
symmetric. Where the chains change mode too rarely for that, there is no test: the shares are facts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..chains.blocks import (
    Blocks,
    autocorrelation_time,
    block_signs,
    block_standard_error,
    block_sums,
    cut_blocks,
)
from ..result import ChainWeights, FluxReason, ModeTable
from .counts import (
    MIN_EXCHANGE,
    MIN_VARIANCE_FOR_CHI2,
    Directions,
    FlowComparison,
    ModeComparison,
    adjusted_for_number,
    directions,
    flow_pvalues,
    rank_forms,
)
from .displacements import StepFlows, unit_second_moments
from .orbits import CountMoments
from .shares import NEGLIGIBLE_SHARE

WEIGHTY_SHARE = 0.05  # modes that hold less together may be left out of the comparison


def n_sojourns(inside: np.ndarray, chain: np.ndarray) -> int:
    """Number of times the chains enter, or start in, a set of states, `inside` (n,) bool."""
    before = np.concatenate([[False], inside[:-1] & (chain[1:] == chain[:-1])])
    return int(np.sum(inside & ~before))


def min_sojourns(n_compared: int) -> int:
    """Sojourns that are needed at each of so many modes or displacements.

    With 8 sojourns at each of two modes the level .05 is .14; of many modes no single one decides.
    """
    return 10 if n_compared > 2 else 20


def slowest_time(mode: np.ndarray, chain: np.ndarray) -> float:
    """Autocorrelation time of the combination of mode indicators that the chains forget most slowly.

    It is (1 + l) / (1 - l), l the second largest eigenvalue of the matrix of transitions between the modes,
    made symmetric; infinite where the chains never change between some of the modes.
    """
    same_chain = chain[1:] == chain[:-1]
    visited, number = np.unique(mode, return_inverse=True)
    moves = np.zeros((len(visited), len(visited)))
    np.add.at(moves, (number[:-1][same_chain], number[1:][same_chain]), 1.0)
    moves += moves.T
    root = np.sqrt(moves.sum(axis=1).clip(1.0))
    second = float(np.linalg.eigvalsh(moves / np.outer(root, root))[-2].clip(0, 1))
    return (1 + second) / (1 - second) if second < 1 - 1e-12 else np.inf


def compare_chain_modes(
    moments: CountMoments,
    mode: np.ndarray,
    chain: np.ndarray,
    table: ModeTable,
    n_resamples: int,
    rng: np.random.Generator,
) -> ModeComparison:
    """Compare the weights of the modes that the chains visit often enough, if these are all that matter."""
    n, n_modes = moments.probabilities.shape
    net = (moments.expected - moments.counts) / n
    pvalues = np.full(n_modes, np.nan)
    summary = chain_summary(mode, chain, n_modes)
    often = np.flatnonzero(summary.sojourns >= min_sojourns(n_modes))
    rarely: FluxReason = "stuck chains" if summary.stuck else "few changes"
    untested = ModeComparison(FlowComparison(), net, pvalues, summary, rarely)
    if _only_one_matters(table, often):
        return untested._replace(reason="light modes")
    if not _often_enough(mode, chain, table, often):
        return untested
    flow, covariance = flows_within(often, moments.probabilities, mode)
    found = directions(covariance, table.locations[often], MIN_VARIANCE_FOR_CHI2)
    if found.variances.max() < MIN_EXCHANGE:
        return untested._replace(reason="nothing moves")
    features = flow @ found.columns
    blocks = cut_blocks(_slowest(features, found, chain), chain)
    if not blocks.enough:
        return untested
    net[often] = flow.mean(axis=0)
    error = block_standard_error(block_sums(flow - flow.mean(axis=0), blocks.label)) / n
    pvalues[often] = adjusted_for_number(flow_pvalues(net[often], error, blocks.n_blocks - 1))
    return ModeComparison(
        sign_flips(features, blocks, found, n_resamples, rng),
        net,
        pvalues,
        replace(
            summary,
            n_blocks=blocks.n_blocks,
            autocorrelation_time=blocks.autocorrelation_time,
            effective_sample_size=blocks.effective_sample_size,
        ),
    )


def _only_one_matters(table: ModeTable, often: np.ndarray) -> bool:
    """Whether there is nothing to compare: all modes but one are negligible, and none visited `often`."""
    return len(often) < 2 and np.sum(np.fmax(table.implied, table.observed) > NEGLIGIBLE_SHARE) < 2


def _often_enough(mode: np.ndarray, chain: np.ndarray, table: ModeTable, often: np.ndarray) -> bool:
    """Whether the modes visited `often` are all that matter, and the chains move fast enough between them."""
    rarely = np.setdiff1d(np.arange(len(table)), often)
    if len(often) < 2 or np.fmax(table.implied, table.observed)[rarely].sum() > WEIGHTY_SHARE:
        return False
    rows = np.isin(mode, often)
    # 40 are what 20 sojourns at each of two modes are worth (chain_flux_study, "eight in a row, slow")
    return bool(rows.sum() >= 40 * slowest_time(mode[rows], chain[rows]))


def chain_summary(mode: np.ndarray, chain: np.ndarray, n_modes: int) -> ChainWeights:
    """How the chains move between modes, with the mode of each draw (n,)."""
    sojourns = np.array([n_sojourns(mode == k, chain) for k in range(n_modes)])
    n_chains = int(chain.max()) + 1
    shares = np.zeros((n_chains, n_modes))
    np.add.at(shares, (chain, mode), 1.0)
    return ChainWeights(
        n_chains=n_chains,
        n_blocks=0,
        autocorrelation_time=np.nan,
        effective_sample_size=np.nan,
        n_changes=int(sojourns.sum()) - n_chains,
        sojourns=sojourns,
        shares=shares / shares.sum(axis=1, keepdims=True),
    )


def flows_within(
    modes: np.ndarray, probabilities: np.ndarray, mode: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Net flows (n, K) of the draws at these `modes` between them, and their covariance given the orbits.

    F_j = 1{c in G} (pi_j / pi_G - 1{c = j}) for j in the set G of modes has mean 0 under the target, for any
    weight of the others.
    """
    rows = np.flatnonzero(np.isin(mode, modes))
    inside = probabilities[np.ix_(rows, modes)]
    indicator = (mode[rows, None] == modes).astype(float)
    total = inside.sum(axis=1, keepdims=True)
    probability = np.where(total > 0, inside / np.where(total > 0, total, 1.0), indicator)
    flow = np.zeros((len(mode), len(modes)))
    flow[rows] = probability - indicator
    return flow, np.diag(probability.sum(axis=0)) - probability.T @ probability


def compare_chain_steps(
    flows: StepFlows, chain: np.ndarray, n_resamples: int, rng: np.random.Generator
) -> tuple[FlowComparison, Blocks]:
    """Compare flows along displacements with their values under block sign flips.

    The metric is that of their second moments, which no change of signs alters. A cut hides about the same
    part of the variance in all k directions, which moves the quadratic form by sqrt(k/2) times as much in
    its own standard deviations: with many directions chains are cut more rarely.
    """
    net = flows.net
    gate = min_sojourns(int(flows.clear.sum()))
    often = [min(n_sojourns(column > 0, chain), n_sojourns(column < 0, chain)) >= gate for column in net.T]
    usable = flows.clear & np.array(often, dtype=bool)
    features = unit_second_moments(net[:, usable]) if usable.any() else np.zeros((len(net), 0))
    k = features.shape[1]
    whole = Directions(np.empty((0, k)), np.empty(0), k, 0)
    tau = _slowest(features, whole, chain)
    # every cut hides a little variance in each of k directions: beyond 5, cut rarer
    rarer = max(1.0, np.sqrt(k / 5))
    blocks = replace(cut_blocks(rarer * tau, chain), autocorrelation_time=tau)
    if not k or not blocks.enough:
        return FlowComparison(), blocks
    return sign_flips(features, blocks, whole, n_resamples, rng), blocks


def _slowest(features: np.ndarray, found: Directions, chain: np.ndarray) -> float:
    """Autocorrelation time of the contributions h_t = f_t' sum f, and of their trend part if examined."""
    parts = [features]
    if found.trend_examined:
        parts.append(features[:, : found.n_trend])
    return max(autocorrelation_time(part @ part.sum(axis=0), chain) for part in parts)


def sign_flips(
    features: np.ndarray, blocks: Blocks, found: Directions, n_resamples: int, rng: np.random.Generator
) -> FlowComparison:
    """|sum f|^2 ranked among its values with a random sign per block."""
    sums = block_sums(features, blocks.label)
    signs = block_signs(blocks.n_blocks, n_resamples, rng)
    return rank_forms(np.vstack([sums.sum(axis=0), signs @ sums]), found)
