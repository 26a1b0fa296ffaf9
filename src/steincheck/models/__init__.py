"""The paper's models, each a `Target` with ``sample(n, rng)``; formulas and proofs: docs/theory/models.md."""

from .mixtures import LabelledDraws, ModelTarget, gaussian_mixture, gb_rbm, t_banana_mixture
from .sensors import sensor_labels, sensor_log_density, sensor_network

__all__ = [
    "LabelledDraws",
    "ModelTarget",
    "gaussian_mixture",
    "gb_rbm",
    "sensor_labels",
    "sensor_log_density",
    "sensor_network",
    "t_banana_mixture",
]


def __dir__() -> list[str]:
    return __all__
