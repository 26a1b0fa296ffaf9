import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from harness import assert_coverage, assert_level, assert_power, assert_uniform, mixture_draws, numpy_mixture
from scipy import stats

import steincheck as sc
from steincheck.flux import orbits as orbits_module
from steincheck.flux.anchors import Anchors, _mixture, assign, local_anchors, mode_anchors
from steincheck.flux.counts import count_tails, directions, exchange_groups, joint_probability, jumped_counts
from steincheck.flux.displacements import hotelling, lattice_steps, sign_test, step_flows
from steincheck.flux.mode_comparison import compare_independent
from steincheck.flux.orbits import Orbits, count_moments, orbits
from steincheck.flux.shares import _wilson_interval
from steincheck.flux.test import flux_test
from steincheck.modes.arguments import as_modes
from steincheck.result import Modes

FAR = ([[0.0], [9.0], [22.0]], [[[1.0]], [[2.0]], [[0.5]]], [0.6, 0.3, 0.1])
NEAR = ([[-2.0], [2.0], [7.0]], [[[0.5]], [[2.0]], [[1.0]]], [0.2, 0.5, 0.3])


def mixture(means, covariances, weights):
    """A Gaussian mixture as a NumPy target, and its modes if they are far apart."""
    target = numpy_mixture(means, covariances, weights)
    return target, as_modes((means, covariances), target)


def draw(parts, n, rng, weights=None):
    """Draws of a mixture, with other weights if they are given."""
    means, covariances, own = parts
    return mixture_draws(means, covariances, own if weights is None else weights, n, rng)


def odd_anchors(modes):
    """Two anchors per mode, none of them at a mode, with odd shapes and weights."""
    centres = np.repeat(modes.locations, 2, axis=0) + np.tile([[-0.7], [0.9]], (len(modes), 1))
    covariances = (
        np.repeat(modes.covariances, 2, axis=0) * np.linspace(0.5, 1.5, 2 * len(modes))[:, None, None]
    )
    return Anchors(
        np.repeat(np.arange(len(modes)), 2), centres, covariances, np.linspace(-1, 1, 2 * len(modes))
    )


class TestIdentities:
    """Exact under the target, by quadrature on a line with overlapping modes of unequal width."""

    target, modes = mixture(*NEAR)
    x = np.linspace(-12, 17, 400_001)[:, None]
    mass = np.exp(target.log_density(x)) * (x[1, 0] - x[0, 0])

    @pytest.mark.parametrize("make", [mode_anchors, odd_anchors])
    def test_flow_has_mean_zero_and_is_in_balance(self, make):
        found = orbits(self.x, self.target.log_density(self.x), self.target, make(self.modes))
        chances = found.probabilities()
        own = np.eye(3)[found.mode]
        assert self.mass.sum() == pytest.approx(1, abs=1e-9)
        np.testing.assert_allclose(self.mass @ (chances - own), 0, atol=2e-5)
        flow = (own * self.mass[:, None]).T @ chances
        np.testing.assert_allclose(flow, flow.T, atol=2e-5)
        assert flow[0, 1] > 0.01  # or all of this would say nothing

    def test_covariance_given_the_orbit(self):
        """E F F' = E [diag(pi) - pi pi'], with the left side from the modes the draws have."""
        found = orbits(self.x, self.target.log_density(self.x), self.target, mode_anchors(self.modes))
        chances, own = found.probabilities(), np.eye(3)[found.mode]
        flow = chances - own
        left = (flow * self.mass[:, None]).T @ flow
        right = np.diag(self.mass @ chances) - (chances * self.mass[:, None]).T @ chances
        np.testing.assert_allclose(left, right, atol=2e-5)

    @pytest.mark.parametrize("step", [4.0, -1.3, 9.0])
    def test_flow_along_any_displacement_has_mean_zero(self, step):
        flows = step_flows(self.x, self.target.log_density(self.x), self.target, np.array([[step]]))
        forth, back = self.mass @ flows.accept[:, :, 0]
        assert forth == pytest.approx(back, abs=2e-5)
        assert forth > 0.02


def test_chances_of_far_gaussians_are_their_weights():
    target, modes = mixture(*FAR)
    x = draw(FAR, 500, np.random.default_rng(0))
    found = orbits(x, target.log_density(x), target, mode_anchors(modes))
    np.testing.assert_allclose(found.probabilities(), np.tile(FAR[2], (500, 1)), atol=0.02)
    np.testing.assert_array_equal(found.mode, np.abs(x - modes.locations.ravel()).argmin(axis=1))


def test_orbits_do_not_depend_on_blocks_or_on_the_short_cut(monkeypatch):
    target, modes = mixture(*NEAR)
    x = draw(NEAR, 300, np.random.default_rng(0))
    first = orbits(x, target.log_density(x), target, odd_anchors(modes))
    monkeypatch.setattr(orbits_module, "MAX_ELEMENTS", 1)  # blocks of 64 draws
    monkeypatch.setattr(orbits_module, "_safe_radii", lambda maps: np.zeros(len(maps.centres)))
    second = orbits(x, target.log_density(x), target, odd_anchors(modes))
    np.testing.assert_array_equal(first.mode, second.mode)
    np.testing.assert_allclose(first.log_weight, second.log_weight, rtol=1e-12)


def test_statistic_does_not_depend_on_rotation_and_scale():
    rng = np.random.default_rng(1)
    means, weights = rng.uniform(-14, 14, size=(4, 3)), [0.4, 0.3, 0.2, 0.1]
    roots = rng.normal(size=(4, 3, 3))
    covariances = 0.3 * roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(3)
    turn = 7.0 * stats.ortho_group.rvs(3, random_state=2)
    x = draw((means, covariances, weights), 400, rng)
    plain, modes = mixture(means, covariances, weights)
    turned, turned_modes = mixture(means @ turn.T, turn @ covariances @ turn.T, weights)
    one, two = flux_test(x, plain, modes=modes), flux_test(x @ turn.T, turned, modes=turned_modes)
    assert one.statistic == pytest.approx(two.statistic, rel=1e-8)
    np.testing.assert_allclose(one.flow, two.flow, atol=1e-10)


@pytest.fixture
def without_local_points(monkeypatch):
    """No chains at modes that hardly any draw shows: they change implied shares, and no p-value."""
    monkeypatch.setattr("steincheck.flux.test.with_local_points", lambda table, *others: table)


def test_local_points_change_no_pvalue(request):
    parts = ([[0.0], [9.0]], [[[1.0]], [[2.0]]], [0.95, 0.05])
    target, modes = mixture(*parts)
    x = draw(parts, 150, np.random.default_rng(0))
    chains = flux_test(x, target, modes=modes, variant="exact", rng=0)
    request.getfixturevalue("without_local_points")
    alone = flux_test(x, target, modes=modes, variant="exact", rng=0)
    assert chains.mode_table.n_local[1] > 0
    assert alone.mode_table.n_local is None
    assert chains.pvalue == alone.pvalue


@pytest.mark.usefixtures("without_local_points")
class TestLevel:
    """P-values of correct samples."""

    @staticmethod
    def pvalues(parts, n, repetitions, seed, **options):
        target, modes = mixture(*parts)
        rng = np.random.default_rng(seed)
        return np.array([
            flux_test(draw(parts, n, rng), target, modes=modes, rng=rng, **options).pvalue
            for _ in range(repetitions)
        ])  # fmt: skip

    @pytest.mark.slow
    def test_uniform(self):
        p = self.pvalues(NEAR, 300, 400, 0)
        assert_uniform(p)
        assert_level(p, exact=True)

    @pytest.mark.slow
    @pytest.mark.parametrize("variant", ["asymptotic", "exact"])
    def test_rare_mode(self, variant):
        """2 draws expected: Hotelling's T2 with the estimated covariance rejects 13 % of such samples."""
        rare = ([[0.0], [9.0]], [[[1.0]], [[2.0]]], [0.98, 0.02])
        assert_level(self.pvalues(rare, 100, 400, 1, variant=variant))

    @pytest.mark.slow
    def test_few_draws(self):
        assert_level(self.pvalues(FAR, 20, 250, 2))

    @pytest.mark.slow
    def test_any_anchors(self):
        _, modes = mixture(*NEAR)
        assert_level(self.pvalues(NEAR, 300, 300, 3, anchors=odd_anchors(modes)), exact=True)


@pytest.mark.slow
def test_power_is_that_of_the_labels():
    """Weights .55/.45 for .5/.5, 6 apart, n = 1000: a binomial test on the labels rejects 81 %."""
    parts = ([[-3.0], [3.0]], [[[1.0]], [[1.0]]], [0.5, 0.5])
    target, modes = mixture(*parts)
    rng = np.random.default_rng(4)
    wrong = [
        flux_test(draw(parts, 1000, rng, [0.55, 0.45]), target, modes=modes).reject() for _ in range(200)
    ]
    assert_power(wrong, stats.binom.ppf(1e-4, 200, 0.81) / 200)
    result = flux_test(draw(parts, 1000, rng, [0.6, 0.4]), target, modes=modes)
    assert result.mode_table.words == ("too many draws", "too few draws")
    assert result.net_flow[0] < 0 < result.net_flow[1]
    assert result.net_flow == pytest.approx(result.flow.sum(axis=0) - result.flow.sum(axis=1), abs=1e-12)
    assert result.leaving_probability == pytest.approx(0.5, abs=0.01)
    assert result.n_contributing == 1000


def test_a_missing_mode_is_named():
    target, modes = mixture(*FAR)
    x = draw(FAR, 1000, np.random.default_rng(5), [2 / 3, 1 / 3, 0])
    result = flux_test(x, target, modes=modes)
    assert result.pvalue < 1e-10
    assert result.mode_table.missing == (2,)
    assert result.mode_table.words[2] == "too few draws"
    low, high = result.mode_table.implied_interval[2]
    assert low <= 0.1 <= high
    assert high - low < 0.03
    record = json.loads(result.to_json())
    assert record["mode_table"]["missing"] == [2]


class TestExactDistributions:
    def test_jumped_counts_have_the_mean_and_covariance_of_the_counts(self):
        target, modes = mixture(*NEAR)
        x = draw(NEAR, 200, np.random.default_rng(6))
        found = orbits(x, target.log_density(x), target, mode_anchors(modes))
        moments = count_moments(found)
        counts = np.concatenate(
            [jumped_counts(moments.probabilities, np.random.default_rng(k)) for k in range(20)]
        )
        assert np.all(counts.sum(axis=1) == 200)
        error = np.sqrt(np.diag(moments.covariance) / len(counts))
        assert np.all(np.abs(counts.mean(axis=0) - moments.expected) < 4.5 * error)
        np.testing.assert_allclose(
            np.cov(counts.T), moments.covariance, atol=0.05 * np.diag(moments.covariance).max()
        )

    @pytest.mark.slow
    def test_accepted_jumps_forth_and_back_are_binomial(self):
        """The sum over v of (forth - back)^2 / N_v against the exact law of its two terms."""
        target, _ = mixture(*NEAR)
        rng = np.random.default_rng(7)
        p = []
        for _ in range(400):
            x = draw(NEAR, 60, rng)
            flows = step_flows(x, target.log_density(x), target, np.array([[4.0], [5.0]]))
            statistic, null, freedom = sign_test(flows.accept, 199, rng)
            assert freedom == 2
            p.append((1 + np.sum(null >= statistic - 1e-9)) / 200)
        assert_level(p)
        assert np.sum(np.array(p) <= 0.5) >= stats.binom.ppf(1e-4, 400, 0.3)  # ties, but not all


def test_hotelling_against_the_textbook():
    flow = np.random.default_rng(8).normal(0.1, 1, size=(50, 3)) @ np.array(
        [[1, 0.5, 0], [0, 1, 0], [0, 1, 3]]
    )
    mean = flow.mean(axis=0)
    t2 = 50 * mean @ np.linalg.solve(np.cov(flow.T), mean)
    statistic, p, k = hotelling(flow)
    assert statistic == pytest.approx(t2, rel=1e-9)
    assert p == pytest.approx(stats.f.sf(47 / (3 * 49) * t2, 3, 47), rel=1e-9)
    assert k == 3
    assert hotelling(np.column_stack([flow, flow[:, 0] - flow[:, 1]]))[0] == pytest.approx(t2, rel=1e-6)
    assert hotelling(np.ones((50, 1)))[1] < 1e-20  # all draws flow alike: no variance, and no excuse


def cube(d, d_h, turn=None):
    """Modes at the corners of a cube of width 6 in d_h of d dimensions, and a sampler."""
    turn = np.eye(d) if turn is None else turn

    def log_density(x):
        z = x @ turn
        return np.logaddexp(-0.5 * (z[:, :d_h] - 3) ** 2, -0.5 * (z[:, :d_h] + 3) ** 2).sum(
            axis=1
        ) - 0.5 * np.sum(z[:, d_h:] ** 2, axis=1)

    def sample(n, rng, up=0.5):
        h = np.where(rng.uniform(size=(n, d_h)) < np.r_[up, up, np.full(d_h - 2, 0.5)], 3.0, -3.0)
        return (np.pad(h, ((0, 0), (0, d - d_h))) + rng.normal(size=(n, d))) @ turn.T

    return sc.Target(log_density, dim=d), sample


def some_corners(d, d_h, rng, turn):
    """One corner, its neighbours, and a few random others."""
    first = np.where(rng.uniform(size=d_h) < 0.5, 3.0, -3.0)
    corners = [first, *(first * np.where(np.arange(d_h) == k, -1, 1) for k in range(d_h))]
    corners += [np.where(rng.uniform(size=d_h) < 0.5, 3.0, -3.0) for _ in range(8)]
    return np.pad(np.unique(corners, axis=0), ((0, 0), (0, d - d_h))) @ turn.T


@pytest.mark.parametrize("rotated", [False, True])
class TestLattice:
    d, d_h = 14, 12

    def problem(self, rotated):
        turn = stats.ortho_group.rvs(self.d, random_state=3) if rotated else np.eye(self.d)
        target, sample = cube(self.d, self.d_h, turn)
        locations = some_corners(self.d, self.d_h, np.random.default_rng(9), turn)
        return target, sample, (locations, np.repeat(np.eye(self.d)[None], len(locations), axis=0)), turn

    def test_steps_are_the_edges(self, rotated):
        target, _, (locations, covariances), turn = self.problem(rotated)
        steps = lattice_steps(target, as_modes((locations, covariances), target))
        edges = np.abs(steps @ turn)
        assert len(steps) == self.d_h
        np.testing.assert_allclose(np.sort(edges, axis=1)[:, -1], 6, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(edges, axis=1), 6, atol=1e-6)
        assert len(np.unique(edges.argmax(axis=1))) == self.d_h

    @pytest.mark.slow
    def test_sees_weights_of_modes_that_nobody_listed(self, rotated):
        """21 of 4096 modes are known; P(h = +1) is .6 instead of .5 in two of 12 coordinates."""
        target, sample, modes, turn = self.problem(rotated)
        rng = np.random.default_rng(10)
        with pytest.warns(UserWarning, match="part of a larger lattice"):
            good = [flux_test(sample(500, rng), target, modes=modes).pvalue for _ in range(40)]
        with pytest.warns(UserWarning, match="part of a larger lattice"):
            bad = flux_test(sample(1000, rng, up=0.6), target, modes=modes)
        assert_level(good)
        assert bad.pvalue < 1e-6
        assert bad.mode_table is None
        ahead = np.array([word != "as expected" for word in bad.lattice.words])
        assert set(np.abs(bad.lattice.displacements[ahead] @ turn).argmax(axis=1)) == {0, 1}

    def test_number_of_steps_is_capped(self, rotated):
        target, sample, modes, _ = self.problem(rotated)
        with pytest.warns(UserWarning, match="part of a larger lattice"):
            result = flux_test(sample(60, np.random.default_rng(11)), target, modes=modes, rng=0)
        assert len(result.lattice.displacements) == 6
        assert result.flow is result.net_flow is result.net_flow_se is None  # no modes were compared
        assert result.variant == "asymptotic"


def test_a_lattice_that_is_known_whole_is_tested_mode_by_mode():
    """A 3 x 3 grid with a heavy middle: no displacement sees it, the modes do."""
    means = np.array([[i, j] for i in (-8.0, 0.0, 8.0) for j in (-8.0, 0.0, 8.0)])
    parts = (means, np.repeat(np.eye(2)[None], 9, axis=0), np.full(9, 1 / 9))
    target, modes = mixture(*parts)
    assert lattice_steps(target, modes) is None
    part = as_modes((means[:8], np.repeat(np.eye(2)[None], 8, axis=0)), target)
    assert lattice_steps(target, part) is not None
    heavy = np.full(9, 0.1)
    heavy[4] = 0.2
    x = draw(parts, 1000, np.random.default_rng(12), heavy)
    result = flux_test(x, target, modes=modes)
    assert result.pvalue < 1e-6
    assert result.mode_table.words[4] == "too many draws"
    flows = step_flows(x, target.log_density(x), target, np.array([[8.0, 0.0], [0.0, 8.0]]))
    assert hotelling(flows.net)[1] > 0.001


def arcs():
    """Two thin arcs, |x - centre| about 3 with the angle von Mises about up and down."""

    def log_density(x):
        parts = []
        for centre, way, weight in ((-8.0, 1, 0.6), (8.0, -1, 0.4)):
            z = x - [centre, 0.0]
            r = np.linalg.norm(z, axis=1)
            parts.append(np.log(weight) - 0.5 * ((r - 3) / 0.1) ** 2 + 3.0 * way * z[:, 1] / r - np.log(r))
        return np.logaddexp(*parts)

    def sample(n, rng, weight=0.6):
        left = rng.uniform(size=n) < weight
        angle = np.where(left, 0.5, -0.5) * np.pi + rng.vonmises(0, 3.0, size=n)
        r = 3 + 0.1 * rng.normal(size=n)
        return np.column_stack([np.where(left, -8, 8) + r * np.cos(angle), r * np.sin(angle)])

    target = sc.Target(log_density, dim=2)
    # On |z| = 3 the top of each arc; the term -log r moves it by 0.003.
    return target, sample, as_modes([[-8.0, 3.0 - 0.01 / 3], [8.0, 0.01 / 3 - 3.0]], target)


class TestAnchors:
    def test_several_anchors_catch_arcs(self):
        target, sample, modes = arcs()
        several = local_anchors(target, modes, 4, rng=0)
        x = sample(1000, np.random.default_rng(13))
        np.testing.assert_array_equal(several.mode, np.repeat([0, 1], 4))
        assert np.mean(several.mode[assign(x, several)] == (x[:, 0] > 0)) > 0.995
        with pytest.warns(UserWarning, match=r"only \d\d% of the draws can be mapped to another mode"):
            one = flux_test(x, target, modes=modes, anchors=1)
        four = flux_test(x, target, modes=modes, anchors=several)
        assert one.efficiency < 0.6
        assert four.efficiency > 0.85
        assert four.n_contributing > 950
        chosen = flux_test(x, target, modes=modes, rng=0)
        assert chosen.efficiency > 0.85
        np.testing.assert_allclose(four.mode_table.implied, [0.6, 0.4], atol=0.03)

    def test_modes_are_validated_once(self, monkeypatch):
        target, modes = mixture(*NEAR)
        x = draw(NEAR, 100, np.random.default_rng(0))
        expected = flux_test(x, target, modes=modes, anchors=2, rng=0).statistic
        monkeypatch.setattr("steincheck.flux.anchors.as_modes", None)
        assert flux_test(x, target, modes=modes, anchors=2, rng=0).statistic == expected

    @pytest.mark.slow
    def test_level_and_power(self):
        target, sample, modes = arcs()
        several = local_anchors(target, modes, 4, rng=1)
        rng = np.random.default_rng(14)
        good, bad = (
            [flux_test(sample(500, rng, w), target, modes=modes, anchors=several).pvalue for _ in range(100)]
            for w in (0.6, 0.7)
        )
        assert_level(good)
        assert_power(bad, 0.95)

    def test_same_seed_same_anchors(self):
        target, _, modes = arcs()
        one, two = (local_anchors(target, modes, 2, rng=3) for _ in range(2))
        np.testing.assert_array_equal(one.covariances, two.covariances)


class TestShares:
    """Modes of two Gaussians each: no linear map carries one upon another, and shares are uncertain."""

    means = np.array([[0.0, 0.0], [14.0, 0.0], [0.0, 14.0], [1.0, 0.6], [12.8, 0.5], [0.3, 12.7]])
    variances = ([1.0, 1.0], [0.8, 0.8], [1.3, 1.3], [2.0, 3.0], [3.0, 1.5], [2.5, 2.0])
    weights = np.array([0.7, 0.2, 0.1])

    @pytest.mark.slow
    @pytest.mark.parametrize("sampled", [(0.7, 0.2, 0.1), (0.3, 0.3, 0.4), (7 / 9, 2 / 9, 0.0)])
    def test_intervals_cover(self, sampled):
        covariances = np.array([np.diag(v) for v in self.variances])
        parts = self.means, covariances, 0.5 * np.tile(self.weights, 2)
        target, _ = mixture(*parts)
        modes = as_modes([[0.14, 0.06], [13.91, 0.07], [0.06, 13.7]], target)
        rng, hits, wide = np.random.default_rng(15), 0, 0
        runs = 60 if sampled[2] else 16  # chains at the mode without draws take their time
        for _ in range(runs):
            x = draw(parts, 600, rng, 0.5 * np.tile(sampled, 2))
            table = flux_test(x, target, modes=modes, anchors=1).mode_table
            low, high = table.implied_interval.T
            hits = hits + ((low <= self.weights) & (self.weights <= high))
            wide = wide + (high - low) / runs
        assert_coverage(hits, runs, 0.92)  # 95 % intervals, from an asymptotic standard error
        assert np.all(wide < 0.06)  # an interval that covers by being wide would be no use

    def test_observed_interval_is_wilsons(self):
        target, modes = mixture(*FAR)
        table = flux_test(draw(FAR, 400, np.random.default_rng(16)), target, modes=modes).mode_table
        for k in range(3):
            ci = stats.binomtest(int(table.n_draws[k]), 400).proportion_ci(0.95, method="wilson")
            np.testing.assert_allclose(table.observed_interval[k], [ci.low, ci.high], rtol=1e-9)


class TestSingleModes:
    """Modes at 0, 10, 20, 30 of weight 1/4 each with 400, 100, 286 and 214 of 1000 draws."""

    target = sc.models.gaussian_mixture([[0.0], [10.0], [20.0], [30.0]])
    modes = np.array([[0.0], [10.0], [20.0], [30.0]])
    counts = np.array([400, 100, 286, 214])
    x = np.repeat(modes, counts, axis=0) + np.random.default_rng(0).normal(size=(1000, 1))

    def test_pvalues_are_those_of_the_counts(self):
        result = flux_test(self.x, self.target, modes=self.modes, independent=True, rng=0)
        order = np.argsort(result.mode_table.locations[:, 0])
        single = 4 * 2 * stats.norm.sf(np.abs(self.counts - 250) / np.sqrt(1000 * 0.25 * 0.75))
        np.testing.assert_allclose(result.mode_pvalues[order], single, rtol=0.01)
        words = [result.mode_table.words[k] for k in order]
        assert words == ["too many draws", "too few draws"] * 2  # 4 p = .034 for the last two

    @pytest.mark.parametrize("alpha", [0.05, 0.01])
    def test_a_verdict_names_them_at_its_own_level(self, alpha):
        verdict = sc.check(self.x, self.target, modes=self.modes, independent=True, alpha=alpha, rng=0)
        named = sorted(
            float(verdict.modes.locations[f.mode, 0]) for f in verdict.findings if f.mode is not None
        )
        np.testing.assert_allclose(named, [0, 10], atol=1e-6)  # the others: three tests times .034
        words = verdict.mode_table.words
        assert sum(said.startswith("too") for said in words) == 2
        assert all(verdict.adjusted_pvalues["weights"] <= f.pvalue <= alpha for f in verdict.findings)

    def test_a_mode_has_its_own_pvalue(self):
        counts = np.array([400, 150, 250, 200])
        x = np.repeat(self.modes, counts, axis=0) + np.random.default_rng(1).normal(size=(1000, 1))
        verdict = sc.check(x, self.target, modes=self.modes, independent=True, rng=0)
        shares = [f for f in verdict.findings if f.kind == "mode share"]
        found = {float(verdict.modes.locations[f.mode, 0].round()): f.pvalue for f in shares}
        least = 3 * 4 * 2 * stats.norm.sf(50 / np.sqrt(1000 * 0.25 * 0.75))
        assert found[30.0] == pytest.approx(least, rel=0.05)
        assert found[0.0] < found[30.0]
        assert 20.0 not in found


class TestCannotTell:
    def test_no_flow_is_not_a_pass(self):
        """All draws at a mode nobody knows, from which no map leads anywhere."""
        parts = ([[-3.0], [3.0], [50.0]], [[[1.0]], [[1.0]], [[1.0]]], [0.3, 0.3, 0.4])
        target, _ = mixture(*parts)
        x = draw(parts, 200, np.random.default_rng(17), [0, 0, 1])
        with pytest.warns(UserWarning, match="cannot tell"):
            result = flux_test(x, target, modes=[[-3.0], [3.0]], anchors=1)
        assert np.isnan(result.pvalue)
        assert not result.reject()
        assert "cannot tell" in str(result)
        assert result.n_contributing == 0
        assert json.loads(result.to_json())["pvalue"] is None
        assert result.mode_table.words == ("not examined", "not examined")

    def test_groups_without_exchange_are_named(self):
        target, modes = mixture(
            [[0.0], [9.0], [30.0], [39.0]], [[[1.0]], [[1.0]], [[1.0]], [[1.0]]], [0.3, 0.2, 0.3, 0.2]
        )
        covariances = modes.covariances * np.array([1, 1, 1e-12, 1e-12])[:, None, None]
        narrow = Anchors(np.arange(4), modes.locations, covariances, np.zeros(4))
        x = draw((modes.locations, np.ones((4, 1, 1)), [0.3, 0.2, 0.3, 0.2]), 500, np.random.default_rng(18))
        with pytest.warns(UserWarning, match=r"only 4\d% of the draws|hardly any exchange between") as caught:
            result = flux_test(x, target, modes=modes, anchors=narrow)
        assert any("hardly any exchange between these groups of modes" in str(one.message) for one in caught)
        assert result.degrees_of_freedom < 3
        assert np.isnan(result.mode_table.implied).any()

    def test_shares_of_groups_without_exchange_are_not_compared(self):
        """Draws move within modes 0 and 1, and within modes 2 and 3, only."""
        weights = np.array([0.3, 0.2, 0.3, 0.2])
        mode = np.repeat(np.arange(4), [300, 200, 300, 200])
        together = mode[:, None] // 2 == np.arange(4) // 2
        found = Orbits(mode, np.where(together, np.log(weights), -60.0), np.zeros(1000))
        modes = Modes(10.0 * np.arange(4)[:, None], np.ones((4, 1, 1)), np.log(weights), np.zeros(4))
        options = ("asymptotic", np.random.default_rng(0), [])
        part = compare_independent(found, count_moments(found), modes, *options)
        assert not part.all_compared
        assert part.table.words == ("not compared",) * 4

    @pytest.mark.slow
    def test_an_unknown_mode_is_not_seen(self):
        """The limit of the method, for the record: the third mode is neither known nor sampled."""
        target, _ = mixture(*FAR)
        rng = np.random.default_rng(19)
        samples = (draw(FAR, 1000, rng, [2 / 3, 1 / 3, 0]) for _ in range(40))
        assert_level([flux_test(x, target, modes=[[0.0], [9.0]]).pvalue for x in samples], (0.05, 0.2))


def test_modes_are_searched_if_not_given():
    target = sc.from_jax(lambda x: sc_logaddexp(x), dim=1)
    x = np.random.default_rng(20).normal(size=(300, 1))
    result = flux_test(x, target, bounds=(-10, 15), rng=0)
    assert len(result.modes) == 2
    assert result.pvalue < 1e-10
    assert result.mode_table.missing == (int(np.argmax(result.modes.locations[:, 0])),)


def sc_logaddexp(x):
    import jax.numpy as jnp

    return jnp.logaddexp(-0.5 * x[0] ** 2, -0.5 * (x[0] - 9) ** 2)


class TestTrend:
    """Weights that rise or fall with the places of the modes get a part of the level."""

    def row(self, weights=None):
        places = 7.0 * np.arange(8)[:, None] + 0.3 * np.arange(8)[:, None] ** 2
        target = sc.models.gaussian_mixture(places, np.tile([[[1.0]], [[2.0]]], (4, 1, 1)))
        return target, places, target.sample(1000, rng=1, weights=weights)

    def test_first_columns_are_the_trend(self):
        rng = np.random.default_rng(0)
        chances = rng.dirichlet(np.ones(9), size=400)
        covariance = np.diag(chances.sum(axis=0)) - chances.T @ chances
        places = rng.normal(size=(9, 2))
        scale, _, r = directions(covariance, places)
        assert (scale.shape, r) == ((9, 8), 2)
        np.testing.assert_allclose(scale.T @ covariance @ scale, np.eye(8), atol=1e-9)
        # a log-linear tilt of the chances moves the expected counts by V places b: nothing in the others
        np.testing.assert_allclose((covariance @ places @ [1.0, -2.0]) @ scale[:, 2:], 0, atol=1e-9)
        turned = directions(covariance, places @ rng.normal(size=(2, 2)) + 5)[0]  # no matter which units
        gap = rng.normal(size=9)
        assert np.sum((gap @ turned[:, :2]) ** 2) == pytest.approx(np.sum((gap @ scale[:, :2]) ** 2))
        assert np.sum((gap @ scale) ** 2) == pytest.approx(gap @ np.linalg.pinv(covariance) @ gap, abs=1e-6)

    @pytest.mark.parametrize(("k", "r"), [(3, 1), (31, 5)])
    def test_law_of_the_two_together(self, k, r):
        squares = np.random.default_rng(2).standard_normal((200_000, k)) ** 2
        q, t = stats.chi2.sf(squares.sum(axis=1), k), stats.chi2.sf(squares[:, :r].sum(axis=1), r)
        least = np.minimum(q / 0.8, t / 0.2)
        for level in (0.001, 0.05, 0.3, 0.9):
            share = np.mean(least <= level)
            assert share == pytest.approx(joint_probability(level, k, r), abs=4.5 * np.sqrt(share / 200_000))
        assert joint_probability(1e-30, k, r) == pytest.approx(
            1e-30, rel=0.2
        )  # nearly disjoint events, no cancellation
        assert joint_probability(0.0, k, r) == 0
        assert joint_probability(1.25, k, r) == 1

    @pytest.mark.parametrize("variant", ["asymptotic", "exact"])
    def test_a_trend_is_found_where_the_whole_is_in_doubt(self, variant):
        target, modes, x = self.row(0.125 + 0.005 * (np.arange(8) - 3.5))
        result = flux_test(x, target, modes=modes, variant=variant, rng=0)
        whole = stats.chi2.sf(result.statistic, result.degrees_of_freedom)
        assert result.degrees_of_freedom == 7
        assert result.trend_pvalue < 0.01 < whole
        assert result.pvalue < whole

    def test_without_a_trend_little_is_lost(self):
        target, modes, x = self.row()
        result = flux_test(x, target, modes=modes, rng=0)
        whole = stats.chi2.sf(result.statistic, 7)
        assert whole < result.trend_pvalue
        assert result.pvalue == pytest.approx(joint_probability(whole / 0.8, 7, 1))

    @pytest.mark.slow
    @pytest.mark.usefixtures("without_local_points")
    def test_uniform(self):
        target, modes, _ = self.row()
        p = [
            flux_test(target.sample(200, rng), target, modes=modes, anchors=1, rng=rng).pvalue
            for rng in np.random.default_rng(5).spawn(400)
        ]
        assert_uniform(p)

    def test_modes_in_many_dimensions_have_none(self):
        target = sc.models.gaussian_mixture(6.0 * np.eye(4))
        result = flux_test(target.sample(300, 0), target, modes=6.0 * np.eye(4), rng=0)
        assert result.degrees_of_freedom == 3
        assert np.isnan(result.trend_pvalue)


@pytest.mark.parametrize("weight", [1e-4, 1.9e-5, 1e-6, 1e-12])
def test_draws_at_a_mode_that_should_have_none_are_seen(weight):
    target = sc.models.gaussian_mixture([[0.0], [9.0], [18.0]], weights=[0.5 - weight, 0.5, weight])
    rng = np.random.default_rng(0)
    x = target.sample(1000, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        common = x.copy()
        before = flux_test(common, target, modes=[[0.0], [9.0], [18.0]], rng=0)
        x[:7] = 18 + rng.normal(size=(7, 1))
        after = flux_test(x, target, modes=[[0.0], [9.0], [18.0]], rng=0)
    two = sc.models.gaussian_mixture([[0.0], [9.0]])
    alone = flux_test(common, two, modes=[[0.0], [9.0]], rng=0)
    assert before.pvalue == pytest.approx(alone.pvalue / 0.98, rel=0.02)  # a fiftieth is for the rare mode
    assert after.pvalue < 1e-4
    assert after.mode_table.words[2] == "too many draws"


def test_weak_exchange_is_no_comparison():
    """Modes in two groups: within them every draw could be anywhere, between them one in a hundred."""
    rng = np.random.default_rng(3)
    chances = np.full((1000, 4), 1e-12)
    home, both = rng.random(1000) < 0.5, rng.random(1000) < 0.01
    chances[home, :2], chances[~home, 2:], chances[both] = 0.5, 0.5, 0.25
    expected, covariance = chances.sum(axis=0), np.diag(chances.sum(axis=0)) - chances.T @ chances
    assert exchange_groups(covariance, expected).tolist() == [0, 0, 1, 1]
    chances[rng.random(1000) < 0.1] = 0.25  # a hundred draws compare the groups
    expected, covariance = chances.sum(axis=0), np.diag(chances.sum(axis=0)) - chances.T @ chances
    assert exchange_groups(covariance, expected).tolist() == [0, 0, 0, 0]


def test_the_number_of_replicates_may_be_chosen():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    modes = [[-3.0], [3.0]]
    x = target.sample(200, 0)
    usual = flux_test(x, target, modes=modes, variant="exact", rng=0)
    few = flux_test(x, target, modes=modes, variant="exact", n_resamples=99, rng=0)
    chains = flux_test(x.reshape(2, 100, 1), target, modes=modes, n_resamples=99, rng=0)
    assert [len(result.null_distribution) for result in (usual, few, chains)] == [999, 99, 99]
    assert few.pvalue_floor == 0.01
    assert few.pvalue == pytest.approx(usual.pvalue, abs=0.2)
    assert flux_test(x, target, modes=modes, n_resamples=99, rng=0).null_distribution is None  # no need


def test_few_draws_are_tested_exactly():
    target, modes = mixture(*NEAR)
    x = draw(NEAR, 99, np.random.default_rng(0))
    assert flux_test(x, target, modes=modes, rng=0).variant == "exact"


def test_close_modes_are_flagged():
    target = sc.Target(
        lambda x: -((x[:, 0] ** 2 - 0.5) ** 2), dim=1
    )  # maxima at +-0.7, a shallow dip between
    x = np.random.default_rng(21).uniform(-1.5, 1.5, size=(200, 1))
    with pytest.warns(UserWarning, match="modes 0 and 1 are closer than they are wide"):
        flux_test(x, target, modes=[[-(0.5**0.5)], [0.5**0.5]], anchors=1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"modes": [[0.0]]}, ValueError, "at least two modes, got 1: give all `modes` you know"),
        ({"n_resamples": 0}, ValueError, "`n_resamples` must be a positive integer, got 0"),
        ({"variant": "fast"}, ValueError, "`variant` must be 'asymptotic' or 'exact', got 'fast'"),
        ({"anchors": 0}, ValueError, "`anchors` must be a positive integer, Anchors or None, got 0"),
        ({"anchors": "four"}, ValueError, "`anchors` must be a positive integer"),
        ({"anchors": Anchors(np.arange(2), np.zeros((2, 1)), np.ones((2, 1, 1)), np.zeros(2))}, ValueError,
         "`anchors` must be sorted by mode, at least one for each of 3 modes"),
        ({"modes": []}, ValueError, "`modes` must hold at least one location"),
        ({"draws": np.zeros((10, 2))}, ValueError, "`draws`"),
        ({"draws": np.full((10, 1), np.nan)}, ValueError, "`draws` must be finite"),
        ({"target": lambda x: 0}, TypeError, "`target` must be a steincheck.Target"),
        ({"rng": "x"}, TypeError, "`rng` must be"),
        ({"bounds": (-1, 1)}, ValueError, "give `modes` or `bounds`, not both"),
        ({"draws": np.zeros((2, 5, 1)), "variant": "exact"}, ValueError, "'exact' is for independent draws"),
    ],
)  # fmt: skip
def test_bad_input(change, error, message):
    target, modes = mixture(*FAR)
    arguments = {"draws": np.zeros((10, 1)), "target": target, "modes": modes} | change
    with pytest.raises(error, match=message):
        flux_test(arguments.pop("draws"), arguments.pop("target"), **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covariances": np.eye(2)}, r"arrays of shapes .* got \(2,\), \(2, 1\), \(2, 2\), \(2,\)"),
        ({"log_weight": np.zeros(3)}, r"arrays of shapes .* \(3,\)$"),
        (
            {"covariances": [[[1.0]], [[-1.0]]]},
            "`anchors` must have symmetric, positive definite covariances",
        ),
        ({"centres": [["a"], ["b"]]}, "`anchors.centres` must be real numbers"),
    ],
)
def test_bad_anchors(change, message):
    good = {
        "mode": [0, 1],
        "centres": [[0.0], [1.0]],
        "covariances": [[[1.0]], [[1.0]]],
        "log_weight": [0, 0],
    }
    assert len(Anchors(**good)) == 2
    with pytest.raises((ValueError, TypeError), match=message):
        Anchors(**good | change)


def test_the_seed_decides_and_only_where_chance_has_a_part():
    target, modes = mixture(*NEAR)
    x = draw(NEAR, 200, np.random.default_rng(22))
    assert flux_test(x, target, modes=modes).pvalue == flux_test(x, target, modes=modes, rng=5).pvalue
    one, two, other = (flux_test(x, target, modes=modes, variant="exact", rng=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.null_distribution, two.null_distribution)
    assert not np.array_equal(one.null_distribution, other.null_distribution)
    assert one.pvalue == pytest.approx(flux_test(x, target, modes=modes).pvalue, abs=0.07)


@pytest.mark.usefixtures("without_local_points")
def test_study_rows(tmp_path):
    """The study runs, and a second run of the same case replaces its rows."""
    from experiments.flux_study import COUNTS, HEADER, study

    name = "three modes .6/.38/.02, level"
    rows = [row for size in study(name, repetitions=3) for row in size]
    assert [(row["n"], row["method"]) for row in rows[:4]] == [
        (50, m) for m in ("flux", "flux, exact", "Hotelling", "oracle")
    ]
    assert rows == [row for size in study(name, repetitions=3) for row in size]
    for _ in range(2):
        replace(COUNTS, path=tmp_path / "rows.csv").merge(rows)
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[0] == ",".join(HEADER)
    assert len(lines) == 1 + len(rows)


class TestRareModes:
    """Modes whose counts have too small a variance for chi-square are judged by their own binomial tails."""

    def test_gross_excess_at_a_rare_mode_is_found(self):
        means, rng = [[-5.0], [5.0]], np.random.default_rng(0)
        target = sc.models.gaussian_mixture(means, weights=[0.998, 0.002])
        with pytest.warns(UserWarning, match="only a large excess"):
            result = flux_test(5 + rng.normal(size=(100, 1)), target, modes=means, rng=0)
        assert result.pvalue < 1e-10
        assert result.mode_table.words == ("too few draws", "too many draws")

    def test_gross_excess_beside_common_modes_is_found(self):
        means, rng = np.array([[-10.0], [0.0], [13.0]]), np.random.default_rng(0)
        target = sc.models.gaussian_mixture(means, weights=[0.49985, 0.49985, 0.0003])
        result = flux_test(
            np.repeat(means, 300, axis=0) + rng.normal(size=(900, 1)),
            target,
            modes=means,
            independent=True,
            rng=0,
        )
        assert result.pvalue < 1e-10
        assert result.mode_table.words[2] == "too many draws"
        assert not result.warnings

    @pytest.mark.slow
    @pytest.mark.usefixtures("without_local_points")
    def test_level_of_the_test_and_of_its_words(self):
        means = 30.0 * np.arange(20)[:, None]
        target = sc.models.gaussian_mixture(means, weights=np.r_[1 - 19 * 0.0006, np.full(19, 0.0006)])
        results = [flux_test(target.sample(1000, k), target, modes=means, rng=k) for k in range(60)]
        assert_level([result.pvalue for result in results])
        assert_level([any("too" in word for word in result.mode_table.words) for result in results])

    def test_tails_bound_those_of_the_exact_law(self):
        rng = np.random.default_rng(0)
        chances = rng.beta(0.3, 2, size=40)
        law = np.ones(1)
        for chance in chances:
            law = np.convolve(law, [1 - chance, chance])
        counts = np.arange(41)
        exact = 2 * np.minimum(np.cumsum(law), np.cumsum(law[::-1])[::-1])
        bound = count_tails(counts, np.full(41, chances.sum()), 40)
        assert np.all(bound >= np.minimum(exact, 1) - 1e-12)
        assert bound[30] < 1e-3


def test_anchors_of_modes_in_another_order_are_refused():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    anchors = mode_anchors(as_modes([[3.0], [-3.0]], target))
    with pytest.raises(ValueError, match=r"`anchors` must be made for these `modes`.*\[1, 0\]"):
        flux_test(target.sample(100, 0), target, modes=[[-3.0], [3.0]], anchors=anchors)


def test_modes_found_for_another_constant_serve_as_well():
    target, modes = mixture(*FAR)
    shifted = sc.Target(lambda x: target.log_density(x) + 1000, target.score, dim=1)
    x = draw(FAR, 200, np.random.default_rng(0))
    expected = flux_test(x, target, modes=modes, rng=0)
    result = flux_test(x, shifted, modes=modes, rng=0)
    assert result.pvalue == pytest.approx(expected.pvalue)
    assert result.warnings == expected.warnings


def test_no_gaussians_are_fitted_to_points_whose_squares_overflow():
    x = np.random.default_rng(0).normal(size=(100, 2))
    x[0] = 1e200
    assert _mixture(x, np.ones((100, 1)), 1e-6) is None


def test_anchors_belong_to_modes_by_number():
    with pytest.raises(ValueError, match=r"`anchors.mode` must hold whole numbers, got \[0.0, 0.5\]"):
        Anchors([0.0, 0.5], [[0.0], [1.0]], np.ones((2, 1, 1)), np.zeros(2))
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    flat = Anchors([0, 1], [[-3.0, 0.0], [3.0, 0.0]], np.tile(np.eye(2), (2, 1, 1)), np.zeros(2))
    with pytest.raises(ValueError, match=r"`anchors` must have dimension 1, got \(2,\)"):
        flux_test(target.sample(100, 0), target, modes=[[-3.0], [3.0]], anchors=flat)


@pytest.mark.parametrize("n", [7, 200])
def test_intervals_of_observed_shares_are_those_of_scipy(n):
    counts = np.array([0, 1, n // 3, n])
    expected = [stats.binomtest(int(k), n).proportion_ci(0.95, method="wilson") for k in counts]
    np.testing.assert_allclose(_wilson_interval(counts / n, n), expected, rtol=1e-12, atol=1e-12)
