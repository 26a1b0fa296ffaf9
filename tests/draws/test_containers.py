"""Draws from the objects of other packages; each test runs where its package is installed."""

import numpy as np
import pytest

import steincheck as sc
from steincheck.draws import as_draws, read_draws

NAMES = ["mu", "theta[0]", "theta[1]", "theta[2]"]
CMDSTAN = """# stan_version_major = 2
# method = sample (Default)
#   sample
#     num_samples = 3
#     num_warmup = 4
#     save_warmup = {saved}
#     thin = 2
# model = m
lp__,accept_stat__,divergent__,mu,theta.1,theta.2,theta.3
{warm_up}# Adaptation terminated
# Step size = 0.8
-7,0.9,0,0.5,{chain}.1,0.2,0.3
-7,0.9,1,0.6,{chain}.4,0.5,0.6
-7,0.9,0,0.7,{chain}.7,0.8,0.9
#  Elapsed Time: 0.01 seconds (Warm-up)
"""
WARM_UP = "-99,0,1,9,9,9,9\n-99,0,1,9,9,9,9\n"


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


def inference_data(arrays):
    arviz = pytest.importorskip("arviz")
    diverging = np.zeros((4, 50), dtype=bool)
    diverging[1, :3] = True
    return arviz.from_dict(
        arrays,
        sample_stats={"diverging": diverging},
        coords={"school": ["a", "b", "c"]},
        dims={"theta": ["school"]},
    )


@pytest.mark.filterwarnings("ignore")
def test_arviz(arrays, tmp_path):
    idata = inference_data(arrays)
    for source in (idata, idata.to_datatree()):
        draws = as_draws(source, 4, names=NAMES)
        check_same(draws, arrays)
        assert draws.divergences == 3
    check_same(as_draws(idata.posterior, names=NAMES), arrays)
    assert as_draws(idata, var_names=["theta"]).names == ("theta[0]", "theta[1]", "theta[2]")
    import arviz

    shuffled = arviz.extract(idata, num_samples=200, rng=1)
    check_same(as_draws(arviz.extract(idata), names=NAMES), arrays)
    assert as_draws(shuffled, names=NAMES).n_chains == 4
    idata.to_netcdf(tmp_path / "x.nc")
    draws = read_draws(tmp_path / "x.nc", dim=4, names=NAMES)
    check_same(draws, arrays)
    assert draws.divergences == 3
    (tmp_path / "bad.nc").write_text("rubbish")
    with pytest.raises(ValueError, match=r"bad\.nc cannot be read as netCDF"):
        read_draws(tmp_path / "bad.nc")


@pytest.mark.parametrize("dims", [("draw", "parameter"), ("parameter", "draw"), ("row", "column")])
def test_labels_of_an_array_name_its_columns(dims):
    xarray = pytest.importorskip("xarray")
    values = np.array([[1.5, 2.0], [3.0, 4.0], [5.0, 6.0]])
    place = 0 if dims[0] == "parameter" else 1
    array = xarray.DataArray(
        values.T if place == 0 else values, dims=dims, coords={dims[place]: ["tau", "mu"]}
    )
    assert as_draws(array, 2, names=["mu", "tau"]).values.tolist() == values[:, ::-1].tolist()
    assert as_draws(array).names == ("tau", "mu")
    with pytest.raises(ValueError, match=r"no column 'a'; its columns are tau, mu"):
        as_draws(array, names=["a", "b"])
    plain = array.drop_vars(dims[place])
    assert as_draws(plain, names=["mu", "tau"]).values.tolist() == values.tolist()


@pytest.mark.parametrize("names", [["b", "a"], ["theta[b]", "theta[a]"], ["theta[1]", "theta[0]"]])
def test_labels_of_a_variable_with_chains(names):
    xarray = pytest.importorskip("xarray")
    values = np.random.default_rng(0).normal(size=(4, 50, 2))
    array = xarray.DataArray(
        values, dims=("chain", "draw", "school"), coords={"school": ["a", "b"]}, name="theta"
    )
    for source in (array, array.transpose("draw", "school", "chain")):
        draws = as_draws(source, 2, names=names)
        np.testing.assert_array_equal(draws.values, values.reshape(200, 2)[:, ::-1])
        assert draws.n_chains == 4


@pytest.mark.filterwarnings("ignore")
def test_data_frames_of_arviz(arrays):
    frame = inference_data(arrays).to_dataframe()
    draws = as_draws(frame.sample(frac=1, random_state=0), names=NAMES)
    check_same(draws, arrays)
    assert draws.divergences == 3


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("labels", [(".chain", ".iteration"), ("chain", "draw"), ("chain__", "iter__")])
def test_data_frames(arrays, package, labels):
    frames = pytest.importorskip(package)
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
    draws = as_draws(frames.DataFrame(columns), 4, names=NAMES)
    check_same(draws, arrays)
    assert draws.divergences == 2
    assert as_draws(frames.DataFrame(columns), 4).names == ("theta[3]", "theta[1]", "theta[2]", "mu")
    parts = [frames.DataFrame({"b": table[:k, 1], "a": table[:k, 0]}) for k in (50, 30)]
    assert as_draws(parts, names=["a", "b"]).lengths.tolist() == [50, 30]


def test_pandas_indices_and_unnamed_columns():
    pandas = pytest.importorskip("pandas")
    x = np.arange(6.0).reshape(3, 2)
    assert as_draws(pandas.DataFrame(x), 2, names=["a", "b"]).names == ("a", "b")
    frame = pandas.DataFrame(x, columns=pandas.MultiIndex.from_tuples([("th", 1), ("th", 0)]))
    np.testing.assert_array_equal(as_draws(frame, names=["th[0]", "th[1]"]).values, x[:, ::-1])
    index = pandas.MultiIndex.from_product([[0, 1], [0, 1]], names=["chain", "draw"])
    assert as_draws(pandas.DataFrame({"a": range(4)}, index=index), 1).n_chains == 2


def test_parquet(arrays, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    table = expected(arrays)
    columns = {name: table[:, k] for k, name in reversed(list(enumerate(NAMES)))}
    parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    np.testing.assert_array_equal(read_draws(tmp_path / "x.parquet", names=NAMES).values, table)
    (tmp_path / "bad.parquet").write_text("rubbish")
    with pytest.raises(ValueError, match=r"bad\.parquet cannot be read as parquet"):
        read_draws(tmp_path / "bad.parquet")


def test_numpyro():
    numpyro = pytest.importorskip("numpyro")
    import jax
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model():
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        theta = numpyro.sample("theta", dist.Normal(mu, 1).expand([3]).to_event(1))
        numpyro.deterministic("total", theta.sum())

    mcmc = MCMC(
        NUTS(model),
        num_warmup=20,
        num_samples=50,
        num_chains=2,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(0), extra_fields=("diverging",))
    draws = as_draws(mcmc, 4, names=NAMES)
    assert draws.lengths.tolist() == [50, 50]
    assert draws.divergences is not None
    np.testing.assert_array_equal(draws.values[:, 0], np.asarray(mcmc.get_samples()["mu"]))
    np.testing.assert_array_equal(as_draws(mcmc.get_samples(), names=NAMES).values, draws.values)
    assert as_draws(mcmc.get_samples(), names=NAMES).chain is None
    grouped = as_draws(mcmc.get_samples(group_by_chain=True), names=NAMES)
    np.testing.assert_array_equal(grouped.chain, draws.chain)


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.zeros((4, 10, 2), requires_grad=True)
    assert as_draws(x, 2).n_chains == 4


@pytest.mark.parametrize("saved", ["0", "1", "true"])
def test_cmdstan_files(tmp_path, saved):
    paths = []
    for chain in (0, 1):
        paths.append(tmp_path / f"m-{chain}.csv")
        paths[-1].write_text(
            CMDSTAN.format(chain=chain, saved=saved, warm_up="" if saved == "0" else WARM_UP)
        )
    draws = read_draws(paths, dim=4)
    assert draws.names == tuple(NAMES)
    assert draws.divergences == 2
    assert draws.lengths.tolist() == [3, 3]
    assert draws.values[4].tolist() == [0.6, 1.4, 0.5, 0.6]
    assert read_draws(paths[0]).n_chains == 1


@pytest.mark.filterwarnings("ignore")
def test_cmdstanpy(tmp_path):
    cmdstanpy = pytest.importorskip("cmdstanpy")
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
    fit = cmdstanpy.from_csv([str(tmp_path / f"m_{chain}.csv") for chain in (1, 2)])
    draws = as_draws(fit, 4, names=NAMES)
    assert draws.lengths.tolist() == [3, 3]
    assert draws.values[:, 1].tolist() == [1.0, 1.1, 1.2, 2.0, 2.1, 2.2]
    assert draws.divergences == 2


class Fit:
    """As PyStan's Fit: values (column, draw, chain), warm-up included if saved."""

    sample_and_sampler_param_names = ("lp__", "divergent__")
    constrained_param_names = ("mu", "theta.1", "theta.2", "theta.3")
    num_warmup, num_thin, save_warmup = 10, 2, True

    def __init__(self, arrays):
        columns = expected(arrays).reshape(4, 50, 4).transpose(2, 1, 0)
        self.values = np.concatenate([np.ones((2, 50, 4)), columns])
        self.values = np.concatenate([np.full((6, 5, 4), 99.0), self.values], axis=1)


def test_pystan(arrays):
    draws = as_draws(Fit(arrays), 4, names=NAMES)
    check_same(draws, arrays)
    assert draws.divergences == 200


def test_dicts_with_the_draws_last(arrays):
    last = {key: np.moveaxis(value.reshape(200, *value.shape[2:]), 0, -1) for key, value in arrays.items()}
    last["mu"] = last["mu"][None, :]  # as PyStan has scalars
    draws = as_draws(last, 4)
    assert draws.names == ("theta[0]", "theta[1]", "theta[2]", "mu[0]")
    np.testing.assert_array_equal(draws.values[:, 3], arrays["mu"].ravel())


def test_columns_are_taken_by_name():
    class Frame:
        columns = ("b", "a")
        shape = (3, 2)

        def to_series(self, k):
            return self

        def to_numpy(self):
            return np.arange(3.0)

    with pytest.raises(ValueError, match="no column 'c'"):
        sc.as_draws(Frame(), names=["a", "c"])


class Table:
    """Names of columns and nothing that says the shape."""

    columns = ("b", "a")


class ArrayTable(Table):
    def __array__(self, dtype=None, copy=None):
        return np.array([[2.0, 1.0], [4.0, 3.0]])


class IndexedTable(Table):
    def __getitem__(self, name):
        return np.asarray(ArrayTable())[:, self.columns.index(name)]


@pytest.mark.parametrize("table", [ArrayTable(), IndexedTable()])
def test_columns_of_any_table_are_taken_by_name(table):
    assert sc.as_draws(table, names=["a", "b"]).values.tolist() == [[1, 2], [3, 4]]
    assert sc.as_draws([table, table], names=["a", "b"]).lengths.tolist() == [2, 2]
    with pytest.raises(ValueError, match="no column 'c'"):
        sc.as_draws(table, names=["a", "c"])


def test_a_table_without_columns_in_memory_is_refused():
    with pytest.raises(TypeError, match=r"`draws` must hold one column of numbers per name .* got a Table"):
        sc.as_draws(Table())
