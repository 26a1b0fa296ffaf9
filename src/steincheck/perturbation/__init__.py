"""Markov kernels that leave the target invariant and carry draws from mode to mode (paper, Sec. 5)."""

from .maps import Accept, JumpMaps, barker, jump_maps, metropolis, transition
from .move import Perturbation, perturb

__all__ = ["Accept", "JumpMaps", "Perturbation", "barker", "jump_maps", "metropolis", "perturb", "transition"]
