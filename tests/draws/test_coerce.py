import functools
import inspect
import sys

import numpy as np
import pytest
from harness import ar1_chains, normal_log_density

import steincheck as sc
from steincheck.draws import Draws, as_draws, as_matrix, read_draws
from steincheck.draws.names import canonical_name, positions


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint8, np.float64])
def test_numbers_become_float64(dtype):
    draws = as_matrix(np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype), 2)
    assert draws.dtype == np.float64
    assert draws.shape == (3, 2)


def test_one_dimension_may_come_flat():
    assert as_matrix([1, 2, 3], 1).shape == (3, 1)


def test_draws_are_copied():
    x = np.zeros((3, 1))
    draws = as_matrix(x, 1)
    draws[0] = 1
    assert x[0] == 0


@pytest.mark.parametrize(
    ("x", "dim", "error", "message"),
    [
        (
            np.zeros(6),
            2,
            ValueError,
            r"`x` must have shape \(n, 2\), one point per row, got the 1-d shape \(6,\)",
        ),
        (
            np.zeros((5, 3)),
            2,
            ValueError,
            r"`x` must have shape \(n, 2\) as the target has dim = 2, got \(5, 3\)$",
        ),
        (np.zeros((2, 5)), 2, ValueError, "it looks transposed"),
        (np.zeros((4, 3, 2)), 2, ValueError, r"got \(4, 3, 2\)"),
        (np.zeros((1, 2)), 2, ValueError, "`x` must hold at least 2 draws, got 1"),
        (np.zeros((0, 2)), 2, ValueError, "at least 2 draws, got 0"),
        (
            [[0.0, 1.0], [np.nan, 0.0], [0.0, np.inf]],
            2,
            ValueError,
            r"2 of 3 draws contain NaN or infinity, rows \[1, 2\]",
        ),
        ("draws.csv", 1, TypeError, r"got a str \('draws.csv'\)"),
        (None, 1, TypeError, "got None"),
        ([[1, 2], [3]], 2, TypeError, "must be an array of real numbers"),
        (np.array([["a"]]), 1, TypeError, "dtype <U1"),
        (np.zeros((3, 1), dtype=complex), 1, TypeError, "dtype complex128"),
        ({"x": 1}, 1, TypeError, "got a dict"),
        (np.ma.masked_greater([[1.0], [2.0], [3.0]], 2.5), 1, TypeError, "an array with 1 masked value"),
    ],
)
def test_bad_draws(x, dim, error, message):
    with pytest.raises(error, match=message):
        as_matrix(x, dim)


DOORS = {
    "ksd": functools.partial(sc.ksd_test, n_resamples=99),
    "fssd": functools.partial(sc.fssd_test, n_resamples=99),
    "moments": functools.partial(sc.moment_test, modes=[[-3.0], [3.0]]),
    "flux": sc.flux_test,
    "check": functools.partial(sc.check, modes=[[-3.0], [3.0]]),
}


@pytest.mark.parametrize("name", DOORS)
def test_every_door_takes_a_seed_sequence_and_leaves_it_as_it_was(name):
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    draws = target.sample(120, 0)
    sequence = np.random.SeedSequence(7, spawn_key=(2,), pool_size=8)
    first = DOORS[name](draws, target, rng=sequence)
    assert sequence.n_children_spawned == 0
    assert DOORS[name](draws, target, rng=sequence).pvalue == first.pvalue


@pytest.mark.parametrize("name", [name for name in DOORS if name != "check"])
def test_what_a_result_records_of_a_generator_runs_it_again_and_again(name):
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    draws = target.sample(120, 0)
    generator = np.random.default_rng(5)
    generator.spawn(2)
    first = DOORS[name](draws, target, rng=generator)
    for _ in range(2):
        assert DOORS[name](draws, target, rng=first.settings["rng"]).pvalue == first.pvalue


def written(folder, text, name="draws.csv"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "0.5,1\n2,3\n",
        "a,b\n0.5,1\n2,3\n",
        "a;b\r\n0.5;1\r\n2;3\r\n",
        "# made by hand\n\n  a b\n0.5 1\n2   3\n",
        '\ufeff"a"\t"b"\n0.5\t1\n2\t3',
        ",a,b\n0,0.5,1\n1,2,3\n",
        ",0,1\n0,0.5,1\n1,2,3\n",
    ],
    ids=["plain", "header", "semicolons", "blanks", "tabs", "index", "unnamed frame, index"],
)
def test_text_files(tmp_path, text):
    assert read_draws(written(tmp_path, text), dim=2).values.tolist() == [[0.5, 1], [2, 3]]


def test_whole_numbers_are_draws_not_a_header(tmp_path):
    assert read_draws(written(tmp_path, "0,1\n4,7\n")).values.tolist() == [[0, 1], [4, 7]]


def test_named_columns_are_taken_in_the_order_of_the_target(tmp_path):
    path = written(tmp_path, "lp__,tau,mu\n9,1,2\n9,3,4\n")
    assert read_draws(path, dim=2, names=["mu", "tau"]).values.tolist() == [[2, 1], [4, 3]]
    with pytest.raises(
        ValueError,
        match=r"no column 'tua' \(did you mean tau\?\); its columns are tau, mu, the target's names mu, tua",
    ):
        read_draws(path, names=["mu", "tua"])
    with pytest.raises(ValueError, match="more than one column 'a'"):
        read_draws(written(tmp_path, "a,a\n1,2\n"), names=["a"])


def test_names_with_commas_and_the_header_of_a_column_without_a_name(tmp_path):
    path = written(tmp_path, '"th[1,1]","th[1,2]"\n1.5,2\n3,4\n')
    assert read_draws(path, names=["th[1,2]", "th[1,1]"]).values.tolist() == [[2, 1.5], [4, 3]]
    assert read_draws(written(tmp_path, "0\n1\n2\n")).values.tolist() == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n\n3\n", r"draws.csv, line 4: 1 values, but line 1 has 2"),
        ("1,2\n3,4,5\n", "line 2: 3 values, but line 1 has 2"),
        ("a,b\n1,2\n3,x\n", "line 3, column b: 'x' is not a number"),
        ("1,2\n3,\n", "line 2, column 2: the value is missing"),
        ("1.5,x\n3,4\n", "line 1: 'x' is not a number, but '1.5' is"),
        ("a,b\n", "holds no draws"),
        ("", "holds no draws"),
        (
            "i,a,b\n1,3.5,4\n2,4.5,5\n",
            r"has 3 columns \(i, a, b\), but the target has `dim` = 2.*numbers the rows",
        ),
    ],
)
def test_bad_text_files(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_draws(written(tmp_path, text), dim=2)


def test_array_files(tmp_path):
    x = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "one.npz", x=x)
    np.savez(tmp_path / "two.npz", x=x, weights=x[:, 0])
    for name, key in [("x.npy", None), ("one.npz", None), ("two.npz", "x")]:
        np.testing.assert_array_equal(read_draws(tmp_path / name, key=key), x)
    with pytest.raises(ValueError, match="holds several arrays; it holds x, weights: name one by `key`"):
        read_draws(tmp_path / "two.npz")
    with pytest.raises(ValueError, match=r"no array 'weight' \(did you mean weights\?\)"):
        read_draws(tmp_path / "two.npz", key="weight")
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
    with pytest.raises(ValueError, match=rf"{name} cannot be read as an array of numbers"):
        read_draws(tmp_path / name)


def test_unreadable_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_draws(tmp_path / "x.csv")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        read_draws(tmp_path)
    with pytest.raises(ValueError, match=r"`paths` must end in .csv, .*got x.xlsx"):
        read_draws(written(tmp_path, "", "x.xlsx"))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(ValueError, match="cannot be read"):
            read_draws(written(tmp_path, "rubbish", name))
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe1\x00,")
    with pytest.raises(ValueError, match="not a text file"):
        read_draws(tmp_path / "x.csv")


def test_a_header_in_a_comment_names_the_columns(tmp_path):
    path = tmp_path / "x.csv"
    np.savetxt(path, [[1.5, 2], [3, 4]], delimiter=",", header="tau,mu")
    assert read_draws(path, names=["mu", "tau"]).values.tolist() == [[2, 1.5], [4, 3]]
    assert read_draws(path).names == ("tau", "mu")
    np.savetxt(path.with_suffix(".txt"), [[1.5, 2], [3, 4]], header="tau mu")
    assert read_draws(path.with_suffix(".txt"), names=["mu", "tau"]).values.tolist() == [[2, 1.5], [4, 3]]
    np.savetxt(path, [[1.5, 2], [3, 4]], delimiter=",", header="made, today")
    assert read_draws(path, names=["mu", "tau"]).values.tolist() == [[1.5, 2], [3, 4]]
    np.savetxt(path, [[1.5, 2], [3, 4]], delimiter=",", header="tau,sigma")
    with pytest.raises(ValueError, match="no column 'mu'"):
        read_draws(path, names=["mu", "tau"])


@pytest.mark.parametrize("text", ["0\n1.5\n-2.5\n", "0,1\n0.5,1.5\n2.5,3.5\n"])
def test_a_first_draw_of_whole_numbers_is_kept_and_mentioned(tmp_path, text):
    draws = read_draws(written(tmp_path, text))
    assert len(draws) == 3
    assert draws.values[0].tolist() == list(range(draws.shape[1]))
    assert "was read as a draw" in draws.warnings[0]


def test_the_header_of_a_frame_without_names(tmp_path):
    assert read_draws(written(tmp_path, "0,1,2\n0.5,1.0,2.5\n2.5,3.0,1.5\n")).shape == (2, 3)
    assert read_draws(written(tmp_path, "0,1,2\n5,1,2\n2,3,1\n")).shape == (3, 3)


def test_text_columns_nobody_asked_for(tmp_path):
    path = written(tmp_path, "who,a,b\nann,1,2\nbob,3,4\n", "X.CSV")
    assert read_draws(path, names=["b", "a"]).values.tolist() == [[2, 1], [4, 3]]
    draws = read_draws(path, dim=2)
    assert draws.names == ("a", "b")
    assert "column 'who' holds text" in draws.warnings[0]
    with pytest.raises(ValueError, match=r"line 2, column who: 'ann' is not a number"):
        read_draws(path, names=["who", "a"])


@pytest.mark.parametrize("cell", ["1_5", "0x10", "1,5", "one", "--1"])
def test_cells_that_are_no_numbers(tmp_path, cell):
    with pytest.raises(ValueError, match="line 3"):
        read_draws(written(tmp_path, f"a;b\n1;2\n3;{cell}\n"), dim=2)


def test_text_is_read_exactly(tmp_path):
    x = np.random.default_rng(0).normal(size=(50, 3)) * 10.0 ** np.arange(-150, 151, 150)
    lines = [",".join(map(repr, row)) for row in x.tolist()]
    np.testing.assert_array_equal(read_draws(written(tmp_path, "\n".join(lines))).values, x)
    with pytest.raises(ValueError, match=r"must be finite: 1 of 2 draws contain NaN or infinity, rows \[1\]"):
        read_draws(written(tmp_path, "1,2\nnan,3\n"))


def test_several_files_are_chains(tmp_path):
    paths = [
        written(tmp_path, "a,b\n1,2\n3,4\n", "one.csv"),
        written(tmp_path, "b,a\n2,1\n4,3\n6,5\n", "two.csv"),
    ]
    draws = read_draws(paths, dim=2)
    assert draws.chain.tolist() == [0, 0, 1, 1, 1]
    assert draws.values.tolist() == [[1, 2], [3, 4], [1, 2], [3, 4], [5, 6]]
    np.save(tmp_path / "x.npy", np.zeros((3, 5, 2)))
    assert read_draws(tmp_path / "x.npy", dim=2).lengths.tolist() == [5, 5, 5]
    with pytest.raises(ValueError, match="`paths` must name at least one file"):
        read_draws([])
    with pytest.raises(ValueError, match="same coordinates"):
        read_draws([paths[0], written(tmp_path, "1,2,3\n4,5,6\n", "three.csv")])


def test_frames_in_text_files_are_sorted_by_chain_and_draw(tmp_path):
    path = written(tmp_path, ".chain,.iteration,x,lp__\n2,1,30,0\n1,2,20,0\n1,1,10,0\n2,2,40,0\n")
    draws = read_draws(path, dim=1)
    assert draws.values[:, 0].tolist() == [10, 20, 30, 40]
    assert draws.chain.tolist() == [0, 0, 1, 1]


def test_arrays_with_and_without_chains():
    x = np.random.default_rng(0).normal(size=(4, 25, 3))
    flat = as_draws(x.reshape(100, 3), 3)
    assert (flat.shape, flat.n_chains, flat.chain, str(flat)) == ((100, 3), 0, None, "100 draws")
    chains = as_draws(x, 3, names=["a", "b", "c"])
    np.testing.assert_array_equal(chains.values, x.reshape(100, 3))
    np.testing.assert_array_equal(chains.by_chain()[2], x[2])
    assert (chains.n_chains, chains.names, str(chains)) == (4, ("a", "b", "c"), "4 x 25 draws")
    assert as_draws(chains, 3).chain is chains.chain
    np.testing.assert_array_equal(np.asarray(chains), chains.values)
    assert chains.as_independent().chain is None
    assert flat.as_one_chain().n_chains == 1
    unequal = as_draws([x[0], x[1, :10], x[2].tolist()], 3)
    assert unequal.lengths.tolist() == [25, 10, 25]
    assert str(unequal) == "60 draws of 3 chains"
    objects = np.empty(2, dtype=object)
    objects[:] = [x[0], x[1, :10]]
    assert as_draws(objects, 3).lengths.tolist() == [25, 10]


def test_one_dimension():
    assert as_draws([1, 2, 3], 1).shape == (3, 1)
    assert as_draws(np.zeros((4, 25)), 1).n_chains == 4
    assert as_draws([np.zeros(5), np.zeros(7)], 1).lengths.tolist() == [5, 7]
    assert as_draws([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], 2).n_chains == 0


def test_named_draws_are_read_by_name_again():
    draws = Draws(np.array([[1.0, 2.0], [3.0, 4.0]]), None, ("a", "b"))
    assert as_draws(draws, names=["b", "a"]).values.tolist() == [[2, 1], [4, 3]]
    assert as_draws(draws, var_names="b").names == ("b",)
    with pytest.raises(ValueError, match=r"no variable 'c'; its columns are a, b"):
        as_draws(draws, var_names=["c"])
    with pytest.raises(ValueError, match="`var_names` selects by name, but `draws` has no names"):
        as_draws(np.zeros((3, 2)), var_names=["a"])


X = np.random.default_rng(0).normal(size=(6, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"values": X[0]}, ValueError, r"`values` must have shape \(n, d\), .*got shape \(2,\)"),
        ({"values": "x"}, TypeError, r"`values` must be an array of real numbers, got a str"),
        (
            {"chain": [0, 1, 0, 1, 0, 1]},
            ValueError,
            r"`chain` must be 0, 1, .* got 0 after 1 at row 2; inter",
        ),
        ({"chain": [0, 0, 0, 2, 2, 2]}, ValueError, r"`chain` must be 0, 1, .* got 2 after 0 at row 3"),
        ({"chain": [1, 1, 1, 2, 2, 2]}, ValueError, r"`chain` must be 0, 1, .* got 1 at row 0"),
        ({"chain": [0, 0, 1]}, ValueError, r"`chain` must hold the chain of each draw, shape \(6,\), got"),
        ({"chain": [0.5] * 6}, ValueError, r"`chain` must hold whole numbers, got \[0.5"),
        ({"chain": list("aaabbb")}, TypeError, r"`chain` must be an array of whole numbers"),
        ({"names": ["a"]}, ValueError, r"`names` must name all 2 columns, got \('a',\)"),
        ({"divergences": -1}, ValueError, r"`divergences` must be an integer of at least 0, got -1"),
    ],
)
def test_the_record_refuses_what_is_not_draws(arguments, error, message):
    with pytest.raises(error, match=message):
        Draws(**{"values": X, **arguments})


def test_the_record_copies_no_array_and_takes_lists():
    chain = np.repeat([0, 1], 3)
    draws = Draws(X, chain)
    assert draws.values is X
    assert draws.chain is chain
    lists = Draws(X.tolist(), chain.tolist(), ["a", "b"])
    assert lists.shape == (6, 2)
    assert lists.lengths.tolist() == [3, 3]
    assert lists.names == ("a", "b")
    assert Draws(X[:0], chain[:0]).n_chains == 0


@pytest.mark.parametrize(
    ("draws", "dim", "error", "message"),
    [
        (np.zeros((4, 1, 2)), 2, ValueError, r"at least 2 draws per chain, chain 0 of 4 has 1"),
        (np.zeros((4, 5, 3)), 2, ValueError, r"one column per coordinate, 2 as the target's dim, got 3"),
        (np.zeros((5, 3)), 2, ValueError, r"shape \(n, 2\) or \(chain, draw, 2\).*got \(5, 3\)"),
        (np.zeros((2, 3, 4, 5)), None, ValueError, r"got \(2, 3, 4, 5\)"),
        ([np.zeros((5, 2)), np.zeros((5, 3))], 2, ValueError, r"`draws\[1\]` must have shape \(n, 2\)"),
        ([[1, 2], [3]], 2, TypeError, "must be an array of real numbers"),
        ("draws.csv", 1, TypeError, r"got a str \('draws.csv'\)"),
        ({}, None, ValueError, "empty dict"),
        ({"a": []}, None, ValueError, r"`draws`\['a'\] must hold draws, got shape \(0,\)"),
        (np.zeros((2, 3, 0)), None, ValueError, "`draws` must have at least one coordinate"),
        (np.zeros((0, 5, 2)), 2, ValueError, "at least 2 draws, got 0"),
        ({"a": "text"}, None, TypeError, r"`draws`\['a'\] must be an array of real numbers"),
        ({"a": np.zeros(5), "b": np.zeros(7)}, None, ValueError, "same number of draws"),
        (
            {"a": np.zeros(5), "b": np.zeros(5)},
            1,
            ValueError,
            r"got 2 \(a, b\); select columns by the target's `names`, or by `var",
        ),
    ],
)
def test_bad_chains(draws, dim, error, message):
    with pytest.raises(error, match=message):
        as_draws(draws, dim)


def test_names_that_do_not_fit_the_columns():
    with pytest.raises(ValueError, match=r"`names` must name every column of `draws`, 3, got a, b"):
        as_draws(np.zeros((5, 3)), names=["a", "b"])


def test_values_that_are_not_finite_are_located():
    x = np.zeros((4, 25, 2))
    x[2, 17, 1] = np.nan
    x[3, 0, 0] = np.inf
    with pytest.raises(
        ValueError, match="2 of 100 draws contain NaN or infinity, chain 2, draw 17; chain 3, draw 0"
    ):
        as_draws(x, 2)


def test_swapped_chains_are_mentioned():
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(500, 4, 2))
    x = steps.copy()
    for t in range(1, 500):
        x[t] = 0.9 * x[t - 1] + steps[t]
    assert "only draws of successive chains are correlated" in as_draws(x, 2).warnings[0]
    assert "(draw, chain, ...), swap the first two" in as_draws(x, 2).warnings[0]
    assert as_draws(x, 2).axes_swapped
    assert as_draws(as_draws(x, 2), 2).axes_swapped
    assert as_draws(x.swapaxes(0, 1), 2).warnings == ()
    assert not as_draws(rng.normal(size=(500, 4, 2)), 2).axes_swapped
    (warning,) = as_draws(rng.normal(size=(500, 4, 2)), 2).warnings
    assert "read as 500 chains of 4 draws, but successive draws are not correlated" in warning
    assert as_draws(rng.normal(size=(4, 500, 2)), 2).warnings == ()
    many = x.swapaxes(0, 1).reshape(4 * 20, 25, 2)
    assert as_draws(many, 2).warnings == ()


def test_a_file_may_have_more_columns_than_are_selected(tmp_path):
    file = tmp_path / "three.csv"
    file.write_text("a,b,c\n1,2,3\n4,5,6\n")
    chosen = sc.read_draws(file, dim=2, var_names=["a", "c"])
    assert chosen.names == ("a", "c")
    np.testing.assert_array_equal(chosen.values, [[1, 3], [4, 6]])
    with pytest.raises(ValueError, match="must have one column per coordinate, 1 as the target's dim, got 2"):
        sc.read_draws(file, dim=1, var_names=["a", "c"])


def test_names_have_one_spelling():
    assert (
        canonical_name("theta.1.2")
        == canonical_name("theta[1, 2]")
        == canonical_name(("theta", 1, 2))
        == "theta[1,2]"
    )
    assert canonical_name("0.5") == "0.5"
    assert canonical_name("a.b") == "a.b"
    assert canonical_name("theta[Choate]") == "theta[Choate]"


def test_indices_from_1_match_those_from_0():
    assert positions(["th.1", "th.2", "th.3"], ["th[2]", "th[0]"], "x") == [2, 0]
    assert positions(["th[0]", "th[1]", "th[2]"], ["th[1]", "th[2]"], "x") == [1, 2]
    assert positions(["th[0]", "th[1]"], ["th[1]", "th[2]"], "x") == [0, 1]
    assert positions(["B.1.1", "B.1.2", "mu"], ["mu", "B[0,1]"], "x") == [2, 1]
    with pytest.raises(
        ValueError, match=r"x has no column 'tau' \(did you mean tua\?\); its columns are tua, mu"
    ):
        positions(["tua", "mu"], ["mu", "tau"], "x")


def test_dicts_of_arrays_in_both_layouts():
    theta = np.random.default_rng(0).normal(size=(4, 50, 3))
    grouped = as_draws({"theta": theta, "mu": theta[..., 0]}, 4)
    assert grouped.n_chains == 4
    assert grouped.names == ("theta[0]", "theta[1]", "theta[2]", "mu")
    flat = as_draws({"theta": theta.reshape(200, 3)}, 3)
    assert flat.chain is None
    assert as_draws({"x": np.zeros((1000, 3))}).shape == (1000, 3)
    assert as_draws({"x": np.zeros((4, 1000))}).n_chains == 4
    matrix = as_draws({"L": np.zeros((10, 2, 2))}, 4)
    assert matrix.names == ("L[0,0]", "L[0,1]", "L[1,0]", "L[1,1]")


def test_formats_that_need_a_package_name_what_installs_it(tmp_path, monkeypatch):
    for suffix, package, extra in ((".parquet", "pyarrow", "parquet"), (".nc", "xarray", "arviz")):
        path = tmp_path / f"draws{suffix}"
        path.touch()
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=rf"steincheck\[{extra}\]"):
            read_draws(path)


def test_paths_must_be_names_of_files(tmp_path):
    with pytest.raises(ValueError, match="must not hold a null character"):
        read_draws("a\x00b.csv")


@pytest.mark.parametrize(("header", "names"), [("a,b", ("a", "b")), ("made by hand", None), ("a,b,c", None)])
def test_headers_of_savetxt_with_another_delimiter(tmp_path, header, names):
    np.savetxt(tmp_path / "x.csv", np.arange(6.0).reshape(3, 2), delimiter=";", header=header)
    draws = read_draws(tmp_path / "x.csv")
    assert draws.names == names
    assert draws.values.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_numbers_in_quotes_are_numbers(tmp_path):
    (tmp_path / "x.csv").write_text('a,b\n1,2\n"3","4"\n5,6\n')
    assert read_draws(tmp_path / "x.csv").values.tolist() == [[1, 2], [3, 4], [5, 6]]
    (tmp_path / "y.csv").write_text('a,b\n1,2\n"3,4"\n')
    with pytest.raises(ValueError, match="line 3: 1 values, but line 1 has 2"):
        read_draws(tmp_path / "y.csv")


def test_draws_without_chains_are_one_part_and_a_series_is_a_column():
    draws = as_draws(np.arange(5.0))
    assert draws.values.shape == (5, 1)
    (part,) = draws.by_chain()
    np.testing.assert_array_equal(part, draws.values)


@pytest.mark.parametrize("door", ["find_modes", "witness", "contributions"])
def test_searches_and_pictures_read_what_the_tests_read(door):
    """A positive parameter on its own scale, by name; its logarithm is the coordinate of the target."""
    target = sc.Target(
        normal_log_density,
        lambda u: -u,
        dim=2,
        names=["log tau", "mu"],
        constrained_names=["tau", "mu"],
        constrain=lambda u: np.column_stack([np.exp(u[:, 0]), u[:, 1]]),
        unconstrain=lambda x: np.column_stack([np.log(x[:, 0]), x[:, 1]]),
    )
    u = np.random.default_rng(0).normal(size=(40, 2))
    columns = {"mu": u[:, 1], "tau": np.exp(u[:, 0])}

    def outcome(draws):
        if door == "find_modes":
            return sc.find_modes(target, draws=draws, rng=0).locations
        return getattr(sc.plot, door)(draws, target, rng=0).collections[0].get_offsets()

    expected = outcome(u)
    for draws in (columns, sc.as_draws(columns), u.reshape(2, 20, 2), [u[:10], u[10:]]):
        np.testing.assert_allclose(outcome(draws), expected, rtol=1e-9, atol=1e-9)


def test_as_draws_shows_only_what_users_may_give():
    assert list(inspect.signature(sc.as_draws).parameters) == ["draws", "dim", "names", "var_names"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["theta[1]", "theta[2]"], [[10, 20], [11, 21]]),
        (["theta[0]", "theta[1]"], [[10, 20], [11, 21]]),
        (["theta.2", "theta.3"], [[20, 30], [21, 31]]),
    ],
)
def test_names_that_count_from_1_are_those_of_a_cmdstan_file(tmp_path, names, expected):
    text = "# stan_version_major = 2\nlp__,theta.1,theta.2,theta.3\n1,10,20,30\n2,11,21,31\n"
    (tmp_path / "s.csv").write_text(text)
    assert sc.read_draws(tmp_path / "s.csv", dim=2, names=names).values.tolist() == expected


def test_an_unknown_chain_is_named():
    with pytest.raises(
        ValueError, match=r"the column of the chains must have no NaN, rows \[1\] \(counted from 0\) do"
    ):
        sc.as_draws({"chain": np.array([0.0, np.nan, 1.0]), "mu": np.arange(3.0)})


@pytest.mark.parametrize(
    ("name", "text", "names", "expected"),
    [
        ("a.csv", "# tau,mu\n1,2\n3,4\n", ["mu", "tau"], [[2, 1], [4, 3]]),
        ("a.csv", "0\n0.5\n0.25\n", None, [[0], [0.5], [0.25]]),
        ("a.csv", "0,1\n0.5,0.1\n0.2,0.3\n", None, [[0, 1], [0.5, 0.1], [0.2, 0.3]]),
        ("a.CSV", "1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("a.csv", "a,note,b\n1,x,2\n3,y,4\n", ["a", "b"], [[1, 2], [3, 4]]),
    ],
)
def test_text_is_read_as_it_is_meant(tmp_path, name, text, names, expected):
    (tmp_path / name).write_text(text)
    assert sc.read_draws(tmp_path / name, names=names).values.tolist() == expected


@pytest.mark.parametrize("delimiter", [" ", ",", ";", "\t"])
@pytest.mark.parametrize("header", ["tau,mu", "tau, mu", "tau mu", "tau;mu", "tau\tmu", "tau,mu\nmade today"])
def test_a_header_of_savetxt_names_the_columns_whatever_separates_them(tmp_path, delimiter, header):
    np.savetxt(tmp_path / "h.csv", [[1.5, 2], [3, 4]], delimiter=delimiter, header=header)
    draws = sc.read_draws(tmp_path / "h.csv", names=["mu", "tau"])
    assert draws.values.tolist() == [[2, 1.5], [4, 3]]
    assert draws.warnings == ()


@pytest.mark.parametrize("header", ["tau,mu", "tau mu"])
def test_a_header_of_savetxt_names_the_parameters_of_a_model(tmp_path, header):
    """The command line reads draws of models before it knows which of their names are meant."""
    np.savetxt(tmp_path / "h.csv", [[1.5, 2], [3, 4]], header=header)
    assert sc.read_draws(tmp_path / "h.csv").names == ("tau", "mu")


@pytest.mark.parametrize("header", ["Tau,Mu", "tau,mu,lp", "alpha,beta", "tau = first, mu = second"])
@pytest.mark.parametrize("delimiter", [" ", ","])
def test_names_in_a_comment_that_do_not_fit_are_told(tmp_path, delimiter, header):
    np.savetxt(tmp_path / "h.csv", [[1.5, 2], [3, 4]], delimiter=delimiter, header=header)
    (warning,) = sc.read_draws(tmp_path / "h.csv", names=["mu", "tau"]).warnings
    assert "does not say which column is which of mu, tau: the columns are taken in the order" in warning
    assert sc.read_draws(tmp_path / "h.csv", names=["x", "y"]).values.tolist() == [[1.5, 2], [3, 4]]


def test_underscores_in_numbers_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("1_5,2\n3,4\n")
    with pytest.raises(ValueError, match="1_5"):
        sc.read_draws(tmp_path / "a.csv")


def test_files_of_other_habits_are_read_or_explained(tmp_path):
    def written(text, name="draws.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    for text in ("a|b\n1|2\n3|4\n", "sep=;\na;b\n1;2\n3;4\n", '"sep=,"\na,b\n1,2\n3,4\n'):
        draws = sc.read_draws(written(text))
        assert draws.names == ("a", "b")
        assert draws.values.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="'1D\\+00' is a number in Fortran notation: write E instead of D"):
        sc.read_draws(written("1D+00,2D+00\n3D+00,4D+00\n"))
    with pytest.raises(ValueError, match="line 3, column a: '3D-01' is not a number \\(Fortran"):
        sc.read_draws(written("a,b\n1,2\n3D-01,4\n"))
    named = sc.read_draws(written("chain,a\nc2,1\nc1,2\nc2,3\nc1,4\n"))
    assert named.chain.tolist() == [0, 0, 1, 1]
    assert named.values.ravel().tolist() == [1, 3, 2, 4]
    assert named.warnings == ()
    np.savez(tmp_path / "empty.npz")
    with pytest.raises(ValueError, match=r"empty.npz holds no arrays$"):
        sc.read_draws(tmp_path / "empty.npz")


def test_an_empty_chain_is_named():
    with pytest.raises(ValueError, match="chain 1 of 2 has none"):
        sc.as_draws([np.random.default_rng(0).normal(size=(50, 2)), np.empty((0, 2))])


def test_truth_values_are_no_draws():
    with pytest.raises(TypeError, match=r"`draws` must be .* got an array of dtype bool"):
        sc.as_draws(np.ones((50, 2), dtype=bool))


@pytest.mark.parametrize(
    ("walkers", "steps", "correlation"), [(32, 60, 0.95), (100, 40, 0.95), (4, 500, 0.9)]
)
def test_steps_before_chains_are_told_by_the_correlations(walkers, steps, correlation):
    """As emcee's chains are; the right way round nothing is suspected."""
    for seed in range(8):
        r = np.random.default_rng([6, seed])
        x = ar1_chains(r, walkers, steps, 2, correlation)
        assert sc.as_draws(x.swapaxes(0, 1)).axes_swapped
        assert not sc.as_draws(x).axes_swapped
        independent = r.normal(size=(steps, walkers, 2))
        assert not sc.as_draws(independent).axes_swapped


def test_swapped_axes_of_a_dict_are_told_as_those_of_an_array():
    x = ar1_chains(np.random.default_rng(3), 4, 300, 2, 0.9)
    swapped = x.swapaxes(0, 1)
    as_array = as_draws(swapped)
    as_dict = as_draws({"mu": swapped[..., 0], "tau": swapped[..., 1]}, dim=2)
    assert as_array.axes_swapped
    assert as_dict.axes_swapped
    assert as_array.warnings == as_dict.warnings
    assert not as_draws({"mu": x[..., 0], "tau": x[..., 1]}, dim=2).axes_swapped


def test_chains_of_unequal_lengths_in_a_dict():
    chain = np.repeat([0, 1], [100, 201])
    draws = as_draws({"chain": chain, "mu": np.arange(301.0), "tau": np.ones(301)})
    assert draws.names == ("mu", "tau")
    np.testing.assert_array_equal(draws.chain, chain)
