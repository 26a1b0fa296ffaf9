"""Where the climbs of a mode search start: geometric scales about the modes known so far."""

from __future__ import annotations

from itertools import product

import numpy as np

from ..target.counting import CountedTarget
from .climb import Starts, dot, join, starts_at
from .merge import Peak


def ellipsoid_starts(base: Peak, n: int, rng: np.random.Generator) -> Starts:
    """m + 3^u R z: the shape of the mode, blown up, to 2187 standard deviations at most."""
    power = 3.0 ** rng.uniform(0, 7, size=n)
    x = base.x + power[:, None] * (rng.standard_normal((n, len(base.x))) @ base.root.T)
    return starts_at(x, base.metric, 0.3 * power)


def isotropic_starts(base: Peak, n: int, rng: np.random.Generator) -> Starts:
    """Round clouds about the mode or about 0, of the size of the mode's coordinates or of 1."""
    d = len(base.x)
    size = np.sqrt(np.mean(base.x**2 + base.sd**2))
    own = 10 ** rng.uniform(-1, 2, size=n) * size
    scale = np.where(rng.random(n) < 0.5, own, 10 ** rng.uniform(-0.5, 1.5, size=n))
    centre = np.where(rng.random(n) < 0.5, 1.0, 0.0)[:, None] * base.x
    x = centre + scale[:, None] * rng.standard_normal((n, d))
    return starts_at(x, np.eye(d), 0.3 * scale)


def scanned_starts(density: CountedTarget, base: Peak, n_points: float) -> Starts:
    """The highest inner maxima of log p on lines through a mode, .5 to 81 standard deviations from it."""
    rays = scan_rays(base)
    rays = np.concatenate([rays, -rays])
    d = len(base.x)
    radii = np.geomspace(0.5, 81, num=max(3, int(n_points / len(rays))))
    places = base.x + radii[:, None, None] * rays
    value = density.log_density(places.reshape(-1, d)).reshape(places.shape[:2])
    with np.errstate(invalid="ignore"):
        inner = (value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:])
    value = np.where(inner, value[1:-1], -np.inf).ravel()
    best = np.argsort(-value, kind="stable")[:32]
    return starts_at(places[1:-1].reshape(-1, d)[best[np.isfinite(value[best])]], base.metric)


def scan_rays(base: Peak) -> np.ndarray:
    """Directions of lines: diagonals, the coordinates, and from four dimensions on the principal axes.

    Densities that treat their coordinates alike have modes on the main diagonal; up to three dimensions all
    diagonals are taken.
    """
    d = len(base.x)
    if d == 1:
        return base.root
    if d > 3:
        return np.concatenate([base.sd[None] / np.sqrt(d), np.diag(base.sd), base.root.T])[:64]
    signs = np.array(list(product([1.0], *[[1.0, -1.0]] * (d - 1))))
    return np.concatenate([signs * base.sd / np.sqrt(d), np.diag(base.sd)])


def screened_starts(
    density: CountedTarget, drawn: Starts, keep: int, known: list[Peak], rng: np.random.Generator
) -> Starts:
    """Of many starts those worth a climb, by one score each: half of largest residual, half at random."""
    value, score = density.log_density_and_score(drawn.x)
    residual = np.where(np.isfinite(value), score_residuals(known, score, drawn.x), -np.inf)
    largest = np.argsort(-residual, kind="stable")[: keep // 2]
    others = rng.choice(len(drawn.x), size=min(keep - keep // 2, len(drawn.x)), replace=False)
    return join([drawn.rows(largest), drawn.rows(others)])


def score_residuals(known: list[Peak], score: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How little each score points to a known mode: the least of 1 - cos(R's, R^-1 (m - x)) over modes.

    It is 0 anywhere in the basin of an elliptic mode, near or far. Where basins meet, the score of the
    mixture of all parabolas counts as a prediction too. The 32 first modes are looked at.
    """
    known = known[:32]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        ways = [(peak.x - x) @ peak.whiten for peak in known]
        least = np.min(
            [_disagreement(way, score @ peak.root) for way, peak in zip(ways, known, strict=True)], axis=0
        )
        if len(known) == 1:
            return least
        own = [peak.log_density - 0.5 * dot(way, way) for way, peak in zip(ways, known, strict=True)]
        share = np.exp(own - np.max(own, axis=0))
        pulls = [way @ peak.whiten.T for way, peak in zip(ways, known, strict=True)]
        root = known[0].root
        mixed = np.einsum("kn,kni->ni", share, pulls)
        return np.minimum(least, _disagreement(mixed @ root, score @ root))


def _disagreement(way: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """1 - cosine of the angle between rows; 0 where it cannot be had: scores that overflow tell nothing."""
    size = np.sqrt(dot(way, way)) * np.sqrt(dot(slope, slope))
    cosine = dot(way, slope) / np.where(size > 0, size, 1.0)
    return np.where(np.isfinite(cosine) & (size > 0), 1 - cosine, 0.0)
