import json
import pickle
import sys

import numpy as np
import pytest

import steincheck as sc
from steincheck.adapters import stan

from .posteriors import DATA, STAN


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
        ({"y": None}, "mismatch in number dimensions declared.*variable name=y"),
        ({"y": [1.0, 2.0]}, r"variable name=y; position=0; dims declared=\(8\); dims found=\(2\)"),
        ({"J": -1}, "J is -1, but must be greater than or equal to 0"),
        ({"sigma": -np.ones(8)}, r"sigma\[1\] is -1, but must be greater than or equal to 0"),
    ],
)
def test_data_that_do_not_fit_show_the_message_of_stan(change, message):
    data = {key: value for key, value in (DATA["schools"] | change).items() if value is not None}
    with pytest.raises(ValueError, match=rf"`data` do not fit the Stan program, Stan says: .*{message}"):
        sc.from_stan(STAN["schools"], data)


def test_program_and_data_from_files(tmp_path, target_of):
    program = tmp_path / "program.stan"  # compiled already: the name is part of the messages
    program.write_text(STAN["schools"])
    values = {key: np.asarray(value).tolist() for key, value in DATA["schools"].items()}
    (tmp_path / "data.json").write_text(json.dumps(values))
    by_name = sc.adapters.load_model(stan=program, data=tmp_path / "data.json")
    x = np.ones((2, 10))
    np.testing.assert_array_equal(by_name.score(x), target_of("stan", "schools").score(x))


def test_what_is_no_program_or_data(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"`program` must be Stan code or a file; there is no file m\.stan"
    ):
        sc.from_stan("m.stan")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.json"):
        sc.from_stan(STAN["schools"], tmp_path / "nothing.json")
    with pytest.raises(TypeError, match="`data` must be a mapping by name or a JSON file, got list"):
        sc.from_stan(STAN["schools"], [1, 2])
    with pytest.raises(TypeError, match="`data` must hold numbers and arrays of numbers, got str"):
        sc.from_stan(STAN["schools"], {"J": "eight"})


def test_a_program_without_parameters_compiles_but_is_refused():
    with pytest.raises(ValueError, match="must have parameters"):
        sc.from_stan("data { real y; } model { y ~ normal(0, 1); }", {"y": 1.0})


def test_the_compiled_program_is_kept_by_content(monkeypatch, target_of):
    target_of("stan", "schools")
    monkeypatch.setattr(stan, "_build", lambda *args: pytest.fail("compiled again"))
    assert stan.compiled(STAN["schools"]) == stan.compiled(STAN["schools"])


def test_a_failing_compiler_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", f"{sys.executable} -c 0/0")
    with pytest.raises(RuntimeError, match=r"failed on the code that stanc wrote:\n(.|\n)*ZeroDivisionError"):
        sc.from_stan(STAN["schools"], DATA["schools"])
    assert not list(tmp_path.rglob("*.so"))


def test_a_terminal_is_told_that_it_takes_long(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", f"{sys.executable} -c 0/0")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(RuntimeError):
        sc.from_stan(STAN["schools"], DATA["schools"])
    assert "Compiling program.stan: about half a minute, once" in capsys.readouterr().err


def test_a_stan_model_can_be_sent_to_another_process(target_of):
    target = target_of("stan", "schools")
    score = pickle.loads(pickle.dumps(target.score))
    x = np.ones((2, 10))
    np.testing.assert_array_equal(score(x), target.score(x))


def test_equal_programs_have_one_library_wherever_they_are(tmp_path):
    here = stan._home_of_httpstan()
    code = STAN["schools"]
    assert stan._translated(here, code, tmp_path, "m.stan") == stan._translated(
        here, code, tmp_path.parent, "m.stan"
    )


def test_includes_are_found_beside_the_program(tmp_path):
    (tmp_path / "part.stan").write_text("real<lower=0> tau;\n")
    code = stan._translated(
        stan._home_of_httpstan(),
        "parameters {\n#include part.stan\n}\nmodel { tau ~ normal(0, 1); }",
        tmp_path,
        "m.stan",
    )
    assert "tau" in code
