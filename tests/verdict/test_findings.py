"""What is wrong and by how much: shares of chains that never change mode, sds, single draws, tolerance."""

import numpy as np
import pytest
from harness import ar1_chains, gaussian, standard_normal

import steincheck as sc

ORIGIN = [[0.0, 0.0]]


@pytest.fixture(scope="module")
def far_apart():
    return sc.models.gaussian_mixture([[-6.0], [6.0]])


@pytest.mark.parametrize(("right", "fits"), [(4, False), (3, False), (2, None)])
def test_chains_that_never_change_mode(far_apart, right, fits):
    x = ar1_chains(np.random.default_rng(right), 4, 250, 1, 0.2)
    x += np.where(np.arange(4) < right, 6.0, -6.0)[:, None, None]
    verdict = sc.check(x, far_apart, modes=[[-6.0], [6.0]], rng=0)
    assert verdict.fits is fits
    shares = [finding for finding in verdict.findings if finding.kind in ("missing mode", "mode share")]
    assert len(shares) == (0 if fits is None else 2)
    assert all(np.isnan(finding.pvalue) for finding in shares)
    if fits is False:
        assert verdict.sentence.startswith("Misfit found. Mode 0 (x[0] = -6)")
        assert "(p " not in verdict.sentence
    if right == 4:
        assert shares[0].kind == "missing mode"
        assert verdict.advice[0].startswith("start chains in every mode")
    else:
        assert verdict.advice[0].startswith("weight the draws: ")
        assert "start chains in every mode" not in " ".join(verdict.advice)


def test_mean_field_draws_are_too_narrow_by_the_right_factor():
    covariance = 0.9 + 0.1 * np.eye(10)
    x = np.random.default_rng(0).normal(size=(1000, 10)) / np.sqrt(np.diag(np.linalg.inv(covariance)))
    verdict = sc.check(x, gaussian(covariance), modes=np.zeros((1, 10)), rng=0)
    assert verdict.fits is False
    order = np.argsort(x.std(axis=0))
    assert [finding.parameters for finding in verdict.findings] == [(f"x[{k}]",) for k in order]
    for finding, k in zip(verdict.findings[:6], order, strict=False):
        assert finding.kind == "sd"
        assert finding.interval[0] <= x[:, k].std() <= finding.interval[1]
    assert "and 3 more findings: `verdict.findings`" in str(verdict)


@pytest.mark.parametrize(("shift", "tolerance", "fits"), [(0.0, 0.2, True), (0.5, 0.2, False)])
def test_the_errors_decide_if_there_is_a_tolerance(shift, tolerance, fits):
    x = np.random.default_rng(0).normal(size=(60, 2)) * 1.0
    x = (x - x.mean(axis=0)) / x.std(axis=0) + shift
    verdict = sc.check(x, standard_normal(2), modes=ORIGIN, tolerance=tolerance, rng=0)
    assert verdict.fits is fits
    assert bool(verdict.findings) is (not fits)
    assert bool(verdict.advice) is (not fits)


@pytest.mark.parametrize("place", [0.0, 0.1, 50.0])
def test_draws_that_do_not_vary_are_called_so(place):
    still = np.full((300, 2), place)
    named = {"alpha": still[:, 0], "beta": still[:, 1]}
    verdict = sc.check(named, standard_normal(2), tolerance=0.1, rng=0)
    assert verdict.names == ("alpha", "beta")  # of the draws, as the target has none
    assert verdict.findings[0].text == "alpha: the draws do not vary, the sd of the density is 1"
    assert not any("larger sample" in advice for advice in verdict.advice)
    assert sc.check(still, standard_normal(2), rng=0).fits is (False if place == 50 else None)


def test_shares_count_where_there_is_a_tolerance(far_apart):
    for weights, fits in (([0.5, 0.5], True), ([0.75, 0.25], False)):
        x = far_apart.sample(800, 0, weights=weights)
        verdict = sc.check(x, far_apart, modes=[[-6.0], [6.0]], tolerance=0.12, rng=0)
        assert verdict.fits is fits
        assert any(finding.kind == "mode share" for finding in verdict.findings) is not fits


def test_an_error_at_the_tolerance_cannot_be_told():
    target = sc.models.gaussian_mixture([[0.0]])
    x = np.random.default_rng(0).standard_t(5, size=(100, 1))
    verdict = sc.check(x, target, modes=[[0.0]], rng=0)
    edge = abs(verdict.accuracy[0].sd_error)
    assert edge > abs(verdict.accuracy[0].mean_error)
    again = sc.check(x, target, modes=[[0.0]], tolerance=edge, rng=0)
    assert again.fits is None
    assert again.advice[0].startswith("take more draws, allow more evaluations if a limit")


@pytest.mark.parametrize(("gap", "n"), [(3.2, 1000), (4.0, 2000), (5.0, 1000)])
def test_wrong_weights_of_overlapping_modes_are_no_wrong_shape(gap, n):
    """Components exactly right, .45/.55 instead of .6/.4: the shares are wrong, and the mean with them."""
    places = [[-gap / 2], [gap / 2]]
    target = sc.models.gaussian_mixture(places, weights=[0.6, 0.4])
    modes = sc.find_modes(target, rng=0)
    for seed in range(3):
        x = target.sample(n, seed, weights=[0.45, 0.55])
        kinds = {finding.kind for finding in sc.check(x, target, modes=modes, rng=seed).findings}
        assert "mode share" in kinds
        assert "shape" not in kinds
