"""From mode to mode: end points gathered into modes, rays walked out until another basin is met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from ..target import BATCH_SIZES
from .box_settle import settle_one
from .climb import Ends, climb, climbs_at_once, squared_lengths
from .merge import Peak, columns, log_weights, mode_root, nearest_index
from .surface import Surface

HITS_PER_NEIGHBOUR = 3  # random rays that must meet each direct neighbour of the first mode
WalkEnd = Literal["complete", "max_modes", "max_evaluations"]

# why a climb has no mode
MOVING_LABEL = -1
SADDLE_LABEL = -2
SKIPPED_LABEL = -3


class Plan(NamedTuple):
    """Validated input of a search in a box, and the counter it fills."""

    surface: Surface
    box: np.ndarray  # (2, d)
    beta: float
    cut: float
    max_modes: int
    max_evaluations: int  # after which no further mode is explored
    tally: Counter[str]


def explore(
    plan: Plan, peaks: list[Peak], rng: np.random.Generator, tick: Callable[[str, int, int], object]
) -> tuple[list[int], list[int], WalkEnd]:
    """Walk from mode to mode, breadth first.

    Returns the order in which to keep modes, those that were explored, and why the walk ended.
    """
    d = plan.surface.dim
    tally = plan.tally
    queue = [(k, 1) for k in heaviest_peaks(peaks, plan.cut) if peaks[k].kind == "mode"]
    explored = list[int]()
    first = list[int]()
    learnt = np.empty((0, d))
    reason: WalkEnd = "complete"
    while queue:
        tick("exploring", len(explored), len(explored) + len(queue))
        if explored and (len(peaks) >= plan.max_modes or plan.surface.evaluations >= plan.max_evaluations):
            reason = "max_modes" if len(peaks) >= plan.max_modes else "max_evaluations"
            break
        known = len(peaks)
        size = 8 if explored else 1  # the first mode alone
        group = queue[:size]
        queue = queue[size:]
        if explored:
            each = max(16, min(2 * d, BATCH_SIZES[2] // len(group)))
            fans = [np.concatenate([_random_rays(peaks[k], each, rng), learnt, -learnt]) for k, _ in group]
            homes = np.repeat([k for k, _ in group], each + 2 * len(learnt))
            _walk(plan, peaks, homes, np.concatenate(fans), plan.max_modes)
        else:
            first, learnt = _surroundings(plan, peaks, group[0][0], rng)
        explored += [k for k, _ in group]
        tally["rounds"] = group[-1][1]
        heavy = heaviest_peaks(peaks, plan.cut)
        queue += [(k, tally["rounds"] + 1) for k in range(known, len(peaks)) if k in heavy]
    return [*first, *heaviest_peaks(peaks, plan.cut)], explored, reason


def _random_rays(peak: Peak, n: int, rng: np.random.Generator) -> np.ndarray:
    """Directions uniform on the ellipsoid of the mode."""
    return rng.normal(size=(n, len(peak.x))) @ mode_root(peak.hessian).T


def _surroundings(
    plan: Plan, peaks: list[Peak], k: int, rng: np.random.Generator
) -> tuple[list[int], np.ndarray]:
    """Mode k and those around it, and the displacements to its direct neighbours, at most d of them.

    A neighbour is direct if no other is nearer to both. Rays along the coordinates, along the axes of the
    Hessian and at random; more random ones until each direct neighbour they meet was met
    `HITS_PER_NEIGHBOUR` times.
    """
    d = plan.surface.dim
    home = peaks[k]
    met = Counter[int]()
    around = set[int]()
    axes = np.concatenate([np.eye(d), mode_root(home.hessian).T])
    axes = np.concatenate([axes, -axes])
    for _ in range(16):  # batches of rays, at most
        rays = np.concatenate([_random_rays(home, max(64, 2 * d), rng), axes])
        label = _walk(plan, peaks, np.full(len(rays), k), rays, len(peaks) + plan.max_modes)
        met.update(label[: len(rays) - len(axes)].tolist())
        around |= set(label[label >= 0].tolist()) - {k}
        near = np.array(sorted(around), dtype=int)
        gaps = np.array([peaks[j].x - home.x for j in near]).reshape(-1, d)
        size = squared_lengths(gaps, home.hessian)
        detours = [np.maximum(size, squared_lengths(gaps - gap, home.hessian)).min() for gap in gaps]
        direct = np.array(detours) > 0.999 * size
        if d == 1 or all(met[j] == 0 or met[j] >= HITS_PER_NEIGHBOUR for j in near[direct].tolist()):
            break
        axes = axes[:0]
    order = np.lexsort((size, ~direct))
    return [k, *near[order].tolist()], gaps[order][: min(d, direct.sum())]


def _walk(  # noqa: PLR0914 (the state of all rays)
    plan: Plan, peaks: list[Peak], homes: np.ndarray, rays: np.ndarray, limit: int
) -> np.ndarray:
    """Walk out along rays until the climb no longer comes back; returns the mode first met on each, or -1.

    `homes` says from which mode a ray leaves; one whose climbs all came back has met its home.
    """
    step = 4 * climbs_at_once(plan.surface.dim)
    if len(rays) > step:
        parts = [slice(i, i + step) for i in range(0, len(rays), step)]
        return np.concatenate([_walk(plan, peaks, homes[part], rays[part], limit) for part in parts])
    x, top, hessian, _ = columns([peaks[k] for k in homes])
    covariance = np.linalg.inv(hessian)
    rays = rays / np.sqrt(squared_lengths(rays, hessian))[:, None]
    wall = np.where(rays > 0, 1.5 * plan.box[1] - 0.5 * plan.box[0], 1.5 * plan.box[0] - 0.5 * plan.box[1])
    exits = np.divide(wall - x, rays, out=np.full(rays.shape, np.inf), where=rays != 0)
    reach = np.maximum(exits.min(axis=1), 20.0)  # 20 standard deviations, even out of the box
    near = np.zeros(len(x))
    far = np.full(len(x), np.inf)
    still = np.zeros(len(x), bool)
    ends = Ends(x.copy(), top.copy(), still, np.full(len(x), -1), np.ones(x.shape))

    def probe(rows: np.ndarray, radius: np.ndarray) -> np.ndarray:
        part = climb(plan.surface, x[rows] + radius[rows, None] * rays[rows], covariance[rows], 1.0)
        back = part.at(x[rows], top[rows], hessian[rows])
        left = part.rest & ~back
        for whole, piece in zip(ends, part, strict=True):
            whole[rows[left]] = piece[left]
        near[rows[back]] = radius[rows[back]]
        far[rows[~back]] = radius[rows[~back]]
        return rows[back]

    rows = np.arange(len(x))
    radius = np.full(len(x), 2.1)  # standard deviations
    while len(rows):
        rows = probe(rows, radius)
        rows = rows[radius[rows] < reach[rows]]
        radius = np.minimum(2 * radius, reach)
    rows = np.flatnonzero(np.isfinite(far))
    for _ in range(3 if len(rows) else 0):  # of the stretch in which a ray left the basin of its mode
        probe(rows, 0.5 * (near + far))
    order = np.argsort(squared_lengths(ends.x - x, hessian), kind="stable")
    label = gather(plan, ends, peaks, order, np.sqrt(np.diag(covariance[0])), limit)
    plan.tally["not_examined"] += int(np.sum(label == SKIPPED_LABEL))
    return label


def gather(
    plan: Plan, ends: Ends, peaks: list[Peak], order: np.ndarray, width: np.ndarray, limit: int
) -> np.ndarray:
    """Add the modes at which climbs ended to `peaks`, in `order`; returns each climb's mode, or why none."""
    label = np.full(len(ends.x), MOVING_LABEL)
    for k, known in enumerate(peaks):
        label[ends.at(*known[:3])] = k
    for i in order[ends.rest[order]]:
        if label[i] >= 0:
            continue
        peak = settle_one(plan.surface, ends.x[i], width) if len(peaks) < limit else None
        if peak is None or peak.kind in ("saddle", "moving"):
            label[i] = (
                SKIPPED_LABEL if peak is None else SADDLE_LABEL if peak.kind == "saddle" else MOVING_LABEL
            )
            continue
        x, _, hessians, _ = columns([*peaks, peak])
        k = nearest_index(peak.x, peak.hessian, x[:-1], hessians[:-1], plan.beta)
        if k == len(peaks):
            peaks.append(peak)
        elif peak.log_density > peaks[k].log_density:
            peaks[k] = peak
        label[(label == MOVING_LABEL) & ends.at(*peaks[k][:3])] = k
        label[i] = k
    return label


def heaviest_peaks(peaks: list[Peak], cut: float) -> list[int]:
    """Indices by Laplace weight, without those `cut` below the largest; flat modes, having none, last."""
    weight = log_weights(peaks)
    flat = np.array([peak.kind == "flat" for peak in peaks])
    keep = flat | (weight >= weight[~flat].max(initial=-np.inf) - cut)
    return [int(k) for k in np.lexsort((-weight, flat)) if keep[k]]
