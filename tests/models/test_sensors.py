"""The sensor posterior."""

import json

import numpy as np
import pytest
from harness import REFERENCE
from scipy import optimize, stats

from steincheck import models
from steincheck.models import sensors


def sensor_posterior(x):
    """The posterior as the appendix prints it, pair by pair, with the data of the reference file."""
    data = json.loads((REFERENCE / "sensors.json").read_text())
    points, known = x.reshape(4, 2), np.array(data["known_sensors"])
    pairs = []
    for i in range(4):
        for k in range(2):
            w, y = data["observed_unknown_known"][i][k], data["distance_unknown_known"][i][k]
            pairs.append((points[i] - known[k], w, y))
        for j in range(i + 1, 4):
            w, y = data["observed_unknown_unknown"][i][j], data["distance_unknown_unknown"][i][j]
            pairs.append((points[i] - points[j], w, y))
    total = -np.sum(x**2) / (2 * data["prior_sd"] ** 2)
    for gap, w, y in pairs:
        r = np.linalg.norm(gap)
        seen = np.exp(-(r**2) / (2 * data["R"] ** 2))
        total += np.log(seen) - (y - r) ** 2 / (2 * data["sigma"] ** 2) if w else np.log(1 - seen)
    return total


def test_sensor_log_density_is_the_papers_formula():
    target = models.sensor_network()
    x = np.concatenate([target.sample(20, 1), np.random.default_rng(1).uniform(-0.5, 1.5, size=(20, 8))])
    assert target.log_density(x) == pytest.approx([sensor_posterior(row) for row in x], rel=1e-12, abs=1e-9)
    coincide = x[:1].copy()
    coincide[0, 2:4] = coincide[0, 0:2]
    assert target.log_density(coincide)[0] == -np.inf  # an unobserved pair at distance 0
    coincide[0, 2:4] = coincide[0, 4:6]
    coincide[0, 4:6] += [0.3, 0.2]
    coincide[0, 6:8] = coincide[0, 0:2]  # an observed pair at distance 0
    assert np.isfinite(target.score(coincide)).all()


def test_bounds_of_the_acceptance_probabilities_hold():
    """Mean fits over the random turn on a fine grid of radii and gaps; the worst turn is included."""
    gaps = {
        0: [np.linalg.norm(np.subtract(*sensors.KNOWN_SENSORS))],
        2: None,
        3: np.linspace(0.002, 1.5, 250),
    }
    gaps[2] = gaps[0]
    for sensor, ring, fit, _, bound in sensors.SENSOR_PLAN:
        if fit is None:
            continue
        mean, other = (sensors.RING_SHRINKAGE * sensors.OBSERVED_DISTANCES[pair] for pair in (ring, fit))
        radii = mean + sensors.RING_SD * np.linspace(-6.5, 6.5, 131)
        count = int(4 * sensors.OBSERVED_DISTANCES[ring] / sensors.RING_SD)
        for gap in gaps[sensor]:
            worst = 0.0
            for turn in np.linspace(0, 1, 4, endpoint=False):
                angles = 2 * np.pi * (np.arange(count) + turn) / count
                r = np.sqrt(radii[:, None] ** 2 + gap**2 - 2 * radii[:, None] * gap * np.cos(angles))
                fits = np.exp(-0.5 * ((r - other) / sensors.RING_SD) ** 2).mean(axis=1)
                worst = max(worst, np.max(fits * radii / radii[-1]))
            unseen = -np.expm1(-0.5 * gap**2 / sensors.DETECTION_RANGE**2) if sensor == 3 else 1.0
            assert worst * unseen < bound


def importance_sample(target, n, rng):
    """Weighted draws of the sensor posterior by triangulation, and their weights.

    Sensors 1, 3 and 4 are put where two circles of random radius intersect (the density then has the
    Jacobian r1 r2 / (D h)), sensor 2 on a circle; the weights use nothing but the log density.
    """
    log_weights = np.zeros(n)
    known = [np.tile(k, (n, 1)) for k in ((0.5, 0.3), (0.3, 0.7))]

    def radius(distance):
        nonlocal log_weights
        z = rng.standard_normal(n)
        log_weights = log_weights + 0.5 * z**2
        return distance + 0.02 * z

    def triangulate(a, b, distance_a, distance_b):
        nonlocal log_weights
        ra, rb, sign = radius(distance_a), radius(distance_b), rng.choice([-1, 1], n)
        gap = np.linalg.norm(b - a, axis=1)
        along = (b - a) / gap[:, None]
        t = (ra**2 - rb**2 + gap**2) / (2 * gap)
        h2 = ra**2 - t**2
        h = np.sqrt(np.where(h2 > 0, h2, 1))
        log_weights = log_weights + np.where(h2 > 0, np.log(np.abs(ra * rb) / (gap * h)), -np.inf)
        return a + t[:, None] * along + (sign * h)[:, None] * along[:, ::-1] * [-1, 1]

    one, three = triangulate(*known, 0.6103, 0.3631), triangulate(*known, 0.2995, 0.5656)
    r, angle = radius(0.297), rng.uniform(0, 2 * np.pi, n)
    two = three + r[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    log_weights = log_weights + np.log(r)
    x = np.concatenate([one, two, three, triangulate(one, two, 0.9266, 0.8524)], axis=1)
    log_weights = log_weights + target.log_density(x)
    return x, np.exp(log_weights - log_weights.max())


def test_sensor_draws_agree_with_importance_sampling():
    """Mode weights, means and second moments of exact draws and of weighted draws of another construction."""
    target, n = models.sensor_network(), 10_000
    x, labels = target.sample_with_labels(n, 21)
    y, w = importance_sample(target, 300_000, np.random.default_rng(22))
    effective = w.sum() ** 2 / np.sum(w**2)
    assert effective > 100_000

    def features(x, labels):
        products = [x**2, x[:, :-1] * x[:, 1:], x[:, :-3] * x[:, 3:]]
        return np.concatenate([np.eye(8)[labels], x, *products], axis=1)

    exact, weighted = features(x, labels), features(y, models.sensor_labels(y))
    mean = w @ weighted / w.sum()
    variance = w**2 @ (weighted - mean) ** 2 / w.sum() ** 2 + exact.var(axis=0) / n
    z = (exact.mean(axis=0) - mean) / np.sqrt(variance)
    assert np.abs(z).max() < 4.8  # 36 features: false alarm 6e-5
    ordered = np.argsort(y[:, 6])
    share = np.cumsum(w[ordered]) / w.sum()
    assert stats.kstest(np.interp(x[:, 6], y[ordered, 6], share), "uniform").pvalue > 1e-5


def test_sensor_labels_are_the_eight_modes():
    target = models.sensor_network()
    x, labels = target.sample_with_labels(400, 31)
    modes = {}
    for start, label in zip(x[:48], labels[:48], strict=True):
        end = optimize.minimize(
            lambda v: -target.log_density(v[None])[0], start, jac=lambda v: -target.score(v[None])[0]
        )
        modes.setdefault(int(label), []).append(end.x)
    assert sorted(modes) == list(range(8))
    tops = {label: np.median(ends, axis=0) for label, ends in modes.items()}
    heights = target.log_density(np.array(list(tops.values())))
    for label, ends in modes.items():
        assert np.abs(np.array(ends) - tops[label]).max() < 1e-2
        assert models.sensor_labels(tops[label][None])[0] == label
    assert np.ptp(heights) < 1.0
