"""Pictures of draws, with the modes and the density, on the parameters' own scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._palette import CONTRAST_COLOUR, MAIN_COLOUR
from .._validation import require_kind, shown
from .._whitening import standardised
from ..draws import as_matrix, to_unconstrained
from ..modes.arguments import as_covariances, as_pair
from ..result import Modes, Verdict
from ..target import Target, require_target
from ..target.parameter_scale import ParameterScale, parameter_scales
from ..typing import DrawsLike, ModesLike
from .axes import (
    MAX_POINTS,
    MUTED_COLOUR,
    PAPER_COLOUR,
    are_coordinates,
    as_points,
    axes_or_new,
    check_coordinates,
    labels_of,
    with_legend,
)
from .density import contours, density_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Scene(NamedTuple):
    """What is drawn: draws and modes in the coordinates of the target, and each coordinate's own scale."""

    x: np.ndarray  # (n, d)
    centres: np.ndarray  # (M, d)
    covariances: np.ndarray | None  # (M, d, d)
    scales: list[ParameterScale]  # (d,)
    labels: list[str]  # (d,)
    target: Target | None

    def mode_labels(self) -> list[str]:
        """The number of each mode, and that no draws, or hardly any, are near it."""
        if self.covariances is None or not len(self.x):
            return [str(k) for k in range(len(self.centres))]
        labels = []
        for k, (centre, covariance) in enumerate(zip(self.centres, self.covariances, strict=True)):
            z = standardised(self.x, centre, np.linalg.cholesky(covariance))
            near = np.mean(np.sum(z**2, axis=1) < 3.0**2 + self.x.shape[1])  # within 3 standard deviations
            few = "no draws" if near == 0 else "hardly any draws"
            labels.append(f"{k}: {few}" if near < 0.005 else str(k))
        return labels


def draws(
    draws: DrawsLike | None,
    *,
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
        None to draw `modes` (and the density) alone.
    modes : Modes, (locations, covariances) or locations (M, d), optional
        Modes to number from 0. Those with covariances are drawn as ellipses of 1 and 2 standard deviations:
        an ellipse without draws is a missing mode.
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
    scene = _scene(draws, modes, names, target)
    dim = scene.x.shape[1]
    chosen = (
        _most_apart(scene.x, scene.centres) if coordinates is None else check_coordinates(coordinates, dim)
    )
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
    draws : array (n, d), or with `target` anything that `as_draws` takes
    target : Target, optional
        Gives names, scales and, in two dimensions, contours of the density.
    verdict : Verdict, optional
        Its modes are drawn, and the coordinates are those that its findings are about.
    modes : Modes, (locations, covariances) or locations (M, d), optional
        Instead of those of the verdict.
    coordinates : sequence of int, optional
        Which to draw; by default the two or three that matter most.
    names : sequence of str, optional
        Names of all coordinates; by default those of the target.
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
    if verdict is not None:
        require_kind(verdict, Verdict, "verdict")
        modes = verdict.modes if modes is None else modes
    scene = _scene(draws, modes, names, target)
    dim = scene.x.shape[1]
    chosen = _that_matter(scene, verdict)
    if coordinates is not None:
        chosen = list(coordinates) if isinstance(coordinates, (list, tuple, np.ndarray)) else []
    if not chosen or not are_coordinates(chosen, dim) or len(set(chosen)) < len(chosen):
        raise ValueError(f"`coordinates` must be different ones of 0..{dim - 1}, got {shown(coordinates)}")
    axes = _grid(len(chosen), axes)
    for row, i in enumerate(chosen):
        _draw_diagonal(axes[row, row], scene, i)
        for column, j in enumerate(chosen[:row]):
            axes_or_new(axes[row, column])
            _draw_two(axes[row, column], scene, (j, i))
            axes[column, row].set_axis_off()
    for k, coordinate in enumerate(chosen):
        axes[-1, k].set_xlabel(scene.labels[coordinate], parse_math=False)
        axes[k, 0].set_ylabel(scene.labels[coordinate] if k else "", parse_math=False)
    if len(chosen) > 1:
        handles, words = axes[1, 0].get_legend_handles_labels()
        axes[0, -1].legend(handles, words, frameon=False, loc="upper right")
    return axes


def _draw_diagonal(ax: Any, scene: Scene, k: int) -> None:
    """A histogram without a scale."""
    axes_or_new(ax)
    _draw_one(ax, scene, k)
    ax.set_yticks([])
    ax.set_ylabel("")


def _grid(count: int, axes: Any) -> np.ndarray:
    """The given axes, or those of a new figure."""
    if axes is not None:
        given = np.asarray(axes, dtype=object)
        if given.shape != (count, count):
            raise ValueError(f"`axes` must have shape {(count, count)}, got {given.shape}")
        return given
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'steincheck[plot]'") from None
    size = 2.3 * count + 0.6
    return plt.subplots(count, count, figsize=(size, size), layout="constrained", squeeze=False)[1]


def _scene(draws: Any, modes: Any, names: Sequence[str] | None, target: Target | None) -> Scene:
    """Draws and modes in the coordinates of the target, with the labels of their own scales."""
    if target is None:
        alone = draws is None and isinstance(modes, Modes)
        x = np.empty((0, modes.locations.shape[1])) if alone else as_points(draws, "draws")
        scales = [ParameterScale(name, k, "") for k, name in enumerate(labels_of(names, x.shape[1]))]
    else:
        require_target(target)
        alone = draws is None and modes is not None
        x = np.empty((0, target.dim)) if alone else to_unconstrained(draws, target, minimum=1).values
        known = parameter_scales(target)
        coordinates = list(target.names or labels_of(None, target.dim))
        scales = [known.get(name, ParameterScale(name, k, "")) for k, name in enumerate(coordinates)]
    labels = labels_of(names if names is not None else [item.parameter for item in scales], x.shape[1])
    if modes is None:
        return Scene(x, np.empty((0, x.shape[1])), None, scales, labels, target)
    locations, covariances = as_pair(modes)
    centres = as_matrix(locations, x.shape[1], minimum=1, name="modes")
    if covariances is not None:
        covariances = as_covariances(covariances, centres.shape)
    return Scene(x, centres, covariances, scales, labels, target)


def coordinates_that_matter(x: np.ndarray, verdict: Verdict, target: Target | None) -> tuple[int, ...]:
    """The coordinates, three at most, that `pairs` draws of a verdict."""
    return tuple(_that_matter(_scene(x, verdict.modes, verdict.names, target), verdict))


def _that_matter(scene: Scene, verdict: Verdict | None) -> list[int]:
    """At most three coordinates, in order: of the findings, then those in which modes are farthest apart."""
    dim = scene.x.shape[1]
    named = [] if verdict is None else [name for finding in verdict.findings for name in finding.parameters]
    parameters = [item.parameter for item in scene.scales]
    chosen = [parameters.index(name) for name in named if name in parameters]
    if verdict is not None and verdict.mode_table is not None:
        apart = list(_most_apart(scene.x, scene.centres))
        about_modes = any(finding.mode is not None for finding in verdict.findings)
        chosen = apart + chosen if about_modes else chosen + apart
    return sorted(list(dict.fromkeys([*chosen, *range(min(dim, 2))]))[:3])


def _draw_one(ax: Any, scene: Scene, k: int) -> None:
    """Histogram of one coordinate with the modes, and the density if it is all there is."""
    scale = scene.scales[k]
    centres = scene.centres[:, k]
    if len(scene.x):
        ax.hist(
            scale.values(scene.x[:, k]), bins=50, density=True, color=MAIN_COLOUR, alpha=0.6, label="draws"
        )
    if scene.target is not None and scene.target.dim == 1:
        grid, density = density_curve(scene.target, np.concatenate([scene.x[:, 0], centres]), centres)
        ax.plot(
            scale.values(grid),
            density / np.exp(scale.log_slope(grid)),
            color=CONTRAST_COLOUR,
            lw=1.8,
            label="density",
        )
    for number, centre in enumerate(centres):
        label = None if number else "modes"
        ax.axvline(scale.values(centre), color=MUTED_COLOUR, lw=1, ls=":", label=label)
    ax.set_ylabel("density")


def _draw_two(ax: Any, scene: Scene, chosen: tuple[int, ...]) -> None:
    """Scatter of two coordinates over contours of the density, or over the ellipses of the modes."""
    first, second = (scene.scales[k] for k in chosen)
    points = scene.x[:: max(1, len(scene.x) // MAX_POINTS), list(chosen)]
    flat = scene.centres[:, list(chosen)]
    shown = np.stack([first.values(points[:, 0]), second.values(points[:, 1])], axis=1)
    if len(shown):
        ax.scatter(shown[:, 0], shown[:, 1], s=5, color=MAIN_COLOUR, alpha=0.5, lw=0, label="draws")
    lines = scene.target is not None and scene.target.dim == 2 and scene.covariances is not None
    if lines:
        _draw_contours(ax, scene, chosen)
    for k in range(min(len(flat), 20) if scene.covariances is not None and not lines else 0):
        assert scene.covariances is not None
        shape = scene.covariances[k][np.ix_(chosen, chosen)]
        for radius, style in ((1, "-"), (2, "--")):
            label = f"modes, {radius} sd" if k == 0 else None
            u, v = _ellipse(flat[k], shape, radius)
            ax.plot(first.values(u), second.values(v), style, color=CONTRAST_COLOUR, lw=1.1, label=label)
    centres = np.stack([first.values(flat[:, 0]), second.values(flat[:, 1])], axis=1)
    if len(flat) and scene.covariances is None:
        ax.scatter(centres[:, 0], centres[:, 1], marker="x", color=CONTRAST_COLOUR, label="modes")
    _label(ax, centres, np.ptp(np.concatenate([shown, centres]), axis=0), scene.mode_labels())


def _draw_contours(ax: Any, scene: Scene, chosen: tuple[int, ...]) -> None:
    """Lines that enclose 39 % and 86 % of a density of two coordinates, as 1 and 2 sd of a Gaussian do."""
    assert scene.target is not None
    assert scene.covariances is not None
    widths = np.sqrt(np.diagonal(scene.covariances, axis1=1, axis2=2))
    ends = np.concatenate([scene.x, scene.centres - 2.8 * widths, scene.centres + 2.8 * widths])
    window = np.stack([ends.min(axis=0), ends.max(axis=0)])
    found = contours(scene.target, scene.scales, window, scene.centres, widths)
    if found is None:
        return
    i, j = chosen
    ax.contour(
        scene.scales[i].values(found.lines[i]),
        scene.scales[j].values(found.lines[j]),
        found.height.T if i == 0 else found.height,
        levels=found.levels,
        colors=CONTRAST_COLOUR,
        linewidths=1.1,
        linestyles=["--", "-"],
    )
    label = "density, 39 % and 86 %" if found.complete else "density"
    ax.plot([], [], color=CONTRAST_COLOUR, lw=1.1, label=label)


def _ellipse(centre: np.ndarray, covariance: np.ndarray, radius: float) -> np.ndarray:
    """Points (2, 100) of the ellipse at `radius` standard deviations of a Gaussian."""
    angle = np.linspace(0, 2 * np.pi, 100)
    values, vectors = np.linalg.eigh(covariance)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return centre[:, None] + radius * (vectors * np.sqrt(np.maximum(values, 0))) @ circle


def _label(ax: Any, places: np.ndarray, extent: np.ndarray, words: Sequence[str]) -> None:
    """Write the words at the places, but for those that would be written over others."""
    written: list[np.ndarray] = []
    for text, place in zip(words, places, strict=True):
        if all(np.any(np.abs(place - other) > [0.08, 0.11] * extent) for other in written):
            written.append(place)
            ax.annotate(
                text,
                place,
                (6, 5),
                textcoords="offset points",
                color=CONTRAST_COLOUR,
                weight="bold",
                bbox={"boxstyle": "round,pad=0.1", "fc": PAPER_COLOUR, "ec": "none", "alpha": 0.7},
            )


def _most_apart(x: np.ndarray, centres: np.ndarray) -> tuple[int, ...]:
    if x.shape[1] < 3:
        return tuple(range(x.shape[1]))
    spread = np.ptp(centres, axis=0) if len(centres) > 1 else np.zeros(x.shape[1])
    scale = np.maximum(x.std(axis=0), np.finfo(float).tiny) if len(x) else 1.0
    first, second = np.argsort(-spread / scale, kind="stable")[:2]
    return int(first), int(second)


def perturbed(
    before: DrawsLike,
    after: DrawsLike,
    *,
    coordinates: Sequence[int] = (0,),
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws before and after the perturbation: densities of one coordinate, or a scatter of two.

    Parameters
    ----------
    before, after : arrays (n, d)
        The draws, and one of the samples of a `Perturbation`.
    coordinates : one or two int
        Which to draw.
    names : sequence of str, optional
        Names of all coordinates.
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> x = target.sample(100, 0)
    >>> moved = sc.perturb(x, target, [[-3.0], [3.0]], 0.9, n_steps=2, rng=0).samples[0]
    >>> ax = sc.plot.perturbed(x, moved)
    """
    before = as_points(before, "before")
    after = as_points(after, "after")
    if before.shape[1] != after.shape[1]:
        raise ValueError(
            f"`before` and `after` must have one dimension, got {before.shape} and {after.shape}"
        )
    chosen = check_coordinates(coordinates, before.shape[1])
    labels = labels_of(names, before.shape[1])
    ax = axes_or_new(ax)
    samples = ((before, MAIN_COLOUR, "before"), (after, CONTRAST_COLOUR, "after the perturbation"))
    if len(chosen) == 1:
        k = chosen[0]
        edges = np.histogram_bin_edges(np.concatenate([before[:, k], after[:, k]]), bins=60).tolist()
        for x, colour, label in samples:
            ax.hist(x[:, k], edges, density=True, histtype="step", color=colour, lw=1.6, label=label)
        ax.set_ylabel("density")
    else:
        for x, colour, label in samples:
            points = x[:MAX_POINTS]
            ax.scatter(
                points[:, chosen[0]], points[:, chosen[1]], s=5, color=colour, alpha=0.5, lw=0, label=label
            )
        ax.set_ylabel(labels[chosen[1]], parse_math=False)
    ax.set_xlabel(labels[chosen[0]], parse_math=False)
    return with_legend(ax)
