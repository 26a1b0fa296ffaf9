"""Fixtures shared by all tests."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

# one worker per core: threads of two workers on two cores would wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NPROC", "1")  # of XLA's own pool

# Most of the suite's time is compilation, most programs run once: JAX's own tests do the same. XLA's older
# emitters, and one piece per program instead of 32, halve what is left; they change nothing that users run.
# A jaxlib that has dropped a flag stops at once and names it.
if os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1":
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )

import numpy as np
import pytest

import steincheck as sc

REFERENCE = Path(__file__).parent / "reference"

# A program is compiled once, whichever tests, workers and subprocesses use it. A worker that reads what
# another has half written compiles it too; JAX says so in a warning that pyproject.toml lets pass.
CACHE_VARIABLE = "STEINCHECK_COMPILATION_CACHE"
OWN_CACHE = None
is_worker = "PYTEST_XDIST_WORKER" in os.environ  # these have their parent's
if os.environ.get(CACHE_VARIABLE) != "off" and not is_worker:
    OWN_CACHE = os.environ[CACHE_VARIABLE] = tempfile.mkdtemp(prefix="steincheck-tests-")


def pytest_unconfigure():
    if OWN_CACHE:
        shutil.rmtree(OWN_CACHE, ignore_errors=True)


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def mixture_log_density(means, covariances, weights):
    """NumPy log density of a Gaussian mixture, independent of the package."""
    parts = []
    for mean, covariance, weight in zip(means, covariances, weights, strict=True):
        z = np.linalg.inv(np.linalg.cholesky(covariance))
        constant = np.log(weight) - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
        parts.append((mean, z, constant))

    def log_density(x):
        terms = [c - 0.5 * np.sum(((x - m) @ z.T) ** 2, axis=1) for m, z, c in parts]
        return np.logaddexp.reduce(terms, axis=0)

    def score(x):
        terms = np.array([c - 0.5 * np.sum(((x - m) @ z.T) ** 2, axis=1) for m, z, c in parts])
        share = np.exp(terms - np.logaddexp.reduce(terms, axis=0))
        slopes = np.array([-(x - m) @ z.T @ z for m, z, c in parts])
        return np.einsum("kn,knd->nd", share, slopes)

    return log_density, score


@pytest.fixture(params=["d1", "d2", "d10", "d1_rej"])
def golden(request):
    """Numbers computed with the public research code, and the target they belong to."""
    with np.load(REFERENCE / f"golden_{request.param}.npz") as file:
        arrays = {name: file[name] for name in file.files}
    log_density, score = mixture_log_density(arrays["means"], arrays["covs"], arrays["weights"])
    return arrays, sc.Target(log_density, score, dim=arrays["X"].shape[1])


@pytest.fixture
def normal_target():
    """Standard normal in two dimensions."""
    return sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=2)
