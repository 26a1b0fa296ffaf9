"""Rounds of walkers at all modes, until nothing is rough or no more is allowed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from ..result import AccuracyReason, Modes
from ..target.evaluation import CountedTarget
from .cells import Cell, cells_of_modes
from .control import stein_features
from .functionals import Functionals, tail_weights
from .intervals import Moments, Shares, combine_modes, estimate_moments
from .walkers import (
    BLOCK,
    WINDOW,
    Ensemble,
    OutOfBudget,
    WalkerCoordinates,
    Window,
    adapt,
    coordinates_of,
    estimate_metric,
    run,
    start_ensemble,
)

N_WALKERS = 200
ROUGH = 0.05  # half-width, in sds or as log ratio
REMEMBERS = 0.7  # correlation between the halves of a window
HEAVY_TAIL = 0.19  # 1 / (tail index + 1); without a fourth moment it is above 1/5
LARGE_KURTOSIS = 6.0  # above, 95 % intervals of sds covered .61 (gaussian_process, accuracy_study.csv)
LIGHT_SHARE = 0.01  # of modes that are left out ...
NO_PART = 1e-3  # ... if their part in no variance is larger: sds change by less than .0005
MIN_ACCEPTANCE = 0.3  # below, the step did not adapt and nothing can be trusted


class DrawsWithScores(NamedTuple):
    """Draws from which walkers start."""

    x: np.ndarray  #: (n, d)
    scores: np.ndarray  #: (n, d)
    weight: np.ndarray  #: (n,), sum 1
    ordered: bool  #: neighbours may be dependent, as in chains


class Fit(NamedTuple):
    """Moments of all functionals after a round, and how heavy their tails are."""

    moments: Moments
    tails: np.ndarray
    kurtosis: np.ndarray

    @property
    def has_mean(self) -> np.ndarray:
        """Whether there are second moments, so that a mean has a standard error."""
        return np.asarray(self.tails < 1 / 3)

    @property
    def has_sd(self) -> np.ndarray:
        """Whether there are fourth moments, so that an sd has a standard error."""
        return np.asarray(self.tails < HEAVY_TAIL)

    @property
    def forgotten(self) -> np.ndarray:
        """Whether the walkers have forgotten where they started."""
        return np.asarray(self.moments.memory <= REMEMBERS)

    @property
    def unsettled(self) -> np.ndarray:
        """Whether an interval is long, or the start not forgotten: more transitions may help."""
        mean, log_sd = self.moments.mean, self.moments.log_sd
        width = mean.half_width() / np.exp(log_sd.value)
        width = np.where(self.has_sd, np.maximum(width, log_sd.half_width()), width)
        return ~((width <= ROUGH) & self.forgotten & self.has_mean)

    @property
    def rough(self) -> np.ndarray:
        """Whether it is unsettled, or the kurtosis so large that standard errors of sds are too small."""
        return self.unsettled | (self.kurtosis > LARGE_KURTOSIS)


class Exploration(NamedTuple):
    """What the walkers found."""

    fit: Fit | None
    cells: list[Cell]
    windows: list[Window]
    n_walkers: int
    n_transitions: int
    reasons: tuple[AccuracyReason, ...]


def explore(
    draws: DrawsWithScores,
    functionals: Functionals,
    density: CountedTarget,
    modes: Modes,
    shares: Shares | None,
    rounds: int,
    rng: np.random.Generator,
) -> Exploration:
    """Move walkers at every mode, round after round; the last complete round counts."""
    every = cells_of_modes(modes)
    cells = _heavy_cells(every, shares)
    if not cells:
        return Exploration(None, [], [], 0, 0, ("unknown shares",))
    part = Shares(np.ones(1), np.zeros((1, 1)))
    if shares is not None:
        part = shares.among([cell.own for cell in cells])
    reasons: list[AccuracyReason] = ["light modes"] if len(cells) < len(every) else []
    found = Exploration(None, [], [], 0, 0, ())
    try:
        ensembles = _start(draws, density, modes, cells, part.share, rng)
        n_walkers = sum(len(one.walkers.x) for one in ensembles)
        for r in range(rounds):
            pairs = [run(adapt(one), WINDOW * 2**r) for one in ensembles]
            windows = [window for _, window in pairs]
            fit = _fit(cells, windows, functionals, part, draws.ordered)
            transitions = (r + 3) * BLOCK + WINDOW * (2 ** (r + 1) - 1)
            found = Exploration(fit, cells, windows, n_walkers, transitions, ())
            stuck = min(window.acceptance for window in windows) < MIN_ACCEPTANCE
            if stuck or not fit.unsettled.any():
                break
            ensembles = [one._replace(coordinates=coordinates_of(window)) for one, window in pairs]
        else:
            reasons.append("max_rounds")
    except OutOfBudget:
        reasons.append("max_evaluations")
    return found._replace(reasons=tuple(reasons))


def _heavy_cells(cells: list[Cell], shares: Shares | None) -> list[Cell]:
    """Cells that are explored: all that matter; none if there are several of unknown shares.

    A light mode matters if it is so far away that it has a part in the variance of a coordinate.
    """
    if len(cells) == 1:
        return cells
    if shares is None or np.isnan(shares.share).any():
        return []
    weight, centres = shares.share[:, None], cells[0].gaussians.centres
    within = np.diagonal(cells[0].gaussians.covariances, axis1=1, axis2=2)
    between = weight * (centres - (weight * centres).sum(axis=0)) ** 2
    part = (between / np.sum(weight * within + between, axis=0)).max(axis=1)
    return [cell for cell in cells if shares.share[cell.own] > LIGHT_SHARE or part[cell.own] > NO_PART]


def _start(
    draws: DrawsWithScores,
    density: CountedTarget,
    modes: Modes,
    cells: list[Cell],
    share: np.ndarray,
    rng: np.random.Generator,
) -> list[Ensemble]:
    """Ensembles of the modes: at their draws, or about the mode itself where it has too few."""
    leapfrog = np.ceil(np.pi / 2 / 1.2 * draws.x.shape[1] ** 0.25)
    affordable = density.budget.left / (
        50 * leapfrog * density.score_cost * len(cells)
    )  # up to the first estimate
    ensembles = []
    for cell, part, stream in zip(cells, share, rng.spawn(len(cells)), strict=True):
        rows = np.flatnonzero(cell.contains(draws.x))
        size = int(min(max(N_WALKERS * part, N_WALKERS / 4), affordable))
        if size < 20:
            raise OutOfBudget
        if len(rows) < 20:
            x, coordinates = _around_mode(modes, cell, size, stream)
        else:
            x = draws.x[rows[_evenly(draws.weight[rows], min(size, len(rows)))]]
            coordinates = WalkerCoordinates(
                x.mean(axis=0), estimate_metric(draws.x[rows], draws.scores[rows])
            )
        ensembles.append(start_ensemble(x, coordinates, cell, density, stream))
    return ensembles


def _around_mode(
    modes: Modes, cell: Cell, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, WalkerCoordinates]:
    """Starts about a mode without draws, with half of its spread."""
    centre, covariance = modes.locations[cell.own], modes.covariances[cell.own]
    x = centre + 0.5 * rng.standard_normal((size, len(centre))) @ np.linalg.cholesky(covariance).T
    x[~cell.contains(x)] = centre
    return x, WalkerCoordinates(centre, covariance)


def _evenly(weight: np.ndarray, size: int) -> np.ndarray:
    """Rows that lie evenly in the cumulative weight."""
    cumulative = np.cumsum(weight)
    places = (np.arange(size) + 0.5) / size * cumulative[-1]
    return np.searchsorted(cumulative, places).clip(max=len(weight) - 1)


def _fit(
    cells: list[Cell], windows: list[Window], functionals: Functionals, shares: Shares, ordered: bool
) -> Fit:
    """Moments over all modes after a round, and tails of all states together."""
    values = [functionals.values(window.x) for window in windows]
    within = []
    for cell, window, f in zip(cells, windows, values, strict=True):
        z = window.x - window.coordinates.centre
        cutoff = cell.cutoff(window.x)
        scores = np.nan_to_num(window.scores)  # of walkers that never left an impossible draw
        features = stein_features(z, scores, window.coordinates.metric, cutoff, len(z) // 5)
        within.append(estimate_moments(f, features, window.n_walkers, ordered=ordered))
    x = np.concatenate([window.x for window in windows])
    scores = np.concatenate([window.scores for window in windows])
    f = np.concatenate(values)
    tails = tail_weights(x, scores, f, functionals)
    return Fit(combine_modes(within, shares), tails, stats.kurtosis(f, axis=0, fisher=False))
