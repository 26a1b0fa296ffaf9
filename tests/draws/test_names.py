import pytest

from steincheck.draws.names import canonical_name, counted_from_0, positions


def test_names_have_one_spelling():
    for name in ("theta.1.2", "theta[1, 2]", ("theta", 1, 2)):
        assert canonical_name(name) == "theta[1,2]"
    assert canonical_name("0.5") == "0.5"
    assert canonical_name("a.b") == "a.b"
    assert canonical_name("theta[Choate]") == "theta[Choate]"
    assert counted_from_0("theta[Choate]") == "theta[Choate]"


@pytest.mark.parametrize(
    ("columns", "wanted", "expected"),
    [
        (["th.1", "th.2", "th.3"], ["th[2]", "th[0]"], [2, 0]),
        (["th[0]", "th[1]", "th[2]"], ["th[1]", "th[2]"], [1, 2]),
        (["th[0]", "th[1]"], ["th[1]", "th[2]"], [0, 1]),
        (["B.1.1", "B.1.2", "mu"], ["mu", "B[0,1]"], [2, 1]),
        (["th[b]", "th[a]"], ["th[a]", "th[b]"], [1, 0]),
        (["th[b]", "th[a]"], ["th[1]", "th[0]"], [1, 0]),
        (["th.2", "mu", "th.1"], ["th[x]", "th[y]"], [2, 0]),
        (["B.1.1", "B.2.1", "B.1.2", "B.2.2"], ["B[a,x]", "B[a,y]", "B[b,x]", "B[b,y]"], [0, 2, 1, 3]),
        (["mu"], ["mu[0]"], [0]),
    ],
)
def test_indices_and_labels_are_matched(columns, wanted, expected):
    assert positions(columns, wanted, "x") == expected


@pytest.mark.parametrize(
    ("columns", "wanted", "message"),
    [
        (["tua", "mu"], ["mu", "tau"], r"x has no column 'tau' \(did you mean tua\?\); its columns are tua"),
        (["th[a]", "th[b]"], ["th[b]", "th[c]"], r"no column 'th\[c\]'"),
        (["th[a]", "th[b]", "th[c]"], ["th[0]", "th[1]"], r"no column 'th\[0\]'"),
        (["th[4]", "th[5]"], ["th[0]", "th[1]"], r"no column 'th\[0\]'"),
    ],
)
def test_names_that_do_not_match_are_told(columns, wanted, message):
    with pytest.raises(ValueError, match=message):
        positions(columns, wanted, "x")
