"""The paper's figures and tables, and studies; run them with ``python -m experiments FIGURE``.

A module of figures has ``FIGURES`` by name, a module of studies ``STUDIES``, each a table whose rows are made
cell by cell. A cell is one repetition of one setting: all methods see the same sample, and all its random
numbers come from seeds made of the figure's name, the setting and the repetition, so that results do not
depend on who computes what when.
"""

import os
import sys

ONE_THREAD = {
    "NPROC": "1",  # threads of XLA's own pool, which the flags leave alone
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}

# One core per process, workers included, who inherit it: threads that wait for each other made studies of two
# processes on two cores ten times slower. NumPy and JAX read this when they are loaded, and never again.
if "numpy" not in sys.modules:
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
