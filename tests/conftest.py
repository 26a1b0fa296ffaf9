"""Fixtures shared by all tests, and the environment in which they run."""

import gc
import os
import shutil
import sys
import tempfile

# one worker per core: threads of two workers on two cores would wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NPROC", "1")  # of XLA's own pool
os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "0")  # results are wanted at once

# Most of the suite's time is compilation, most programs run once: JAX's own tests do the same. XLA's older
# emitters, and one piece per program instead of 32, halve what is left; they change nothing that users run.
# A jaxlib that has dropped a flag stops at once and names it.
if os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1":
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )

# A program is compiled once, whichever tests, workers and subprocesses use it. A worker that reads what
# another has half written compiles it too; JAX says so in a warning that pyproject.toml lets pass.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers have their parent's
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="steincheck-tests-")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")

import numpy as np
import pytest
from harness import REFERENCE, mixture_log_density, standard_normal

import steincheck as sc


def pytest_unconfigure():
    cache = os.environ["JAX_COMPILATION_CACHE_DIR"]
    if "steincheck-tests-" in cache and "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(cache, ignore_errors=True)


def pytest_collection_finish():
    """Modules stay to the end: to look for garbage among them took a tenth of the time of the suite."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


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
    return standard_normal(2)
