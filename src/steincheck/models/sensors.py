"""Locations of four sensors, of which some distances are observed."""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from .._validation import RandomSource, as_count, as_generator
from ..draws import as_matrix
from ..samplers import MAX_INTEGER
from ..target.record import made_by
from .mixtures import LabelledDraws, ModelTarget, formula_target

# sensors 0 to 3 are unknown, 4 and 5 known; the distances of other pairs were not observed
KNOWN_SENSORS = np.array([[0.5, 0.3], [0.3, 0.7]])
OBSERVED_DISTANCES = {
    (0, 4): 0.6103,
    (0, 5): 0.3631,
    (2, 4): 0.2995,
    (2, 5): 0.5656,
    (0, 3): 0.9266,
    (1, 2): 0.297,
    (1, 3): 0.8524,
}
# standard deviations of an observed distance, and of the range within which distances are observed
DISTANCE_SD = 0.02
DETECTION_RANGE = 0.3
# exp(-(y - r)^2 / (2 DISTANCE_SD^2) - r^2 / (2 DETECTION_RANGE^2)) is a Gaussian in r about y times the first
RING_SHRINKAGE = 1 / (1 + (DISTANCE_SD / DETECTION_RANGE) ** 2)
RING_SD = (DISTANCE_SD**-2 + DETECTION_RANGE**-2) ** -0.5


class _Placing(NamedTuple):
    """How a sensor is put on a ring about another, as one of the steps in which a draw is built up."""

    sensor: int
    ring: tuple[int, int]  # the pair whose distance gives the ring
    fit: tuple[int, int] | None  # the pair whose distance the angle must fit
    unseen: tuple[tuple[int, int], ...]  # unobserved pairs that are now accounted for
    bound: float  # of the acceptance probability


SENSOR_PLAN = (
    _Placing(0, (0, 5), (0, 4), (), 0.056),
    _Placing(2, (2, 4), (2, 5), ((0, 2),), 0.064),
    _Placing(1, (1, 2), None, ((1, 4), (1, 5)), 1.0),
    _Placing(3, (0, 3), (1, 3), ((0, 1), (2, 3), (3, 4), (3, 5)), 0.039),
)


def sensor_network() -> ModelTarget:
    """Posterior of four sensor locations in the plane, d = 8 (paper, App. H.3; data of Tak et al. 2018).

    Two further sensors are known. The distance of sensors i and j is observed, with Gaussian error of
    standard deviation 0.02, with probability exp(-|x_i - x_j|^2 / (2 0.3^2)); the prior is N(0, 10^2 I).
    There are eight modes, arcs and rings, see `sensor_labels`, which ``sample_with_labels(n, rng)`` gives
    with the draws. ``sample(n, rng)`` makes independent draws by rejection, exact up to cut-offs of
    probability 1e-9.

    Returns
    -------
    ModelTarget

    Examples
    --------
    >>> from steincheck import models
    >>> target = models.sensor_network()
    >>> target.sample(1000, rng=0).shape
    (1000, 8)
    """

    def sample_with_labels(n: int, rng: RandomSource = None) -> LabelledDraws:
        as_count(n, "n", maximum=MAX_INTEGER)
        generator = as_generator(rng)
        found = [_propose_sensors(4096, generator)]
        while sum(map(len, found)) < n:
            found.append(_propose_sensors(4096, generator))
        x = np.concatenate(found)[:n]
        return LabelledDraws(x, sensor_labels(x))

    names = [f"{axis}{i}" for i in range(1, 5) for axis in "xy"]
    return made_by(formula_target(Partial(sensor_log_density), 8, sample_with_labels, names), sensor_network)


def sensor_log_density(x: Any) -> Any:
    """Log density of `sensor_network` at one point in JAX operations, for compiled samplers.

    Parameters
    ----------
    x : array (8,)
        Coordinates of the four unknown sensors.

    Returns
    -------
    scalar

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from steincheck import models
    >>> models.sensor_log_density(jnp.full(8, 0.5)).shape
    ()
    """
    if np.shape(x) != (8,):
        raise ValueError(f"`x` must hold the 8 coordinates of the sensors, got shape {np.shape(x)}")
    x = jnp.asarray(x)
    points = jnp.concatenate([jnp.reshape(x, (4, 2)), jnp.asarray(KNOWN_SENSORS, dtype=x.dtype)])

    def squared_distances(pairs: Any) -> Any:
        first, second = np.array(list(pairs)).T
        return jnp.sum((points[first] - points[second]) ** 2, axis=1)

    r2 = squared_distances(OBSERVED_DISTANCES)
    distance = jnp.sqrt(jnp.maximum(r2, 1e-300))  # where sensors coincide, it still has a gradient
    errors = (np.array(list(OBSERVED_DISTANCES.values())) - distance) / DISTANCE_SD
    others = [(i, j) for i in range(4) for j in range(i + 1, 6) if (i, j) not in OBSERVED_DISTANCES]
    unseen = jnp.log(-jnp.expm1(-0.5 * squared_distances(others) / DETECTION_RANGE**2))
    square = jnp.sum(errors**2) + jnp.sum(r2) / DETECTION_RANGE**2 + jnp.sum(x**2) / 10.0**2
    return jnp.sum(unseen) - 0.5 * square


def sensor_labels(x: ArrayLike) -> np.ndarray:
    """Which of the eight modes of `sensor_network` the draws belong to.

    Sensors 1 and 3 may lie on either side of the line through the known sensors, sensor 4 on either side of
    the line from sensor 1 to 2: label = side of sensor 1 + 2 (side of sensor 3) + 4 (side of sensor 4).

    Parameters
    ----------
    x : array (n, 8)
        The draws.

    Returns
    -------
    array (n,)
        Integers 0 to 7.

    Examples
    --------
    >>> target = sensor_network()
    >>> sorted(set(sensor_labels(target.sample(500, 0)).tolist()))
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    one, two, three, four = np.moveaxis(as_matrix(x, 8, minimum=1).reshape(-1, 4, 2), 1, 0)

    def side(start: np.ndarray, end: np.ndarray, point: np.ndarray) -> np.ndarray:
        along, away = end - start, point - start
        return (along[..., 0] * away[..., 1] > along[..., 1] * away[..., 0]).astype(int)

    first, second = KNOWN_SENSORS
    return side(first, second, one) + 2 * side(first, second, three) + 4 * side(one, two, four)


def _propose_sensors(size: int, rng: np.random.Generator) -> np.ndarray:
    """What rejection leaves of `size` proposals: exact independent draws of the sensor posterior, (m, 8)."""
    places = {4 + k: np.tile(known, (size, 1)) for k, known in enumerate(KNOWN_SENSORS)}
    for step in SENSOR_PLAN:
        x, probability = _on_ring(step, places, rng)
        places[step.sensor] = x
        for i, j in step.unseen:
            probability *= -np.expm1(-0.5 * np.sum((places[i] - places[j]) ** 2, axis=1) / DETECTION_RANGE**2)
        probability *= np.exp(-0.5 * np.sum(x**2, axis=1) / 10.0**2)  # the prior
        keep = step.bound * rng.random(len(x)) < probability
        places = {k: place[keep] for k, place in places.items()}
    return np.concatenate([places[k] for k in range(4)], axis=1)


def _on_ring(step: _Placing, places: dict[int, np.ndarray], rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points on the step's ring at angles that fit the other distance, if any; acceptance probabilities.

    In the plane a ring has the density of a Gaussian radius r, in r it is r times this: Gaussian radii are
    accepted with a probability proportional to r, cut off at 6.5 standard deviations. Of evenly spaced
    angles, turned at random, one is picked in proportion to its fit, and accepted with the mean fit: exact
    however many angles there are.
    """
    anchor = places[sum(step.ring) - step.sensor]
    z = rng.standard_normal(len(anchor))
    turn = rng.uniform(0, 2 * pi, len(anchor))
    mean = RING_SHRINKAGE * OBSERVED_DISTANCES[step.ring]
    radius = mean + RING_SD * z
    probability = np.where(np.abs(z) < 6.5, radius, 0) / (mean + RING_SD * 6.5)
    if step.fit is not None:
        angles = np.linspace(0, 2 * pi, num=int(4 * OBSERVED_DISTANCES[step.ring] / RING_SD), endpoint=False)
        gap = anchor - places[sum(step.fit) - step.sensor]
        cos = np.cos(turn)
        sin = np.sin(turn)
        turned = np.column_stack([gap[:, 0] * cos + gap[:, 1] * sin, gap[:, 1] * cos - gap[:, 0] * sin])
        r2 = (2 * radius[:, None] * turned) @ np.stack([np.cos(angles), np.sin(angles)])
        r2 += (radius**2 + np.sum(gap**2, axis=1))[:, None]
        error = (np.sqrt(np.maximum(r2, 0)) - RING_SHRINKAGE * OBSERVED_DISTANCES[step.fit]) / RING_SD
        total = np.cumsum(np.exp(-0.5 * error**2), axis=1)
        turn += angles[np.sum(total[:, :-1] < total[:, -1:] * rng.random((len(total), 1)), axis=1)]
        probability *= total[:, -1] / len(angles)
    return anchor + radius[:, None] * np.column_stack([np.cos(turn), np.sin(turn)]), probability
