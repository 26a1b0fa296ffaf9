import json

import numpy as np
import pytest
from harness import BIMODAL_MODES, bimodal, bimodal_draws, normal_log_density

import steincheck as sc
from steincheck.ksd.optimised import power_criterion
from steincheck.stein.tiles import quadratic_forms


def test_golden_statistic_bootstrap_and_pvalue(golden):
    arrays, target = golden
    result = sc.ksd_test(
        arrays["X"], target, bootstrap=lambda n, size, rng: arrays["boot_weights"] - 1, n_resamples=200
    )
    assert result.bandwidth == pytest.approx(float(arrays["imq_lambda"]), rel=1e-12)
    assert result.statistic == pytest.approx(float(arrays["ustat"]), rel=1e-9)
    np.testing.assert_allclose(result.null_distribution, arrays["boot_stats"], rtol=1e-9)
    assert result.pvalue == pytest.approx(float(arrays["boot_pvalue"]), rel=1e-12)


def test_statistic_is_unbiased_of_zero_under_the_null(normal_target):
    rng = np.random.default_rng(4)
    values = [
        sc.ksd_test(
            rng.normal(size=(60, 2)), normal_target, kernel=sc.IMQ(2.0), n_resamples=19, check_score=False
        ).statistic
        for _ in range(100)
    ]
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(100)


def test_finite_difference_scores_are_flagged():
    target = sc.Target(normal_log_density, dim=2)
    x = np.random.default_rng(5).normal(size=(100, 2))
    with pytest.warns(UserWarning, match="the target has no score"):
        result = sc.ksd_test(x, target, rng=0)
    assert "finite differences" in result.warnings[0]
    assert "finite differences" in str(result)
    exact = sc.ksd_test(x, sc.Target(target.log_density, lambda x: -x, dim=2), rng=0)
    assert result.statistic == pytest.approx(exact.statistic, rel=1e-6)


def test_a_wrong_score_is_an_error_unless_told_otherwise():
    wrong = sc.Target(normal_log_density, lambda x: x, dim=2)
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(ValueError, match="`score` disagrees"):
        sc.ksd_test(x, wrong)
    assert sc.ksd_test(x, wrong, check_score=False, rng=0).reject()  # draws of its reciprocal


def test_golden_summed_matrix_and_criterion(golden):
    """spKSD's statistic and replicates, ospKSD's criterion; the research code has a bandwidth a sample."""
    arrays, target = golden
    stack = arrays["sp_X"]
    n = stack.shape[1]
    weights = arrays["boot_weights"] - 1
    scores = target.score(stack.reshape(-1, target.dim)).reshape(stack.shape)
    each = [
        quadratic_forms(stack[[j]], scores[[j]], sc.IMQ(), width, weights, row_sums=True)
        for j, width in enumerate(arrays["sp_lambdas"])
    ]
    total = sum(forms.total[0] for forms in each)
    assert total / (n * (n - 1)) == pytest.approx(float(arrays["sp_stat"]), rel=1e-9)
    replicates = sum(forms.replicates[0] for forms in each) / n**2
    np.testing.assert_allclose(replicates, arrays["sp_boot_stats"], rtol=1e-8, atol=1e-12)
    rows = np.array([forms.row_sums[0, 0] for forms in each])
    np.testing.assert_allclose(rows.sum(axis=0), arrays["sp_U_sum_nodiag"].sum(axis=1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(power_criterion(rows[0] + rows[1:]), arrays["osp_proxy"], rtol=1e-8)
    assert power_criterion(rows[0]) == pytest.approx(float(arrays["scaled_ksd"]), rel=1e-9)
    common = quadratic_forms(stack, scores, sc.IMQ(), float(arrays["imq_lambda"]))
    assert common.total[0] / (n * (n - 1)) == pytest.approx(float(arrays["sp_stat_common_lambda"]), rel=1e-9)


def test_spksd_reports_what_it_did():
    x = bimodal_draws(0.3, 400, np.random.default_rng(10))
    result = sc.spksd_test(x, bimodal(), modes=BIMODAL_MODES, theta=[0.8, 1.0, 1.2], rng=0)
    assert result.acceptance.shape == result.theta_statistics.shape == (3,)
    assert result.acceptance[1] > 0.4  # half of the proposals go the right way, and all of these are taken
    assert len(result.modes) == 2
    assert result.statistic == pytest.approx(
        result.identity_statistic + result.theta_statistics.sum(), rel=1e-9
    )
    plain = sc.ksd_test(x, bimodal(), rng=0)
    assert result.identity_statistic == pytest.approx(plain.statistic, rel=1e-9)
    assert json.loads(result.to_json())["modes"]


@pytest.mark.parametrize("test", [sc.pksd_test, sc.spksd_test, sc.ospksd_test, sc.pksdagg_test])
def test_one_perturbation_serves_several_tests(test):
    x = bimodal_draws(0.4, 120, np.random.default_rng(22))
    theta = 0.8 if test is sc.pksd_test else [0.8, 1.2]
    moved = sc.perturb(x, bimodal(), BIMODAL_MODES, theta, n_steps=10, rng=0)
    result = test(x, bimodal(), perturbation=moved, rng=1)
    np.testing.assert_array_equal(result.theta, moved.theta)
    if test is not sc.ospksd_test:  # with the same stream the test makes the same perturbation
        stream = np.random.default_rng(1).spawn(7)[3]
        moved = sc.perturb(x, bimodal(), BIMODAL_MODES, theta, n_steps=10, rng=stream.bit_generator.seed_seq)
        own = test(x, bimodal(), modes=BIMODAL_MODES, theta=theta, rng=1)
        assert test(x, bimodal(), perturbation=moved, rng=1).pvalue == own.pvalue
    with pytest.raises(ValueError, match="`perturbation` has its own `theta`, `n_steps`"):
        test(x, bimodal(), perturbation=moved, theta=theta, n_steps=3)
    for name, value in (("n_steps", 10), ("accept", sc.metropolis)):  # what is the default is given too
        with pytest.raises(ValueError, match=f"`perturbation` has its own `{name}`: give one or the other"):
            test(x, bimodal(), perturbation=moved, **{name: value})
    with pytest.raises(ValueError, match="`perturbation` must be one of the same draws"):
        test(x[::-1], bimodal(), perturbation=moved)
    other = sc.models.gaussian_mixture([[0.0], [7.0]])
    with pytest.raises(ValueError, match="`perturbation` must be one for the target of the test"):
        test(x, other, perturbation=moved)
    with pytest.raises(TypeError, match="`perturbation` must come from perturb, got ndarray"):
        test(x, bimodal(), perturbation=x)
    with pytest.raises(ValueError, match="`bounds` is the box of the mode search: give `modes` or `bounds`"):
        test(x, bimodal(), modes=BIMODAL_MODES, bounds=(-10, 16))
