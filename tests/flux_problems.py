"""Problems that the tests of the flux room share: mixtures on a line, arcs, cubes, lattices, label chains."""

import numpy as np
from harness import mixture_draws, numpy_mixture

import steincheck as sc
from steincheck.chains.reading import Sample
from steincheck.flux.orbits import Anchors, Orbits
from steincheck.modes.known import as_modes

FAR = ([[0.0], [9.0], [22.0]], [[[1.0]], [[2.0]], [[0.5]]], [0.6, 0.3, 0.1])
NEAR = ([[-2.0], [2.0], [7.0]], [[[0.5]], [[2.0]], [[1.0]]], [0.2, 0.5, 0.3])
TWO = sc.models.gaussian_mixture([[-4.0], [4.0]])
TWO_MODES = [[-4.0], [4.0]]


def mixture(means, covariances, weights):
    """A Gaussian mixture as a NumPy target, and its modes if they are far apart."""
    target = numpy_mixture(means, covariances, weights)
    return target, as_modes((means, covariances), target)


def draw(parts, n, rng, weights=None):
    """Draws of a mixture, with other weights if they are given."""
    means, covariances, own = parts
    return mixture_draws(means, covariances, own if weights is None else weights, n, rng)


def odd_anchors(modes):
    """Two anchors per mode, none of them at a mode, with odd shapes and weights."""
    count = 2 * len(modes)
    centres = np.repeat(modes.locations, 2, axis=0) + np.tile([[-0.7], [0.9]], (len(modes), 1))
    covariances = np.repeat(modes.covariances, 2, axis=0) * np.linspace(0.5, 1.5, count)[:, None, None]
    return Anchors(centres, covariances, np.linspace(-1, 1, count), np.repeat(np.arange(len(modes)), 2))


def arcs(xp=np):
    """Two thin arcs, |x - centre| about 3 with the angle von Mises about up and down, in NumPy or JAX."""

    def log_density(x):
        parts = []
        for centre, way, weight in ((-8.0, 1, 0.6), (8.0, -1, 0.4)):
            z = x - xp.array([centre, 0.0])
            r = xp.linalg.norm(z, axis=-1)
            angle = 3.0 * way * z[..., 1] / r
            parts.append(np.log(weight) - 0.5 * ((r - 3) / 0.1) ** 2 + angle - xp.log(r))
        return xp.logaddexp(*parts)

    def sample(n, rng, weight=0.6):
        left = rng.uniform(size=n) < weight
        angle = np.where(left, 0.5, -0.5) * np.pi + rng.vonmises(0, 3.0, size=n)
        r = 3 + 0.1 * rng.normal(size=n)
        return np.column_stack([np.where(left, -8, 8) + r * np.cos(angle), r * np.sin(angle)])

    target = (sc.Target if xp is np else sc.from_jax)(log_density, dim=2)
    # on |z| = 3 the top of each arc; the term -log r moves it by 0.003
    return target, sample, as_modes([[-8.0, 3.0 - 0.01 / 3], [8.0, 0.01 / 3 - 3.0]], target)


def labels_as_orbits(mode, weights):
    """Orbits of draws at modes of one shape, which say nothing but the weights."""
    return Orbits(mode, np.tile(np.log(weights), (len(mode), 1)), np.ones(len(mode)))


def as_sample(x, target=None, chain=None):
    """Draws with their log density, if there is a target."""
    return Sample(x, np.zeros(len(x)) if target is None else target.log_density(x), chain)


def at_two_modes(labels, rng):
    """Draws (chain, draw, 1) of TWO at the modes of `labels` (chain, draw)."""
    return (8.0 * labels - 4.0 + rng.normal(size=labels.shape))[:, :, None]


def stuck_chains(starts, seed=1, length=250):
    """Chains of TWO that never leave the mode in which they start."""
    labels = np.repeat(np.array(starts)[:, None], length, axis=1)
    return at_two_modes(labels, np.random.default_rng(seed))
