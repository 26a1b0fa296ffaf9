"""Pictures of draws and results. Every function takes `ax`, or makes one, and returns it."""

from .results import bandwidth_profile, effect_sizes, mode_shares, null_distribution, theta_profile
from .samples import draws, pairs

__all__ = [
    "bandwidth_profile",
    "draws",
    "effect_sizes",
    "mode_shares",
    "null_distribution",
    "pairs",
    "theta_profile",
]


def __dir__() -> list[str]:
    return __all__
