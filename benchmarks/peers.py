"""Other packages on the same problem, through thin wrappers: draws and scores of a standard normal target.

Each function returns a call without arguments, or raises ImportError. Research code is used where it can be
imported (put its folder on PYTHONPATH); `pip install steincheck[bench]` installs what the package index has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

N_RESAMPLES = 500


def stein_thinning(x: np.ndarray) -> Callable[[], Any]:
    """The statistic alone, without a null distribution: NumPy, from the package index."""
    from stein_thinning.kernel import make_imq
    from stein_thinning.stein import ksd

    kernel = make_imq(x, "id")
    return lambda: ksd(lambda a, b: kernel(x[a], x[b], -x[a], -x[b]), len(x))


def kernel_gof(x: np.ndarray) -> Callable[[], Any]:
    """Wild bootstrap of the KSD (wittawatj/kernel-gof)."""
    from kgof import data, density, goftest, kernel

    target = density.IsotropicNormal(np.zeros(x.shape[1]), 1.0)
    test = goftest.KernelSteinTest(target, kernel.KGauss(float(x.shape[1])), n_simulate=N_RESAMPLES, seed=0)
    return lambda: test.perform_test(data.Data(x))


def ksdagg(x: np.ndarray) -> Callable[[], Any]:
    """KSDAgg in JAX (antoninschrab/ksdagg), at its published settings."""
    import jax
    import jax.numpy as jnp
    from ksdagg import ksdagg as reference

    draws = jnp.asarray(x)
    return lambda: jax.block_until_ready(reference(draws, -draws))


def pksd(x: np.ndarray) -> Callable[[], Any]:
    """KSD test of the paper's research code (XingLLiu/pksd)."""
    import tensorflow as tf
    import tensorflow_probability as tfp
    from pksd.bootstrap import Bootstrap
    from pksd.kernel import IMQ
    from pksd.ksd import KSD

    target = tfp.distributions.MultivariateNormalDiag(tf.zeros(x.shape[1]))
    draws = tf.constant(x, dtype=tf.float32)
    bootstrap = Bootstrap(KSD(target=target, kernel=IMQ(med_heuristic=True)), len(x))
    weights = bootstrap.multinom.sample(N_RESAMPLES)
    return lambda: bootstrap.test_once(alpha=0.05, num_boot=N_RESAMPLES, X=draws, multinom_samples=weights)


PEERS = {  # name: (wrapper, the test of ours it is compared with, largest n)
    "stein-thinning": (stein_thinning, "ksd_test, blocks", 4096),
    "kernel-gof": (kernel_gof, "ksd_test, multinomial", 4096),
    "ksdagg": (ksdagg, "ksdagg_test, wild", 4096),
    "pksd": (pksd, "ksd_test, multinomial", 1024),
}
