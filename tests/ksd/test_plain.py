import numpy as np
import pytest
from harness import assert_level, assert_power, assert_uniform, bimodal, normal_log_density, standard_normal

import steincheck as sc


def test_golden_statistic_bootstrap_and_pvalue(golden):
    arrays, target = golden
    result = sc.ksd_test(
        arrays["X"], target, bootstrap=lambda n, size, rng: arrays["boot_weights"] - 1, n_resamples=200
    )
    assert result.bandwidth == pytest.approx(float(arrays["imq_lambda"]), rel=1e-12)
    assert result.statistic == pytest.approx(float(arrays["ustat"]), rel=1e-9)
    np.testing.assert_allclose(result.null_distribution, arrays["boot_stats"], rtol=1e-9)
    assert result.pvalue == pytest.approx(float(arrays["boot_pvalue"]), rel=1e-12)


@pytest.mark.slow
def test_pvalues_are_uniform_under_the_null(normal_target):
    """250 samples of 100 draws."""
    rng = np.random.default_rng(0)
    pvalues = [
        sc.ksd_test(
            rng.normal(size=(100, 2)), normal_target, n_resamples=199, check_score=False, rng=rng
        ).pvalue
        for _ in range(250)
    ]
    assert_uniform(pvalues)
    assert_level(pvalues, exact=True)


@pytest.mark.slow
@pytest.mark.parametrize("bootstrap", [sc.multinomial, sc.wild])
@pytest.mark.parametrize("kernel", [sc.IMQ(), sc.RBF()], ids=repr)
def test_power_against_a_shift(normal_target, kernel, bootstrap):
    rng = np.random.default_rng(1)
    rejected = [
        sc.ksd_test(
            rng.normal(0.3, 1, size=(300, 2)), normal_target, kernel=kernel, bootstrap=bootstrap, rng=rng
        ).reject()
        for _ in range(20)
    ]
    assert_power(rejected, 0.9)


@pytest.mark.slow
def test_blind_to_a_missing_mode():
    """The paper's opening example: the KSD test does not see that the right mode is missing."""
    target = bimodal()
    rng = np.random.default_rng(2)
    rejected = [sc.ksd_test(rng.normal(size=(500, 1)), target, rng=rng).reject() for _ in range(40)]
    assert_level(rejected)


def test_the_seed_decides_everything(normal_target):
    x = np.random.default_rng(3).normal(size=(150, 2))
    one, two, other = (sc.ksd_test(x, normal_target, rng=seed) for seed in (5, 5, 6))
    assert (one.statistic, one.pvalue) == (two.statistic, two.pvalue)
    np.testing.assert_array_equal(one.null_distribution, two.null_distribution)
    assert not np.array_equal(one.null_distribution, other.null_distribution)


def test_statistic_is_unbiased_of_zero_under_the_null(normal_target):
    rng = np.random.default_rng(4)
    values = [
        sc.ksd_test(
            rng.normal(size=(60, 2)), normal_target, kernel=sc.IMQ(2.0), n_resamples=19, check_score=False
        ).statistic
        for _ in range(100)
    ]
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(100)


class TestPrecondition:
    matrix = np.array([[2.0, 0.5, 0.0], [0.1, 1e-3, 0.0], [30.0, 0.0, 1e3]])

    def pair(self, seed=0, inflate=1.0):
        """A standard normal target and draws, and their image under a linear map of very different scales."""
        x = inflate * np.random.default_rng(seed).normal(size=(400, 3))
        plain = standard_normal(3)
        precision = np.linalg.inv(self.matrix @ self.matrix.T)
        mapped = sc.Target(
            lambda x: -0.5 * np.einsum("ni,ij,nj->n", x, precision, x), lambda x: -x @ precision, dim=3
        )
        return (x, plain), (x @ self.matrix.T, mapped)

    def test_pvalue_does_not_depend_on_linear_maps(self):
        (x, plain), (y, mapped) = self.pair()
        one = sc.ksd_test(x, plain, precondition=np.eye(3), rng=0)
        two = sc.ksd_test(y, mapped, precondition=self.matrix @ self.matrix.T, rng=0, check_score=False)
        assert one.statistic == pytest.approx(sc.ksd_test(x, plain, rng=0).statistic, rel=1e-12)
        assert two.statistic == pytest.approx(one.statistic, rel=1e-6)
        assert two.pvalue == one.pvalue

    def test_it_sees_an_inflated_small_coordinate(self):
        scale = np.array([1e-3, 1.0, 1e3])
        x = np.random.default_rng(1).normal(size=(1000, 3)) * scale * [1.3, 1, 1]
        target = sc.Target(lambda x: -0.5 * np.sum((x / scale) ** 2, axis=1), lambda x: -x / scale**2, dim=3)
        assert sc.ksd_test(x, target, precondition=np.diag(scale**2), rng=0).pvalue <= 0.01

    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            (np.eye(3), r"`precondition` must have shape \(2, 2\), got \(3, 3\)"),
            (np.array([[1.0, 2.0], [2.0, 1.0]]), "must be positive definite, its smallest eigenvalue is -1"),
            (np.array([[1.0, 0.5], [0.0, 1.0]]), "must be symmetric"),
        ],
    )
    def test_bad_matrices(self, normal_target, matrix, message):
        with pytest.raises(ValueError, match=message):
            sc.ksd_test(np.zeros((50, 2)), normal_target, precondition=matrix)


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
