"""Modes that a signed permutation of the coordinates maps onto each other: labels, signs of units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..result import Modes
from ..target import Target
from .symmetry import SignedPermutation

EQUAL_HEIGHT = 1e-6  # nats, relative to the size of log p, by which symmetric modes may differ
EQUAL_SHAPE = 0.01  # standard deviations, and relative differences of Hessians, left by the search of a mode
CHECK_RADII = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)  # standard deviations from the mode where equality is verified


class Image(NamedTuple):
    """A mode as the image of another."""

    mode: int
    symmetry: SignedPermutation


def images_of_modes(target: Target, modes: Modes) -> list[Image | None]:
    """For every mode the earlier mode of which it is an exact image, or None.

    Modes of equal height whose sorted absolute coordinates agree are matched coordinate by coordinate; the
    match counts if log p(g x) = log p(x) at points up to eight standard deviations from the mode.
    """
    hessians = np.linalg.inv(modes.covariances)
    found: list[Image | None] = []
    for k in range(len(modes)):
        image = None
        for j in (j for j in range(k) if found[j] is None and _alike(modes, j, k)):
            g = _matched(modes, hessians, j, k)
            if g is not None and _holds(target, modes, j, g):
                image = Image(j, g)
                break
        found.append(image)
    return found


def _alike(modes: Modes, j: int, k: int) -> bool:
    """Whether heights and sorted absolute coordinates of two modes agree."""
    height = modes.log_density[j]
    if abs(modes.log_density[k] - height) > EQUAL_HEIGHT * (1 + abs(height)):
        return False
    width = np.sqrt(np.linalg.eigvalsh(modes.covariances[j])[-1])
    gaps = np.sort(np.abs(modes.locations[j])) - np.sort(np.abs(modes.locations[k]))
    return bool(np.abs(gaps).max() <= EQUAL_SHAPE * width)


def _matched(modes: Modes, hessians: np.ndarray, j: int, k: int) -> SignedPermutation | None:
    """The signed permutation that carries mode j and its Hessian to mode k, if there is one."""
    from scipy.optimize import linear_sum_assignment

    scale = np.sqrt(np.diag(modes.covariances[j]).mean())
    cost = np.zeros(hessians[j].shape)
    for part, size in (
        (np.abs(modes.locations[[j, k]])[:, :, None], scale),
        (np.sort(np.abs(hessians[[j, k]]), axis=2), np.abs(hessians[j]).max()),
    ):
        cost += np.abs(part[1][:, None] - part[0]).max(axis=2) / size
    order = linear_sum_assignment(cost)[1]
    moved = modes.locations[j][order]
    sign = np.where(moved * modes.locations[k] < 0, -1.0, 1.0)
    unsure = np.abs(moved) <= EQUAL_SHAPE * scale
    signs = _signs_from_hessian(hessians[j], hessians[k], order, sign, unsure).astype(int)
    g = SignedPermutation(tuple(order.tolist()), tuple(signs.tolist()))
    if np.abs(g(modes.locations[j]) - modes.locations[k]).max() > EQUAL_SHAPE * scale:
        return None
    gap = np.abs(g.conjugate(hessians[j]) - hessians[k]).max()
    return g if gap <= EQUAL_SHAPE * np.abs(hessians[k]).max() else None


def _signs_from_hessian(
    first: np.ndarray, second: np.ndarray, order: np.ndarray, signs: np.ndarray, unsure: np.ndarray
) -> np.ndarray:
    """Signs of coordinates that are 0 at the mode, from the off-diagonal entries that tie them to others."""
    signs = signs.copy()
    product = first[np.ix_(order, order)] * second
    known = ~unsure
    for _ in range(len(signs)):
        ties = np.where(np.outer(unsure & ~known, known), np.abs(product), 0.0)
        i, other = np.unravel_index(np.argmax(ties), ties.shape)
        if ties[i, other] == 0:
            break
        signs[i] = signs[other] * np.sign(product[i, other])
        known[i] = True
    return signs


def _holds(target: Target, modes: Modes, k: int, g: SignedPermutation) -> bool:
    """Whether log p(g x) = log p(x) at points in fixed directions around mode k."""
    direction = np.random.default_rng(0).standard_normal((len(CHECK_RADII), target.dim))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    root = np.linalg.cholesky(modes.covariances[k])
    x = modes.locations[k] + (np.array(CHECK_RADII)[:, None] * direction) @ root.T
    with np.errstate(all="ignore"):
        here, there = np.reshape(target.log_density(np.concatenate([x, g(x)])), (2, -1))
    both = np.isfinite(here) & np.isfinite(there)
    same = np.abs(there[both] - here[both]) <= EQUAL_HEIGHT * (1 + np.abs(here[both]))
    return bool(np.array_equal(np.isfinite(here), np.isfinite(there)) and same.all())
