"""Markov kernels that leave the target invariant and carry draws from mode to mode (paper, Sec. 5)."""

from .maps import Accept, barker, metropolis
from .move import Perturbation, perturb

__all__ = ["Accept", "Perturbation", "barker", "metropolis", "perturb"]
