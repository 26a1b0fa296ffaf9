import numpy as np
import pytest
from flux_problems import arcs
from harness import assert_level, assert_power

import steincheck as sc
from steincheck.flux import Anchors, flux_test, local_anchors
from steincheck.flux.anchors import _mixture, assign
from steincheck.modes.arguments import as_modes
from steincheck.modes.symmetry import images_of_modes


class TestArcs:
    def test_several_anchors_catch_arcs(self):
        target, sample, modes = arcs()
        several = local_anchors(target, modes, 4, rng=0)
        x = sample(1000, np.random.default_rng(13))
        np.testing.assert_array_equal(several.mode, np.repeat([0, 1], 4))
        assert np.mean(several.mode[assign(x, several)] == (x[:, 0] > 0)) > 0.995
        with pytest.warns(UserWarning, match=r"only \d\d% of the draws can be mapped to another mode"):
            one = flux_test(x, target, modes=modes, anchors=1)
        four = flux_test(x, target, modes=modes, anchors=several)
        assert one.efficiency < 0.6
        assert four.efficiency > 0.85
        assert four.n_contributing > 950
        assert flux_test(x, target, modes=modes, rng=0).efficiency > 0.85  # as many as are needed
        np.testing.assert_allclose(four.mode_table.implied, [0.6, 0.4], atol=0.03)

    @pytest.mark.slow
    def test_level_and_power(self):
        target, sample, modes = arcs()
        several = local_anchors(target, modes, 4, rng=1)
        rng = np.random.default_rng(14)
        good, bad = (
            [flux_test(sample(500, rng, w), target, modes=modes, anchors=several).pvalue for _ in range(100)]
            for w in (0.6, 0.7)
        )
        assert_level(good)
        assert_power(bad, 0.95)


def test_anchors_of_symmetric_modes_are_images():
    """Four curved modes, images of each other under permutation and joint change of sign."""

    def one(a, b):
        return -0.5 * (a - 9) ** 2 - 2.0 * (b - 3 - 0.3 * (a - 9) ** 2) ** 2

    def log_density(x):
        a, b = x.T
        return np.logaddexp.reduce([one(a, b), one(b, a), one(-a, -b), one(-b, -a)], axis=0)

    target = sc.Target(log_density, dim=2)
    modes = as_modes([[9.0, 3.0], [3.0, 9.0], [-9.0, -3.0], [-3.0, -9.0]], target)
    anchors = local_anchors(target, modes, 3, rng=0)
    np.testing.assert_array_equal(np.bincount(anchors.mode), 3)
    for k, image in enumerate(images_of_modes(target, modes, np.random.default_rng(0))[1:], 1):
        centres = image.symmetry(anchors.centres[anchors.mode == 0])
        np.testing.assert_allclose(anchors.centres[anchors.mode == k], centres)
    np.testing.assert_array_equal(anchors.mode[assign(modes.locations, anchors)], np.arange(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covariances": np.eye(2)}, r"arrays of shapes .* got \(2,\), \(2, 1\), \(2, 2\), \(2,\)"),
        ({"log_weight": np.zeros(3)}, r"arrays of shapes .* \(3,\)$"),
        ({"covariances": [[[1.0]], [[-1.0]]]}, "must have symmetric, positive definite covariances"),
        ({"centres": [["a"], ["b"]]}, "`anchors.centres` must be real numbers"),
        ({"centres": [[np.nan], [1.0]]}, "`anchors.centres` must be finite"),
        ({"mode": [0.0, 0.5]}, r"`anchors.mode` must hold numbers of modes, 0, 1, ..., got \[0.0, 0.5\]"),
    ],
)
def test_bad_anchors(change, message):
    covariances = [[[1.0]], [[1.0]]]
    good = {"mode": [0, 1], "centres": [[0.0], [1.0]], "covariances": covariances, "log_weight": [0, 0]}
    assert len(Anchors(**good)) == 2
    with pytest.raises((ValueError, TypeError), match=message):
        Anchors(**good | change)


def test_no_gaussians_are_fitted_to_points_whose_squares_overflow():
    x = np.random.default_rng(0).normal(size=(100, 2))
    x[0] = 1e200
    assert _mixture(x, np.ones((100, 1)), 1e-6) is None
