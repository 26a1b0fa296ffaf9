"""Modes: where they are, how they were found, and the shares of the draws and of the density there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from .._validation import as_stored, check_shape
from ..wording.numbers import mode_descriptions
from ..wording.page import share_table
from ..wording.results import search_sentence, symmetry_words
from .record import Record

SearchEnd = Literal[
    "complete", "max_modes", "max_evaluations", "max_seconds", "one round", "no mode", "improper"
]


class SignedPermutation(NamedTuple):
    """A symmetry of a density: the map x -> sign * x[order]."""

    order: tuple[int, ...]
    sign: tuple[int, ...]

    @property
    def moved(self) -> tuple[int, ...]:
        """The coordinates that change places, as labels of components do; none if signs alone change."""
        return tuple(i for i, j in enumerate(self.order) if i != j)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The image of a point, or of every row."""
        return np.asarray(self.sign) * x[..., list(self.order)]

    def conjugate(self, matrix: np.ndarray) -> np.ndarray:
        """P A P' for a matrix that belongs to x, or for every one of a stack."""
        order = list(self.order)
        return np.outer(self.sign, self.sign) * matrix[..., order, :][..., :, order]


@dataclass(frozen=True, kw_only=True)
class ModeSearch(Record):
    """How a mode search went, and why it ended.

    Attributes
    ----------
    n_starts : int
        Climbs.
    n_rounds : int
        Rounds of climbs; 1 in a box.
    n_evaluations : int
        Points at which the density was evaluated.
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
    reason: SearchEnd
    message: str
    seed: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Modes(Record):
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
        """Arrays of the right shapes; tests check the modes that they are given."""
        names = ("locations", "covariances", "log_density")
        self.__dict__.update({name: as_stored(getattr(self, name), name) for name in names})
        if self.locations.ndim != 2:
            rule = "`locations` must have shape (M, d), one mode per row"
            raise ValueError(f"{rule}, got shape {self.locations.shape}")
        count, dim = self.locations.shape
        check_shape(self.covariances, (count, dim, dim), "covariances", "a matrix per mode")
        check_shape(self.log_density, (count,), "log_density", "a number per mode")

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
        return search_sentence(self.search, self.locations.shape[1])

    def __len__(self) -> int:
        return len(self.locations)

    def __repr__(self) -> str:
        count, dim = self.locations.shape
        highest = f", the highest at {mode_descriptions(self.locations, self.names)[0]}" if count else ""
        return f"<Modes: {count} in {dim} dimension{'s' * (dim > 1)}{highest}>"

    def __str__(self) -> str:
        lines = ["mode   log density  Laplace weight  location"]
        places = mode_descriptions(self.locations, self.names) if len(self) else ()
        for k, (weight, place) in enumerate(zip(self.laplace_weights, places, strict=True)):
            lines.append(f"{k:4d} {self.log_density[k]:13.4f} {weight:15.4f}  {place}")
        lines += [f"symmetry: {symmetry_words(g, self.names)}" for g in self.symmetries]
        if self.search is not None:
            lines.append(f"search ended: {self.search.message}")
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])


@dataclass(frozen=True, eq=False, repr=False)
class ModeTable(Record):
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
    implied_interval : array (M, 2)
        95 % confidence intervals of the implied shares, each for one mode alone.
    implied_covariance : array (M, M)
        Covariance of the estimated implied shares, NaN where these are.
    """

    locations: np.ndarray
    n_draws: np.ndarray
    observed: np.ndarray
    implied: np.ndarray
    implied_interval: np.ndarray
    implied_covariance: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Realised error (M,) of the shares of the draws: observed minus implied."""
        return self.observed - self.implied

    @property
    def error_interval(self) -> np.ndarray:
        """95 % confidence intervals (M, 2) of the errors, each for one mode alone."""
        return self.observed[:, None] - self.implied_interval[:, ::-1]

    def __len__(self) -> int:
        return len(self.n_draws)

    def __str__(self) -> str:
        return "\n".join(share_table(self, mode_descriptions(self.locations)).lines)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class ImportanceWeights(Record):
    """Importance weights that give the modes of a set of draws the shares of the density.

    Attributes
    ----------
    weights : array (n,)
        Importance weights of the draws, with mean 1.
    effective_sample_size : float
        Effective sample size of the weighted draws.
    """

    weights: np.ndarray
    effective_sample_size: float


@dataclass(frozen=True, eq=False)
class DisplacementTable(Record):
    """Flows of draws along the displacements of a lattice of modes, and against them.

    Attributes
    ----------
    displacements : array (V, d)
    net_flow, net_flow_se : arrays (V,)
        Along minus against, positive where there are too few draws ahead, and its standard error.
    """

    displacements: np.ndarray
    net_flow: np.ndarray
    net_flow_se: np.ndarray
