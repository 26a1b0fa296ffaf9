"""Pictures of draws and results. Every function takes `ax`, or makes one, and returns it."""

from .results import bandwidth_profile, effect_sizes, mode_shares, null_distribution, theta_profile
from .samples import draws, pairs, perturbed
from .stein import contributions, witness

__all__ = [
    "bandwidth_profile",
    "contributions",
    "draws",
    "effect_sizes",
    "mode_shares",
    "null_distribution",
    "pairs",
    "perturbed",
    "theta_profile",
    "witness",
]


def __dir__() -> list[str]:
    return __all__
