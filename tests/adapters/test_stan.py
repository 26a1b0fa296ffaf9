import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import steincheck as sc

from .posteriors import DATA, STAN

pytestmark = pytest.mark.adapters


def test_a_program_that_does_not_compile_shows_the_message_of_stanc(tmp_path):
    file = tmp_path / "broken.stan"
    file.write_text("parameters { real mu }\nmodel { }")
    with pytest.raises(
        ValueError, match=r"stanc says:\nSyntax error in 'broken.stan', line 1(.|\n)*\";\" expected"
    ):
        sc.from_stan(file)
    with pytest.raises(ValueError, match="Identifier 'nu' not in scope"):
        sc.from_stan("parameters { real mu; } model { mu ~ normal(nu, 1); }")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, 2.0]}, r"variable name=y; position=0; dims declared=\(8\); dims found=\(2\)"),
        ({"J": -1}, "J is -1, but must be greater than or equal to 0"),
    ],
)
def test_data_that_do_not_fit_show_the_message_of_stan(change, message):
    with pytest.raises(ValueError, match=rf"`data` do not fit the Stan program, Stan says: .*{message}"):
        sc.from_stan(STAN["schools"], DATA["schools"] | change)


def test_program_and_data_from_files(tmp_path, target_of):
    program = tmp_path / "program.stan"  # compiled already: the name is part of the messages
    program.write_text(STAN["schools"])
    values = {key: np.asarray(value).tolist() for key, value in DATA["schools"].items()}
    (tmp_path / "data.json").write_text(json.dumps(values))
    by_name = sc.from_stan(program, tmp_path / "data.json")
    x = np.ones((2, 10))
    np.testing.assert_array_equal(by_name.score(x), target_of("stan", "schools").score(x))


def test_what_is_no_program_or_data(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`program` must be Stan code or a file; .* file m\.stan"):
        sc.from_stan("m.stan")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.json"):
        sc.from_stan(STAN["schools"], tmp_path / "nothing.json")
    with pytest.raises(TypeError, match="`data` must be a mapping by name or a JSON file, got list"):
        sc.from_stan(STAN["schools"], [1, 2])


def test_a_program_without_parameters_compiles_but_is_refused():
    with pytest.raises(ValueError, match="must have parameters"):
        sc.from_stan("data { real y; } model { y ~ normal(0, 1); }", {"y": 1.0})


def test_a_stan_model_can_be_sent_to_another_process(target_of):
    target = target_of("stan", "schools")
    score = pickle.loads(pickle.dumps(target.score))
    x = np.ones((2, 10))
    np.testing.assert_array_equal(score(x), target.score(x))


@pytest.fixture(scope="module")
def bridge(tmp_path_factory):
    """The real BridgeStan client on a small library with its C interface."""
    import bridgestan

    library = tmp_path_factory.mktemp("bridgestan") / "gamma_model.so"
    source = Path(__file__).with_name("gamma_model.c")
    subprocess.run(["gcc", "-O1", "-w", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    return sc.from_stan(bridgestan.StanModel(library))


def test_a_model_of_bridgestan(bridge):
    u = np.random.default_rng(0).normal(size=(50, 2))
    mu, tau = u[:, 0], np.exp(u[:, 1])
    expected = stats.norm.logpdf(mu) + stats.gamma.logpdf(tau, 3, scale=0.5) + u[:, 1]
    np.testing.assert_allclose(np.ptp(bridge.log_density(u) - expected), 0, atol=1e-12)
    np.testing.assert_allclose(bridge.score(u), np.stack([-mu, 3 - 2 * tau], axis=1), rtol=1e-12)
    np.testing.assert_allclose(bridge.constrain(u), np.stack([mu, tau], axis=1))
    np.testing.assert_allclose(bridge.unconstrain({"tau": tau, "mu": mu}), u)
    assert (bridge.names, bridge.constrained_names) == (("mu", "log tau"), ("mu", "tau"))
    with pytest.raises(ValueError, match=r"rows \[1\] \(counted from 0\); at row 1 the parameters are"):
        bridge.unconstrain({"mu": np.zeros(3), "tau": np.array([1.0, -2, 1])})


def test_a_row_at_which_bridgestan_throws_leaves_the_others_alone(bridge):
    u = np.zeros((3, 2))
    u[1] = np.inf
    assert np.isfinite(bridge.log_density(u)).tolist() == [True, False, True]
    assert np.isfinite(bridge.score(u)).all(axis=1).tolist() == [True, False, True]


def test_a_failing_compiler_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", f"{sys.executable} -c 0/0")
    with pytest.raises(RuntimeError, match=r"failed on the code that stanc wrote:\n(.|\n)*ZeroDivisionError"):
        sc.from_stan(STAN["schools"], DATA["schools"])
    assert not list(tmp_path.rglob("*.so"))
