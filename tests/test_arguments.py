"""Bad arguments of every public function: one clear error that names the argument, and nothing else.

The strategies go by the names of arguments, which mean the same everywhere. Hypothesis draws the values and
looks for the simplest that fails; what it draws does not change from run to run.
"""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest
from harness import standard_normal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import steincheck as sc

NORMAL = standard_normal(2)
X = np.random.default_rng(0).normal(size=(60, 2))
MODES = [[0.0, 0.0]]
SAMPLE = {"draws": X, "target": NORMAL}
KNOWN = SAMPLE | {"modes": MODES}
GOOD = {  # a call of each function that works, as far as the arguments matter
    sc.as_draws: {"draws": X, "dim": 2},
    sc.Target: {"log_density": lambda x: -0.5 * (x**2).sum(axis=1), "dim": 2},
    sc.from_jax: {"log_density": lambda x: -0.5 * jnp.sum(x**2), "dim": 2},
    sc.check: KNOWN,
    sc.compare: {"samples": {"one": X}, "target": NORMAL},
    sc.calibrate: {"target": NORMAL, "sample": lambda n, rng: rng.normal(size=(n, 2)), "n": 60},
    sc.find_modes: {"target": NORMAL},
    sc.box_search: {"target": NORMAL, "bounds": (-5.0, 5.0)},
    sc.perturb: KNOWN | {"theta": 0.9, "n_steps": 2},
    sc.ksd_test: SAMPLE,
    sc.pksd_test: KNOWN,
    sc.spksd_test: KNOWN,
    sc.ospksd_test: KNOWN,
    sc.ksdagg_test: SAMPLE,
    sc.pksdagg_test: KNOWN,
    sc.fssd_test: SAMPLE,
    sc.moment_test: KNOWN,
    sc.flux_test: KNOWN,
    sc.estimate_accuracy: KNOWN,
    sc.models.gaussian_mixture: {"means": MODES},
    sc.models.t_banana_mixture: {"dim": 3},
    sc.models.gb_rbm: {"B": [[1.0], [2.0]]},
    sc.samplers.repelling_attracting_metropolis: {
        "log_density": lambda x: -0.5 * jnp.sum(x**2),
        "x0": np.zeros((3, 2)),
        "scale": 1.0,
        "n_iterations": 5,
    },
    sc.plot.draws: SAMPLE,
    sc.plot.pairs: SAMPLE,
    sc.plot.witness: SAMPLE,
    sc.plot.effect_sizes: {"accuracy": ()},
}

words = st.sampled_from(["", "seed", "banana"])
things = st.sampled_from([object(), {}, {1, 2}, lambda: None, 1 + 2j])
nowhere = st.sampled_from([np.nan, np.inf, -np.inf])
not_positive = st.one_of(st.floats(max_value=0.0, allow_nan=False), nowhere, words, things)
counts = st.one_of(st.integers(-9, 0), st.floats(0.1, 0.9), st.just(10**13), st.booleans(), words, things)
switches = st.one_of(words, things, st.integers(2, 9), st.floats(0.0, 1.0))
fractions = st.one_of(st.floats(1.0, 1e300), st.floats(-1e300, 0.0), nowhere, words, things)
wrong_shape = st.sampled_from([np.zeros((3, 5)), np.zeros((2, 2, 2, 2)), [[1.0, 2.0], [3.0]], [], 3.0])
not_numbers = st.sampled_from([[["a", "b"]], [[np.nan, 0.0]], [[1j, 0.0]], [[None, 1.0]], [[np.inf, 1.0]]])
arrays = st.one_of(wrong_shape, not_numbers, words)
boxes = st.one_of(st.tuples(st.floats(1, 9), st.floats(-9, 1)), st.just((0.0, np.inf)), arrays)
BAD = {
    "draws": arrays,
    "samples": st.one_of(words, st.just({}), st.just({"one": "a"}), st.integers()),
    "target": st.one_of(words, things, st.none(), st.integers()),
    "log_density": st.one_of(words, st.none(), st.integers()),
    "score": st.one_of(words, st.integers()),
    "vectorized": switches,
    "anchors": counts,
    "thorough": switches,
    "beta": not_positive,
    "sample": st.one_of(words, st.integers()),
    "dim": counts,
    "n": counts,
    "names": st.sampled_from(["ab", ["a"], ["a", "a"], [1, 2], [""], 3]),
    "modes": st.one_of(not_numbers, words, st.sampled_from([np.zeros((3, 5)), [], MODES * 2])),
    "bounds": boxes,
    "starts": arrays,
    "theta": st.one_of(not_positive.filter(lambda value: value != 0.0), st.just([]), st.just([[0.5]])),
    "n_steps": counts,
    "n_resamples": counts,
    "n_level_resamples": counts,
    "n_locations": counts,
    "n_starts": counts,
    "n_iterations": counts,
    "repetitions": counts,
    "max_modes": counts,
    "max_evaluations": counts,
    "max_seconds": not_positive,
    "tolerance": not_positive,
    "alpha": fractions,
    "train_fraction": fractions,
    "independent": switches,
    "check_score": switches,
    "rng": st.one_of(st.integers(max_value=-1), st.floats(), words, things),
    "n_jobs": st.one_of(st.just(0), st.just(9999), words, st.floats()),
    "kernel": st.one_of(words, st.none(), st.integers()),
    "precondition": st.one_of(wrong_shape, not_numbers, st.just(-np.eye(2))),
    "bootstrap": st.one_of(st.integers(), words),
    "accept": st.one_of(st.integers(), words),
    "bandwidths": st.one_of(not_positive.filter(lambda value: not callable(value)), st.just([])),
    "variant": words,
    "coordinates": st.sampled_from([[2], [0, 0], "0", [0.5], [], [True], 1.5]),
    "coordinate": st.one_of(st.integers(2, 9), st.integers(-9, -1), words, st.floats(0.1, 0.9)),
    "ax": st.one_of(words, st.integers()),
    "accuracy": st.one_of(words, st.just([1.0]), st.none()),
    "verdict": st.one_of(words, st.just({})),
    "means": not_numbers,
    "B": not_numbers,
    "x0": not_numbers,
    "scale": not_positive,
}
# pictures take any number of modes, and names as they are; they need no target
NOT_REFUSED = {(function, name) for function in (sc.plot.draws, sc.plot.pairs) for name in ("modes", "names")}
OPTIONAL = {(sc.plot.draws, "target"), (sc.plot.pairs, "target"), (sc.check, "log_density")}
CASES = [
    pytest.param(function, name, id=f"{function.__name__}-{name}")
    for function in GOOD
    for name in inspect.signature(function).parameters
    if name in BAD and (function, name) not in NOT_REFUSED | OPTIONAL
]


@pytest.mark.parametrize(("function", "name"), CASES)
@settings(
    max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_a_bad_argument_is_named(function, name, data):
    arguments = GOOD[function] | {name: data.draw(BAD[name])}
    if name == "bounds":
        arguments.pop("modes", None)
    with pytest.raises((ValueError, TypeError), match=f"`{name}`"):
        function(**arguments)


def test_every_public_function_of_draws_or_targets_has_a_call():
    modules = [sc, sc.models, sc.samplers, sc.plot, sc.report]
    public = {getattr(module, name) for module in modules for name in module.__all__}
    functions = {thing for thing in public if inspect.isfunction(thing)} - set(GOOD)
    left = {f.__name__ for f in functions if {"draws", "target"} & set(inspect.signature(f).parameters)}
    assert left <= {"write_html", "to_arviz", "unbounded", "median_bandwidth"}  # tested in their rooms


GENERATORS = st.sampled_from([0, 2**31, np.int64(5), np.random.SeedSequence(3), None])


@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(
    n=st.integers(50, 90),
    scale=st.floats(-150, 150).map(lambda power: 10.0**power),
    kernel=st.sampled_from([sc.IMQ(), sc.RBF(2.0), sc.IMQ(1e-3)]),
    bootstrap=st.sampled_from([None, sc.multinomial, sc.wild, "blocks"]),
    rng=GENERATORS,
)
def test_good_arguments_give_a_pvalue(n, scale, kernel, bootstrap, rng):
    target = sc.Target(lambda x: -0.5 * np.sum((x / scale) ** 2, axis=1), lambda x: -x / scale**2, dim=2)
    kernel = type(kernel)() if kernel.bandwidth is not None else kernel
    x = scale * np.random.default_rng(1).normal(size=(n, 2))
    result = sc.ksd_test(x, target, kernel=kernel, bootstrap=bootstrap, n_resamples=49, rng=rng)
    assert 0.02 <= result.pvalue <= 1.0
