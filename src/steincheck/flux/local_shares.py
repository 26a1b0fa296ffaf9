"""Implied shares of modes that hardly any draw shows: short chains, started there, stand in for the draws.

Draws mapped to a mode from elsewhere tell its mass only as far as they reach. If its tails are heavier, what
lies beyond is missed and no standard error shows it. With points of the mode itself the estimate is
two-sided (Bennett 1976), and both of its means are of bounded functions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import special

from ..chains.blocks import block_standard_error, block_sums
from ..modes.images import images_of_modes
from ..result import Modes, ModeTable
from ..target import Target, log_density_at
from .anchors import Anchors
from .local_chains import LEAPFROG_STEPS, MIN_WALKERS, N_TRANSITIONS, local_chains
from .orbits import Orbits, orbits
from .shares import (
    MODE_TABLE_LEVEL,
    NEGLIGIBLE_SHARE,
    ImpliedShares,
    implied_shares,
    share_intervals,
    standard_error,
)

MIN_DRAWS_FOR_SHAPE = 30  # at a mode: fewer do not show how heavy its tails are
MAX_WALKERS = 64  # per mode
MAX_SCORES = 250_000  # in all: 64 walkers at four modes


class LocalPoints(NamedTuple):
    """Points of chains that start at modes and stay there."""

    orbits: Orbits
    walker: np.ndarray  #: (m,) the chain of each point, numbered over all modes


def with_local_points(
    table: ModeTable,
    found: Orbits,
    target: Target,
    modes: Modes,
    anchors: Anchors,
    chain: np.ndarray | None,
    rng: np.random.Generator,
) -> ModeTable:
    """The table with implied shares that rest on local chains too, where modes of some share lack draws.

    The observed shares, and what the test says about them, stay as they are.
    """
    lacking = np.flatnonzero((table.n_draws < MIN_DRAWS_FOR_SHAPE) & (table.implied > NEGLIGIBLE_SHARE))
    local = _local_points(target, modes, anchors, lacking, rng) if len(lacking) else None
    if local is None:
        return table
    compared = np.flatnonzero(np.isfinite(table.implied))
    rows = np.isin(found.mode, compared)
    mode = np.concatenate([found.mode[rows], local.orbits.mode])
    log_weight = np.concatenate([found.log_weight[rows], local.orbits.log_weight])[:, compared]
    estimate = implied_shares(log_weight, np.searchsorted(compared, mode))
    error, quantile = _two_part_error(estimate, local, None if chain is None else chain[rows])
    implied = table.implied.copy()
    implied[compared] = estimate.share
    interval = table.implied_interval.copy()
    interval[compared] = share_intervals(estimate.share, error, quantile)
    n_local = np.bincount(local.orbits.mode, minlength=len(modes))
    return replace(table, implied=implied, implied_interval=interval, n_local=n_local)


def _local_points(
    target: Target, modes: Modes, anchors: Anchors, lacking: np.ndarray, rng: np.random.Generator
) -> LocalPoints | None:
    """Points of chains at the modes that lack draws; None if they cost too much or left the modes.

    Where a symmetry of the density carries one mode upon another, the chains of one serve both.
    """
    sources = images_of_modes(target, modes, rng.spawn(1)[0])
    origin = {k: k if (source := sources[k]) is None else source.mode for k in lacking.tolist()}
    originals = sorted(set(origin.values()))
    n_walkers = _affordable_walkers(target, len(originals))
    if n_walkers < MIN_WALKERS:
        return None
    clouds = local_chains(
        target, modes.locations[originals], modes.covariances[originals], rng, n_walkers=n_walkers
    )
    n_points = clouds.shape[1]
    points, walker = [], []
    for k in lacking.tolist():
        number = originals.index(origin[k])
        source = sources[k]
        points.append(clouds[number] if source is None else source.symmetry(clouds[number]))
        # images of one chain are one chain
        walker.append(number * n_walkers + np.arange(n_points) % n_walkers)
    x = np.concatenate(points)
    there = orbits(x, log_density_at(target, x), target, anchors)
    stayed = there.mode == np.repeat(lacking, n_points)
    if not stayed.any():
        return None
    kept = Orbits(there.mode[stayed], there.log_weight[stayed], there.radius[stayed])
    return LocalPoints(kept, np.concatenate(walker)[stayed])


def _affordable_walkers(target: Target, n_modes: int) -> int:
    """Walkers per mode that take at most `MAX_SCORES` scores, or as many finite differences."""
    per_score = 1 if target.score is not None else 2 * target.dim
    return min(MAX_WALKERS, MAX_SCORES // (N_TRANSITIONS * LEAPFROG_STEPS * per_score * n_modes))


def _two_part_error(
    estimate: ImpliedShares, local: LocalPoints, chain: np.ndarray | None
) -> tuple[np.ndarray, float]:
    """Standard error (M,) of log shares from draws and local points, and the quantile that belongs to it.

    The draws and the points of each mode are samples of fixed sizes: influences are centred within each.
    """
    n = len(estimate.influence)
    n_local = len(local.walker)
    of_draws, of_points = np.split(estimate.influence, [n - n_local])
    error, quantile = standard_error(of_draws - of_draws.mean(axis=0), chain)
    for k in np.unique(local.orbits.mode):
        here = local.orbits.mode == k
        of_points[here] -= of_points[here].mean(axis=0)
    by_walker = np.argsort(local.walker, kind="stable")
    sums = block_sums(of_points[by_walker], local.walker[by_walker])
    total = np.hypot(error * (n - n_local), block_standard_error(sums)) / n
    return total, max(quantile, float(special.stdtrit(max(len(sums) - 1, 1), 1 - MODE_TABLE_LEVEL / 2)))
