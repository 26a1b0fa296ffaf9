import numpy as np
import pytest
from flux_problems import arcs
from harness import assert_level, assert_power

from steincheck.flux import core, flux_test
from steincheck.flux.anchors import _mixture, local_anchors


class TestArcs:
    def test_several_anchors_catch_arcs(self):
        target, sample, modes = arcs()
        several = local_anchors(target, modes, 4, np.random.default_rng(0))
        x = sample(1000, np.random.default_rng(13))
        np.testing.assert_array_equal(several.mode, np.repeat([0, 1], 4))
        assert np.mean(several.mode[several.largest(x)] == (x[:, 0] > 0)) > 0.995
        with pytest.warns(UserWarning, match=r"only \d\d% of the draws can be mapped to another mode"):
            one = flux_test(x, target, modes=modes, anchors=1)
        four = flux_test(x, target, modes=modes, rng=0)  # as many as are needed
        assert one.efficiency < 0.6
        assert four.efficiency > 0.85
        assert four.n_contributing > 950
        np.testing.assert_allclose(four.mode_table.implied, [0.6, 0.4], atol=0.03)

    @pytest.mark.slow
    def test_level_and_power(self, monkeypatch):
        target, sample, modes = arcs()
        several = local_anchors(target, modes, 4, np.random.default_rng(1))
        monkeypatch.setattr(core, "mode_anchors", lambda _: several)
        rng = np.random.default_rng(14)
        good, bad = (
            [flux_test(sample(500, rng, w), target, modes=modes, anchors=1).pvalue for _ in range(100)]
            for w in (0.6, 0.7)
        )
        assert_level(good)
        assert_power(bad, 0.95)


def test_no_gaussians_are_fitted_to_points_whose_squares_overflow():
    x = np.random.default_rng(0).normal(size=(100, 2))
    x[0] = 1e200
    assert _mixture(x, np.ones((100, 1)), 1e-6) is None
