"""Models and draws of other packages: one module per package, which is imported when it is needed."""

from .arviz import to_arviz
from .bounded import unbounded
from .numpyro import from_numpyro
from .pymc import from_pymc
from .stan import from_stan
from .torch import from_torch

__all__ = ["from_numpyro", "from_pymc", "from_stan", "from_torch", "to_arviz", "unbounded"]
