"""What must not change a p-value: order, place, direction and units of draws and target, constants, labels.

Maps are applied to target and draws together. Where a test is not invariant by design, that is tested too:
KSDAgg's published bandwidths are distances along the axes, the paper's jumps depend on the origin. Hypothesis
draws the maps and looks for the smallest example that fails; what it draws does not change from run to run.
"""

import functools
import warnings

import numpy as np
import pytest
from harness import numpy_mixture
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import steincheck as sc
from steincheck.verdict.steps import holm

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("repeatable")

N = 80
CENTRES = np.array([[-2.0, 0.0], [2.0, 1.0]])
MIXTURE = numpy_mixture(CENTRES)
MODES = (CENTRES, np.stack([np.eye(2), np.eye(2)]))
DRAWS = CENTRES[np.random.default_rng(1).permutation(N) % 2] + np.random.default_rng(0).normal(size=(N, 2))


def mapped(matrix=None, shift=(0.0, 0.0), constant=0.0):
    """Draws, target and modes after x -> matrix x + shift, a constant added to the log density."""
    matrix = np.eye(2) if matrix is None else np.asarray(matrix)
    inverse = np.linalg.inv(matrix)

    def back(y):
        return (y - shift) @ inverse.T

    target = sc.Target(
        lambda y: MIXTURE.log_density(back(y)) + constant, lambda y: MIXTURE.score(back(y)) @ inverse, dim=2
    )
    modes = (CENTRES @ matrix.T + shift, np.stack([matrix @ matrix.T] * 2))
    return DRAWS @ matrix.T + shift, target, modes


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def with_modes(test, **options):
    return lambda x, target, modes: test(x, target, modes=modes, rng=0, **options)


def ksd(x, target, modes):
    return sc.ksd_test(x, target, n_resamples=199, rng=0)


def preconditioned(x, target, modes):
    return sc.ksd_test(x, target, precondition=modes[1][0], n_resamples=199, rng=0)


SHAPE = {
    "ksd": ksd,
    "ksd, preconditioned": preconditioned,
    "spksd, theta = 1": with_modes(sc.spksd_test, n_resamples=99, theta=[1.0], n_steps=3),
    "flux": with_modes(sc.flux_test),
    "check": with_modes(functools.partial(sc.check, independent=True)),
}
MAPS = {
    "shift": {"shift": (30.0, -7.0)},
    "units of all": {"matrix": 1e4 * np.eye(2)},
    "rotation": {"matrix": rotation(0.7)},
}
# Hypothesis draws the maps of the others; statistics of single coordinates turn into others under a rotation
FOLLOWS = {"spksd, theta = 1": tuple(MAPS), "check": ("shift", "units of all")}


@functools.cache
def plain(name):
    return SHAPE[name](*mapped())


@pytest.mark.parametrize(("name", "change"), [(name, change) for name in FOLLOWS for change in FOLLOWS[name]])
def test_maps_of_target_and_draws_together_leave_the_outcome(name, change):
    found = SHAPE[name](*mapped(**MAPS[change]))
    # replicates may tie with the statistic in another way after rounding: one of a hundred
    assert found.pvalue == pytest.approx(plain(name).pvalue, abs=0.011)


@pytest.mark.parametrize("name", SHAPE)
@pytest.mark.parametrize("constant", [1e3, -1e8])
def test_a_constant_added_to_the_log_density_leaves_the_pvalue(name, constant):
    found = SHAPE[name](*mapped(constant=constant)).pvalue
    assert found == pytest.approx(plain(name).pvalue, abs=0.011 if abs(constant) > 1e6 else 1e-9)


def test_the_order_of_the_modes_leaves_the_flux_test():
    swapped = (CENTRES[::-1], MODES[1])
    one, other = (sc.flux_test(DRAWS, MIXTURE, modes=modes, rng=0) for modes in (MODES, swapped))
    assert other.statistic == pytest.approx(one.statistic, rel=1e-6)
    assert other.mode_table.observed == pytest.approx(one.mode_table.observed[::-1])


def test_the_published_bandwidths_of_ksdagg_depend_on_units_and_preconditioning_undoes_it():
    x, target, modes = mapped(matrix=np.diag([1e-3, 1e3]))
    plain_run = sc.ksdagg_test(DRAWS, MIXTURE, rng=0)
    with pytest.warns(UserWarning, match="made for draws of unit scale"):
        scaled_run = sc.ksdagg_test(x, target, rng=0)
    assert abs(scaled_run.pvalue - plain_run.pvalue) > 0.011
    same = [
        sc.ksdagg_test(draws, density, precondition=place[1][0], rng=0).pvalue
        for draws, density, place in (mapped(), (x, target, modes))
    ]
    assert same[1] == pytest.approx(same[0], abs=0.011)


def test_jumps_of_the_paper_depend_on_the_origin_unless_theta_is_1_or_covariances_agree():
    unequal = (CENTRES, np.stack([np.eye(2), 4 * np.eye(2)]))
    moved = {}
    for theta in (0.7, 1.0):
        for shift in (0.0, 30.0):
            target = numpy_mixture(CENTRES + shift)
            modes = (unequal[0] + shift, unequal[1])
            with warnings.catch_warnings(action="ignore"):  # far from the origin, which is what is tested
                run = sc.perturb(DRAWS + shift, target, modes, theta, n_steps=3, rng=0)
            moved[theta, shift] = run.samples[0] - shift
    assert np.allclose(moved[1.0, 0.0], moved[1.0, 30.0], atol=1e-9)
    assert not np.allclose(moved[0.7, 0.0], moved[0.7, 30.0], atol=1e-9)


angles = st.floats(0, 2 * np.pi)
log_scales = st.floats(-6, 6)


@settings(max_examples=25)
@given(
    angle=angles, mirrored=st.booleans(), log_scale=log_scales, shift=st.tuples(*[st.floats(-1e3, 1e3)] * 2)
)
def test_any_isometry_and_any_unit_leaves_ksd(angle, mirrored, log_scale, shift):
    matrix = 10.0**log_scale * rotation(angle) @ np.diag([1.0, -1.0 if mirrored else 1.0])
    found = ksd(*mapped(matrix, 10.0**log_scale * np.array(shift)))
    assert found.pvalue == pytest.approx(plain("ksd").pvalue, abs=0.011)


@settings(max_examples=25)
@given(first=angles, second=angles, log_scales=st.tuples(log_scales, log_scales))
def test_any_linear_map_leaves_what_knows_the_modes(first, second, log_scales):
    matrix = rotation(first) @ np.diag(10.0 ** np.array(log_scales)) @ rotation(second)
    assume(np.linalg.cond(matrix) < 1e6)  # beyond, a sheared covariance is not symmetric to rounding
    arguments = mapped(matrix)
    pvalue = preconditioned(*arguments).pvalue
    assert pvalue == pytest.approx(plain("ksd, preconditioned").pvalue, abs=0.011)
    assert SHAPE["flux"](*arguments).statistic == pytest.approx(plain("flux").statistic, rel=1e-4)


@settings(max_examples=10)
@given(order=st.permutations(range(N)))
def test_any_order_of_independent_draws_leaves_statistics(order):
    x = DRAWS[list(order)]
    found = sc.ksd_test(x, MIXTURE, n_resamples=19, independent=True, rng=0)
    assert found.statistic == pytest.approx(plain("ksd").statistic, rel=1e-9)
    flux = sc.flux_test(x, MIXTURE, modes=MODES, independent=True, rng=0)
    assert flux.statistic == pytest.approx(plain("flux").statistic, rel=1e-6)


@given(pvalues=st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closure_of_bonferroni(pvalues):
    """A hypothesis is rejected if Bonferroni rejects every intersection that it is part of."""
    adjusted = holm({str(k): p for k, p in enumerate(pvalues)})
    for k in range(len(pvalues)):
        others = sorted(p for i, p in enumerate(pvalues) if i != k)
        # of the sets of one size that hold k, the one with the largest others has the largest p-value
        sets = [[pvalues[k], *others[len(others) - size :]] for size in range(len(pvalues))]
        closure = max(min(1.0, len(one) * min(one)) for one in sets)
        assert adjusted[str(k)] == pytest.approx(closure)
