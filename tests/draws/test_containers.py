"""Draws from dicts, and from the objects of other packages where these are installed."""

import numpy as np
import pytest

from steincheck.draws import as_draws, read_draws

NAMES = ["mu", "theta[0]", "theta[1]", "theta[2]"]


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


@pytest.mark.parametrize(
    ("draws", "dim", "error", "message"),
    [
        ({}, None, ValueError, "`draws` must hold draws, got an empty dict"),
        ({"a": []}, None, TypeError, r"`draws`\['a'\] must be an array of real numbers.* shape \(0,\)"),
        ({"a": "text"}, None, TypeError, r"`draws`\['a'\] must be an array of real numbers.*dtype <U4"),
        (
            {"a": np.zeros(5), "b": np.zeros(7)},
            None,
            ValueError,
            r"same number of draws, got shapes \[\(5,\), ",
        ),
        (
            {"a": np.zeros(5), "b": np.zeros(5)},
            1,
            ValueError,
            r"got 2 \(a, b\); select columns by the target's",
        ),
        (
            {"chain": [0.0, np.nan, 1.0], "mu": [1, 2, 3]},
            None,
            ValueError,
            r"chains must have no NaN, rows \[1\]",
        ),
    ],
)
def test_bad_dicts(draws, dim, error, message):
    with pytest.raises(error, match=message):
        as_draws(draws, dim)


def test_columns_of_chains_and_weights_in_a_dict():
    chain = np.repeat([0, 1], [100, 201])
    columns = {"chain": chain, "mu": np.arange(301.0), "tau": np.ones(301)}
    draws = as_draws(columns)
    assert (draws.names, draws.weight) == (("mu", "tau"), None)
    np.testing.assert_array_equal(draws.chain, chain)
    weighted = as_draws(columns | {"log_weight": 1e4 + np.log(np.arange(1, 302))})
    assert weighted.names == ("mu", "tau")
    np.testing.assert_allclose(weighted.weight, np.arange(1, 302) / (301 * 151), rtol=1e-9)


class Table:
    """Names of columns and nothing else."""

    columns = ("b", "a")


class IndexedTable(Table):
    def __getitem__(self, name):
        return np.array([[2.0, 1.0], [4.0, 3.0]])[:, self.columns.index(name)]


def test_columns_of_any_table_are_taken_by_name():
    table = IndexedTable()
    assert as_draws(table, names=["a", "b"]).values.tolist() == [[1, 2], [3, 4]]
    assert as_draws([table, table], names=["a", "b"]).lengths.tolist() == [2, 2]
    with pytest.raises(ValueError, match="no column 'c'"):
        as_draws(table, names=["a", "c"])
    with pytest.raises(TypeError, match=r"`draws` must hold one column of numbers per name, got a Table"):
        as_draws(Table())


def inference_data(arrays):
    import arviz

    diverging = np.zeros((4, 50), dtype=bool)
    diverging[1, :3] = True
    return arviz.from_dict(
        arrays,
        sample_stats={"diverging": diverging},
        coords={"school": ["a", "b", "c"]},
        dims={"theta": ["school"]},
    )


@pytest.mark.adapters
@pytest.mark.filterwarnings("ignore")
def test_arviz(arrays, tmp_path):
    idata = inference_data(arrays)
    idata.to_netcdf(tmp_path / "x.nc")
    for draws in (
        as_draws(idata, 4, names=NAMES),
        as_draws(idata.to_datatree(), 4, names=NAMES),
        read_draws(tmp_path / "x.nc", dim=4, names=NAMES),
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
        draws = read_draws(tmp_path / "x.parquet", names=NAMES)
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


@pytest.mark.adapters
def test_torch():
    import torch

    assert as_draws(torch.zeros((4, 10, 2), requires_grad=True), 2).n_chains == 4


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


@pytest.mark.adapters
@pytest.mark.filterwarnings("ignore")
def test_cmdstanpy(tmp_path):
    import cmdstanpy

    settings = {
        "stan_version_major": 2, "stan_version_minor": 36, "stan_version_patch": 0, "model": "m",
        "method": "sample", "num_samples": 3, "num_warmup": 4, "save_warmup": "false", "thin": 1,
        "algorithm": "hmc", "max_depth": 10, "metric": "diag_e",
    }  # fmt: skip
    comments = "".join(f"# {key} = {value}\n" for key, value in settings.items())
    header = "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,"
    header += "mu,theta.1,theta.2,theta.3\n"
    adaptation = "# Adaptation terminated\n# Step size = 0.8\n"
    adaptation += "# Diagonal elements of inverse mass matrix:\n# 1, 1, 1, 1\n"
    for chain in (1, 2):
        rows = [f"-7,1,0.8,1,1,{t % 2},7,0.{t},{chain}.{t},0.2,0.3\n" for t in range(3)]
        end = "# \n#  Elapsed Time: 0.01 seconds (Warm-up)\n#                0.01 seconds (Sampling)\n"
        end += "#                0.02 seconds (Total)\n# \n"
        (tmp_path / f"m_{chain}.csv").write_text(comments + header + adaptation + "".join(rows) + end)
    paths = [str(tmp_path / f"m_{chain}.csv") for chain in (1, 2)]
    draws = as_draws(cmdstanpy.from_csv(paths), 4, names=NAMES)
    assert draws.lengths.tolist() == [3, 3]
    assert draws.values[:, 1].tolist() == [1.0, 1.1, 1.2, 2.0, 2.1, 2.2]
    assert draws.divergences == 2
    np.testing.assert_array_equal(read_draws(paths, names=NAMES).values, draws.values)
