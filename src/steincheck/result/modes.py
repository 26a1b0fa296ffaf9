"""Records of modes: where they are, and how many draws are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

import numpy as np

from .._validation import as_numbers, as_stored, as_texts, as_whole, check_shape, listed, require_kind, shown
from .plain import as_plain

SearchEnd = Literal[
    "complete",
    "max_modes",
    "max_rounds",
    "max_evaluations",
    "max_seconds",
    "not explored",
    "no mode",
    "improper",
]


@dataclass(frozen=True, kw_only=True)
class ModeSearch:
    """How a mode search went, and why it ended; None where a number does not apply.

    Attributes
    ----------
    n_starts : int
        Climbs; in a box, of the uniform starts and those given.
    n_converged, n_outside_support, n_saddle_points, n_not_examined : int or None
        In a box, the climbs that ended at a mode, those that began where the density is 0, those that ended
        at a saddle point, and those left out because `max_modes` was reached.
    n_not_converged : int
        Climbs that did not converge.
    n_dropped : int or None
        In a box, the modes left out because of their small mass.
    n_rounds : int
        Rounds of climbs; in a box, of exploration.
    n_evaluations, n_non_finite : int
        Points at which the density was evaluated, and those where it or its score was not finite.
    farthest : float or None
        Without a box, the largest distance of starts from the modes known, in standard deviations.
    from_draws : bool or None
        Without a box, whether draws gave location and scale.
    effort : float or None
        Without a box, the numbers of starts as a share of the usual ones: 1, or less for slow targets.
    reason : str
        "complete" if nothing new was found at the end; the limit that ended the search, "max_modes",
        "max_rounds", "max_evaluations" or "max_seconds"; "not explored" in a box with ``explore=False``;
        "no mode", or "improper" where that is because the density is improper.
    message : str
        The same in words.
    explored : tuple of int
        Modes from which rays were sent to their neighbours.
    seed : int or None
        The `rng` that gives the same modes again; None for a search made within a test, whose `settings` do.
    """

    n_starts: int
    n_converged: int | None = None
    n_not_converged: int
    n_outside_support: int | None = None
    n_saddle_points: int | None = None
    n_not_examined: int | None = None
    n_dropped: int | None = None
    n_rounds: int
    n_evaluations: int
    n_non_finite: int
    farthest: float | None = None
    from_draws: bool | None = None
    effort: float | None = None
    reason: SearchEnd
    message: str
    explored: tuple[int, ...] = ()
    seed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON; what this search does not count is left out."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return as_plain({name: value for name, value in values.items() if value is not None})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ModeSearch:
        """The search of a record that `to_dict` made."""
        require_kind(record, Mapping, "record")
        values: dict[str, Any] = {}
        for item in fields(cls):
            key = item.name
            value = record.get(key, None if item.default is MISSING else item.default)
            kinds: dict[str, Any] = {"reason": str, "message": str, "explored": (list, tuple)}
            optional = value is None and item.default is None
            if not optional and not isinstance(value, kinds.get(key, (int, float))):
                raise ValueError(f"`search` must be one that `to_dict` wrote, got {key} = {shown(value)}")
            values[key] = tuple(value) if key == "explored" else value
        return cls(**values)


@dataclass(frozen=True, eq=False, repr=False)
class Modes:
    """Modes of a target, highest first: local maxima of log p and the inverse Hessians of -log p there.

    At a mode with a flat or pointed top the covariance says where log p has dropped by 1/2. `n_starts` is how
    many climbs ended at each mode (0: found by symmetry or exploration, or given by the user), `search` how
    the search went: starts, rounds, evaluations, why it ended; `symmetries` says which symmetries of the
    density take modes to each other; `names` are those of the parameters, where they are known.

    Attributes
    ----------
    locations, covariances : arrays (M, d), (M, d, d)
    log_density : array (M,)
        Up to the target's constant.
    n_starts : array (M,)
        Climbs that ended at each mode.
    warnings, symmetries : tuple of str
    names : tuple of str
        Of the coordinates; empty where they are not known.
    search : ModeSearch or None
        None for modes that were given.
    """

    locations: np.ndarray  #: (M, d)
    covariances: np.ndarray  #: (M, d, d)
    log_density: np.ndarray  #: (M,), up to the target's constant
    n_starts: np.ndarray  #: (M,)
    warnings: tuple[str, ...] = ()
    search: ModeSearch | None = None
    symmetries: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Shapes and finite locations; covariances are checked where modes are given to a test."""
        locations = as_stored(self.locations, "locations")
        if locations.ndim != 2 or not np.isfinite(locations).all():
            rule = "`locations` must be finite, shape (M, d), one mode per row"
            raise ValueError(f"{rule}, got shape {locations.shape} with {shown(self.locations)}")
        count, dim = locations.shape
        covariances = as_stored(self.covariances, "covariances")
        check_shape(covariances, (count, dim, dim), "covariances", "a matrix per mode")
        log_density = as_stored(self.log_density, "log_density")
        check_shape(log_density, (count,), "log_density", "a number per mode")
        n_starts = as_whole(self.n_starts, "n_starts")
        check_shape(n_starts, (count,), "n_starts", "a number per mode")
        if np.any(n_starts < 0):
            raise ValueError(f"`n_starts` must not be negative, got {shown(self.n_starts)}")
        if self.search is not None:
            require_kind(self.search, ModeSearch, "search")
        object.__setattr__(self, "locations", locations)
        object.__setattr__(self, "covariances", covariances)
        object.__setattr__(self, "log_density", log_density)
        object.__setattr__(self, "n_starts", n_starts)
        for name in ("warnings", "symmetries", "names"):
            object.__setattr__(self, name, as_texts(getattr(self, name), name))
        if len(self.names) not in (0, dim):
            raise ValueError(f"`names` must name all {dim} coordinates, or be empty, got {shown(self.names)}")

    @property
    def laplace_weights(self) -> np.ndarray:
        """Share of each mode were it Gaussian: p(mu) det(A)^(1/2), normalised."""
        log_weight = self.log_density + 0.5 * np.linalg.slogdet(self.covariances)[1]
        weight = np.exp(log_weight - log_weight.max(initial=-np.inf))
        return weight / weight.sum()

    @property
    def search_sentence(self) -> str:
        """How thorough the search was, and what it could not have found.

        Examples
        --------
        >>> import steincheck as sc
        >>> modes = sc.find_modes(sc.models.gaussian_mixture([[0.0], [9.0]]), rng=0)
        >>> modes.search_sentence  # doctest: +ELLIPSIS
        'evaluated ... points, up to 2187 standard deviations from the first point; no mode of weight ...'
        """
        if self.search is None or self.search.farthest is None:
            return "the modes were given, or found in a box"
        begin = "the draws" if self.search.from_draws else "the first point"
        text = (
            f"evaluated {self.search.n_evaluations:,} points, up to {self.search.farthest:.0f} standard "
            f"deviations from {begin}; {self.search.message}"
        )
        d = self.locations.shape[1]
        if d >= 10:
            text += f". A mode much narrower than these in {d} dimensions would not have been found"
        return text

    def __len__(self) -> int:
        return len(self.locations)

    def __repr__(self) -> str:
        count, dim = self.locations.shape
        highest = f", the highest at ({self._place(0)})" if count else ""
        return f"<Modes: {count} in {dim} dimension{'s' * (dim > 1)}{highest}>"

    def __str__(self) -> str:
        lines = ["mode   log density  starts  Laplace weight  location"]
        for k, weight in enumerate(self.laplace_weights):
            lines.append(
                f"{k:4d} {self.log_density[k]:13.4f} {self.n_starts[k]:7d} {weight:15.4f}  ({self._place(k)})"
            )
        lines += [f"symmetry: {words}" for words in self.symmetries]
        if self.search is not None:
            lines.append(f"search ended: {self.search.message}")
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])

    def _place(self, k: int) -> str:
        """The location of a mode, its first coordinates."""
        x = self.locations[k]
        rounded = np.where(np.abs(x) > 1e-6 * np.sqrt(np.diag(self.covariances[k])), x, 0.0)
        return listed([self._entry(i, value) for i, value in enumerate(rounded)], 5)

    def _entry(self, i: int, value: float) -> str:
        return f"{self.names[i]} = {value:.4g}" if self.names else f"{value:.4g}"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        names = (
            "locations",
            "covariances",
            "log_density",
            "n_starts",
            "laplace_weights",
            "warnings",
            "search",
            "symmetries",
            "names",
        )
        values = {name: getattr(self, name) for name in names}
        return as_plain({**values, "search": self.search or {}})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Modes:
        """The modes of a record that `to_dict` made, or of the JSON that ``steincheck modes`` writes.

        Examples
        --------
        >>> import json
        >>> import steincheck as sc
        >>> modes = sc.find_modes(sc.models.gaussian_mixture([[0.0], [9.0]], weights=[0.3, 0.7]), rng=0)
        >>> sc.Modes.from_dict(json.loads(json.dumps(modes.to_dict())))
        <Modes: 2 in 1 dimension, the highest at (9)>
        """
        require_kind(record, Mapping, "record")
        names = as_texts(record.get("names", ()), "names")
        locations = as_numbers(record.get("locations"), "locations")
        if locations.ndim != 2 or len(names) not in (0, locations.shape[1]):
            raise ValueError(
                f"`locations` must have shape (M, d), d as many as there are names, got {locations.shape} "
                f"and {len(names)} names"
            )
        count, dim = locations.shape
        search = record.get("search") or None
        if search is not None:
            require_kind(search, Mapping, "search")
        return cls(
            locations,
            _shaped(record, "covariances", (count, dim, dim)),
            _shaped(record, "log_density", (count,)),
            as_whole(_shaped(record, "n_starts", (count,)), "n_starts"),
            as_texts(record.get("warnings", ()), "warnings"),
            None if search is None else ModeSearch.from_dict(search),
            as_texts(record.get("symmetries", ()), "symmetries"),
            names,
        )


def _shaped(record: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of a record, in an array of this shape."""
    array = as_numbers(record.get(name), name)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite, of shape {shape}, got shape {array.shape}")
    return array
