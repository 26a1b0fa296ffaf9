"""Bad arguments of every public function: one clear error that names the argument, rule and value.

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
from steincheck.draws import as_matrix
from steincheck.testing import assert_fits, targets

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


RESULT = sc.GofResult("flux test", 1.0, 0.5, None, 10, 1)
RAM = sc.samplers.repelling_attracting_metropolis
FREE = sc.unbounded(NORMAL, (0, np.inf))
CALLS = GOOD | {
    as_matrix: {"dim": 2},
    sc.median_bandwidth: {},
    sc.read_draws: {},
    sc.unbounded: {"target": sc.Target(NORMAL.log_density, dim=2, names=["mu", "tau"])},
    sc.barker: {},
    assert_fits: {"sample": targets["skewed"].sample, "target": targets["skewed"].target},
    sc.samplers.gibbs_rbm: {"B": np.eye(2), "b": None, "c": None, "n": 5},
    sc.Draws: {"values": X},
    sc.plot.null_distribution: {"result": RESULT},
    sc.plot.theta_profile: {"result": RESULT},
    sc.plot.bandwidth_profile: {"result": RESULT},
}
MESSAGES = [  # function, what is wrong with its arguments, what is said
    (sc.ksd_test, {"draws": np.zeros((50, 2))}, "`draws` must not be constant"),
    (sc.ksd_test, {"kernel": sc.RBF(1e-200)}, "the Stein kernel is not finite with the bandwidth 1e-200"),
    (sc.ksd_test, {"kernel": sc.IMQ}, "`kernel` must have a method profile"),
    (sc.ksd_test, {"precondition": "median"}, "`precondition` must be a matrix of numbers.*'median'"),
    (sc.ksd_test, {"precondition": np.eye(3)}, r"`precondition` must have shape \(2, 2\), got \(3, 3\)"),
    (sc.ksd_test, {"precondition": [[1, 2], [2, 1]]}, "positive definite.* its smallest eigenvalue is -1"),
    (sc.ksd_test, {"precondition": [[1, 0.5], [0, 1]]}, "number 0 is not symmetric$"),
    (sc.ksd_test, {"bootstrap": "wild"}, "`bootstrap` must be a function.*or 'blocks', got 'wild'"),
    (sc.ksd_test, {"bootstrap": lambda n, size, rng: np.ones((n, size))}, r"weights of shape \(999, 60\)"),
    (sc.ksd_test, {"bootstrap": lambda n, size, rng: np.full((size, n), np.nan)}, "`bootstrap`"),
    (sc.ksd_test, {"target": sc.Target(lambda x: -0.5 * x @ x, dim=2)}, "`log_density` fails .*vectorized=F"),
    (sc.ksd_test, {"target": sc.Target(lambda x: x[:, 0].astype(str), dim=2)}, "`log_density`"),
    (sc.ksd_test, {"target": sc.Target(lambda x: (x[:, 0], 0), dim=2)}, "`log_density` must be .* a tuple"),
    (sc.ksd_test, {"target": sc.Target(NORMAL.log_density, lambda x: -x + 1j, dim=2)}, "`score`"),
    (sc.pksd_test, {"theta": [0.9, 1.1]}, "`theta` of pksd_test must be one number, got 2"),
    (sc.spksd_test, {"theta": [0.9, -1.0]}, r"`theta` must be positive and finite, got \[-1.0\]"),
    (sc.ospksd_test, {"train_fraction": 1}, "`train_fraction` must lie strictly between 0 and 1, got 1"),
    (sc.ospksd_test, {"train_fraction": 0.001}, "must leave at least 2 draws on either side"),
    (sc.ksdagg_test, {"bandwidths": "median"}, "`bandwidths` must be an array, None or 'paper', got 'med"),
    (sc.ksdagg_test, {"bandwidth_weights": np.ones(10)}, "`bandwidth_weights` must have sum 1, got "),
    (sc.ksdagg_test, {"bandwidth_weights": [0.5, 0.5]}, r"one weight per statistic, shape \(10,\), got"),
    (sc.ksdagg_test, {"kernel": sc.IMQ(123.0)}, "`kernel` must have no bandwidth of its own, got 123.0: "),
    (sc.fssd_test, {"train_fraction": 0.02}, "at least 2 draws on either side, but 0.02 of 60 draws is 1"),
    (sc.fssd_test, {"draws": X[:40].reshape(20, 2, 2)}, "`train_fraction` must leave at least 2 draws on"),
    (sc.fssd_test, {"locations": np.zeros((3, 5))}, r"`locations` must have shape .*\(3, 5\)"),
    (sc.fssd_test, {"locations": np.zeros((0, 2))}, "`locations` must"),
    (sc.fssd_test, {"locations": X[:1], "bandwidth": -1.0}, "`bandwidth` must be positive and finite, got"),
    (sc.fssd_test, {"bandwidth": 1.0}, "`bandwidth` goes with `locations`"),
    (sc.moment_test, {"draws": X[:5]}, "at least 20 draws, got 5"),
    (sc.moment_test, {"modes": np.zeros((2, 3))}, r"`modes` must have shape \(n, 2\)"),
    (sc.moment_test, {"modes": [[0.0, np.inf], [1.0, 1.0]]}, "`modes` must be finite"),
    (sc.moment_test, {"modes": np.empty((0, 2))}, "at least one"),
    (sc.moment_test, {"modes": (X[:1], np.eye(2))}, r"of shape \(1, 2, 2\), got shape \(2, 2\)"),
    (sc.moment_test, {"modes": (X[:1], -np.eye(2)[None])}, "number 0 is not: its smallest eigenvalue is -1"),
    (sc.moment_test, {"modes": (X[:1], [[[1.0, 0.5], [0.0, 1.0]]])}, "symmetric"),
    (sc.moment_test, {"modes": (X[:1], np.full((1, 2, 2), np.nan))}, "finite"),
    (sc.moment_test, {"modes": [[3.0, 0.0], [2.0, 0.5]]}, r"rows \[0, 1\] \(counted from 0\) lead to one"),
    (sc.flux_test, {}, "at least two modes that expect a draw, got 1: give all `modes`"),
    (sc.flux_test, {"variant": "fast"}, "`variant` must be 'asymptotic' or 'exact', got 'fast'"),
    (sc.flux_test, {"draws": [X, X], "variant": "exact"}, "'exact' is for independent draws"),
    (sc.check, {"progress": {}}, "`progress`"),
    (assert_fits, {"false_alarm": 0}, "`false_alarm`"),
    (assert_fits, {"tolerance": -1}, "`tolerance`"),
    (assert_fits, {"n": 5}, "`n`"),
    (assert_fits, {"max_draws": 10}, "`max_draws`"),
    (sc.calibrate, {"test": "ksd"}, r"`test` must be a function test\(draws, target, rng=...\), got 'ksd'"),
    (sc.calibrate, {"test": lambda draws, target, rng: 0}, "`test` must return an object with a number `pv"),
    (sc.perturb, {"modes": X[:2], "accept": lambda r: 0 * r + 2}, "`accept`"),
    (sc.perturb, {"accept": "barker"}, "`accept` must be a function of the log ratio, got 'barker'"),
    (sc.barker, {"log_ratio": {}}, "`log_ratio`"),
    (sc.find_modes, {"starts": [[1e200, 0]]}, r"`starts` must be within 1e\+15 of 0, got 1e\+200"),
    (sc.find_modes, {"target": sc.Target(lambda x: x[:, 0].astype(str), dim=2)}, "`log_density`"),
    (sc.box_search, {"bounds": (3, -3)}, r"`bounds` must have low < high, coordinate 0 has \[3.0, -3.0\]"),
    (sc.box_search, {"bounds": [(0, 1), (0, np.inf)]}, r"`bounds` must be within 1e\+300 of 0, coordinate 1"),
    (sc.find_modes, {"bounds": (-1e308, 1e308)}, r"`bounds` must be within 1e\+300 of 0, coordinate 0"),
    (sc.box_search, {"bounds": [(0, 1)] * 3}, r"one \(low, high\) pair or 2 of them, got shape \(3, 2\)"),
    (sc.box_search, {"bounds": "box"}, "pairs of numbers"),
    (sc.box_search, {"bounds": None}, "give `bounds`"),
    (sc.models.gaussian_mixture, {"means": [1.0, 2.0]}, "`means` must be finite with one mean per row"),
    (sc.models.gaussian_mixture, {"weights": [0.5, 0.6]}, "`weights` must be 1 positive numbers with sum 1"),
    (sc.models.gaussian_mixture, {"covariances": -1.0}, "`covariances` must .* positive definite, number 0"),
    (sc.models.gaussian_mixture, {"covariances": [[1, 2], [2, 1]]}, "smallest eigenvalue is -1"),
    (sc.models.gaussian_mixture, {"covariances": [[1, 0.5], [0, 1]]}, "`covariances` must be symmetric"),
    (sc.models.gaussian_mixture, {"covariances": np.ones((3, 1, 1))}, "must be a variance or have shape"),
    (sc.models.t_banana_mixture, {"dim": 1}, "`dim` must be an integer of at least 2"),
    (sc.models.t_banana_mixture, {"n_t": 0, "n_banana": 0}, "`n_t` and `n_banana` must not both be 0"),
    (sc.models.t_banana_mixture, {"df": 0}, "`df` must be positive"),
    (sc.models.t_banana_mixture, {"b": np.inf}, "`b` must be one finite number"),
    (sc.models.t_banana_mixture, {"weights": [0.5, 0.5]}, "`weights` must be 20 positive"),
    (sc.models.gb_rbm, {"B": [1.0]}, "`B` must be a finite matrix"),
    (sc.models.gb_rbm, {"b": [1.0]}, r"`b` must be finite with shape \(2,\)"),
    (sc.models.gb_rbm, {"c": [np.nan]}, r"`c` must be finite with shape \(1,\)"),
    (RAM, {"scale": [1.0, 1.0, 1.0]}, "`scale` must be positive and finite, one number or 2"),
    (RAM, {"blocks": [[0]]}, "`blocks` must hold every coordinate"),
    (RAM, {"blocks": "ab"}, "`blocks`"),
    (RAM, {"burn_in": 10}, "`n_iterations` must exceed `burn_in`"),
    (RAM, {"thin": 0}, "`thin` must be a positive integer"),
    (RAM, {"log_density": lambda x: x}, "`log_density` .*must map one point"),
    (RAM, {"log_density": lambda x: jnp.log(-jnp.sum(x**2) - 1)}, "`log_density` must be finite at every"),
    (sc.samplers.gibbs_rbm, {"n": 0, "burn_in": 5}, "`n` must be a positive integer"),
    (sc.samplers.gibbs_rbm, {"burn_in": 0}, "`burn_in` must be a positive integer"),
    (sc.from_jax, {"log_density": lambda x: -(x**2)}, "must map one point of shape"),
    (sc.from_jax, {"log_density": lambda x: np.ones(3) @ x}, r"a point of shape \(2,\) in float64: .*Error"),
    (sc.from_jax, {"log_density": lambda x: 0 / float(x[0])}, "`log_density`"),
    (sc.from_jax, {"log_density": lambda x: np.sum(np.asarray(x))}, "`log_density`"),
    (sc.from_jax, {"log_density": lambda x: 1.0 if x[0] > 0 else 0.0}, "`log_density`"),
    (sc.from_jax, {"log_density": lambda x: None}, "`log_density`"),
    (sc.from_jax, {"dim": None, "example": {}}, "`example` must hold at least one number"),
    (sc.from_jax, {"dim": None, "example": {"mu": "x"}}, "`example` must be a pytree of real numbers"),
    (sc.from_jax, {"example": {"a": 1.0}}, "`dim` must be 1, as `example` has it, got 2"),
    (sc.from_jax, {"dim": None}, "`dim` must be given, or `example`"),
    (sc.from_jax, {"log_density": lambda p: p["b"], "dim": None, "example": {"a": 1.0}}, "`log_density`"),
    (sc.unbounded, {"support": (1, 1)}, "`support` must have low < high, coordinate 0 has"),
    (sc.unbounded, {"support": [(0, 1)] * 3}, "`support` must be one .* pair or 2 of them"),
    (sc.unbounded, {"support": None}, "`support` must be .low, high. pairs of numbers"),
    (sc.unbounded, {"support": {"b": (0, 1)}}, r"`support` must name parameters .*, mu, tau, got 'b'"),
    (sc.unbounded, {"target": FREE, "support": (0, 1)}, "`target` must not have been transformed already"),
    (sc.median_bandwidth, {"draws": np.full((5, 1), np.nan)}, "`draws`"),
    (sc.read_draws, {"paths": None}, "`paths`"),
    (sc.read_draws, {"paths": []}, "`paths` must name at least one file"),
    (sc.read_draws, {"paths": [1, 2]}, r"`paths` must be a path or a list of paths, got \[1, 2\]"),
    (as_matrix, {"x": np.zeros(6)}, r"`x` must have shape \(n, 2\), .* got \(6,\); a single"),
    (as_matrix, {"x": np.zeros((5, 3))}, r"shape \(n, 2\), one point per row, got \(5, 3\)$"),
    (as_matrix, {"x": np.zeros((2, 5))}, "it looks transposed"),
    (as_matrix, {"x": np.zeros((4, 3, 2))}, r"got \(4, 3, 2\)"),
    (as_matrix, {"x": np.zeros((1, 2))}, "`x` must hold at least 2 draws, got 1"),
    (as_matrix, {"x": [[0, 1], [np.nan, 0], [0, np.inf]]}, r"2 of 3 rows contain .*, rows \[1, 2\]"),
    (as_matrix, {"x": "draws.csv"}, r"got a str \('draws.csv'\)"),
    (as_matrix, {"x": [[1, 2], [3]]}, "must be an array of real numbers"),
    (as_matrix, {"x": np.array([["a"]])}, "dtype <U1"),
    (as_matrix, {"x": np.zeros((3, 2), dtype=complex)}, "dtype complex128"),
    (as_matrix, {"x": np.ma.masked_greater(np.eye(2), 0.5)}, "an array with 2 masked values"),
    (sc.as_draws, {"draws": np.zeros((4, 1, 2))}, "at least 2 draws per chain, chain 0 of 4 has 1"),
    (sc.as_draws, {"draws": np.zeros((4, 5, 3))}, "one column per coordinate, 2, got 3"),
    (sc.as_draws, {"draws": np.zeros((5, 3))}, r"shape \(n, 2\) or \(chain, draw, 2\).*got \(5, 3\)"),
    (sc.as_draws, {"draws": [X, np.zeros((5, 3))]}, r"`draws` must have shape \(n, 2\)"),
    (sc.as_draws, {"draws": [X, X[:0]]}, "chain 1 of 2 has none"),
    (sc.as_draws, {"draws": np.zeros((2, 3, 0)), "dim": None}, "`draws` must have at least one coordinate"),
    (sc.as_draws, {"draws": np.zeros((0, 5, 2))}, "at least 2 draws, got 0"),
    (sc.as_draws, {"draws": X > 0}, "`draws` must be .* got an array of dtype bool"),
    (sc.as_draws, {"draws": {}}, "`draws` must hold draws, got an empty dict"),
    (sc.as_draws, {"draws": {"a": []}}, r"`draws`\['a'\] must be an array of real numbers.* shape \(0,\)"),
    (sc.as_draws, {"draws": {"a": "text"}}, r"`draws`\['a'\] must be an array of real numbers.*dtype <U4"),
    (sc.as_draws, {"draws": {"a": X, "b": X[1:]}}, r"same number of draws, got shapes \[\(60, 2"),
    (sc.as_draws, {"draws": {"a": X[:, 0], "b": X[:, 1]}, "dim": 1}, r"got 2 \(a, b\); select columns by"),
    (sc.as_draws, {"draws": {"chain": [0, np.nan], "mu": [1, 2]}}, r"chains must have no NaN, rows 1 do"),
    (sc.as_draws, {"weights": X[:, 0], "log_weights": X[:, 0]}, "must not both be given"),
    (sc.as_draws, {"weights": np.eye(60)[0]}, "`weights` must be positive for at least 2 draws, got 1"),
    (sc.as_draws, {"log_weights": np.zeros(3)}, "`log_weights` must hold the logarithm of the weight"),
    (sc.as_draws, {"names": ["a", "b", "c"], "dim": None}, "one column per name of `names`, 3, got 2"),
    (sc.Draws, {"values": X[0]}, r"`values` must have shape \(n, d\), .*got shape \(2,\)"),
    (sc.Draws, {"values": "x"}, "`values` must be an array of real numbers, got a str"),
    (sc.Draws, {"chain": [0, 1] * 30}, "`chain` must be 0, 1, .* got 0 after 1 at row 2; inter"),
    (sc.Draws, {"chain": np.repeat([1, 2], 30)}, "`chain` must be 0, 1, .* got 1 at row 0"),
    (sc.Draws, {"chain": [0, 0, 1]}, r"`chain` must hold the chain of each draw, shape \(60,\), got"),
    (sc.Draws, {"chain": [0.5] * 60}, r"`chain` must hold whole numbers, got \[0.5"),
    (sc.Draws, {"names": ["a"]}, r"`names` must name all 2 columns, got \('a',\)"),
    (sc.Draws, {"weight": [1.0]}, r"`weights` must hold the weight of each draw, shape \(60,\), got"),
    (sc.Draws, {"weight": np.repeat([1, -2], 30)}, "`weights` must be finite and not negative, got -2 at"),
    (sc.Draws, {"weight": np.zeros(60)}, "`weights` must not be 0 for all draws, got 60 zeros"),
    (sc.Draws, {"weight": list("abcdef") * 10}, "`weights` must be"),
    (sc.plot.null_distribution, {}, "has no simulated null distribution"),
    (sc.plot.theta_profile, {}, "`result` must come from spksd_test or ospksd_test"),
    (sc.plot.bandwidth_profile, {}, "`result` must come from ksdagg_test"),
    (sc.plot.draws, {"names": ["a"]}, "`names` must have one name per coordinate"),
    (sc.plot.draws, {"coordinates": (2,)}, "must be up to 2 of 0..1"),
]


@pytest.mark.parametrize(("function", "change", "message"), MESSAGES)
def test_a_message_says_what_is_wrong(function, change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        function(**(CALLS[function] | change))
