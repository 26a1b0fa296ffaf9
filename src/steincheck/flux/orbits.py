"""Anchors, to which the flux test carries draws, and orbits: where else draws could be, and what that says.

An anchor is a Gaussian. One per mode, with the mode's inverse Hessian, is enough where modes are elliptic.
Rings and bananas need several: short local chains, started at the modes and independent of any draws, are cut
into clusters. Modes on a lattice too large to be listed have displacements in common instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from .._whitening import Gaussians, average_root, symmetric_roots, whitened
from ..chains.blocks import autocorrelation_time, block_sums, cut_blocks
from ..chains.reading import Sample
from ..perturbation.hamiltonian import Trajectory, Walkers, hamiltonian_transition
from ..result import ImportanceWeights, Modes, ModeTable
from ..target import Target, log_density_at
from ..target.evaluation import Budget, CountedTarget

MAX_DROP = 3.0  # nats by which the next mode of a lattice may be lower, or a draw higher than its mode
MAX_ELEMENTS = 4_000_000  # numbers in the largest temporary array
NEGLIGIBLE_SHARE = 0.01  # of a mode that may have no draws, or go unexamined


@dataclass(frozen=True, eq=False)
class Anchors(Gaussians):
    """Gaussians between which draws are moved, sorted by mode."""

    mode: np.ndarray  #: (K,) the mode each belongs to


def mode_anchors(modes: Modes) -> Anchors:
    """One anchor per mode: location, inverse Hessian (their mean where all agree) and Laplace weight."""
    covariances = modes.covariances
    if shape_difference(covariances) <= 0.01:  # equal but for how they were found
        covariances = np.repeat(covariances.mean(axis=0)[None], len(modes), axis=0)
    log_weight = modes.log_density + symmetric_roots(covariances).half_log_det
    return Anchors(modes.locations, covariances, log_weight - log_weight.max(), np.arange(len(modes)))


def shape_difference(covariances: np.ndarray) -> float:
    """Largest entry of A^(-1/2) A_k A^(-1/2) - 1, A the mean of the covariances (M, d, d)."""
    whiten = symmetric_roots(covariances.mean(axis=0)).inverse
    return float(np.abs(whiten @ covariances @ whiten - np.eye(len(whiten))).max())


def local_anchors(
    target: Target, modes: Modes, n_anchors: int, rng: np.random.Generator, budget: Budget
) -> Anchors | None:
    """Several anchors per mode, from short Hamiltonian chains; None if a quarter of the budget is too little.

    The chains know nothing of the tested draws, and need not be exact: with any anchors the flux test keeps
    its level. Points nearer to another mode are dropped; a mixture of `n_anchors` Gaussians is fitted to the
    others. A mode whose chains left it keeps its single anchor.
    """
    chain_stream, cluster_stream = rng.spawn(2)
    count = len(modes)
    density = CountedTarget(target, budget)
    cost = 60 * (1 + 16 * density.score_cost)  # of 60 transitions with 16 scores each
    # with four anchors in ten dimensions 8 are enough to fit
    n_walkers = int(min(np.clip(1024 // count, 8, 64), budget.left / 4 // (count * cost)))
    if n_walkers < 8:
        return None
    single = mode_anchors(modes)
    parts = []
    for k, cloud in enumerate(local_chains(density, modes, n_walkers, chain_stream)):
        home = cloud[single.largest(cloud) == k]
        fitted = _fitted_gaussians(home, len(cloud), modes.covariances[k], n_anchors, cluster_stream)
        parts.append(fitted or Gaussians(single.centres[[k]], single.covariances[[k]], np.zeros(1)))
    return Anchors(
        np.concatenate([part.centres for part in parts]),
        np.concatenate([part.covariances for part in parts]),
        np.concatenate([part.log_weight for part in parts]),
        np.repeat(np.arange(count), [len(part.centres) for part in parts]),
    )


def _fitted_gaussians(
    home: np.ndarray, n_points: int, covariance: np.ndarray, n_anchors: int, rng: np.random.Generator
) -> Gaussians | None:
    """Gaussians fitted to the points of a mode's chains that stayed at it; None if these are too few."""
    n, d = home.shape
    if n <= max(n_points / 2, 4 * n_anchors * d) or np.ptp(home, axis=0).min() == 0:
        return None
    z = home / np.maximum(home.std(axis=0), np.finfo(float).tiny)
    seeds = z[[rng.integers(n)]]
    for _ in range(1, n_anchors):  # seeds that lie apart (k-means++)
        squared = ((z[:, None] - seeds) ** 2).sum(axis=2).min(axis=1)
        seeds = np.concatenate([seeds, z[[rng.choice(n, p=squared / squared.sum())]]])
    nearest = ((z[:, None] - seeds) ** 2).sum(axis=2).argmin(axis=1)
    return fit_mixture(home, np.eye(n_anchors)[nearest], 0.01 * np.linalg.eigvalsh(covariance)[0])


def fit_mixture(x: np.ndarray, share: np.ndarray, floor: float) -> Gaussians | None:
    """Expectation maximisation from `share` (n, K) at x (n, d); None if one is too small or too wide."""
    n, d = x.shape
    for _ in range(15):  # enough for anchors, which need not be the best mixture
        size = share.sum(axis=0)
        if size.min() <= 2 * d:
            return None
        centres = (share.T @ x) / size[:, None]
        gaps = x - centres[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            covariances = (gaps * share.T[:, :, None]).transpose(0, 2, 1) @ gaps / size[:, None, None]
        covariances += floor * np.eye(d)
        if not np.isfinite(covariances).all():  # squares of very heavy tails
            return None
        fitted = Gaussians(centres, covariances, np.log(size / n))
        share = special.softmax(fitted.heights(x), axis=1)
    return fitted


def local_chains(density: CountedTarget, modes: Modes, size: int, rng: np.random.Generator) -> np.ndarray:
    """Points (M, 30 * size, d) of Hamiltonian chains, `size` per mode, that start at the modes.

    The first half of the 60 transitions adapts the step. Transitions alternate between two metrics: the
    inverse Hessian of the mode, good where the mode is an ellipse however narrow, and a multiple of the
    identity, good where it is a thin ring.
    """
    count, d = modes.locations.shape
    roots = symmetric_roots(modes.covariances).root
    metrics = (roots, np.eye(d) * np.linalg.eigvalsh(roots)[:, :1, None])
    steps = np.array([np.full(count, 0.5), np.ones(count)])
    # near the mode: low energy, so that no chain is flung into another
    x = modes.locations[:, None] + 0.1 * rng.standard_normal((count, size, d)) @ roots
    kept = []
    with np.errstate(all="ignore"):  # a trajectory that runs away is rejected
        walkers = Walkers(x, *density.log_density_and_score(x))
        for transition in range(60):
            parity = transition % 2
            stride = steps[parity][:, None, None] * np.exp(rng.uniform(-0.5, 0.2, size=(count, size, 1)))
            trajectory = Trajectory(metrics[parity], stride, 16)
            walkers, accepted = hamiltonian_transition(walkers, density, trajectory, rng)
            adapting = transition < 30
            # .65 is optimal for Hamiltonian Monte Carlo (Beskos et al. 2013)
            steps[parity] *= np.exp((0.5 if adapting else 0.05) * (accepted.mean(axis=1) - 0.65))
            if not adapting:
                kept.append(walkers.x)
    return np.concatenate(kept, axis=1)


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
    return basis @ root.T if _leads_further(target, modes, z, basis, root) else None


def _leads_further(target: Target, modes: Modes, z: np.ndarray, basis: np.ndarray, root: np.ndarray) -> bool:
    """Whether a displacement leads from a listed mode to one of non-negligible weight that is not listed."""
    both = np.concatenate([basis, -basis])
    ahead = (z[:, None] + both).reshape(-1, z.shape[1])
    unlisted = np.array([np.min(np.sum((z - point) ** 2, axis=1)) > 1 for point in ahead])
    here = np.repeat(modes.log_density, len(both))
    along = np.tile(both / np.linalg.norm(both, axis=1, keepdims=True), (len(z), 1))
    points = [(ahead + shift * along) @ root.T for shift in (-1, 0, 1)]
    before, there, behind = (log_density_at(target, x, proposal=True) for x in points)
    another = unlisted & (there > here - MAX_DROP) & (there > np.maximum(before, behind))
    # modes that are 7 nats lower have 1/1000 of the weight of the highest
    return bool(np.any(another & (there > modes.log_density.max() - 7)))


def share_at_listed_modes(x: np.ndarray, log_p: np.ndarray, modes: Modes) -> float:
    """Share of the draws whose log density is not far above the Gaussian of the nearest listed mode."""
    anchors = mode_anchors(modes)
    home = anchors.largest(x)
    gap = np.einsum("nij,nj->ni", anchors.roots.inverse[home], x - anchors.centres[home])
    height = modes.log_density[home] - 0.5 * np.sum(gap**2, axis=1)
    return float(np.mean(log_p - height < MAX_DROP))


class Orbits(NamedTuple):
    """Where the draws are, and where else they could be."""

    mode: np.ndarray  #: (n,) the mode of each draw
    log_weight: np.ndarray  #: (n, M) log of the mass the density puts on the draw's image at each mode
    weight: np.ndarray  #: (n,) of the draws, with mean square 1


class CountMoments(NamedTuple):
    """Number of draws at each mode, each counted by its weight, and its moments given the orbits."""

    counts: np.ndarray  #: (M,)
    expected: np.ndarray  #: (M,) if the draws fit
    covariance: np.ndarray  #: (M, M)
    probabilities: np.ndarray  #: (n, M) of each mode, given the orbit
    efficiency: float = np.nan  #: share of the variance that the orbits leave open: at 0 nothing moves


def carry_to_anchors(sample: Sample, target: Target, anchors: Anchors) -> Orbits:
    """Carry every draw to all anchors and weigh the images.

    A draw x whose largest Gaussian is k has the standardised position u = A_k^(-1/2) (x - mu_k). Its image at
    l, A_l^(1/2) u + mu_l, counts where l has the largest Gaussian, with the mass p(image) det A_l^(1/2).
    """
    x = sample.x
    n = len(x)
    count, d = anchors.centres.shape
    home = anchors.largest(x)
    log_weight = np.empty((n, count), order="F")  # sums over modes are faster
    rows = max(1, MAX_ELEMENTS // (count * d))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        log_weight[part] = _log_density_of_images(x[part], home[part], anchors, target)
    log_weight[np.arange(n), home] = sample.log_p
    log_weight += anchors.roots.half_log_det
    first = np.flatnonzero(np.diff(anchors.mode, prepend=-1))  # anchor of each mode
    if len(first) < count:
        log_weight = np.logaddexp.reduceat(log_weight, first, axis=1)
    weight = np.ones(n) if sample.weight is None else sample.weight / np.sqrt(np.mean(sample.weight**2))
    return Orbits(anchors.mode[home], log_weight, weight)


def _log_density_of_images(x: np.ndarray, home: np.ndarray, anchors: Anchors, target: Target) -> np.ndarray:
    """log p (n, K) at the images of x (n, d); -inf where another anchor's Gaussian is larger."""
    n, d = x.shape
    root, inverse, _ = anchors.roots
    u = x - anchors.centres[home]
    for k in np.unique(home):
        u[home == k] = u[home == k] @ inverse[k]
    images = (u @ root.transpose(1, 0, 2).reshape(d, -1)).reshape(n, -1, d) + anchors.centres
    counted = np.stack([anchors.largest(images[:, k]) == k for k in range(images.shape[1])], axis=1)
    counted[np.arange(n), home] = False  # the draw itself, whose log density is known
    log_p = np.full(counted.shape, -np.inf)
    if counted.any():
        log_p[counted] = log_density_at(target, images[counted], proposal=True)
    return log_p


class StepFlows(NamedTuple):
    """Moves of every draw along and against each displacement."""

    steps: np.ndarray  #: (V, d)
    accept: np.ndarray  #: (n, 2, V) probability of accepting the move along and against
    clear: np.ndarray  #: (V,) bool: enough draws contribute
    weight: np.ndarray | float = 1.0  #: (n,) of the draws

    @property
    def net(self) -> np.ndarray:
        """Forth minus back, times the weight, (n, V): mean 0 under the target."""
        return np.reshape(self.weight, (-1, 1)) * (self.accept[:, 0] - self.accept[:, 1])


def carry_along_steps(sample: Sample, target: Target, steps: np.ndarray) -> StepFlows:
    """Probability of every draw of accepting each of the steps (V, d) along and against it.

    A step is clear if enough draws contribute, (sum a)^2 / sum a^2. The squares are averaged with
    min(r, 1/r), r the ratio of the densities, which has the same mean under H0: so they do not vanish where
    one side of a step happens to have no draws.
    """
    n, d = sample.x.shape
    both = np.stack([steps, -steps])
    log_ratio = np.empty((n, *both.shape[:2]))
    rows = max(1, MAX_ELEMENTS // both.size)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        images = (sample.x[part, None, None] + both).reshape(-1, d)
        there = log_density_at(target, images, proposal=True).reshape(-1, *both.shape[:2])
        log_ratio[part] = there - sample.log_p[part, None, None]
    accept = np.exp(np.minimum(log_ratio, 0.0))
    squares = 0.5 * np.sum(accept**2 + np.exp(-np.abs(log_ratio)), axis=(0, 1))
    # at least 25 draws must contribute to a displacement
    clear = (squares > 0) & (np.sum(accept, axis=(0, 1)) ** 2 >= 25.0 * squares)
    return StepFlows(steps, accept, clear, 1.0 if sample.weight is None else sample.weight)


def count_moments(found: Orbits) -> CountMoments:
    """What the orbits say about the number of draws at each mode."""
    probabilities = special.softmax(found.log_weight, axis=1)
    weighted = found.weight[:, None] * probabilities
    expected = weighted.sum(axis=0)
    covariance = np.diag((found.weight[:, None] * weighted).sum(axis=0)) - weighted.T @ weighted
    counts = np.bincount(found.mode, found.weight, minlength=len(expected))
    share = expected / expected.sum()
    whole = len(found.mode) * (1 - np.sum(share**2))
    efficiency = float(np.trace(covariance) / whole) if whole > 0 else 0.0
    return CountMoments(counts, expected, covariance, probabilities, efficiency)


def mode_table(found: Orbits, group: np.ndarray, locations: np.ndarray, sample: Sample) -> ModeTable:
    """Observed shares, and those the density implies, among the modes that exchange draws.

    `group` (M,) numbers the groups of modes that exchange draws; the implied shares are known in the one with
    the most draws. Words come later.
    """
    n_modes = len(group)
    counts = np.bincount(found.mode, minlength=n_modes)
    observed = np.bincount(found.mode, found.weight, minlength=n_modes) / found.weight.sum()
    implied = np.full(n_modes, np.nan)
    interval = np.full((n_modes, 2), np.nan)
    covariance = np.full((n_modes, n_modes), np.nan)
    main = np.flatnonzero(group == np.argmax(np.bincount(group, counts)))
    if len(main) > 1:
        rows = np.isin(found.mode, main)
        mode = np.searchsorted(main, found.mode[rows])
        share, influence = implied_shares(found.log_weight[np.ix_(rows, main)], mode, found.weight[rows])
        of_logs, quantile = influence_covariance(influence, sample.rows(np.flatnonzero(rows)))
        implied[main] = share
        interval[main] = share_intervals(share, quantile * np.sqrt(np.diag(of_logs)))
        covariance[np.ix_(main, main)] = np.outer(share, share) * of_logs
    return ModeTable(locations, counts, observed, implied, interval, covariance)


def implied_shares(
    log_weight: np.ndarray, mode: np.ndarray, weight: np.ndarray | float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the density at M modes from draws at modes `mode` (n,), with masses `log_weight` (n, M).

    Also their influences (n, M): the errors of the log shares are the means of these over the draws.

    Bennett's estimate for many states: the tilts t_k of the masses of the modes with draws maximise the
    likelihood of the modes of the draws given their orbits, with probabilities proportional to t_k w_k; draws
    count by their `weight` (n,). The mass of mode k, with draws or without, is then the mean of
    w_k / sum_l t_l w_l.

    References
    ----------
    Bennett (1976). Efficient estimation of free energy differences from Monte Carlo data. J. Comput. Phys.
    22, 245-268.
    Shirts and Chodera (2008). Statistically optimal analysis of samples from multiple equilibrium states. J.
    Chem. Phys. 129, 124105.
    """
    n = len(mode)
    weight = np.broadcast_to(weight, n)
    counts = np.bincount(mode, weight, minlength=log_weight.shape[1])
    largest = log_weight[:, counts > 0].max(axis=1, keepdims=True)
    mass = np.exp(np.minimum(log_weight - largest, 700))
    tilt = (counts > 0).astype(float)
    for _ in range(50):  # Newton's method for the log tilts
        ratio = mass / (mass @ tilt)[:, None]
        weighted = weight[:, None] * ratio
        total = weighted.sum(axis=0)
        information = np.diag(tilt * total) - tilt[:, None] * (weighted.T @ ratio) * tilt
        inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
        step = inverse @ (counts - tilt * total)
        if np.abs(step).max() < 1e-8:
            break
        tilt *= np.exp(np.clip(step, -2, 2))
    share = total / total.sum()
    # the influence of a draw: its own term, and that through the tilts
    through_tilts = n * inverse @ (tilt[:, None] * (weighted.T @ ratio) / total)
    influence = ratio @ (np.diag(n / total) + tilt[:, None] * through_tilts) - through_tilts[mode]
    influence = weight[:, None] * (influence - n / weight.sum())
    return share, influence - (influence @ share)[:, None]


def influence_covariance(influence: np.ndarray, sample: Sample) -> tuple[np.ndarray, float]:
    """Covariance of the means of `influence` (n, M), and half of the 95 % intervals in standard errors.

    Chains are cut by the largest autocorrelation time of the columns; groups of draws are blocks as they are.
    Sums over q blocks are nearly independent: Student's t with q - 1 degrees of freedom. A single block says
    nothing.
    """
    n, n_modes = influence.shape
    label, share = (sample.group, None) if sample.threads is None else sample.threads
    if sample.chain is not None:
        label = cut_blocks(float(np.max(autocorrelation_time(influence, sample.chain))), sample.chain).label
    if label is None:
        return influence.T @ influence / n**2, float(special.ndtri(0.975))
    sums = block_sums(influence, label, share)
    q = len(sums)
    if q < 2:
        return np.full((n_modes, n_modes), np.inf), 1.0
    return q / (q - 1) * sums.T @ sums / n**2, float(special.stdtrit(q - 1, 0.975))


def share_intervals(share: np.ndarray, of_logs: np.ndarray) -> np.ndarray:
    """Intervals (M, 2) of shares on the logit scale, never narrower than the assignment to modes is sharp.

    `of_logs` (M,) are half the lengths of the intervals of log shares.
    """
    logit = np.log(share)
    share = np.minimum(share, 1 - 1e-12)
    logit -= np.log1p(-share)
    width = of_logs / (1 - share)
    ends = special.expit(np.stack([logit - width, logit + width], axis=1))
    # where a mode ends is not defined more exactly than to .001 of the shares
    reach = np.hypot(ends - share[:, None], 1e-3)
    return np.clip(share[:, None] + reach * [-1, 1], 0, 1)


def importance_weights(
    table: ModeTable, mode: np.ndarray, autocorrelation_time: float = 1.0, weight: np.ndarray | None = None
) -> ImportanceWeights | None:
    """Weights per draw that turn draws stuck in known modes into a set with the right shares.

    Draws at mode j, with weights w of their own or none, get w implied_j / sum of w at j. This corrects the
    weights of the modes, not the fit within them, and needs draws at every mode. The variance of a weighted
    mean is that of `effective_sample_size` independent draws, with::

        1 / ESS = sum_j implied_j^2 tau / n_j + max_j Var(implied_j) / (implied_j (1 - implied_j)) :

    Kish's formula (1965, Survey Sampling) for the draws within modes, n_j = (sum w)^2 / sum w^2, and what the
    implied shares themselves are worth: the two errors add up. `mode` (n,) is the mode of each draw, the
    autocorrelation time is that within modes. None if a mode of non-negligible weight has no draws, or the
    implied share of one is unknown.
    """
    sampled = table.observed > 0
    if np.isnan(table.implied).any() or np.any(~sampled & (table.implied > NEGLIGIBLE_SHARE)):
        return None
    implied = table.implied[sampled]
    weight = np.ones(len(mode)) if weight is None else weight
    total, squares = (np.bincount(mode, values, minlength=len(sampled)) for values in (weight, weight**2))
    within = np.sum(implied**2 * autocorrelation_time * squares[sampled] / total[sampled] ** 2)
    variance = np.diag(table.implied_covariance)[sampled]
    shared = np.minimum(implied, 1 - implied) > NEGLIGIBLE_SHARE
    between = np.max((variance[shared] / (implied * (1 - implied))[shared]), initial=0.0)
    weights = weight * table.implied[mode] / np.maximum(total, np.finfo(float).tiny)[mode]
    size = 1 / max(within + between, 1 / len(mode))
    return ImportanceWeights(weights / weights.mean(), float(size))
