"""Which points are one mode, and which modes have mass."""

import numpy as np
import pytest

from steincheck.modes.peaks import FoundModes, Peak, tie_order


@pytest.mark.parametrize(
    ("heights", "beta", "kept"),
    [([0, 1, 2], 1.0, [0.2, 0.4]), ([2, 1, 0], 20.0, [0.0]), ([0, 0, 0], 0.1, [0, 0.2, 0.4])],
)
def test_modes_are_merged_by_their_hessians(heights, beta, kept):
    """Alg. 2 by hand: the squared distances are 0.5 (10 + 1) 0.04 = 0.22 and 0.5 (100 + 10) 0.04 = 2.2."""
    found = FoundModes(3, beta)
    for x, height, bend in zip([0.0, 0.2, 0.4], heights, [1.0, 10.0, 100.0], strict=True):
        found.add(Peak(np.array([x]), height, np.array([[bend]])))
    assert [peak.x[0] for peak in found.peaks] == kept


def test_found_modes_keep_the_higher_of_two_and_are_ordered_by_mass():
    found = FoundModes(max_modes=2)
    assert found.add(Peak(np.zeros(1), 0.0, np.eye(1))) == 0
    assert found.add(Peak(np.full(1, 0.1), 0.5, np.eye(1))) == 0
    assert found.peaks[0].log_density == 0.5
    assert found.add(Peak(np.full(1, 9.0), 0.0, 0.01 * np.eye(1))) == 1  # ten times as wide
    assert found.add(Peak(np.full(1, 30.0), -9.0, np.eye(1))) == 2
    np.testing.assert_allclose([peak.log_weight for peak in found.peaks], [0.5, np.log(10), -9.0])
    assert found.heavy == [1, 0]
    assert found.within(20) == [1, 0, 2]


def test_a_list_of_modes_is_full_some_day():
    found = FoundModes(max_modes=1)
    numbers = [found.add(Peak(np.full(1, 10.0 * k), 0.0, np.eye(1))) for k in range(20)]
    assert numbers == [*range(16), None, None, None, None]


def test_the_units_of_a_peak():
    covariance = np.array([[4.0, 1.0], [1.0, 9.0]])
    peak = Peak(np.zeros(2), 1.0, np.linalg.inv(covariance))
    np.testing.assert_allclose(peak.metric, covariance)
    np.testing.assert_allclose(peak.sd, [2.0, 3.0])
    np.testing.assert_allclose(peak.whiten.T @ covariance @ peak.whiten, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(peak.log_weight, 1.0 + 0.5 * np.log(35.0))


def test_equally_high_modes_are_ordered_by_location():
    x = np.array([[1.0, 2.0], [1.0, -2.0], [-1.0, 5.0], [0.0, 0.0]])
    height = np.array([0.0, 1e-9, -1e-9, -3.0])
    assert tie_order(x, height, np.ones(2)).tolist() == [2, 1, 0, 3]
