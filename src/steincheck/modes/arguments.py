"""Modes that a user brings: validated, with inverse Hessians where there are no covariances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._validation import as_numbers, asymmetries, listed, listed_rows
from ..draws import as_matrix
from ..result import Modes
from ..target import Target, check_hessian, log_density_at
from .climb import climb
from .hessian import hessian_at
from .merge import inverse_root, merge
from .settle import TOP_DROP, drop_radius, flat_top
from .surface import Surface

MAX_STANDARD_DEVIATIONS = 1.0  # from a maximum, by one Newton step, at which a location is still taken for it
# of the standard deviations of given covariances and of the density, either way: beyond, the moment test of
# two modes rejects more than .06 of correct samples of 300 draws at the level .05
MAX_WIDTH_RATIO = 3.0
FARTHEST_START = 1e15  # neighbouring numbers are 0.1 apart there
MAX_LOCATIONS_NAMED = 5  # locations named in warnings


def as_modes(modes: Any, target: Target) -> Modes:
    """Validate a user's modes, in the user's order: `Modes`, a tuple (locations, covariances), or locations.

    Without covariances the inverse Hessians of -log p at the locations are taken.
    """
    given = _read_modes(modes, target)
    if given.covariances is None:
        return _distinct_modes(given, _inverse_hessians(target, given.x))
    return _distinct_modes(given, given.covariances)


class ExaminedModes(NamedTuple):
    """Modes, and what the user should know of them."""

    modes: Modes
    warnings: tuple[str, ...]


def examine_modes(modes: Any, target: Target) -> ExaminedModes:
    """As `as_modes`, and compared with the density.

    Where covariances are far wider or narrower than the density, its own take their place; of that and of
    locations that are far from any maximum the user is warned.
    """
    given = _read_modes(modes, target)
    if given.covariances is None:
        covariances = _inverse_hessians(target, given.x)
        warnings = list[str]()
    else:
        covariances, warnings = _mended_widths(target, given.x, given.log_density, given.covariances)
    known = _distinct_modes(given, covariances)
    far = _far_from_maxima(target, given.x, given.log_density, covariances)
    return ExaminedModes(known, (*warnings, *far))


class _Given(NamedTuple):
    """What a user gives as modes, validated one by one."""

    modes: Any  # as given, the coordinates in the order of the target's
    x: np.ndarray
    log_density: np.ndarray
    covariances: np.ndarray | None


def _read_modes(modes: Any, target: Target) -> _Given:
    """Locations, the log density there, and covariances where they are given."""
    modes = _by_name(modes, target)
    locations, covariances = as_pair(modes)
    if not np.size(locations):
        raise ValueError("`modes` must hold at least one location, got none")
    x = as_matrix(locations, target.dim, minimum=1, name="modes")
    log_density = log_density_at(target, x)
    matrices = None if covariances is None else as_covariances(covariances, x.shape)
    return _Given(modes, x, log_density, matrices)


def _distinct_modes(given: _Given, covariances: np.ndarray) -> Modes:
    """The record of modes with these covariances; raises if two of them are the same."""
    modes, x, log_density, _ = given
    label = merge(x, np.linalg.inv(covariances), log_density, beta=1e-6)[1]
    twins = np.flatnonzero(np.bincount(label)[label] > 1)
    if len(twins):
        raise ValueError(f"`modes` must differ from each other, {listed_rows(twins)} hold duplicates")
    if isinstance(modes, Modes):  # found for another constant, perhaps: the heights are those of this target
        return replace(modes, locations=x, covariances=covariances, log_density=log_density)
    return Modes(x, covariances, log_density, np.zeros(len(x), dtype=int))


def _by_name(modes: Any, target: Target) -> Any:
    """Modes with names, their coordinates in the order of the target's; others as they are."""
    if not isinstance(modes, Modes) or not modes.names or target.names is None:
        return modes
    if sorted(modes.names) != sorted(target.names):
        raise ValueError(
            f"`modes` must have the coordinates of the target, {listed(target.names)}, got "
            f"{listed(modes.names)}"
        )
    order = [modes.names.index(name) for name in target.names]
    return replace(
        modes,
        locations=modes.locations[:, order],
        covariances=modes.covariances[:, order][:, :, order],
        names=tuple(target.names),
    )


def _mended_widths(
    target: Target, x: np.ndarray, log_density: np.ndarray, covariances: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """The density's own covariances in place of those that are far too wide or too narrow, and warnings."""
    surface = Surface(target)
    mended = covariances.copy()
    warnings = []
    for k, given in enumerate(covariances):
        rays = _axes(given)[_wrong_axes(surface, x[k], log_density[k], given)]
        if not len(rays) or _is_inverse_hessian(target, x[[k]], given):
            continue
        own = _own_covariance(surface, x[k], log_density[k], given)
        length = np.linalg.norm(rays, axis=1)
        if own is None:
            raise ValueError(
                f"the covariances of `modes` must be about as wide as the modes: number {k} has a standard "
                f"deviation of {length[0]:.3g} along ({_short(rays[0] / length[0])}), the density a very "
                f"different one, and it has no local maximum at ({_short(x[k])})"
            )
        precision = np.linalg.inv(own)
        width = 1 / np.sqrt(np.einsum("ni,ij,nj->n", rays, precision, rays))  # in units of the given one
        worst = int(np.argmax(np.abs(np.log(width))))
        warnings.append(
            f"the covariances of `modes` must be about as wide as the modes: number {k} has a standard "
            f"deviation of {length[worst]:.3g} along ({_short(rays[worst] / length[worst])}), the density "
            f"one of {width[worst] * length[worst]:.3g}; the density's own covariance is used instead"
        )
        mended[k] = own
    rest = len(warnings) - MAX_LOCATIONS_NAMED
    if rest > 0:
        warnings[MAX_LOCATIONS_NAMED:] = [f"`modes`: {rest} more covariances were replaced for this reason"]
    return mended, warnings


def _is_inverse_hessian(target: Target, x: np.ndarray, covariance: np.ndarray) -> bool:
    """Whether a covariance is about the inverse Hessian at x (1, d), too wide for log p only along an arc."""
    try:
        own = _inverse_hessians(target, x)[0]
    except ValueError:  # no maximum
        return False
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    ratios = np.linalg.eigvalsh(root @ own @ root.T)
    return bool(ratios[0] * MAX_WIDTH_RATIO**2 >= 1 and ratios[-1] <= MAX_WIDTH_RATIO**2)


def _axes(covariance: np.ndarray) -> np.ndarray:
    """Rows r (d, d) with the sum of r r' the covariance, whatever the units of the coordinates."""
    scale = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    return (scale[:, None] * vectors * np.sqrt(values.clip(1e-300))).T


def _wrong_axes(surface: Surface, x: np.ndarray, top: float, covariance: np.ndarray) -> np.ndarray:
    """Axes (d,) along which the given width and that of log p differ by more than `MAX_WIDTH_RATIO`.

    Both sides count: at the edge of a support, or on a slope, log p drops at once on one of them. At a saddle
    point it rises, which is no matter of width.
    """
    rays = _axes(covariance)
    # two beyond the given width, as another mode may be at one of them
    radii = np.array([1 / MAX_WIDTH_RATIO, 0.5 * MAX_WIDTH_RATIO, MAX_WIDTH_RATIO])
    points = x + np.multiply.outer(radii, np.stack([rays, -rays]))
    drop = top - surface.log_density(points.reshape(-1, len(x))).reshape(len(radii), 2, -1)
    too_wide = drop[0].min(axis=0) > TOP_DROP
    too_narrow = np.abs(drop[1:]).max(axis=(0, 1)) < TOP_DROP
    return too_wide | too_narrow


def _own_covariance(surface: Surface, x: np.ndarray, top: float, covariance: np.ndarray) -> np.ndarray | None:
    """The inverse Hessian of -log p at `x`, or the squared widths of a top that is not smooth."""
    unit = np.sqrt(np.diag(covariance))
    reach = drop_radius(surface, x, top, np.concatenate([np.diag(unit), -np.diag(unit)])).reshape(2, -1)
    width = unit * reach.min(axis=0)
    if not np.isfinite(width).all():
        return None
    hessians = [hessian_at(surface, x, width)]
    flat = flat_top(surface, x, width, max_gain=TOP_DROP)[0]
    if flat is not None:
        # without a score a pointed top may pass for a smooth one: widths alone are left then
        hessians += [flat.hessian, np.diag(width**-2)]
    for root in map(inverse_root, hessians):
        if root is not None and not _wrong_axes(surface, x, top, root @ root.T).any():
            return root @ root.T
    return None


def _far_from_maxima(
    target: Target, x: np.ndarray, log_density: np.ndarray, covariances: np.ndarray
) -> list[str]:
    """Which locations are not local maxima: the gradient is large per standard deviation, or a climb leaves.

    Climbs start a little aside, since at a saddle point there is no gradient.
    """
    surface = Surface(target, max_seconds=10.0)
    slope = surface.value_and_score(x)[1]
    steps = np.sqrt(np.einsum("ni,nij,nj->n", slope, covariances, slope))
    aside = np.linalg.cholesky(covariances).sum(axis=2)
    stride = 0.3 / MAX_WIDTH_RATIO
    ends = climb(surface, x + aside / 3 * stride, covariances, stride, iterations=200)
    gain = ends.log_density - log_density
    far = np.flatnonzero((steps > MAX_STANDARD_DEVIATIONS) | (gain > TOP_DROP))
    warnings = []
    for k in far[:MAX_LOCATIONS_NAMED]:
        visible = np.abs(ends.x[k]) > 1e-6 * np.sqrt(np.diag(covariances[k]))
        end = _short(np.where(visible, ends.x[k], 0.0))
        text = f"`modes` must be local maxima: the gradient at row {k}, ({_short(x[k])}), is "
        text += f"{steps[k]:.2g} per standard deviation"
        if ends.rest[k]:
            text += f"; ascending from there leads to ({end})"
        if steps[k] <= MAX_STANDARD_DEVIATIONS:
            text = f"`modes` must be local maxima: log p at row {k}, ({_short(x[k])}), is {gain[k]:.2g} less "
            text += f"than at ({end}), to which ascending from there leads"
        warnings.append(text)
    if len(far) > MAX_LOCATIONS_NAMED:
        warnings.append(f"`modes`: {len(far) - MAX_LOCATIONS_NAMED} more rows are not local maxima")
    return warnings


def _short(x: np.ndarray) -> str:
    return listed([f"{value:.4g}" for value in x], 5)


def as_pair(modes: Any) -> tuple[Any, Any]:
    """Locations, and covariances or None: a tuple of two is a pair if its second member has three axes."""
    if isinstance(modes, Modes):
        return modes.locations, modes.covariances
    if isinstance(modes, tuple) and len(modes) == 2 and np.ndim(modes[0]) == 2:
        return modes
    return modes, None


def _inverse_hessians(target: Target, x: np.ndarray) -> np.ndarray:
    surface = Surface(target)
    hessians = [hessian_at(surface, point, np.ones(target.dim)) for point in x]
    roots = [inverse_root(hessian) for hessian in hessians]
    bad = [k for k, root in enumerate(roots) if root is None]
    if bad:
        if target.hessian is not None:
            bend = np.abs(np.diag(hessians[bad[0]]))
            check_hessian(target, x[bad[0]], 1 / np.sqrt(np.where(bend > 0, bend, 1.0)))
        raise ValueError(
            f"`modes` must be local maxima: at {listed_rows(bad)} the Hessian of -log p is not positive "
            "definite; correct them, or give `modes` as a pair (locations, covariances)"
        )
    return np.array([root @ root.T for root in roots if root is not None])


def as_covariances(covariances: Any, shape: tuple[int, int]) -> np.ndarray:
    """Covariance matrices (M, d, d) of modes of this shape (M, d), or one clear error."""
    matrices = as_numbers(covariances, "modes", "given with covariances that are numbers")
    expected = (*shape, shape[1])
    if matrices.shape != expected or not np.isfinite(matrices).all():
        raise ValueError(
            f"the covariances of `modes` must be finite, of shape {expected}, got shape {matrices.shape}"
        )
    for k, matrix in enumerate(matrices):
        smallest = np.linalg.eigvalsh(matrix)[0]
        if smallest <= 0 or asymmetries(matrix).any():
            raise ValueError(
                f"the covariances of `modes` must be symmetric and positive definite, number {k} is not: its "
                f"smallest eigenvalue is {smallest:.3g}"
            )
    return matrices


def as_starts(starts: Any, dim: int) -> np.ndarray:
    """Starts (n, d) of a search; raises where numbers are too far apart to show a mode."""
    x = as_matrix(starts, dim, minimum=1, name="starts")
    size = np.abs(x).max()
    if size > FARTHEST_START:
        raise ValueError(
            f"`starts` must be within {FARTHEST_START:g} of 0, got {size:.4g}: so far out, rounding hides "
            "modes of ordinary width"
        )
    return x
