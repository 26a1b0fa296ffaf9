"""Sizes of misfits at every mode, and pooled over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .correction import Affine, solve
from .effects import Effects, corrected_moments, effects_of, pooled
from .frames import Constants, Frame, log_responsibilities

MAX_DRAWS_TO_SOLVE = 10_000  # per mode: the map found from so many takes one more step with all of them
MIN_RESPONSIBILITY = 0.01  # draws with less at a mode do not count for its sizes
MIN_DRAWS_FOR_SIZES = 5  # responsibility below which a mode has no sizes
MAX_BLOCKS = 250
OPERATIONS = 4e9  # of the standard errors, at most: many dimensions get fewer blocks

Score = Callable[[np.ndarray], np.ndarray]


def sizes(
    x: np.ndarray, scores: np.ndarray, home: np.ndarray, frame: Frame, score: Score | None
) -> tuple[list[Effects], int]:
    """Effects at each mode, then pooled over modes; and the number of blocks behind the standard errors.

    Without `score`, a function of draws, the sizes are one step from the draws themselves.
    """
    constants = frame.constants
    count = int(home[-1]) + 1
    groups = home // -(-count // _blocks(constants))
    shares = _shares(constants, x)
    effects = []
    for k in range(len(constants.centre)):
        rows = np.flatnonzero(shares[:, k] > MIN_RESPONSIBILITY)
        weight = shares[rows, k]
        if weight.sum() < MIN_DRAWS_FOR_SIZES:
            effects.append(_unknown(constants))
            continue
        effects.append(_at_mode(x[rows], scores[rows], weight, groups[rows], constants, k, score))
    total = shares.sum(axis=0)
    known = [k for k, one in enumerate(effects) if np.isfinite(one.mean).all()]
    if len(effects) == 1 or not known:
        return [effects[0], effects[0]], int(groups[-1]) + 1
    together = pooled([effects[k] for k in known], total[known] / total[known].sum())
    return [*effects, together], int(groups[-1]) + 1


def _blocks(constants: Constants) -> int:
    d, directions = constants.project.shape[1:]
    return int(np.clip(OPERATIONS / (directions**2 * d), 20, MAX_BLOCKS))


def _shares(constants: Constants, x: np.ndarray) -> np.ndarray:
    """Responsibilities (n, M)."""
    if len(constants.centre) == 1:
        return np.ones((len(x), 1))
    log_r = log_responsibilities(constants, x)
    r = np.exp(log_r - log_r.max(axis=1, keepdims=True))
    return r / r.sum(axis=1, keepdims=True)


def _unknown(constants: Constants) -> Effects:
    d, directions = constants.project.shape[1:]
    pairs = len(constants.pair_first)
    lengths = [(directions,)] * 6 + [(d,)] * 4 + [(pairs,)] * 3 + [()] * 2
    return Effects(*(np.full(length, np.nan) for length in lengths))


def _at_mode(
    x: np.ndarray,
    scores: np.ndarray,
    weight: np.ndarray,
    home: np.ndarray,
    constants: Constants,
    k: int,
    score: Score | None,
) -> Effects:
    """Effects at mode k of the draws that belong to it."""
    centre = constants.centre[k]
    sd = constants.sd[k]
    y = (x - centre) / sd
    prior = np.linalg.inv(constants.precision[k] * np.outer(sd, sd))
    t = sd * _component_scores(constants, k, x, scores)
    affine = Affine(np.eye(len(sd)), np.zeros(len(sd)))
    if score is not None:
        moved_scores = partial(_moved_scores, constants, k, score)
        affine, t = _solved(y, t, weight, prior, moved_scores)
    with np.errstate(all="ignore"):
        own, right = corrected_moments(y, t, weight, home, prior, affine)
        pairs = (constants.pair_first, constants.pair_second)
        return effects_of(own, right, constants.project[k], pairs)


def _solved(
    y: np.ndarray, t: np.ndarray, weight: np.ndarray, prior: np.ndarray, scores: Score
) -> tuple[Affine, np.ndarray]:
    """The map that corrects the draws, and the scores at them after it; nothing is moved where that fails."""
    some = slice(None, None, -(-len(y) // MAX_DRAWS_TO_SOLVE))
    nothing = Affine(np.eye(y.shape[1]), np.zeros(y.shape[1]))
    try:
        with np.errstate(all="ignore"):
            affine = solve(y[some], t[some], weight[some], prior, scores)
            moved = scores(affine(y))
    except Exception:  # a user's function may raise anything at points it was not made for
        return nothing, t
    return (affine, moved) if np.isfinite(moved).all() else (nothing, t)


def _moved_scores(constants: Constants, k: int, score: Score, y: np.ndarray) -> np.ndarray:
    """Scores of mode k at standardised draws that have been moved."""
    x = constants.centre[k] + constants.sd[k] * y
    return constants.sd[k] * _component_scores(constants, k, x, score(x))


def _component_scores(constants: Constants, k: int, x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """s + grad log r_k: for a mixture of Gaussians the score of component k alone."""
    if len(constants.centre) == 1:
        return scores
    pull = np.zeros_like(x)
    for share, centre, precision in zip(
        _shares(constants, x).T, constants.centre, constants.precision, strict=True
    ):
        pull += share[:, None] * ((centre - x) @ precision)
    return scores + (constants.centre[k] - x) @ constants.precision[k] - pull
