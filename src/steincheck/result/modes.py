"""Records of modes: where they are, and how many draws are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

import numpy as np

from .._validation import as_numbers, as_stored, as_whole, check_shape, listed, require_kind, shown
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
    """How a mode search went, and why it ended; None where a number is not one of this search.

    Attributes
    ----------
    n_starts : int
        Climbs; in a box, of the uniform starts and those given.
    n_converged, n_outside_support, n_saddle_points, n_not_examined : int or None
        In a box, the climbs that ended at a mode, those that began where the density is 0, those that ended
        at a saddle point, and those left out because `max_modes` was reached.
    n_not_converged : int
        Climbs that did not come to rest.
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
    stopped : str
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
    stopped: str
    explored: tuple[int, ...] = ()
    seed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON: what this search counts, by names without "n_"."""
        values = {item.name.removeprefix("n_"): getattr(self, item.name) for item in fields(self)}
        return as_plain({name: value for name, value in values.items() if value is not None})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ModeSearch:
        """The search of a record that `to_dict` made."""
        require_kind(record, Mapping, "search")
        values: dict[str, Any] = {}
        for item in fields(cls):
            key = item.name.removeprefix("n_")
            value = record.get(key, None if item.default is MISSING else item.default)
            kinds: dict[str, Any] = {"reason": str, "stopped": str, "explored": (list, tuple)}
            optional = value is None and item.default is None
            if not optional and not isinstance(value, kinds.get(key, (int, float))):
                raise ValueError(f"`search` must be one that `to_dict` wrote, got {key} = {shown(value)}")
            values[item.name] = tuple(value) if key == "explored" else value
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
        object.__setattr__(self, "locations", locations)
        object.__setattr__(self, "covariances", covariances)
        object.__setattr__(self, "log_density", log_density)
        object.__setattr__(self, "n_starts", n_starts)
        for name in ("warnings", "symmetries", "names"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

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
        'searched ... points up to 2187 standard deviations from the first point; no mode of weight ...'
        """
        if self.search is None or self.search.farthest is None:
            return "the modes were given, or found in a box"
        begin = "the draws" if self.search.from_draws else "the first point"
        text = (
            f"searched {self.search.n_evaluations:,} points up to {self.search.farthest:.0f} standard "
            f"deviations from {begin}; {self.search.stopped}"
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
            lines.append(f"search ended: {self.search.stopped}")
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
        names = _texts(record, "names")
        locations = as_numbers(record.get("locations"), "locations")
        if locations.ndim != 2 or len(names) not in (0, locations.shape[1]):
            raise ValueError(
                f"`locations` must have shape (M, d), d as many as there are names, got {locations.shape} "
                f"and {len(names)} names"
            )
        count, dim = locations.shape
        search = record.get("search") or None
        return cls(
            locations,
            _shaped(record, "covariances", (count, dim, dim)),
            _shaped(record, "log_density", (count,)),
            _shaped(record, "n_starts", (count,)).astype(int),
            _texts(record, "warnings"),
            None if search is None else ModeSearch.from_dict(search),
            _texts(record, "symmetries"),
            names,
        )


def _shaped(record: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of a record, in an array of this shape."""
    array = as_numbers(record.get(name), name)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite, of shape {shape}, got shape {array.shape}")
    return array


def _texts(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts of a record, which may be missing."""
    texts = record.get(name, ())
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"`{name}` must be a list of texts, got {shown(texts)}")
    return tuple(texts)


TOO_MANY = "too many draws"
TOO_FEW = "too few draws"
AS_EXPECTED = "as expected"
NOT_COMPARED = "not compared"
NOT_EXAMINED = "not examined"


@dataclass(frozen=True, eq=False)
class ModeTable:
    """How many draws are at each mode, and how many the density says there should be.

    Attributes
    ----------
    locations : array (M, d)
        The modes.
    n_draws : array (M,)
        Number of draws at each.
    observed, implied : arrays (M,)
        Share of the draws, and share of the density, at each mode; an implied share is NaN where it cannot
        be estimated.
    observed_interval, implied_interval : arrays (M, 2)
        95 % confidence intervals, each for one mode alone; NaN for the observed share of a mode that no chain
        ever enters or leaves, which is that of the starting points.
    words : tuple of str
        Per mode "too many draws", "too few draws", "as expected", "not compared" (with modes of other groups:
        within its own group the share is as expected) or "not examined".
    n_local : array (M,), optional
        Points of chains started at the mode itself on which its implied share rests too, since it has hardly
        any draws; None if there was no such mode, or the chains would have cost too much.
    """

    locations: np.ndarray
    n_draws: np.ndarray
    observed: np.ndarray
    implied: np.ndarray
    observed_interval: np.ndarray
    implied_interval: np.ndarray
    words: tuple[str, ...]
    n_local: np.ndarray | None = None

    @property
    def missing(self) -> tuple[int, ...]:
        """Modes without a single draw."""
        return tuple(np.flatnonzero(self.n_draws == 0).tolist())

    def __len__(self) -> int:
        return len(self.n_draws)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        names = ("locations", "n_draws", "observed", "observed_interval", "implied", "implied_interval")
        return as_plain({name: getattr(self, name) for name in (*names, "words", "missing")})


@dataclass(frozen=True, eq=False)
class ModeWeights:
    """Importance weights that give the modes of a set of draws the shares of the density.

    Attributes
    ----------
    weights : array (n,)
        Importance weights of the draws, with mean 1.
    effective_draws : float
        Number of independent draws of the density that the weighted draws are worth.
    """

    weights: np.ndarray
    effective_draws: float


@dataclass(frozen=True, eq=False)
class DisplacementTable:
    """Flows of draws along the displacements of a lattice of modes, and against them.

    Attributes
    ----------
    displacements : array (V, d)
    flow : array (V, 2)
        Mean probability of moving along and against each.
    net_flow, net_flow_se : arrays (V,)
        Along minus against, positive where there are too few draws ahead, and its standard error.
    words : tuple of str
        "too few draws ahead", "too few draws behind", "as expected" or "not examined" per displacement.
    pvalue : float
        p-value of all displacements together.
    degrees_of_freedom : int
    """

    displacements: np.ndarray
    flow: np.ndarray
    net_flow: np.ndarray
    net_flow_se: np.ndarray
    words: tuple[str, ...]
    pvalue: float
    degrees_of_freedom: int


@dataclass(frozen=True, eq=False)
class ChainBlocks:
    """How Markov chains were cut into blocks of nearly independent sums.

    Attributes
    ----------
    n_chains, n_blocks : int
        Number of chains, and of blocks whose signs were flipped.
    autocorrelation_time, effective_draws : float
        Autocorrelation time of the draws' contributions to the statistic, and how many independent draws the
        chains are worth.
    """

    n_chains: int
    n_blocks: int
    autocorrelation_time: float
    effective_draws: float

    def __str__(self) -> str:
        chains = "one chain" if self.n_chains == 1 else f"{self.n_chains} chains"
        return (
            f"tested as {chains}, worth about {self.effective_draws:.0f} independent draws "
            f"(autocorrelation time {self.autocorrelation_time:.3g}, {self.n_blocks} blocks)"
        )


@dataclass(frozen=True, eq=False)
class ChainWeights(ChainBlocks):
    """What Markov chains can tell about the weights of the modes.

    Attributes
    ----------
    n_chains, n_blocks, autocorrelation_time, effective_draws
        As in `ChainBlocks`, for the net flows between modes; 0 blocks and NaN if none are compared.
    n_changes : int
        Number of changes of mode; where the weights could not be tested, of those after which a chain stays.
    sojourns : array (M,)
        Number of sojourns of the chains at each mode, between such changes.
    shares : array (C, M)
        Share of each mode in the draws of each chain.
    compared : tuple of tuples of int
        Groups of modes between which the chains change often enough for their weights to be compared.
    pooled : tuple of int
        Modes among them with few sojourns, whose weights were compared only together.
    set_size : int
        Number of independent draws with which the set was compared where the chains could not be tested.
    """

    n_changes: int
    sojourns: np.ndarray
    shares: np.ndarray
    compared: tuple[tuple[int, ...], ...]
    pooled: tuple[int, ...]
    set_size: int

    def __str__(self) -> str:
        if self.n_blocks:
            return super().__str__()
        chains = "one chain" if self.n_chains == 1 else f"{self.n_chains} chains"
        changes = "1 mode change" if self.n_changes == 1 else f"{self.n_changes or 'no'} mode changes"
        return f"{chains} with {changes} in all"


def mode_rows(table: ModeTable) -> list[tuple[str, str, str, str, str]]:
    """The modes as rows of text: number, draws, observed share, implied share, what that says."""
    rows = []
    for k, word in enumerate(table.words):
        observed = _share(table.observed[k], table.observed_interval[k])
        implied = _share(table.implied[k], table.implied_interval[k])
        words = f"missing, {word}" if table.n_draws[k] == 0 else word
        rows.append((str(k), str(table.n_draws[k]), observed, implied, words))
    return rows


def _share(share: float, interval: np.ndarray) -> str:
    if np.isnan(share):
        return "-"
    if np.isnan(interval[0]):
        return f"{share:.1%} (no interval)"
    return f"{share:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"
