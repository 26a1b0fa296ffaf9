import numpy as np
import pytest
from harness import BIMODAL_MODES, assert_level, bimodal, bimodal_draws

import steincheck as sc


@pytest.mark.slow
def test_the_choice_of_a_jump_scale_keeps_the_level():
    """Were theta chosen by the draws that are tested, rejections would grow with the number of scales."""
    rng = np.random.default_rng(9)
    options = {"modes": BIMODAL_MODES, "theta": np.linspace(0.5, 1.5, 11), "n_resamples": 199, "rng": rng}
    samples = (bimodal_draws(0.5, 150, rng) for _ in range(80))
    pvalues = [sc.ospksd_test(x, bimodal(), check_score=False, **options).pvalue for x in samples]
    assert_level(pvalues, (0.05, 0.2, 0.5), exact=True)


def test_ospksd_chooses_the_theta_of_the_largest_criterion():
    x = bimodal_draws(1.0, 600, np.random.default_rng(11))
    result = sc.ospksd_test(x, bimodal(), modes=BIMODAL_MODES, rng=0)
    assert result.chosen_theta == result.theta[np.argmax(result.power_criterion)]
    assert result.power_criterion.shape == (51,)
    assert abs(result.chosen_theta - 1) > 0.02  # at 1 the modes fall upon each other and nothing is seen
    assert result.identity_statistic + result.theta_statistic == pytest.approx(result.statistic, rel=1e-9)
