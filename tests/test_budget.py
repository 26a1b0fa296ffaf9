"""Limits hold for everything: evaluations and time; the number recorded repeats the run."""

import time
from contextlib import suppress
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from flux_problems import arcs

import steincheck as sc
from steincheck.target import evaluation

APART = 6.0


class Counted:
    """Two Gaussians 6 apart, or one; with an edge at -1 beside the first if `cut`. Every point counts."""

    def __init__(self, dim, *, modes=1, cut=False, has_score=True):
        self.made, self.dim, self.cut = 0, dim, cut
        self.modes = APART * np.arange(modes)[:, None] * np.eye(dim)[:1]
        self.target = sc.Target(self.log_density, self.score if has_score else None, dim=dim)

    def log_density(self, x):
        self.made += len(x)
        logs = [-0.5 * np.sum((x - mode) ** 2, axis=1) for mode in self.modes]
        return np.where(self.cut & (x[:, 0] < -1), -np.inf, np.logaddexp.reduce(logs))

    def score(self, x):
        self.made += len(x)
        with np.errstate(over="ignore"):
            return self.modes[-1] / (1 + np.exp(APART * (APART / 2 - x[:, :1]))) - x

    def draws(self, n, rng):
        x = rng.normal(size=(3 * n, self.dim)) + rng.choice(self.modes, size=3 * n)
        return x[(x[:, 0] > -1) | (not self.cut)][:n]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"modes": 2}, {"modes": 2, "has_score": False}, {"cut": True}, {"has_score": False}],
    ids=["two modes", "two modes without a score", "edge", "no score"],
)
@pytest.mark.parametrize("given", [True, False])
def test_max_evaluations_holds_in_check_and_repeats_it(options, given):
    rng = np.random.default_rng(3)
    for budget in np.geomspace(205, 30_000, num=5).astype(int).tolist():
        density = Counted(int(rng.integers(1, 5)), **options)
        x = density.draws(200, rng)
        limits = {"max_evaluations": budget, "max_seconds": rng.choice([None, 60.0])}
        verdict = sc.check(x, density.target, modes=density.modes if given else None, **limits)
        assert density.made <= budget
        assert sc.check(x, density.target, **verdict.settings).to_json() == verdict.to_json()


def test_chains_of_anchors_count_where_score_and_log_density_are_one_program(monkeypatch):
    target, sample, modes = arcs(jnp)
    real, made = evaluation.call_shared, []

    def call(function, x):
        made.append(0 if isinstance(function, evaluation._Counted) else len(x))
        return real(function, x)

    monkeypatch.setattr(evaluation, "call_shared", call)
    x = sample(500, np.random.default_rng(0))
    verdict = sc.check(x, target, modes=modes, max_evaluations=123_008, max_seconds=None)
    assert verdict.tests["weights"].efficiency > 0.7  # by the anchors that the chains made
    assert sum(step.made for step in verdict.evaluations) == sum(made) <= 123_008


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("test", [sc.flux_test, sc.spksd_test, sc.ospksd_test, sc.pksdagg_test])
@pytest.mark.parametrize("has_score", [True, False])
def test_max_evaluations_holds_in_every_test(test, has_score):
    answers = 0
    for budget in (210, 1000, 4000, 30_000):
        density = Counted(2, modes=2, has_score=has_score)
        x = density.draws(200, np.random.default_rng(4))
        with suppress(ValueError):  # which says that it takes more
            answers += 0 <= test(x, density.target, max_evaluations=budget, rng=0).pvalue <= 1
        assert density.made <= budget
    assert answers


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("has_score", [True, False])
def test_max_evaluations_holds_in_find_modes(has_score):
    for budget in np.geomspace(10, 20_000, num=10).astype(int):
        density = Counted(3, modes=2, has_score=has_score)
        with suppress(ValueError):
            sc.find_modes(density.target, max_evaluations=int(budget), rng=0)
        assert density.made <= budget


@pytest.mark.parametrize(
    ("cost", "limit", "has_score"),
    [(0.002, 5.0, True), (0.01, 20.0, True), (0.01, 60.0, False), (0.02, 60.0, False)],
)
def test_a_slow_density_obeys_the_clock_and_says_what_was_not_examined(cost, limit, has_score, monkeypatch):
    density = Counted(3, has_score=has_score)
    x = density.draws(1000, np.random.default_rng(0))
    real = time.perf_counter
    clock = SimpleNamespace(perf_counter=lambda: real() + cost * density.made)  # as if each took so long
    monkeypatch.setattr(evaluation, "time", clock)
    verdict = sc.check(x, density.target, max_seconds=limit, rng=0)
    assert 0.5 * limit < cost * density.made < limit
    assert verdict.settings["max_seconds"] is None
    assert any("evaluations of the density would show" in text for text in verdict.not_examined)
    assert "nan" not in str(verdict)
    assert sc.check(x, density.target, **verdict.settings).to_json() == verdict.to_json()
