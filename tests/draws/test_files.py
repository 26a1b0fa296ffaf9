import sys

import numpy as np
import pytest

from steincheck.draws import as_draws, read_draws

CMDSTAN = """# stan_version_major = 2
# method = sample (Default)
#     num_warmup = 4
#     save_warmup = {saved}
#     thin = 2 (Default)
lp__,accept_stat__,divergent__,mu,theta.1,theta.2,theta.3
{warm_up}# Adaptation terminated
# Step size = 0.8
-7,0.9,0,0.5,{chain}.1,0.2,0.3
-7,0.9,1,0.6,{chain}.4,0.5,0.6
-7,0.9,0,0.7,{chain}.7,0.8,0.9
#  Elapsed Time: 0.01 seconds (Warm-up)
"""
WARM_UP = "-99,0,1,9,9,9,9\n-99,0,1,9,9,9,9\n"


def written(folder, text, name="draws.csv"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "0.5,1\n2,3\n",
        "a,b\n0.5,1\n2,3\n",
        '"a","b"\r\n0.5,1\r\n"2","3"\r\n',
        "# made by hand\n\n  a b\n0.5 1\n2   3\n",
        "\ufeffa\tb\n0.5\t1\n2\t3",
        ",a,b\n0,0.5,1\n1,2,3\n",
        ",0,1\n0,0.5,1\n1,2,3\n",
    ],
    ids=["plain", "header", "quotes", "blanks", "tabs", "index", "unnamed frame, index"],
)
@pytest.mark.parametrize("name", ["draws.csv", "draws.TSV", "draws.txt"])
def test_text_files(tmp_path, text, name):
    assert read_draws(written(tmp_path, text, name)).values.tolist() == [[0.5, 1], [2, 3]]


def test_named_columns_are_taken_in_the_order_of_the_target(tmp_path):
    path = written(tmp_path, "lp__,tau,mu,more\n9,1,2,0\n9,3,4,0\n")
    assert as_draws(read_draws(path), names=["mu", "tau"]).values.tolist() == [[2, 1], [4, 3]]
    with pytest.raises(
        ValueError, match=r"no column 'tua' \(did you mean tau\?\); its columns are tau, mu, more"
    ):
        as_draws(read_draws(path), names=["mu", "tua"])
    quoted = written(tmp_path, '"th[1,1]","th[1,2]"\n1.5,2\n3,4\n')
    assert as_draws(read_draws(quoted), names=["th[1,2]", "th[1,1]"]).values.tolist() == [[2, 1.5], [4, 3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n\n3\n", "the number of columns changed from 2 to 1 at row 2"),
        ("a,b,c\n1,2\n3,4\n", "the first line has 3 names, the draws have 2 values"),
        ("a,b\n1,2\n3,x\n", r"could not convert string 'x' to float64 at row 1, column 2"),
        ("a,a\n1,2\n3,4\n", "there is more than one column 'a'"),
        ("a,b\n", "it holds no draws"),
    ],
)
def test_bad_text_files(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_draws(written(tmp_path, text))
    assert "draws.csv" in str(caught.value)


@pytest.mark.parametrize("saved", ["0", "1", "true (Default)"])
def test_cmdstan_files_without_their_warm_up(tmp_path, saved):
    warm_up = "" if saved == "0" else WARM_UP
    texts = [CMDSTAN.format(chain=chain, saved=saved, warm_up=warm_up) for chain in (0, 1)]
    paths = [written(tmp_path, text, f"m-{chain}.csv") for chain, text in enumerate(texts)]
    draws = as_draws(read_draws(paths), names=["theta[0]", "theta[1]", "theta[2]", "mu"])
    assert draws.lengths.tolist() == [3, 3]
    assert draws.values[4].tolist() == [1.4, 0.5, 0.6, 0.6]
    one = read_draws(paths[0])
    assert one.names == ("mu", "theta[1]", "theta[2]", "theta[3]")
    assert one.n_chains == 1


def test_several_files_are_chains(tmp_path):
    paths = [
        written(tmp_path, "a,b\n1,2\n3,4\n", "one.csv"),
        written(tmp_path, "b,a\n2,1\n4,3\n6,5\n", "two.csv"),
    ]
    draws = read_draws(paths)
    assert draws.chain.tolist() == [0, 0, 1, 1, 1]
    assert draws.values.tolist() == [[1, 2], [3, 4], [1, 2], [3, 4], [5, 6]]
    with pytest.raises(ValueError, match="same coordinates, got 2 and 3 columns"):
        read_draws([paths[0], written(tmp_path, "1,2,3\n4,5,6\n", "three.csv")])
    weighted = written(tmp_path, "a,b,log_weight\n1,2,0\n3,4,0\n", "weighted.csv")
    with pytest.raises(ValueError, match="chains with weights must be one table with a column `chain`"):
        read_draws([paths[0], weighted])


def test_frames_in_text_files_are_sorted_by_chain_and_draw_and_weighted(tmp_path):
    text = ".chain,.iteration,x,lp__,.log_weight\n2,1,30,0,0\n1,2,20,0,-1\n1,1,10,0,-2\n2,2,40,0,1\n"
    draws = read_draws(written(tmp_path, text))
    assert draws.values[:, 0].tolist() == [10, 20, 30, 40]
    assert draws.chain.tolist() == [0, 0, 1, 1]
    weight = np.exp([-2, -1, 0, 1])
    np.testing.assert_allclose(draws.weight, weight / weight.mean(), rtol=1e-14)
    with pytest.raises(ValueError, match="`log_weights` must be below infinity, got inf at row 1"):
        read_draws(written(tmp_path, "a,log_weight\n1,0\n2,inf\n"))


def test_array_files(tmp_path):
    x = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "one.npz", x=x)
    np.savez(tmp_path / "two.npz", x=x, mu=x[:, 0])
    np.savez(tmp_path / "samples.npz", a=x, b=x)
    with pytest.raises(ValueError, match=r"`key` must name one .* several samples: a, b of shapes \(3, 2\)"):
        read_draws(tmp_path / "samples.npz")
    for name, key in [("x.npy", None), ("one.npz", None), ("two.npz", "x")]:
        np.testing.assert_array_equal(read_draws(tmp_path / name, key=key), x)
    assert read_draws(tmp_path / "two.npz").names == ("x[0]", "x[1]", "mu")
    np.save(tmp_path / "chains.npy", np.zeros((3, 5, 2)))
    assert read_draws(tmp_path / "chains.npy").lengths.tolist() == [5, 5, 5]
    with pytest.raises(ValueError, match=r"two.npz .*: it has no array 'tau', but x, mu"):
        read_draws(tmp_path / "two.npz", key="tau")
    with pytest.raises(ValueError, match=r"`key` selects an array of an .npz file, but x.npy is not one"):
        read_draws(tmp_path / "x.npy", key="x")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("the file was unpickled",))


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_nothing_is_unpickled(tmp_path, name):
    objects = np.empty(1, dtype=object)
    objects[0] = Bomb()
    (np.save if name == "x.npy" else np.savez)(tmp_path / name, objects)
    with pytest.raises(ValueError, match=rf"{name} cannot be read as \.np"):
        read_draws(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.xlsx"])
def test_unreadable_files(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_draws(tmp_path / name)
    (tmp_path / name).write_bytes(b"\xff\xfe1\x00,")
    with pytest.raises(ValueError, match=r"cannot be read as|`paths` must end in .csv, .*got x.xlsx"):
        read_draws(tmp_path / name)


def test_formats_that_need_a_package_name_what_installs_it(tmp_path, monkeypatch):
    for suffix, package, extra in ((".parquet", "pyarrow", "parquet"), (".nc", "xarray", "arviz")):
        path = tmp_path / f"draws{suffix}"
        path.touch()
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=rf"steincheck\[{extra}\]"):
            read_draws(path)
