"""Modes on a lattice too large to be listed: displacements between them, and the flows along these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .._whitening import average_root, symmetric_roots, whitened
from ..result import Modes
from ..stein.bootstrap import pvalue
from ..target import Target, log_density_at
from .anchors import mode_anchors, shape_difference
from .counts import FlowComparison, Variant
from .orbits import MAX_ELEMENTS

MAX_DROP = 3.0  # nats by which the next mode of a lattice may be lower
NEGLIGIBLE_DROP = 7.0  # nats below the highest mode: unlisted modes of 1/1000 of its weight do not matter
DRAWS_PER_DISPLACEMENT = 10  # at most one displacement for so many draws, the shortest first


class StepFlows(NamedTuple):
    """Moves of every draw along and against each displacement."""

    steps: np.ndarray  #: (V, d)
    accept: np.ndarray  #: (n, 2, V) probability of accepting the move along and against
    clear: np.ndarray  #: (V,) bool: enough draws contribute

    @property
    def net(self) -> np.ndarray:
        """Forth minus back, (n, V): mean 0 under the target."""
        return self.accept[:, 0] - self.accept[:, 1]


def lattice_steps(target: Target, modes: Modes) -> np.ndarray | None:
    """The shortest displacements that generate all others between modes of one shape, (V, d).

    None unless they are fewer than the M - 1 that generate the displacements between any M points by integer
    combinations, and one of them leads to a mode of non-negligible weight that is not listed: then the modes
    are part of a larger lattice. Lengths are measured by the covariance of the modes, no axis is special.
    """
    if shape_difference(modes.covariances) > 0.1:  # the modes of a lattice have one shape
        return None
    root = average_root(modes.covariances)
    z = whitened(modes.locations, root)
    basis = _generators(z)
    if basis is None or not _leads_further(target, modes, z, basis, root):
        return None
    return basis @ root.T


def _generators(z: np.ndarray) -> np.ndarray | None:
    """Differences of points z (M, d), the shortest first, none an integer combination of those before."""
    first, second = np.triu_indices(min(len(z), 256), 1)  # pairs of the first 256 modes
    left = z[second] - z[first]
    left = left[np.argsort(np.linalg.norm(left, axis=1), kind="stable")]
    basis = np.empty((0, z.shape[1]))
    while len(left):
        basis = np.concatenate([basis, left[:1]])
        if len(basis) >= len(z) - 1:
            return None
        whole = np.rint(left @ np.linalg.pinv(basis))
        # equal up to .3 standard deviations
        left = left[np.linalg.norm(left - whole @ basis, axis=1) > 0.3]
    return basis


def _leads_further(target: Target, modes: Modes, z: np.ndarray, basis: np.ndarray, root: np.ndarray) -> bool:
    """Whether a displacement leads from a listed mode to one of non-negligible weight that is not listed."""
    both = np.concatenate([basis, -basis])
    ahead = (z[:, None] + both).reshape(-1, z.shape[1])
    unlisted = np.array([np.min(np.sum((z - point) ** 2, axis=1)) > 1 for point in ahead])
    here = np.repeat(modes.log_density, len(both))
    along = np.tile(both / np.linalg.norm(both, axis=1, keepdims=True), (len(z), 1))
    before, there, behind = (
        log_density_at(target, (ahead + shift * along) @ root.T, proposal=True) for shift in (-1, 0, 1)
    )
    another = unlisted & (there > here - MAX_DROP) & (there > np.maximum(before, behind))
    return bool(np.any(another & (there > modes.log_density.max() - NEGLIGIBLE_DROP)))


def share_at_listed_modes(x: np.ndarray, log_p: np.ndarray, modes: Modes) -> float:
    """Share of the draws whose log density is not far above the Gaussian of the nearest listed mode."""
    anchors = mode_anchors(modes)
    home = anchors.largest(x)
    inverse = symmetric_roots(anchors.covariances).inverse
    gap = np.einsum("nij,nj->ni", inverse[home], x - anchors.centres[home])
    height = modes.log_density[home] - 0.5 * np.sum(gap**2, axis=1)
    return float(np.mean(log_p - height < MAX_DROP))


def step_flows(x: np.ndarray, log_p: np.ndarray, target: Target, steps: np.ndarray) -> StepFlows:
    """Probability of every draw, with log density `log_p` (n,), of accepting each step along and against it.

    A step is clear if enough draws contribute, (sum a)^2 / sum a^2. The squares are averaged with
    min(r, 1/r), r the ratio of the densities, which has the same mean under H0: so they do not vanish where
    one side of a step happens to have no draws.
    """
    n, d = x.shape
    both = np.stack([steps, -steps])
    log_ratio = np.empty((n, *both.shape[:2]))
    rows = max(1, MAX_ELEMENTS // both.size)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        there = log_density_at(target, (x[part, None, None] + both).reshape(-1, d), proposal=True)
        log_ratio[part] = there.reshape(-1, *both.shape[:2]) - log_p[part, None, None]
    accept = np.exp(np.minimum(log_ratio, 0.0))
    squares = 0.5 * np.sum(accept**2 + np.exp(-np.abs(log_ratio)), axis=(0, 1))
    # at least 25 draws must contribute to a displacement
    clear = (squares > 0) & (np.sum(accept, axis=(0, 1)) ** 2 >= 25.0 * squares)
    return StepFlows(steps, accept, clear)


def compare_steps(
    flows: StepFlows, variant: Variant, n_resamples: int, rng: np.random.Generator
) -> FlowComparison:
    """Compare the flows of independent draws along the displacements with those against them."""
    clear = flows.clear
    if variant == "asymptotic" and clear.any() and len(flows.accept) >= DRAWS_PER_DISPLACEMENT * clear.sum():
        return hotelling(flows.net[:, clear])
    return sign_test(flows.accept, n_resamples, rng)


def hotelling(flow: np.ndarray) -> FlowComparison:
    """Hotelling's T2 of the means of the columns of `flow` (n, V).

    From second moments about 0, which do not vanish if all draws flow alike: T0 = n m' S0^+ m lies in [0, n]
    and T2 = (n - 1) T0 / (n - T0).
    """
    n = len(flow)
    white = unit_second_moments(flow)
    k = white.shape[1]
    t0 = n * float(np.sum(white.mean(axis=0) ** 2))
    ratio = t0 / max(n - t0, 1e-12 * n)
    return FlowComparison((n - 1) * ratio, float(special.fdtrc(k, n - k, (n - k) / k * ratio)), None, k)


def unit_second_moments(flow: np.ndarray) -> np.ndarray:
    """Combinations (n, k) of the columns of `flow` (n, V) with second moments S0 = I.

    The rank k is the number of eigenvalues of the scaled second moments above 1e-10 of the largest.
    """
    n = len(flow)
    unit = flow / np.sqrt(np.mean(flow**2, axis=0))
    values, vectors = np.linalg.eigh(unit.T @ unit / n)
    kept = values > 1e-10 * values[-1]
    return unit @ (vectors[:, kept] / np.sqrt(values[kept]))


def sign_test(accept: np.ndarray, size: int, rng: np.random.Generator) -> FlowComparison:
    """Draw one jump per draw; given how many accept step v, forth or back, those forth are Bin(N_v, 1/2).

    The statistic is the sum over v of (forth - back)^2 / N_v, with `size` values of it under H0; its degrees
    of freedom are the v with an accepted jump.
    """
    n, _, count = accept.shape
    jump = rng.integers(2 * count, size=n)
    moved = jump[rng.random(n) < accept.reshape(n, -1)[np.arange(n), jump]]
    forth, back = np.bincount(moved, minlength=2 * count).reshape(2, count)
    total = forth + back
    if not total.any():
        return FlowComparison()
    spread = np.maximum(total, 1)
    null = np.sum((2 * rng.binomial(total, 0.5, size=(size, count)) - total) ** 2 / spread, axis=1)
    statistic = float(np.sum((2 * forth - total) ** 2 / spread))
    return FlowComparison(statistic, pvalue(statistic * (1 - 1e-9), null), null, int(np.sum(total > 0)))
