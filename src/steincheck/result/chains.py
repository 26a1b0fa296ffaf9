"""How Markov chains were cut into blocks, and how they changed between modes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..wording.results import blocks_text, changes_text


@dataclass(frozen=True, eq=False)
class ChainBlocks:
    """How Markov chains were cut into blocks of nearly independent sums.

    Attributes
    ----------
    n_chains, n_blocks : int
        Number of chains, and of blocks whose signs were flipped.
    autocorrelation_time, effective_sample_size : float
        Autocorrelation time of the draws' contributions to the statistic, and the effective sample size.
    """

    n_chains: int
    n_blocks: int
    autocorrelation_time: float
    effective_sample_size: float

    def __str__(self) -> str:
        return blocks_text(self)


@dataclass(frozen=True, eq=False, repr=False)
class ChainWeights(ChainBlocks):
    """What Markov chains can tell about the weights of the modes.

    Attributes
    ----------
    n_chains, n_blocks, autocorrelation_time, effective_sample_size
        As in `ChainBlocks`, for the net flows between modes; 0 blocks and NaN if they were not compared.
    n_changes : int
        Number of changes of mode.
    sojourns : array (M,)
        Number of sojourns of the chains at each mode.
    shares : array (C, M)
        Share of each mode in the draws of each chain.
    """

    n_changes: int
    sojourns: np.ndarray
    shares: np.ndarray

    @property
    def stuck(self) -> bool:
        """Whether every chain has more than 99 % of its draws at one mode; the rest may be tails."""
        return bool((self.shares.max(axis=1) > 0.99).all())

    def __repr__(self) -> str:
        return f"<ChainWeights: {self}>"

    def __str__(self) -> str:
        return blocks_text(self) if self.n_blocks else changes_text(self)
