"""Means and sds of densities from right and wrong draws; what is never said."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from harness import assert_coverage, gaussian
from scipy import special

import steincheck as sc
from steincheck.accuracy import accuracy_core, better_records, importance_accuracy
from steincheck.chains.reading import Sample
from steincheck.result import Modes, ModeTable
from steincheck.target.evaluation import Budget

COVARIANCE = np.linalg.inv(np.eye(10) + 0.8 * np.ones((10, 10)))


def log_gamma(shape, d):
    """Logarithms of d independent gamma variables."""
    return sc.Target(lambda x: (shape * x - np.exp(x)).sum(axis=1), lambda x: shape - np.exp(x), dim=d)


def student(nu, d=2):
    return sc.Target(
        lambda x: -(nu + 1) / 2 * np.log1p(x**2 / nu).sum(axis=1),
        lambda x: -(nu + 1) * x / (nu + x**2),
        dim=d,
    )


def at_origin(d):
    return Modes(np.zeros((1, d)), np.eye(d)[None], np.zeros(1))


def estimate(target, draws, rng=0, **options):
    """Without a search for modes."""
    modes = options.pop("modes", at_origin(target.dim))
    sample = Sample(draws, target.log_density(draws), scores=target.score(draws))
    return accuracy_core(sample, target, modes, rng=np.random.default_rng(rng), **options)


def test_mean_field_draws_of_a_gaussian_show_its_moments():
    draws = np.random.default_rng(0).normal(size=(1000, 10)) / np.sqrt(1.8)
    result = estimate(gaussian(COVARIANCE), draws)
    sds = np.sqrt(np.diag(COVARIANCE))
    for record, sd in zip(result.parameters, sds, strict=True):
        assert abs(record.mean) < 0.001 * sd
        assert abs(np.log(record.sd / sd)) < 0.001
        assert not record.rough
    assert result.n_transitions == 25
    assert result.answer(0.1) is False
    np.testing.assert_allclose(result.mode_moments[1][0], COVARIANCE, atol=0.15 * sds.max() ** 2)


def test_linear_changes_of_coordinates_change_nothing():
    rng = np.random.default_rng(1)
    draws = rng.gamma(3.0, size=(400, 3))
    target = log_gamma(3, 3)
    draws = np.log(draws)
    factor, offset = np.array([2.0, 0.01, 300.0]), np.array([5.0, -1.0, 1000.0])
    other = sc.Target(
        lambda y: target.log_density((y - offset) / factor),
        lambda y: target.score((y - offset) / factor) / factor,
        dim=3,
    )
    one, two = estimate(target, draws), estimate(other, draws * factor + offset)
    for a, b in zip(one.parameters, two.parameters, strict=True):
        np.testing.assert_allclose(a.mean_error_interval, b.mean_error_interval, atol=1e-6)
        np.testing.assert_allclose(a.sd_error_interval, b.sd_error_interval, atol=1e-6)


@pytest.mark.parametrize(("nu", "has_mean"), [(1, False), (3, True), (4, True)])
def test_heavy_tails_never_fit(nu, has_mean):
    target = student(nu)
    for seed in range(4):
        result = estimate(target, np.random.default_rng(seed).standard_t(nu, size=(1000, 2)), rng=seed)
        for record in result.parameters:
            assert not record.has_sd
            assert np.isnan(record.sd)
            assert np.isnan(record.mean) != has_mean
        assert result.answer(0.1) is not True
        assert result.answer(10.0) is not True


def test_neals_funnel_is_always_rough():
    def log_density(x):
        v, rest = x[:, 0], x[:, 1:]
        return -(v**2) / 18 - 4.5 * v - 0.5 * np.exp(-v) * np.sum(rest**2, axis=1)

    def score(x):
        v, rest = x[:, :1], x[:, 1:]
        first = -v / 9 - 4.5 + 0.5 * np.exp(-v) * np.sum(rest**2, axis=1, keepdims=True)
        return np.hstack([first, -np.exp(-v) * rest])

    target = sc.Target(log_density, score, dim=10)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        v = 3 * rng.normal(size=(1000, 1))
        draws = np.hstack([v, np.exp(v / 2) * rng.normal(size=(1000, 9))])
        result = estimate(target, draws, rng=seed)
        assert any(record.rough for record in result.parameters)
        assert "max_rounds" in result.reasons
        assert result.answer(0.1) is not True


TWO = sc.models.gaussian_mixture([[-4.0, 0.0], [4.0, 1.0]])
TWO_MODES = Modes(np.array([[-4.0, 0.0], [4.0, 1.0]]), np.stack([np.eye(2)] * 2), np.zeros(2))


def mode_table(implied):
    share, nothing = np.array(implied), np.zeros((2, 2))
    covariance = 1e-6 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return ModeTable(TWO_MODES.locations, np.zeros(2), share, share, nothing, covariance)


def test_a_mode_without_draws_counts_by_its_share():
    draws = TWO.sample(500, rng=0, weights=[1.0, 0.0])
    result = estimate(TWO, draws, modes=TWO_MODES, mode_table=mode_table([0.5, 0.5]))
    first = result.parameters[0]
    assert abs(first.mean) < 0.05
    assert abs(np.log(first.sd / np.sqrt(17))) < 0.01
    assert first.draws_mean < -3.5
    np.testing.assert_allclose(result.mode_moments[0], TWO_MODES.locations, atol=0.3)
    assert result.answer(0.1) is False


def test_walkers_imply_the_shares_whatever_the_draws_are():
    """Nine tenths of the draws at one of two equal modes, and half as wide as the density."""
    draws = TWO.sample(1000, rng=1, weights=[0.9, 0.1])
    draws = np.where(draws[:, :1] < 0, *TWO_MODES.locations[:, None]) / 2 + draws / 2
    result = estimate(TWO, draws, modes=TWO_MODES)
    np.testing.assert_allclose(result.mode_table.implied, 0.5, atol=0.01)
    assert abs(result.parameters[0].mean) < 0.1


def test_weights_choose_walkers_and_count_in_the_draws_own_moments():
    rng = np.random.default_rng(4)
    draws = 2 * rng.normal(size=(4000, 2))
    log_weights = 0.5 * np.sum(draws**2, axis=1) * (0.25 - 1)
    target, modes = gaussian(np.eye(2)), at_origin(2)
    result = sc.estimate_accuracy(draws, target, modes=modes, log_weights=log_weights, rng=0)
    for record in result.parameters:
        assert abs(record.draws_mean) < 0.2
        assert abs(record.sd_error) < 0.1


def test_importance_weights_where_q_is_known():
    target = gaussian(np.eye(2))
    covered = []
    for seed in range(50):
        draws = 1.4 * np.random.default_rng(seed).normal(size=(1000, 2)) + 0.2
        sample = Sample(draws, target.log_density(draws), scores=target.score(draws))
        log_q = -0.5 * np.sum((draws - 0.2) ** 2, axis=1) / 1.4**2
        k_hat, records = importance_accuracy(sample, target, log_q)
        assert k_hat < 0.5
        covered += [
            [r.mean_interval[0] < 0 < r.mean_interval[1], r.sd_interval[0] < 1 < r.sd_interval[1]]
            for r in records
        ]
    assert np.all(np.mean(covered, axis=0) > 0.88)
    assert records[0].draws_sd == pytest.approx(draws[:, 0].std())
    walkers = estimate(target, draws).parameters
    assert better_records(walkers, k_hat, records) == walkers  # control variates are exact here
    unknown = estimate(target, draws, budget=Budget(1000)).parameters
    assert better_records(unknown, k_hat, records) == records
    assert better_records(unknown, 0.7, records) == unknown
    assert {record.source for record in records} == {"importance weights"}


def test_importance_weights_give_no_sd_of_heavy_tails():
    draws = np.random.default_rng(0).standard_t(4, size=(1000, 2))
    sample = Sample(draws, student(4).log_density(draws), scores=student(4).score(draws))
    for record in importance_accuracy(sample, student(4), sample.log_p + 0.1 * np.cos(draws[:, 0]))[1]:
        assert not record.has_sd


def test_parameters_are_on_their_own_scale():
    weights = np.array([2.0, 3.0, 5.0])

    def constrain(x):  # a simplex by logs of gammas
        gammas = np.exp(x)
        return np.hstack([gammas[:, :1], gammas / gammas.sum(axis=1, keepdims=True)])

    names = ("scale", "w[0]", "w[1]", "w[2]")
    target = replace(log_gamma(weights, 3), constrained_names=names, constrain=constrain)
    draws = np.log(np.random.default_rng(5).gamma(weights, size=(1000, 3))) + 0.1
    result = estimate(target, draws)
    share = weights / 10
    means = np.array([2.0, *share])
    sds = np.sqrt([2.0, *(share * (1 - share) / 11)])
    for record, mean, sd in zip(result.parameters, means, sds, strict=True):
        assert abs(record.mean - mean) / sd < max(2 * record.mean_estimate.half_width() / sd, 0.01)
        assert abs(np.log(record.sd / sd)) < max(2 * record.log_sd_estimate.half_width(), 0.02)
    assert tuple(record.parameter for record in result.parameters) == names


def test_the_limit_is_obeyed_and_said():
    draws = np.random.default_rng(6).standard_t(3, size=(500, 2))
    for limit in (1000, 5000, 20_000, 40_000):
        result = estimate(student(3), draws, budget=Budget(limit))
        assert result.evaluations <= limit
        if limit == 1000:
            assert result.reasons == ("max_evaluations",)
            assert result.answer(0.1) is None


def test_a_density_with_an_edge_is_rough():
    target = sc.Target(
        lambda x: np.where((x > 0).all(axis=1), -x.sum(axis=1), -np.inf), lambda x: -np.ones_like(x), dim=2
    )
    result = estimate(target, np.random.default_rng(9).exponential(size=(300, 2)))
    assert all(record.rough for record in result.parameters)


def test_the_door_reads_searches_and_warns():
    target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), 2, names=["a", "b"])
    draws = np.random.default_rng(8).normal(size=(4, 100, 2)) * [1.0, 1.5]
    result = sc.estimate_accuracy(draws, target, rng=0)
    assert result.largest.parameter == "b"
    assert abs(result.largest.sd - 1) < 0.01
    assert "sd: draws / density" in str(result)
    with pytest.warns(UserWarning, match="max_evaluations"):
        sc.estimate_accuracy(draws, target, modes=[[0.0, 0.0]], max_evaluations=500, rng=0)


@pytest.mark.filterwarnings("ignore")
def test_the_door_finds_the_shares_of_modes():
    draws = TWO.sample(1000, rng=2, weights=[0.8, 0.2])
    result = sc.estimate_accuracy(draws, TWO, modes=TWO_MODES, rng=0)
    low, high = result.parameters[0].mean_interval
    assert low < 0.0 < high
    assert result.answer(0.1) is False


@pytest.mark.slow
def test_intervals_cover():
    target = log_gamma(3, 2)
    mean, sd = special.digamma(3), np.sqrt(special.polygamma(1, 3))
    hits = np.zeros(2)
    for seed in range(200):
        draws = np.log(np.random.default_rng(seed).gamma(3, size=(200, 2)))
        for record in estimate(target, draws, rng=seed).parameters:
            low, high = np.transpose([record.mean_interval, record.sd_interval])
            hits += (low < [mean, sd]) & ([mean, sd] < high)
    assert_coverage(hits, 400, 0.93)  # 95 % intervals, from an asymptotic standard error
