"""Modes on a lattice too large to be known: displacements between them, and the flows along these."""

from __future__ import annotations

import numpy as np

from ..target import Target, log_density_at

ELEMENTS = 4_000_000  # numbers in the largest temporary array
MOST_MODES = 256  # among which displacements are looked for
TOLERANCE = 0.3  # standard deviations within which displacements count as equal
DEEP = 3.0  # nats by which the next mode of a lattice may be lower
CLEAR = 25.0  # effective number of contributing draws that a displacement needs


def lattice_steps(target: Target, centres: np.ndarray, covariance: np.ndarray) -> np.ndarray | None:
    """The shortest displacements that generate all others between modes of one shape, (V, d).

    None unless they are fewer than the M - 1 that generate the displacements between any M points by integer
    combinations, and one of them leads from some mode to another that is not known: then the modes are part
    of a lattice. Lengths are measured by the covariance of the modes, no axis is special.

    Parameters
    ----------
    target : Target
    centres, covariance : arrays (M, d), (d, d)
        The modes and their common shape.
    """
    root = np.linalg.cholesky(covariance)
    z = np.linalg.solve(root, centres.T).T
    first, second = np.triu_indices(min(len(z), MOST_MODES), 1)
    left = z[second] - z[first]
    left = left[np.argsort(np.linalg.norm(left, axis=1), kind="stable")]
    basis = np.empty((0, z.shape[1]))
    while len(left):
        basis = np.concatenate([basis, left[:1]])
        if len(basis) >= len(z) - 1:
            return None
        whole = np.rint(left @ np.linalg.pinv(basis))
        left = left[np.linalg.norm(left - whole @ basis, axis=1) > TOLERANCE]
    both = np.concatenate([basis, -basis])
    ahead = (z[:, None] + both).reshape(-1, z.shape[1])
    unknown = np.array([np.min(np.sum((z - point) ** 2, axis=1)) > 1 for point in ahead])
    here = np.repeat(log_density_at(target, centres), len(both))
    along = np.tile(both / np.linalg.norm(both, axis=1, keepdims=True), (len(z), 1))
    before, there, behind = (
        log_density_at(target, (ahead + shift * along) @ root.T, proposal=True) for shift in (-1, 0, 1)
    )
    another = unknown & (there > here - DEEP) & (there > np.maximum(before, behind))
    return basis @ root.T if another.any() else None


def step_flows(x: np.ndarray, target: Target, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chance of every draw to accept each step forth and back, (n, 2, V), and which steps are clear, (V,).

    A step is clear if enough draws contribute, (sum a)^2 / sum a^2. The squares are averaged with
    min(r, 1/r), r the ratio of the densities, which has the same mean under H0: so they do not vanish where
    one side of a step happens to have no draws.
    """
    n, d = x.shape
    both = np.stack([steps, -steps])
    log_ratio = np.empty((n, *both.shape[:2]))
    rows = max(1, ELEMENTS // both.size)
    for start in range(0, n, rows):
        block = x[start : start + rows]
        there = log_density_at(target, (block[:, None, None] + both).reshape(-1, d), proposal=True)
        here = log_density_at(target, block)[:, None, None]
        log_ratio[start : start + rows] = there.reshape(-1, *both.shape[:2]) - here
    accept = np.exp(np.minimum(log_ratio, 0.0))
    squares = 0.5 * np.sum(accept**2 + np.exp(-np.abs(log_ratio)), axis=(0, 1))
    return accept, (squares > 0) & (np.sum(accept, axis=(0, 1)) ** 2 >= CLEAR * squares)


def hotelling(flow: np.ndarray) -> tuple[float, float, int]:
    """Hotelling's T2 of the means of the columns of `flow` (n, V), its p-value and degrees of freedom.

    From second moments about 0, which do not vanish if all draws flow alike: T0 = n m' S0^+ m lies in [0, n]
    and T2 = (n - 1) T0 / (n - T0). The rank is the number of eigenvalues of the scaled S0 above 1e-10.
    """
    from scipy.special import fdtrc

    n = len(flow)
    unit = flow / np.sqrt(np.mean(flow**2, axis=0))
    values, vectors = np.linalg.eigh(unit.T @ unit / n)
    kept = values > 1e-10 * values[-1]
    k = int(kept.sum())
    t0 = n * float(np.sum((unit.mean(axis=0) @ vectors[:, kept]) ** 2 / values[kept]))
    ratio = t0 / max(n - t0, 1e-12 * n)
    return (n - 1) * ratio, float(fdtrc(k, n - k, (n - k) / k * ratio)), k


def sign_test(accept: np.ndarray, size: int, rng: np.random.Generator) -> tuple[float, np.ndarray, int]:
    """Draw one jump a draw; given how many accept step v, forth or back, those forth are Bin(N_v, 1/2).

    Returns the sum over v of (forth - back)^2 / N_v, `size` values of it under H0, and the number of v with
    an accepted jump.
    """
    n, _, count = accept.shape
    jump = rng.integers(2 * count, size=n)
    moved = jump[rng.random(n) < accept.reshape(n, -1)[np.arange(n), jump]]
    forth, back = np.bincount(moved, minlength=2 * count).reshape(2, count)
    total = forth + back
    spread = np.maximum(total, 1)
    null = np.sum((2 * rng.binomial(total, 0.5, size=(size, count)) - total) ** 2 / spread, axis=1)
    return float(np.sum((2 * forth - total) ** 2 / spread)), null, int(np.sum(total > 0))
