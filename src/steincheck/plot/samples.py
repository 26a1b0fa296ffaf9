"""Pictures of draws, with the modes and the density, on the parameters' own scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._palette import CONTRAST_COLOUR, MAIN_COLOUR, MUTED_COLOUR, PAPER_COLOUR
from .._validation import require_kind
from .._whitening import whitened
from ..adapters.parameters import ParameterScale, user_parameters
from ..draws import as_matrix, read_as_draws, to_unconstrained
from ..modes.known import as_covariances, as_pair
from ..result import Verdict
from ..target import Target, log_density_at, require_target
from ..typing import DrawsLike, ModesLike
from .axes import MAX_POINTS, axes_or_new, check_coordinates, labels_of, pyplot, with_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DensityGrid(NamedTuple):
    """A density of parameters on their own scales, on a grid that covers draws and modes."""

    lines: list[np.ndarray]  # the values of the parameters along each axis
    height: np.ndarray  # (I,) or (I, J), with integral 1
    mass: np.ndarray  # (I,) or (I, J) of every point, with sum 1


class Scene(NamedTuple):
    """What is drawn: draws and modes in the coordinates of the target, and each coordinate's own scale."""

    x: np.ndarray  # (n, d)
    centres: np.ndarray  # (M, d)
    covariances: np.ndarray | None  # (M, d, d)
    scales: list[ParameterScale]  # (d,)
    labels: list[str]  # (d,)
    target: Target | None

    def parameters(self, points: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
        """Points (n, k) of the chosen coordinates, on the scales of their parameters."""
        columns = [self.scales[k].values(points[:, j]) for j, k in enumerate(chosen)]
        return np.stack(columns, axis=1)

    def mode_labels(self) -> list[str]:
        """The number of each mode, and whether few draws or none are nearest to it."""
        numbers = [str(k) for k in range(len(self.centres))]
        if self.covariances is None or not len(self.x):
            return numbers
        shapes = zip(self.centres, np.linalg.cholesky(self.covariances), strict=True)
        scaled = np.stack([whitened(self.x - centre, root) for centre, root in shapes])
        nearest = np.argmin(np.sum(scaled**2, axis=2), axis=0)
        shares = np.bincount(nearest, minlength=len(numbers)) / len(self.x)
        few = ["" if share >= 0.005 else ": few draws" if share else ": no draws" for share in shares]
        return [number + words for number, words in zip(numbers, few, strict=True)]


def draws(
    draws: DrawsLike | None,
    *,
    verdict: Verdict | None = None,
    modes: ModesLike | None = None,
    coordinates: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    target: Target | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The draws and the modes: a histogram of one coordinate, or a scatter of two.

    Parameters
    ----------
    draws : array (n, d), or with `target` anything that `as_draws` takes
        None to draw the modes (and the density) alone.
    verdict : Verdict, optional
        Its modes are drawn: numbered from 0, with ellipses of 1 and 2 standard deviations about the mean of
        the density within each. An ellipse without draws is a missing mode.
    modes : Modes, (locations, covariances) or locations (M, d), optional
        Instead of those of the verdict.
    coordinates : one or two int, optional
        Which to draw; by default the two in which the modes are farthest apart for the spread of the draws.
    names : sequence of str, optional
        Names of all coordinates; by default those of the target.
    target : Target, optional
        Gives names and scales: a parameter that the target has on the log scale is drawn on its own. The
        density of one or two coordinates, if these are all, is drawn as a curve or as contours.
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
    >>> left = np.random.default_rng(0).normal([-3.0, 0.0], 1.0, size=(200, 2))
    >>> ax = sc.plot.draws(left, modes=sc.find_modes(target, draws=left, rng=0))
    """
    scene = scene_of(draws, target, verdict, modes, names)
    chosen = _most_apart(scene)
    if coordinates is not None:
        chosen = check_coordinates(coordinates, scene.x.shape[1], most=2)
    ax = axes_or_new(ax)
    if len(chosen) == 1:
        _draw_one(ax, scene, chosen[0])
    else:
        _draw_two(ax, scene, chosen)
        ax.set_ylabel(scene.labels[chosen[1]], parse_math=False)
    ax.set_xlabel(scene.labels[chosen[0]], parse_math=False)
    return with_legend(ax)


def pairs(
    draws: DrawsLike,
    target: Target | None = None,
    *,
    verdict: Verdict | None = None,
    modes: ModesLike | None = None,
    coordinates: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    axes: np.ndarray | None = None,
) -> np.ndarray:
    """Scatter plots of all pairs of a few coordinates over the modes or the density, histograms between.

    Parameters
    ----------
    draws, target, verdict, modes, names
        As in `draws`.
    coordinates : sequence of int, optional
        Which to draw; by default at most three: those that the findings of the verdict are about, then those
        in which the modes are farthest apart.
    axes : array (k, k) of matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    array (k, k) of matplotlib Axes
        Those above the diagonal are not used.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    >>> sc.plot.pairs(target.sample(200, 0), target, coordinates=[0, 2]).shape
    (2, 2)
    """
    scene = scene_of(draws, target, verdict, modes, names)
    chosen = coordinates_that_matter(scene, verdict)
    if coordinates is not None:
        chosen = check_coordinates(coordinates, scene.x.shape[1], most=scene.x.shape[1])
    count = len(chosen)
    if axes is None:
        size = (2.3 * count + 0.6,) * 2
        axes = pyplot().subplots(count, count, figsize=size, layout="constrained", squeeze=False)[1]
    axes = np.asarray(axes, dtype=object)
    if axes.shape != (count, count):
        raise ValueError(f"`axes` must have shape {(count, count)}, got {axes.shape}")
    for row, i in enumerate(chosen):
        _draw_one(axes_or_new(axes[row, row]), scene, i)
        axes[row, row].set(yticks=[], ylabel="")
        for column, j in enumerate(chosen[:row]):
            _draw_two(axes_or_new(axes[row, column]), scene, (j, i))
            axes[column, row].set_axis_off()
    for k, coordinate in enumerate(chosen):
        axes[-1, k].set_xlabel(scene.labels[coordinate], parse_math=False)
        axes[k, 0].set_ylabel(scene.labels[coordinate] if k else "", parse_math=False)
    if len(chosen) > 1:
        handles, words = axes[1, 0].get_legend_handles_labels()
        axes[0, -1].legend(handles, words, frameon=False, loc="upper right")
    return axes


def scene_of(draws: Any, target: Target | None, verdict: Any, modes: Any, names: Any) -> Scene:
    """Draws and modes in the coordinates of the target, with the labels of their own scales."""
    if verdict is not None:
        require_kind(verdict, Verdict, "verdict")
    if verdict is not None and modes is None:
        modes = verdict.modes
        if verdict.mode_moments is not None:  # of the density within each mode, where they are known
            means, covariances = verdict.mode_moments
            known = np.isfinite(covariances).all(axis=(1, 2)) & np.isfinite(means).all(axis=1)
            means = np.where(known[:, None], means, modes.locations)
            modes = means, np.where(known[:, None, None], covariances, modes.covariances)
    locations, covariances = as_pair(modes)
    if target is not None:
        require_target(target)
        if verdict is not None and not (target.names or target.constrained_names):
            target = replace(target, names=verdict.names)  # those of the draws, perhaps
    if draws is None and modes is not None:
        x = np.empty((0, np.shape(locations)[-1]))
    elif target is None:
        x = read_as_draws(draws, name="draws", minimum=1).values
    else:
        x = to_unconstrained(draws, target, minimum=1).values
    dim = x.shape[1]
    parameters = None if target is None else user_parameters(target)
    own = None if parameters is None else [item.parameter for item in parameters]
    labels = labels_of(own if names is None else names, dim)
    scales = parameters or [ParameterScale(name, k) for k, name in enumerate(labels)]
    centres = np.empty((0, dim)) if modes is None else as_matrix(locations, dim, minimum=1, name="modes")
    if covariances is not None:
        covariances = as_covariances(covariances, centres.shape)
    return Scene(x, centres, covariances, scales, labels, target)


def coordinates_that_matter(scene: Scene, verdict: Verdict | None) -> tuple[int, ...]:
    """At most three coordinates, in order: of the findings, and those in which modes are farthest apart."""
    findings = () if verdict is None else verdict.findings
    parameters = [item.parameter for item in scene.scales]
    named = [name for finding in findings for name in finding.parameters]
    chosen = [parameters.index(name) for name in named if name in parameters]
    if len(scene.centres) > 1:
        about_modes = any(finding.mode is not None for finding in findings)
        apart = list(_most_apart(scene))
        chosen = apart + chosen if about_modes else chosen + apart
    first = dict.fromkeys([*chosen, *range(min(scene.x.shape[1], 2))])
    return tuple(sorted(list(first)[:3]))


def _most_apart(scene: Scene) -> tuple[int, ...]:
    """The two coordinates in which modes are farthest apart for the spread of the draws."""
    dim = scene.x.shape[1]
    if dim < 3 or len(scene.centres) < 2:
        return tuple(range(min(dim, 2)))
    spread = np.maximum(scene.x.std(axis=0), np.finfo(float).tiny) if len(scene.x) else 1.0
    first, second = np.argsort(-np.ptp(scene.centres, axis=0) / spread, kind="stable")[:2]
    return int(first), int(second)


def _draw_one(ax: Any, scene: Scene, k: int) -> None:
    """Histogram of one coordinate with the modes, and the density if it is all there is."""
    values = scene.scales[k].values
    if len(scene.x):
        draws = values(scene.x[:, k])
        ax.hist(draws, bins=50, density=True, color=MAIN_COLOUR, alpha=0.6, label="draws")
    density = _density_grid(scene) if scene.x.shape[1] == 1 else None
    if density is not None:
        height = np.where(density.height > 1e-3 * density.height.max(), density.height, np.nan)
        ax.plot(density.lines[0], height, color=CONTRAST_COLOUR, lw=1.8, label="density")
    for number, centre in enumerate(scene.centres[:, k]):
        label = None if number else "modes"
        ax.axvline(values(centre), color=MUTED_COLOUR, lw=1, ls=":", label=label)
    ax.set_ylabel("density")


def _draw_two(ax: Any, scene: Scene, chosen: tuple[int, ...]) -> None:
    """Scatter of two coordinates over contours of the density, or over the ellipses of the modes."""
    points = scene.x[:: max(1, len(scene.x) // MAX_POINTS), list(chosen)]
    draws = scene.parameters(points, chosen)
    centres = scene.parameters(scene.centres[:, list(chosen)], chosen)
    if len(draws):
        ax.scatter(draws[:, 0], draws[:, 1], s=5, color=MAIN_COLOUR, alpha=0.5, lw=0, label="draws")
    density = _density_grid(scene)
    if density is not None:
        _draw_contours(ax, density, chosen)
    elif scene.covariances is not None:
        _draw_ellipses(ax, scene, chosen)
    elif len(centres):
        ax.scatter(centres[:, 0], centres[:, 1], marker="x", color=CONTRAST_COLOUR, label="modes")
    extent = np.ptp(np.concatenate([draws, centres]), axis=0)
    box = {"boxstyle": "round,pad=0.1", "fc": PAPER_COLOUR, "ec": "none", "alpha": 0.7}
    style = {"textcoords": "offset points", "color": CONTRAST_COLOUR, "weight": "bold", "bbox": box}
    written: list[np.ndarray] = []
    for text, place in zip(scene.mode_labels(), centres, strict=True):
        # those that would be written over others are left out
        if all(np.any(np.abs(place - other) > [0.08, 0.11] * extent) for other in written):
            written.append(place)
            ax.annotate(text, place, (6, 5), **style)


def _grid_lines(scene: Scene, count: int) -> list[np.ndarray]:
    """Values of each coordinate that cover the draws and the modes.

    Where the covariances of the modes are known, the lines reach 4 standard deviations beyond them and are
    fine there. Without them they reach beyond the draws by their range.
    """
    x, centres = scene.x, scene.centres
    if scene.covariances is None:
        reach = (np.ptp(x, axis=0) if len(x) else 0) + 1.0
        near = np.empty((0, x.shape[1]))
    else:
        widths = np.sqrt(np.diagonal(scene.covariances, axis1=1, axis2=2))
        reach = 4 * widths
        around = centres[:8, None] + widths[:8, None] * np.linspace(-4, 4, 25)[:, None]
        near = around.reshape(-1, x.shape[1])
    ends = np.concatenate([x, centres - reach, centres + reach])
    even = np.linspace(ends.min(axis=0), ends.max(axis=0), count)
    return [np.unique(line) for line in np.concatenate([even, near]).T]


def _density_grid(scene: Scene) -> DensityGrid | None:
    """The density of one or two parameters, if these are all, on a grid."""
    target = scene.target
    if target is None or target.dim > 2 or not len(scene.centres):
        return None
    lines = _grid_lines(scene, 2001 if target.dim == 1 else 200)
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    log_p = log_density_at(target, grid.reshape(-1, target.dim), proposal=True).reshape(grid.shape[:-1])
    mass = np.exp(log_p - log_p.max())
    slope = np.zeros_like(mass)
    for k, line in enumerate(lines):
        along = [-1 if axis == k else 1 for axis in range(target.dim)]
        mass = mass * np.gradient(line).reshape(along)
        slope = slope + scene.scales[k].log_slope(line).reshape(along)
    total = np.log(mass.sum()) + log_p.max()
    parameters = [scene.scales[k].values(line) for k, line in enumerate(lines)]
    return DensityGrid(parameters, np.exp(log_p - slope - total), mass / mass.sum())


def _draw_contours(ax: Any, density: DensityGrid, chosen: tuple[int, ...]) -> None:
    """Lines that enclose 86 % and 39 % of a density of two coordinates, as 2 and 1 sd of a Gaussian do."""
    order = np.argsort(-density.height, axis=None)
    enclosed = np.cumsum(density.mass.ravel()[order])
    ranks = np.minimum(np.searchsorted(enclosed, (0.865, 0.393)), len(order) - 1)
    levels = density.height.ravel()[order][ranks]
    if not levels[0] < levels[1] < density.height.max():
        return  # the grid does not resolve it
    i, j = chosen
    height = density.height.T if i < j else density.height
    style = {"colors": CONTRAST_COLOUR, "linewidths": 1.1, "linestyles": ["--", "-"]}
    ax.contour(density.lines[i], density.lines[j], height, levels=levels, **style)
    ax.plot([], [], color=CONTRAST_COLOUR, lw=1.1, label="density, 39 % and 86 %")


def _draw_ellipses(ax: Any, scene: Scene, chosen: tuple[int, ...]) -> None:
    """Ellipses of 1 and 2 standard deviations about the first modes."""
    assert scene.covariances is not None
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for k, (centre, covariance) in enumerate(zip(scene.centres[:20], scene.covariances, strict=False)):
        values, vectors = np.linalg.eigh(covariance[np.ix_(chosen, chosen)])
        edge = (vectors * np.sqrt(np.maximum(values, 0))) @ circle
        for radius, style in ((1, "-"), (2, "--")):
            points = scene.parameters((centre[list(chosen), None] + radius * edge).T, chosen)
            label = f"density, {radius} sd" if k == 0 else None
            ax.plot(points[:, 0], points[:, 1], style, color=CONTRAST_COLOUR, lw=1.1, label=label)
