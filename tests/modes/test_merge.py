"""Which points are one mode, and which modes have mass."""

import numpy as np

from steincheck.modes.merge import FoundModes, Peak, merge, tie_order


def test_merge_weighs_by_the_hessians():
    """Alg. 2 by hand: the squared distances are 0.5 (10 + 1) 0.04 = 0.22 and 0.5 (100 + 10) 0.04 = 2.2."""
    locations, hessians = np.array([[0.0], [0.2], [0.4]]), np.array([1.0, 10.0, 100.0])[:, None, None]
    kept, label = merge(locations, hessians, np.array([0.0, 1.0, 2.0]))
    assert (kept.tolist(), label.tolist()) == ([1, 2], [0, 0, 1])
    kept, label = merge(locations, hessians, np.array([2.0, 1.0, 0.0]), beta=20.0)
    assert (kept.tolist(), label.tolist()) == ([0], [0, 0, 0])
    assert merge(locations, hessians, np.zeros(3), beta=0.1)[0].tolist() == [0, 1, 2]


def test_found_modes_keep_the_higher_of_two_and_are_ordered_by_mass():
    found = FoundModes(1, max_modes=2)
    assert found.add(Peak(np.zeros(1), 0.0, np.eye(1))) == 0
    assert found.add(Peak(np.full(1, 0.1), 0.5, np.eye(1))) == 0
    assert found.peaks[0].log_density == 0.5
    assert found.add(Peak(np.full(1, 9.0), 0.0, 0.01 * np.eye(1))) == 1  # ten times as wide
    assert found.add(Peak(np.full(1, 30.0), -9.0, np.eye(1))) == 2
    np.testing.assert_allclose(found.log_weight, [0.5, np.log(10), -9.0])
    assert found.heavy() == [1, 0]
    assert found.within(20) == [1, 0, 2]


def test_a_list_of_modes_is_full_some_day():
    found = FoundModes(1, max_modes=1)
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
    assert tie_order(x, height, np.ones(2)) == [2, 1, 0, 3]
