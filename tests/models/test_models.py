import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import REFERENCE, mixture_log_density
from scipy import optimize, stats

from steincheck import models
from steincheck.models import sensors
from steincheck.samplers import gibbs_rbm
from steincheck.target import central_differences
from steincheck.target.compiled import _values

PLANE = (
    [[-3.0, 0.0], [3.0, 1.0], [0.0, 5.0]],
    [[[1.0, 0.3], [0.3, 0.5]], [[0.4, -0.2], [-0.2, 2.0]], [[1.0, 0.0], [0.0, 1.0]]],
    [0.5, 0.3, 0.2],
)
RBM = (
    np.random.default_rng(3).normal(size=(3, 4)),
    np.array([0.3, -0.2, 0.5]),
    np.array([0.4, -0.6, 0.1, 0.2]),
)
EVERY_MODEL = {
    "gaussian": lambda: models.gaussian_mixture(*PLANE),
    "t_banana": lambda: models.t_banana_mixture(6, rng=0),
    "sensors": models.sensor_network,
    "rbm": lambda: models.gb_rbm(*RBM),
}


@pytest.fixture(params=EVERY_MODEL)
def model(request):
    return EVERY_MODEL[request.param]()


def pearson(counts, chances):
    """p-value of Pearson's test."""
    expected = chances / np.sum(chances) * counts.sum()
    return stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(counts) - 1)


def integral(log_density, centre, scale, dim, nodes):
    """Quadrature over R^dim with x = centre + scale u / (1 - u^2), u on Gauss-Legendre nodes."""
    u, w = np.polynomial.legendre.leggauss(nodes)
    x, w = u / (1 - u**2), w * (1 + u**2) / (1 - u**2) ** 2
    grid = np.stack(np.meshgrid(*[x] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    weights = np.prod(np.stack(np.meshgrid(*[w] * dim, indexing="ij"), axis=-1).reshape(-1, dim), axis=1)
    scale = np.broadcast_to(scale, dim)
    return np.prod(scale) * weights @ np.exp(log_density(centre + scale * grid))


# --- all models


def test_score_and_hessian_agree_with_differences(model):
    x = model.sample(40, 1)
    coarse, fine = (central_differences(model.log_density, x, np.full(model.dim, h)) for h in (4e-5, 2e-5))
    assert model.score(x) == pytest.approx((4 * fine - coarse) / 3, rel=1e-6, abs=1e-6)
    moves = 1e-6 * np.eye(model.dim)
    numeric = np.stack([model.score(x + m) - model.score(x - m) for m in moves], axis=2) / 2e-6
    assert np.abs(model.hessian(x) - numeric).max() < 1e-6 * np.abs(numeric).max()


def test_a_batch_of_any_size_gives_the_same_values(model):
    x = model.sample(3000, 2)
    x = np.concatenate([x, x + 0.01, x - 0.01])
    whole, scores = model.log_density(x), model.score(x)
    for n in (0, 1, 2, 300, 8193):
        assert model.log_density(x[:n]) == pytest.approx(whole[:n], rel=1e-12, abs=1e-11)
        assert model.score(x[:n]).shape == (n, model.dim)
    assert model.score(x[:300]) == pytest.approx(scores[:300], rel=1e-9, abs=1e-9)
    assert model.hessian(x[:65]).shape == (65, model.dim, model.dim)
    assert whole.dtype == np.float64
    assert not jax.config.jax_enable_x64


def test_sampling_is_reproducible_and_takes_any_rng(model):
    first, again = model.sample(30, 5), model.sample(30, np.random.default_rng(5))
    assert np.array_equal(first, again)
    assert first.shape == (30, model.dim)
    assert not np.array_equal(first, model.sample(30, 6))
    x, labels = model.sample_with_labels(30, 5)
    assert np.array_equal(x, first)
    assert len(labels) == 30
    assert isinstance(model, models.ModelTarget)
    assert pickle.loads(pickle.dumps(model)).sample_with_labels(30, 5).labels.shape == labels.shape
    with pytest.raises(ValueError, match="`n` must be a positive integer"):
        model.sample(0, 1)


def test_another_target_of_the_same_shape_compiles_nothing():
    first = models.gaussian_mixture([[0.0], [4.0]])
    first.log_density(np.zeros((5, 1)))
    before = _values._cache_size()
    models.gaussian_mixture([[1.0], [7.0]], 2.0, [0.3, 0.7]).log_density(np.zeros((20, 1)))
    assert _values._cache_size() == before


# --- Gaussian mixture


def test_gaussian_mixture_agrees_with_the_golden_numbers(golden):
    arrays, _ = golden
    target = models.gaussian_mixture(arrays["means"], arrays["covs"], arrays["weights"])
    assert target.log_density(arrays["X"]) == pytest.approx(arrays["logp"], abs=1e-11)
    assert target.score(arrays["X"]) == pytest.approx(arrays["score"], abs=1e-11)


def test_gaussian_mixture_integrates_to_one():
    line = models.gaussian_mixture([[-2.0], [3.0]], [[[0.5]], [[2.0]]], [0.2, 0.8])
    assert integral(line.log_density, 0.0, 2.0, 1, 400) == pytest.approx(1, abs=1e-9)
    plane = models.gaussian_mixture(*PLANE)
    assert integral(plane.log_density, 0.0, 2.0, 2, 400) == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("covariances", [None, 2.5, np.diag([1.0, 3.0])])
def test_shared_covariances(covariances):
    matrix = np.eye(2) * (1.0 if covariances is None else covariances)
    target = models.gaussian_mixture(PLANE[0], covariances, PLANE[2])
    x = target.sample(50, 1)
    reference, score = mixture_log_density(np.array(PLANE[0]), [matrix] * 3, PLANE[2])
    assert target.log_density(x) == pytest.approx(reference(x), abs=1e-11)
    assert target.score(x) == pytest.approx(score(x), abs=1e-11)


def test_a_mixture_far_from_the_origin_stays_accurate():
    near = models.gaussian_mixture([[0.0, 0.0], [0.01, 0.0]], 1e-6)
    far = models.gaussian_mixture([[1e6, 0.0], [1e6 + 0.01, 0.0]], 1e-6)
    x = near.sample(100, 1)
    place = np.array([1e6, 0.0])
    moved = x + place
    shift = moved - place  # what is left of x after rounding
    assert far.log_density(moved) == pytest.approx(near.log_density(shift), abs=1e-5)
    assert far.log_density(np.full((1, 2), -1e6)) < -1e15


def test_draws_of_a_gaussian_mixture():
    means, covariances, weights = (np.array(a) for a in PLANE)
    target = models.gaussian_mixture(means, covariances, weights)
    x, labels = target.sample_with_labels(30_000, 11)
    assert pearson(np.bincount(labels), weights) > 1e-5
    for k in range(3):
        z = (x[labels == k] - means[k]) @ np.linalg.inv(np.linalg.cholesky(covariances[k])).T
        assert stats.kstest(np.sum(z**2, axis=1), stats.chi2(2).cdf).pvalue > 1e-5
        assert np.abs(z.mean(axis=0)).max() < 4.5 / np.sqrt(len(z))
        assert abs(np.mean(z[:, 0] * z[:, 1])) < 4.5 / np.sqrt(len(z))
    _, labels = target.sample_with_labels(3000, 12, weights=[0.0, 0.25, 0.75])
    counts = np.bincount(labels, minlength=3)
    assert counts[0] == 0
    assert pearson(counts[1:], np.array([0.25, 0.75])) > 1e-5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0],), r"`means` must be finite with one mean per row"),
        (([[np.nan]],), r"`means` must be finite"),
        (([[0.0], [1.0]], None, [0.5, 0.6]), r"`weights` must be 2 positive numbers with sum 1"),
        (([[0.0], [1.0]], None, [1.0, 0.0]), r"`weights` must be 2 positive"),
        (([[0.0], [1.0]], None, [np.nan, 1.0]), r"`weights` must be 2 positive"),
        (([[0.0], [1.0]], None, [1.0]), r"`weights` must be 2 positive"),
        (([[0.0], [1.0]], -1.0), r"`covariances` must be symmetric and positive definite, number 0"),
        (([[0.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]]), r"smallest eigenvalue is -1"),
        (([[0.0, 0.0]], [[1.0, 0.5], [0.0, 1.0]]), r"`covariances` must be symmetric"),
        (([[0.0], [1.0]], np.ones((3, 1, 1))), r"`covariances` must be a variance or have shape"),
    ],
)
def test_gaussian_mixture_rejects_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.gaussian_mixture(*arguments)


# --- t and bananas


def test_t_banana_mixture_is_the_papers_formula():
    """Component by component with SciPy's t density in d = 50, at draws and between the modes."""
    d, weights = 50, np.arange(1.0, 21) / 210
    target = models.t_banana_mixture(d, rng=4, weights=weights)
    means = np.random.default_rng(4).uniform(-20, 20, size=(20, d))
    x = np.concatenate([target.sample(60, 1), np.random.default_rng(2).uniform(-20, 20, size=(20, d)), means])
    bent = x.copy()
    bent[:, 1] += 0.003 * x[:, 0] ** 2 - 0.3
    shapes = [0.1 * np.sqrt(d) * np.eye(d)] * 10 + [np.diag([100.0] + [1.0] * (d - 1))] * 10
    terms = [
        np.log(w) + stats.multivariate_t(mean, shape, df=7).logpdf(bent if k >= 10 else x)
        for k, (w, mean, shape) in enumerate(zip(weights, means, shapes, strict=True))
    ]
    assert target.log_density(x) == pytest.approx(np.logaddexp.reduce(terms, axis=0), abs=1e-10)


@pytest.mark.parametrize(("n_t", "n_banana", "scale"), [(1, 0, (0.5, 0.5)), (0, 1, (10.0, 5.0))])
def test_t_banana_components_integrate_to_one(n_t, n_banana, scale):
    target = models.t_banana_mixture(2, n_t=n_t, n_banana=n_banana, box=3, rng=1)
    centre = np.random.default_rng(1).uniform(-3, 3, size=(1, 2))
    assert integral(target.log_density, centre, scale, 2, 500) == pytest.approx(1, abs=1e-6)


def test_t_banana_hessian_at_the_very_modes():
    """At the centres of the components, 20 apart and more, other components do not count."""
    d = 50
    target = models.t_banana_mixture(d, rng=4)
    tops = np.random.default_rng(4).uniform(-20, 20, size=(20, d))
    tops[10:, 1] -= 0.003 * (tops[10:, 0] ** 2 - 100)
    hessian = target.hessian(tops)
    assert hessian[:10] == pytest.approx(
        np.broadcast_to(-57 / 7 / (0.1 * np.sqrt(d)) * np.eye(d), (10, d, d))
    )
    slope = 0.006 * tops[10:, 0]  # phi is sheared by this much at the top
    expected = np.broadcast_to(np.eye(d), (10, d, d)).copy()
    expected[:, 0, 0] = 0.01 + slope**2
    expected[:, 0, 1] = expected[:, 1, 0] = slope
    assert hessian[10:] == pytest.approx(-57 / 7 * expected, abs=1e-9)
    assert target.score(tops) == pytest.approx(0, abs=1e-10)


def test_draws_of_the_t_banana_mixture():
    d = 10
    target = models.t_banana_mixture(d, rng=4)
    means = np.random.default_rng(4).uniform(-20, 20, size=(20, d))
    x, labels = target.sample_with_labels(20_000, 3)
    assert pearson(np.bincount(labels, minlength=20), np.ones(20)) > 1e-5
    for banana in (False, True):
        mine = (labels >= 10) == banana
        y = x[mine].copy()
        scale = np.full(d, np.sqrt(0.1 * np.sqrt(d)))
        if banana:
            y[:, 1] += 0.003 * y[:, 0] ** 2 - 0.3
            scale = np.array([10.0] + [1.0] * (d - 1))
        z = (y - means[labels[mine]]) / scale
        # |z|^2 / d of a multivariate t is F(d, df); each coordinate is a t
        assert stats.kstest(np.mean(z**2, axis=1), stats.f(d, 7).cdf).pvalue > 1e-5
        assert stats.kstest(z[:, 0], stats.t(7).cdf).pvalue > 1e-5
        assert stats.kstest(z[:, 1], stats.t(7).cdf).pvalue > 1e-5
    same = models.t_banana_mixture(d, rng=4, weights=np.arange(1.0, 21) / 210)
    other = target.sample(50, 8, weights=np.arange(1.0, 21) / 210)
    assert np.array_equal(same.sample(50, 8), other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 1}, "`dim` must be an integer of at least 2"),
        ({"n_t": -1}, "`n_t` must be an integer"),
        ({"n_t": 0, "n_banana": 0}, "`n_t` and `n_banana` must not both be 0"),
        ({"df": 0}, "`df` must be positive"),
        ({"b": np.inf}, "`b` must be one finite number"),
        ({"weights": [0.5, 0.5]}, "`weights` must be 20 positive"),
    ],
)
def test_t_banana_mixture_rejects_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.t_banana_mixture(**arguments)


# --- sensors


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


def test_the_plan_of_sensor_draws_uses_every_factor_once():
    rings = [pair for step in sensors.SENSOR_PLAN for pair in (step.ring, step.fit) if pair]
    unseen = [pair for step in sensors.SENSOR_PLAN for pair in step.unseen]
    assert sorted(rings) == sorted(sensors.OBSERVED_DISTANCES)
    assert sorted(rings + unseen) == [(i, j) for i in range(4) for j in range(i + 1, 6)]


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
        about = sensors.ring_of(sensors.OBSERVED_DISTANCES[ring])
        other = sensors.ring_of(sensors.OBSERVED_DISTANCES[fit])
        radii = about.mean + about.sd * np.linspace(-6.5, 6.5, 131)
        count = int(4 * about.distance / about.sd)
        for gap in gaps[sensor]:
            worst = 0.0
            for turn in np.linspace(0, 1, 4, endpoint=False):
                angles = 2 * np.pi * (np.arange(count) + turn) / count
                r = np.sqrt(radii[:, None] ** 2 + gap**2 - 2 * radii[:, None] * gap * np.cos(angles))
                fits = np.exp(-0.5 * ((r - other.mean) / other.sd) ** 2).mean(axis=1)
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
        return np.concatenate(
            [np.eye(8)[labels], x, x**2, x[:, :-1] * x[:, 1:], x[:, :-3] * x[:, 3:]], axis=1
        )

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


# --- RBM


def test_rbm_marginal_is_the_sum_over_hidden_states():
    B, b, c = RBM
    target = models.gb_rbm(B, b, c)
    x = target.sample(50, 1)
    states = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T
    joint = 0.5 * x @ B @ states.T + (x @ b)[:, None] + states @ c - 0.5 * np.sum(x**2, axis=1)[:, None]
    assert target.log_density(x) == pytest.approx(np.logaddexp.reduce(joint, axis=1), abs=1e-12)
    a = 0.5 * x @ B + c
    assert target.score(x) == pytest.approx(b - x + 0.5 * np.tanh(a) @ B.T, abs=1e-12)
    curvature = 0.25 * np.einsum("ij,nj,kj->nik", B, 1 - np.tanh(a) ** 2, B) - np.eye(3)
    assert target.hessian(x) == pytest.approx(curvature, abs=1e-12)


def test_rbm_with_large_fields_does_not_overflow():
    target = models.gb_rbm(1e3 * np.eye(2), c=[500.0, -500.0])
    x = target.sample(5, 1)
    assert np.isfinite(target.log_density(x)).all()
    assert np.isfinite(target.hessian(x)).all()


def component_counts(h):
    return np.bincount((h > 0) @ (1 << np.arange(h.shape[1])), minlength=2 ** h.shape[1])


def mixture_weights(B, b, c):
    """gamma(h) of the paper's eq. for the GB-RBM density, in the order of `component_counts`."""
    states = 2 * ((np.arange(2 ** len(c))[:, None] >> np.arange(len(c))) & 1) - 1
    gamma = np.exp(0.5 * np.sum((0.5 * states @ B.T + b) ** 2, axis=1) + states @ c)
    return gamma / gamma.sum()


@pytest.mark.parametrize("B", [RBM[0], 3 * np.eye(3, 4), np.eye(3)[:, [2, 0, 1]] * [1.0, 5.0, 2.0]])
def test_rbm_draws_have_the_weights_of_the_mixture(B):
    b, c = RBM[1], RBM[2][: B.shape[1]]
    x, h = models.gb_rbm(B, b, c).sample_with_labels(20_000, 41)
    assert pearson(component_counts(h), mixture_weights(B, b, c)) > 1e-5
    z = x - 0.5 * h @ B.T - b
    assert stats.kstest(np.sum(z**2, axis=1), stats.chi2(3).cdf).pvalue > 1e-5
    assert np.abs(z.T @ h / len(h)).max() < 5 / np.sqrt(len(h))


def test_gibbs_sampling_agrees_with_exact_draws():
    B, b, c = 0.6 * RBM[0], RBM[1], RBM[2]
    x, h = gibbs_rbm(B, b, c, n=20_000, burn_in=60, rng=42)
    assert pearson(component_counts(h), mixture_weights(B, b, c)) > 1e-5
    exact = models.gb_rbm(B, b, c).sample(20_000, 43)
    for k in range(3):
        assert stats.ks_2samp(x[:, k], exact[:, k]).pvalue > 1e-5


def test_the_shrunken_model_gives_draws_of_well_separated_modes():
    """The paper's trick: Gibbs at lambda' = 0, then a shift; plain Gibbs keeps its starting weights."""
    B, c = 6 * np.eye(5, 3), np.array([0.6, 0.6, 0.0])
    x, h = gibbs_rbm(0 * B, None, c, n=20_000, burn_in=1, rng=44)
    shifted = x + 0.5 * h @ B.T
    exact, states = models.gb_rbm(B, c=c).sample_with_labels(20_000, 45)
    weights = mixture_weights(B, np.zeros(5), c)
    assert pearson(component_counts(h), weights) > 1e-5
    assert pearson(component_counts(states), weights) > 1e-5
    assert stats.ks_2samp(shifted[:, 0], exact[:, 0]).pvalue > 1e-5
    _, stuck = gibbs_rbm(10 / 6 * B, None, c, n=20_000, burn_in=50, rng=46)
    assert pearson(component_counts(stuck), weights) < 1e-20


def test_large_rbms_without_structure_are_sampled_by_gibbs():
    rng = np.random.default_rng(0)
    B = rng.choice([-1.0, 1.0], size=(10, 17))
    x, h = models.gb_rbm(B).sample_with_labels(50, 1, burn_in=5)
    again, _ = gibbs_rbm(B, None, None, 50, burn_in=5, rng=1)
    assert np.array_equal(x, again)
    assert h.shape == (50, 17)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0],), r"`B` must be a finite matrix"),
        (([[np.inf]],), r"`B` must be a finite matrix"),
        ((np.eye(2), [1.0]), r"`b` must be finite with shape \(2,\)"),
        ((np.eye(2), None, [1.0, np.nan]), r"`c` must be finite with shape \(2,\)"),
    ],
)
def test_rbm_rejects_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.gb_rbm(*arguments)


def test_the_sensor_function_and_the_target_are_the_same():
    target = models.sensor_network()
    x = target.sample(3, 1)
    with jax.enable_x64(True):
        values = [float(models.sensor_log_density(jnp.asarray(row))) for row in x]
    assert target.log_density(x) == pytest.approx(values, abs=1e-10)
    assert target.names == ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4")


def test_numbers_that_would_never_end_are_refused():
    with pytest.raises(ValueError, match="`n_t` must be at most"):
        models.t_banana_mixture(10, n_t=10**7)
    with pytest.raises(ValueError, match=r"`n_banana` must be at most 1000000, got 10000000000"):
        models.t_banana_mixture(10, n_banana=10**10)


def test_the_sensors_have_eight_coordinates():
    assert np.isfinite(models.sensor_log_density([0.5, 0.4, 0.3, 0.2, 0.1, 0.6, 0.7, 0.8]))
    with pytest.raises(ValueError, match=r"`x` must hold the 8 coordinates of the sensors, got shape \(7,\)"):
        models.sensor_log_density(np.ones(7))
