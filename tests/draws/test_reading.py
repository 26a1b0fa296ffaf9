"""Draws of arrays, dicts and the objects of other packages, in the coordinates of a target."""

from dataclasses import replace

import numpy as np
import pytest
from harness import ar1_chains, on_the_log_scale

import steincheck as sc
from steincheck.draws import as_draws, as_matrix, read_draws, to_unconstrained

NAMES = ["mu", "theta[0]", "theta[1]", "theta[2]"]


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint8, np.float64])
def test_points_are_copied_as_float64(dtype):
    x = np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype)
    points = as_matrix(x, 2)
    assert points.dtype == np.float64
    points[0] = 7
    assert x[0, 0] == 0
    assert as_matrix([1, 2, 3], 1).shape == (3, 1)


def test_arrays_with_and_without_chains():
    x = np.random.default_rng(0).normal(size=(4, 25, 3))
    flat = as_draws(x.reshape(100, 3), 3)
    assert (flat.shape, flat.n_chains, flat.chain) == ((100, 3), 0, None)
    chains = as_draws(x, 3, names=["a", "b", "c"])
    np.testing.assert_array_equal(chains.values, x.reshape(100, 3))
    assert (chains.n_chains, chains.names) == (4, ("a", "b", "c"))
    assert as_draws(chains, 3).chain is chains.chain
    assert as_draws([x[0], x[1, :10], x[2]], 3).lengths.tolist() == [25, 10, 25]
    assert as_draws([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], 2).n_chains == 0


def test_values_that_are_not_finite_are_located():
    x = np.zeros((4, 25, 2))
    x[2, 17, 1] = np.nan
    x[3, 0, 0] = np.inf
    with pytest.raises(
        ValueError, match="2 of 100 rows contain NaN or infinity, chain 2, draw 17; chain 3, draw 0"
    ):
        as_draws(x, 2)


@pytest.mark.parametrize(
    ("walkers", "steps", "correlation"), [(32, 60, 0.95), (100, 40, 0.95), (4, 500, 0.9)]
)
def test_steps_before_chains_are_told_by_the_correlations(walkers, steps, correlation):
    """As emcee's chains are; the right way round nothing is suspected."""
    for seed in range(8):
        r = np.random.default_rng([6, seed])
        x = ar1_chains(r, walkers, steps, 2, correlation)
        swapped = sc.as_draws(x.swapaxes(0, 1))
        assert swapped.axes_swapped
        assert "only draws of successive chains are correlated" in swapped.warnings[0]
        assert not sc.as_draws(x).axes_swapped
        assert not sc.as_draws(r.normal(size=(steps, walkers, 2))).axes_swapped


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {"theta": rng.normal(size=(4, 50, 3)), "mu": rng.normal(size=(4, 50))}


def expected(arrays):
    return np.concatenate([arrays["mu"][..., None], arrays["theta"]], axis=2).reshape(200, 4)


def check_same(draws, arrays):
    np.testing.assert_array_equal(draws.values, expected(arrays))
    np.testing.assert_array_equal(draws.chain, np.repeat(np.arange(4), 50))
    assert draws.names == tuple(NAMES)


def test_dicts_of_arrays(arrays):
    check_same(as_draws(arrays, 4, names=NAMES), arrays)
    assert as_draws(arrays).names == ("theta[0]", "theta[1]", "theta[2]", "mu")
    flat = {key: value.reshape(200, *value.shape[2:]) for key, value in arrays.items()}
    np.testing.assert_array_equal(as_draws(flat, names=NAMES).values, expected(arrays))
    vectors = as_draws({"theta": flat["theta"]}, 3)
    assert (vectors.chain, vectors.shape) == (None, (200, 3))
    assert as_draws({"x": np.zeros((4, 1000))}).n_chains == 4
    matrix = as_draws({"L": np.zeros((10, 2, 2))}, 4)
    assert matrix.names == ("L[0,0]", "L[0,1]", "L[1,0]", "L[1,1]")
    more = arrays | {"other": np.zeros(7)}
    check_same(as_draws(more, names=NAMES), arrays)


def test_columns_of_chains_and_weights_in_a_dict():
    chain = np.repeat([0, 1], [100, 201])
    columns = {"chain": chain, "mu": np.arange(301.0), "tau": np.ones(301)}
    draws = as_draws(columns)
    assert (draws.names, draws.weight) == (("mu", "tau"), None)
    np.testing.assert_array_equal(draws.chain, chain)
    weighted = as_draws(columns | {"log_weight": 1e4 + np.log(np.arange(1, 302))})
    assert weighted.names == ("mu", "tau")
    np.testing.assert_allclose(weighted.weight, np.arange(1, 302) / 151, rtol=1e-9)


class Table:
    """Names of columns and nothing else."""

    columns = ("b", "a")


class IndexedTable(Table):
    def __getitem__(self, name):
        return np.array([[2.0, 1.0], [4.0, 3.0]])[:, self.columns.index(name)]


class CmdStanFit:
    """As CmdStanPy's fits."""

    def draws_pd(self):
        return IndexedTable()


def test_columns_of_any_table_are_taken_by_name():
    table = IndexedTable()
    assert as_draws(table, names=["a", "b"]).values.tolist() == [[1, 2], [3, 4]]
    assert as_draws([table, table], names=["a", "b"]).lengths.tolist() == [2, 2]
    assert as_draws(CmdStanFit(), names=["a", "b"]).values.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="no column 'c'"):
        as_draws(table, names=["a", "c"])
    with pytest.raises(TypeError, match=r"`draws` must hold one column of numbers per name, got a Table"):
        as_draws(Table())


def inference_data(arrays):
    import arviz

    diverging = np.zeros((4, 50), dtype=bool)
    diverging[1, :3] = True
    groups = {"posterior": arrays, "sample_stats": {"diverging": diverging}}
    labels = {"coords": {"school": ["a", "b", "c"]}, "dims": {"theta": ["school"]}}
    if arviz.__version__ < "1":
        return arviz.from_dict(**groups, **labels)
    return arviz.from_dict(groups, **labels)


@pytest.mark.adapters
@pytest.mark.filterwarnings("ignore")
def test_arviz(arrays, tmp_path):
    idata = inference_data(arrays)
    idata.to_netcdf(tmp_path / "x.nc")
    for draws in (
        as_draws(idata, 4, names=NAMES),
        as_draws(getattr(idata, "to_datatree", lambda: idata)(), 4, names=NAMES),
        as_draws(read_draws(tmp_path / "x.nc"), names=NAMES),
    ):
        check_same(draws, arrays)
        assert draws.divergences == 3
    check_same(as_draws(idata.posterior, names=NAMES), arrays)
    assert as_draws(idata).names == ("theta[a]", "theta[b]", "theta[c]", "mu")
    assert as_draws(idata.posterior.isel(chain=1), names=NAMES).n_chains == 1
    array = idata.posterior["theta"].transpose("school", "draw", "chain")
    np.testing.assert_array_equal(as_draws(array, names=NAMES[1:]).values, expected(arrays)[:, 1:])
    with pytest.raises(ValueError, match=r"has no group or variable with dimensions \(chain, draw\)"):
        as_draws(array.rename(draw="row"))
    (tmp_path / "bad.nc").write_text("rubbish")
    with pytest.raises(ValueError, match=r"bad\.nc cannot be read as \.nc"):
        read_draws(tmp_path / "bad.nc")


@pytest.mark.adapters
@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("labels", [(".chain", ".iteration"), ("Chain", "draw"), ("chain__", "iter__")])
def test_tables(arrays, package, labels, tmp_path):
    table = expected(arrays)
    order = np.random.default_rng(1).permutation(200)
    columns = {
        labels[1]: np.tile(np.arange(50), 4)[order],
        "theta.3": table[order, 3],
        "theta.1": table[order, 1],
        "theta.2": table[order, 2],
        "lp__": np.full(200, -1.0),
        "divergent__": np.arange(200) < 2,
        "who": ["x"] * 200,
        "mu": table[order, 0],
        labels[0]: np.repeat([1, 2, 3, 4], 50)[order],
    }
    if package == "pyarrow":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
        draws = as_draws(read_draws(tmp_path / "x.parquet"), names=NAMES)
        (tmp_path / "bad.parquet").write_text("rubbish")
        with pytest.raises(ValueError, match=r"bad\.parquet cannot be read as \.parquet"):
            read_draws(tmp_path / "bad.parquet")
    else:
        frames = pytest.importorskip(package)
        draws = as_draws(frames.DataFrame(columns), 4, names=NAMES)
        assert as_draws(frames.DataFrame(columns), 4).names == ("theta[3]", "theta[1]", "theta[2]", "mu")
    check_same(draws, arrays)
    assert draws.divergences == 2


@pytest.mark.adapters
def test_pandas_indices_and_unnamed_columns():
    import pandas

    x = np.arange(6.0).reshape(3, 2)
    assert as_draws(pandas.DataFrame(x), 2, names=["a", "b"]).names == ("a", "b")
    frame = pandas.DataFrame(x, columns=pandas.MultiIndex.from_tuples([("th", 1), ("th", 0)]))
    np.testing.assert_array_equal(as_draws(frame, names=["th[0]", "th[1]"]).values, x[:, ::-1])
    index = pandas.MultiIndex.from_product([[0, 1], [0, 1]], names=["chain", "draw"])
    assert as_draws(pandas.DataFrame({"a": range(4)}, index=index), 1).n_chains == 2
    with pytest.raises(ValueError, match="there is more than one column 'a'"):
        as_draws(pandas.DataFrame(x, columns=["a", "a"]))


class Mcmc:
    """As NumPyro's MCMC."""

    def __init__(self, samples):
        self.samples = samples

    def get_samples(self, group_by_chain):
        return self.samples

    def get_extra_fields(self):
        return {"diverging": np.array([True, False])}


def test_numpyro(arrays):
    draws = as_draws(Mcmc(arrays | {"total": arrays["theta"].sum(axis=2)}), 4, names=NAMES)
    check_same(draws, arrays)
    assert draws.divergences == 1
    with pytest.raises(ValueError, match="`draws` must hold draws, got a Mcmc without any"):
        as_draws(Mcmc({}))


def test_the_mode_search_reads_what_the_tests_read():
    """A positive parameter on its own scale, by name; its logarithm is the coordinate of the target."""
    u = np.random.default_rng(0).normal(size=(40, 2))
    columns = {"mu": u[:, 1], "tau": np.exp(u[:, 0])}
    one, other = (sc.find_modes(on_the_log_scale(), draws=draws, rng=0) for draws in (u, columns))
    np.testing.assert_allclose(other.locations, one.locations, rtol=1e-9, atol=1e-9)


def test_an_array_of_parameters_is_suspected():
    rng = np.random.default_rng(0)
    draws = np.stack([rng.gamma(3, size=300), rng.normal(size=300)], axis=1)
    by_name = {"tau": draws[:, 0], "mu": draws[:, 1]}
    target = on_the_log_scale()
    (warning,) = to_unconstrained(draws, target).warnings
    assert "but if it holds tau itself" in warning
    with pytest.warns(UserWarning, match="tau itself|negligible probability|too skew") as caught:
        sc.moment_test(draws, target, modes=[[np.log(3), 0.0]], rng=0)
    assert str(caught[0].message) == warning
    unclear = replace(target, names=("tau", "mu"))  # names that say nothing
    assert to_unconstrained(by_name, unclear).warnings
    assert to_unconstrained(target.unconstrain(draws), target).warnings == ()
    assert to_unconstrained(by_name, target).warnings == ()


class DynestyLike:
    """Fields of `dynesty.results.Results`."""

    samples = np.arange(8.0).reshape(4, 2)
    logwt = np.array([-800.0, -3.0, -2.0, -2.0])
    samples_id = np.array([5, 0, 5, 9])
    logvol = np.arange(1.0, 5.0) * np.log(3 / 4)


def test_results_of_nested_sampling_have_weights_and_threads():
    x = np.random.default_rng(0).normal(size=(5, 2))
    draws = as_draws(DynestyLike(), 2)
    np.testing.assert_array_equal(draws.values, DynestyLike.samples[1:])  # exp(-798) is 0
    np.testing.assert_allclose(draws.weight, 3 * np.exp([-1, 0, 0]) / (2 + np.exp(-1)))
    assert draws.group.tolist() == [0, 1, 2]
    np.testing.assert_allclose(draws.threads.share.sum(axis=0), 1.0)
    assert draws.kept.tolist() == [False, True, True, True]
    points = {"points": x, "weights": np.ones(5), "logl": np.zeros(5)}
    ultranest = as_draws({"weighted_samples": points, "paramnames": ["b", "a"]}, names=["a", "b"])
    np.testing.assert_array_equal(ultranest.values, x[:, ::-1])


def test_weights_stay_with_the_draws():
    columns = {"mu": np.zeros(2), "tau": np.array([1.0, 2.0]), "log_weight": np.log([1.0, 3.0])}
    draws = to_unconstrained(columns, on_the_log_scale())
    np.testing.assert_allclose(draws.weight, [0.5, 1.5])
    np.testing.assert_allclose(draws.values[:, 0], np.log([1, 2]))
