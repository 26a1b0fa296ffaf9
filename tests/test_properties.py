"""What must not change a p-value: order, place, direction and units of draws and target, constants, labels.

Maps are applied to target and draws together. Where a test is not invariant by design, that is tested too:
KSDAgg's published bandwidths are distances along the axes, the paper's jumps depend on the origin.
"""

import functools
import warnings

import numpy as np
import pytest

import steincheck as sc

N = 80
CENTRES = np.array([[-2.0, 0.0], [2.0, 1.0]])
MODES = (CENTRES, np.stack([np.eye(2), np.eye(2)]))
DRAWS = CENTRES[np.random.default_rng(1).permutation(N) % 2] + np.random.default_rng(0).normal(size=(N, 2))


def mixture(centres, constant=0.0, root=((1.0, 0.0), (0.0, 1.0))):
    """log p and score of two Gaussians with covariance root root'."""
    inverse = np.linalg.inv(root)

    def parts(x):
        z = (x[:, None] - centres) @ inverse.T
        log_parts = -0.5 * np.sum(z**2, axis=2)
        peak = log_parts.max(axis=1, keepdims=True)
        weights = np.exp(log_parts - peak)
        return z, weights, peak[:, 0]

    def log_density(x):
        _, weights, peak = parts(x)
        return peak + np.log(weights.sum(axis=1)) + constant

    def score(x):
        z, weights, _ = parts(x)
        share = weights / weights.sum(axis=1, keepdims=True)
        return -np.einsum("nk,nkd->nd", share, z) @ inverse

    return sc.Target(log_density, score, dim=2)


def mapped(matrix=None, shift=(0.0, 0.0)):
    """Draws, target and modes after x -> matrix x + shift."""
    matrix = np.eye(2) if matrix is None else np.asarray(matrix)
    centres = CENTRES @ matrix.T + shift
    covariances = np.stack([matrix @ matrix.T] * 2)
    return DRAWS @ matrix.T + shift, mixture(centres, root=matrix), (centres, covariances)


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def with_modes(test, **options):
    return lambda x, target, modes: test(x, target, modes=modes, rng=0, **options)


def without_modes(test, **options):
    return lambda x, target, modes: test(x, target, rng=0, **options)


def preconditioned(x, target, modes):
    return sc.ksd_test(x, target, precondition=modes[1][0], n_resamples=199, rng=0)


KSD = without_modes(sc.ksd_test, n_resamples=199)
SHAPE = {
    "ksd": KSD,
    "ksd, preconditioned": preconditioned,
    "spksd, theta = 1": with_modes(sc.spksd_test, n_resamples=99, theta=[1.0], n_steps=3),
    "flux": with_modes(sc.flux_test),
    "check": with_modes(functools.partial(sc.check, independent=True)),
}
MAPS = {
    "shift": {"shift": (30.0, -7.0)},
    "shift by 1e6": {"shift": (1e6, 1e6)},
    "rotation": {"matrix": rotation(0.7)},
    "reflection": {"matrix": [[0.0, 1.0], [1.0, 0.0]]},
    "units of all": {"matrix": 1e4 * np.eye(2)},
    "units of one": {"matrix": np.diag([1e-5, 1e5])},
    "shear": {"matrix": [[1.0, 2.0], [0.0, 1.0]]},
}
# the kernel of a test without preconditioning sees distances: it follows isometries and one unit for all
ISOMETRIES = ("shift", "shift by 1e6", "rotation", "reflection", "units of all")
FOLLOWS = {
    "ksd": ISOMETRIES,
    "ksd, preconditioned": tuple(MAPS),
    "spksd, theta = 1": ISOMETRIES,
    "flux": tuple(MAPS),
    "check": ("shift", "units of all"),  # statistics of single coordinates turn into others under a rotation
}


@functools.cache
def plain(name):
    return SHAPE[name](*mapped())


@pytest.mark.parametrize(("name", "change"), [(name, change) for name in SHAPE for change in FOLLOWS[name]])
def test_maps_of_target_and_draws_together_leave_the_outcome(name, change):
    found = SHAPE[name](*mapped(**MAPS[change]))
    if name == "flux":  # its samples are drawn anew, the statistic and what it is compared with are not
        assert found.statistic == pytest.approx(plain(name).statistic, rel=1e-6)
        assert found.degrees_of_freedom == plain(name).degrees_of_freedom
    else:  # replicates may tie with the statistic in another way after rounding: one of a hundred
        assert found.pvalue == pytest.approx(plain(name).pvalue, abs=0.011)


@pytest.mark.parametrize("name", SHAPE)
@pytest.mark.parametrize("constant", [1e3, -1e8])
def test_a_constant_added_to_the_log_density_leaves_the_pvalue(name, constant):
    found = SHAPE[name](DRAWS, mixture(CENTRES, constant), MODES).pvalue
    assert found == pytest.approx(plain(name).pvalue, abs=0.011 if abs(constant) > 1e6 else 1e-9)


def test_the_statistic_does_not_depend_on_the_order_of_independent_draws():
    order = np.random.default_rng(1).permutation(N)
    target = mixture(CENTRES)
    for test in (sc.ksd_test, sc.ksdagg_test):
        one, other = (test(x, target, rng=0) for x in (DRAWS, DRAWS[order]))
        name = "statistics" if test is sc.ksdagg_test else "statistic"
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-9)
    flux, again = (sc.flux_test(x, target, modes=MODES, rng=0) for x in (DRAWS, DRAWS[order]))
    assert again.statistic == pytest.approx(flux.statistic, rel=1e-6)


def test_the_order_of_the_modes_leaves_the_flux_test():
    target = mixture(CENTRES)
    swapped = (CENTRES[::-1], MODES[1])
    one, other = (sc.flux_test(DRAWS, target, modes=modes, rng=0) for modes in (MODES, swapped))
    assert other.statistic == pytest.approx(one.statistic, rel=1e-6)
    assert other.mode_table.observed == pytest.approx(one.mode_table.observed[::-1])


def test_the_published_bandwidths_of_ksdagg_depend_on_units_and_preconditioning_undoes_it():
    x, target, modes = mapped(matrix=np.diag([1e-3, 1e3]))
    plain_run = sc.ksdagg_test(DRAWS, mixture(CENTRES), rng=0)
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
            target = mixture(CENTRES + shift)
            modes = (unequal[0] + shift, unequal[1])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # far from the origin, which is what is tested
                run = sc.perturb(DRAWS + shift, target, modes, theta, n_steps=3, rng=0)
            moved[theta, shift] = run.samples[0] - shift
    assert np.allclose(moved[1.0, 0.0], moved[1.0, 30.0], atol=1e-9)
    assert not np.allclose(moved[0.7, 0.0], moved[0.7, 30.0], atol=1e-9)
