import numpy as np
import pytest
from flux_problems import FAR, NEAR, draw, mixture, odd_anchors

from steincheck.flux import orbits as orbits_module
from steincheck.flux.anchors import mode_anchors
from steincheck.flux.orbits import orbits


class TestIdentities:
    """Exact under the target, by quadrature on a line with overlapping modes of unequal width."""

    target, modes = mixture(*NEAR)
    x = np.linspace(-12, 17, 100_001)[:, None]
    mass = np.exp(target.log_density(x)) * (x[1, 0] - x[0, 0])

    @pytest.mark.parametrize("make", [mode_anchors, odd_anchors])
    def test_flow_has_mean_zero_and_is_in_balance(self, make):
        found = orbits(self.x, self.target.log_density(self.x), self.target, make(self.modes))
        probabilities = found.probabilities()
        own = np.eye(3)[found.mode]
        assert self.mass.sum() == pytest.approx(1, abs=1e-9)
        np.testing.assert_allclose(self.mass @ (probabilities - own), 0, atol=1e-4)
        flow = (own * self.mass[:, None]).T @ probabilities
        np.testing.assert_allclose(flow, flow.T, atol=1e-4)
        assert flow[0, 1] > 0.01  # or all of this would say nothing

    def test_covariance_given_the_orbit(self):
        """E F F' = E [diag(pi) - pi pi'], with the left side from the modes the draws have."""
        found = orbits(self.x, self.target.log_density(self.x), self.target, mode_anchors(self.modes))
        probabilities, own = found.probabilities(), np.eye(3)[found.mode]
        flow = probabilities - own
        left = (flow * self.mass[:, None]).T @ flow
        right = np.diag(self.mass @ probabilities) - (probabilities * self.mass[:, None]).T @ probabilities
        np.testing.assert_allclose(left, right, atol=1e-4)


def test_probabilities_of_far_gaussians_are_their_weights():
    target, modes = mixture(*FAR)
    x = draw(FAR, 500, np.random.default_rng(0))
    found = orbits(x, target.log_density(x), target, mode_anchors(modes))
    np.testing.assert_allclose(found.probabilities(), np.tile(FAR[2], (500, 1)), atol=0.02)
    np.testing.assert_array_equal(found.mode, np.abs(x - modes.locations.ravel()).argmin(axis=1))


def test_orbits_do_not_depend_on_blocks(monkeypatch):
    target, modes = mixture(*NEAR)
    x = draw(NEAR, 300, np.random.default_rng(0))
    first = orbits(x, target.log_density(x), target, odd_anchors(modes))
    monkeypatch.setattr(orbits_module, "MAX_ELEMENTS", 100)
    second = orbits(x, target.log_density(x), target, odd_anchors(modes))
    np.testing.assert_array_equal(first.mode, second.mode)
    np.testing.assert_allclose(first.log_weight, second.log_weight, rtol=1e-12)
