import numpy as np
import pytest

from steincheck._validation import as_generator
from steincheck.draws import as_matrix, read_draws


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint8, np.float64, bool])
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
            r"`x` must have shape \(n, 2\), got the 1-d shape \(6,\); one point is a row",
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
            r"2 of 3 draws hold NaN or infinity, rows \[1, 2\]",
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


def test_generators():
    assert as_generator(3).random() == np.random.default_rng(3).random()
    stream = np.random.default_rng(0)
    assert as_generator(stream) is stream
    assert as_generator(None).random() != as_generator(None).random()
    for bad in (-1, 1.5, "seed", True, np.random.RandomState):
        with pytest.raises(TypeError, match="`rng` must be a non-negative int"):
            as_generator(bad)


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
        ("i,a,b\n1,3.5,4\n2,4.5,5\n", r"has 3 columns \(i, a, b\), but the target has dim = 2.*counts rows"),
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
    with pytest.raises(ValueError, match=r"`key` names an array of an .npz file, x.npy holds one only"):
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
    with pytest.raises(ValueError, match=r"read from .csv, .*got x.xlsx"):
        read_draws(written(tmp_path, "", "x.xlsx"))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(ValueError, match="cannot be read"):
            read_draws(written(tmp_path, "rubbish", name))
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe1\x00,")
    with pytest.raises(ValueError, match="not a text file"):
        read_draws(tmp_path / "x.csv")
