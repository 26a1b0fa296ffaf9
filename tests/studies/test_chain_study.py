"""The study of chains: its simulations have the distribution they claim, its tables are those of its rows."""

import numpy as np
import pytest

from experiments.chain_study import CASES, COUNTS, simulate, tables
from steincheck.chains.blocks import autocorrelation_time

pytestmark = pytest.mark.slow


def test_the_committed_tables_are_those_of_the_committed_rows():
    assert COUNTS.path.with_suffix(".md").read_text() == tables()


@pytest.mark.parametrize("name", ["AR 0.5, d=5, 4x1000", "slow direction .95, d=20, 4x1000"])
def test_chains_are_stationary(name):
    case = CASES[name]
    x = np.concatenate([simulate(case, np.random.default_rng(k)) for k in range(40)])
    assert x.shape == (160, case.length, case.dim)
    assert np.abs(x[:, [0, -1]].std(axis=0) - 1).max() < 6 / np.sqrt(2 * 160)
    assert np.abs(x.mean()) < 6 * np.sqrt(40 / x.size)


def test_jumping_chains_have_an_effective_size_of_210_for_the_weights():
    case = CASES["jumping, two modes, d=2, 4x1000"]
    x = np.concatenate([simulate(case, np.random.default_rng(k)) for k in range(10)])
    right = (x[..., 0] > 0).astype(float)
    tau = autocorrelation_time(right.ravel(), np.repeat(np.arange(40), 1000))
    assert 180 < 4000 / tau < 240
    heavier = simulate(CASES["weights .6/.4, d=2, 4x1000"], np.random.default_rng(0))
    assert 0.5 < np.mean(heavier[..., 0] > 0) < 0.7


def test_hamiltonian_and_gibbs_chains_have_their_distribution():
    many = [
        simulate(CASES["Hamiltonian, t with 5 degrees of freedom, d=5, 4x250"], np.random.default_rng(k))
        for k in range(5)
    ]
    square = np.mean(np.concatenate(many).reshape(-1, 5) ** 2)
    assert square == pytest.approx(5 / 3, rel=0.25)
    from experiments.chain_study import problem_of

    case = CASES["Gibbs, Boltzmann machine, d=6, 4x250"]
    x = np.concatenate([simulate(case, np.random.default_rng(k)) for k in range(5)]).reshape(-1, 6)
    scores = problem_of("Gibbs", 6).target.score(x)
    assert np.abs(scores.mean(axis=0)).max() < 0.15  # E s = 0
    assert np.mean(np.sum(scores * x, axis=1)) == pytest.approx(-6, rel=0.1)  # E s.x = -d
