"""Records of modes: where they are, and how many draws are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np

from .._validation import as_numbers, as_stored, as_texts, check_shape, listed, require_kind, shown
from .plain import as_plain

SearchEnd = Literal[
    "complete", "max_modes", "max_evaluations", "max_seconds", "one round", "no mode", "improper"
]


class SignedPermutation(NamedTuple):
    """A symmetry of a density: the map x -> sign * x[order]."""

    order: tuple[int, ...]
    sign: tuple[int, ...]

    @property
    def kind(self) -> Literal["exchange of coordinates", "change of sign"]:
        """Whether coordinates change places, as labels of components do, or signs only."""
        return "exchange of coordinates" if self.moved else "change of sign"

    @property
    def moved(self) -> tuple[int, ...]:
        """The coordinates that change places."""
        return tuple(i for i, j in enumerate(self.order) if i != j)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The image of a point, or of every row."""
        return np.asarray(self.sign) * x[..., list(self.order)]

    def conjugate(self, matrix: np.ndarray) -> np.ndarray:
        """P A P' for a matrix that belongs to x, or for every one of a stack."""
        order = list(self.order)
        return np.outer(self.sign, self.sign) * matrix[..., order, :][..., :, order]


@dataclass(frozen=True, kw_only=True)
class ModeSearch:
    """How a mode search went, and why it ended.

    Attributes
    ----------
    n_starts : int
        Climbs.
    n_rounds : int
        Rounds of climbs; 1 in a box.
    n_evaluations, n_non_finite : int
        Points at which the density was evaluated, and those where it or its score was not finite.
    reason : str
        "complete" if nothing new was found at the end; the limit that ended the search, "max_modes",
        "max_evaluations" or "max_seconds"; "one round" in a box; "no mode", or "improper" where that is
        because the density is improper.
    message : str
        The same in words.
    seed : int or None
        The `rng` that gives the same modes again; None for a search made within a test, whose `settings` do.
    """

    n_starts: int
    n_rounds: int
    n_evaluations: int
    n_non_finite: int
    reason: SearchEnd
    message: str
    seed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain({item.name: getattr(self, item.name) for item in fields(self)})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ModeSearch:
        """The search of a record that `to_dict` made."""
        require_kind(record, Mapping, "search")
        values: dict[str, Any] = {item.name: record.get(item.name) for item in fields(cls)}
        for key, value in values.items():
            wanted = str if key in ("reason", "message") else int
            if not isinstance(value, wanted) and not (key == "seed" and value is None):
                raise ValueError(f"`search` must be one that `to_dict` wrote, got {key} = {shown(value)}")
        return cls(**values)


@dataclass(frozen=True, eq=False, repr=False)
class Modes:
    """Modes of a target, highest first: local maxima of log p and the inverse Hessians of -log p there.

    At a mode with a flat or pointed top the covariance says where log p has dropped by 1/2. `search` says how
    the search went, `symmetries` which symmetries of the density take modes to each other.

    Attributes
    ----------
    locations, covariances : arrays (M, d), (M, d, d)
    log_density : array (M,)
        Up to the target's constant.
    warnings : tuple of str
    symmetries : tuple of SignedPermutation
    names : tuple of str
        Of the coordinates; empty where they are not known.
    search : ModeSearch or None
        None for modes that were given.
    """

    locations: np.ndarray  #: (M, d)
    covariances: np.ndarray  #: (M, d, d)
    log_density: np.ndarray  #: (M,), up to the target's constant
    warnings: tuple[str, ...] = ()
    search: ModeSearch | None = None
    symmetries: tuple[SignedPermutation, ...] = ()
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
        if self.search is not None:
            require_kind(self.search, ModeSearch, "search")
        stored: dict[str, Any] = {
            "locations": locations,
            "covariances": covariances,
            "log_density": log_density,
        }
        stored |= {name: as_texts(getattr(self, name), name) for name in ("warnings", "names")}
        stored["symmetries"] = tuple(_as_symmetry(g, dim) for g in self.symmetries)
        for name, value in stored.items():
            object.__setattr__(self, name, value)
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
        'evaluated ... points; no mode of weight above 1/1000 was new in the last round'
        """
        from ..wording.modes import search_sentence

        return search_sentence(self.search, self.locations.shape[1])

    def __len__(self) -> int:
        return len(self.locations)

    def __repr__(self) -> str:
        count, dim = self.locations.shape
        highest = f", the highest at ({self._place(0)})" if count else ""
        return f"<Modes: {count} in {dim} dimension{'s' * (dim > 1)}{highest}>"

    def __str__(self) -> str:
        from ..wording.modes import symmetry_words

        lines = ["mode   log density  Laplace weight  location"]
        for k, weight in enumerate(self.laplace_weights):
            lines.append(f"{k:4d} {self.log_density[k]:13.4f} {weight:15.4f}  ({self._place(k)})")
        lines += [f"symmetry: {symmetry_words(g, self.names)}" for g in self.symmetries]
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
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        symmetries = [g._asdict() for g in self.symmetries]
        derived: dict[str, Any] = {
            "laplace_weights": self.laplace_weights,
            "search": self.search or {},
            "symmetries": symmetries,
        }
        return as_plain(values | derived)

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
        arrays = {
            name: as_numbers(record.get(name), name) for name in ("locations", "covariances", "log_density")
        }
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise ValueError(f"`{name}` must be finite, got {shown(record[name])}")
        search = record.get("search") or None
        return cls(
            **arrays,
            warnings=record.get("warnings", ()),
            search=None if search is None else ModeSearch.from_dict(search),
            symmetries=record.get("symmetries", ()),
            names=record.get("names", ()),
        )


def _as_symmetry(g: Any, dim: int) -> SignedPermutation:
    """A symmetry, or the record of one that `to_dict` made."""
    if isinstance(g, Mapping) and set(g) == {"order", "sign"}:
        g = SignedPermutation(tuple(g["order"]), tuple(g["sign"]))
    if not isinstance(g, SignedPermutation) or sorted(g.order) != list(range(dim)) or len(g.sign) != dim:
        raise TypeError(f"`symmetries` must be signed permutations of {dim} coordinates, got {shown(g)}")
    return g
