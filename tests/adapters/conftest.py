"""Real packages on the same three posteriors; `make test-adapters` installs what the marked tests need."""

from functools import lru_cache
from importlib.util import find_spec

import pytest

import steincheck as sc

from . import posteriors

# these import the packages at their top
collect_ignore = [
    f"test_{module}.py"
    for module, package in (
        ("arviz", "arviz"),
        ("numpyro", "numpyro"),
        ("pymc", "pymc"),
        ("torch", "torch"),
    )
    if find_spec(package) is None
]


def pytest_collection_modifyitems(items):
    """Warnings of the other packages are not ours to mend."""
    for item in items:
        if item.get_closest_marker("adapters"):
            for warning in ("FutureWarning", "DeprecationWarning", "PendingDeprecationWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))
            item.add_marker(pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"))


@lru_cache
def _target(package, name):
    if package == "numpyro":
        model, args = posteriors.numpyro_model(name)
        return sc.from_numpyro(model, *args)
    if package == "pymc":
        return sc.from_pymc(posteriors.pymc_model(name))
    if package == "stan":
        return sc.from_stan(posteriors.STAN[name], posteriors.DATA[name])
    return sc.from_torch(*posteriors.torch_log_density(name))


@pytest.fixture(scope="session")
def target_of():
    """``target_of(package, posterior)``, each made once."""
    return _target
