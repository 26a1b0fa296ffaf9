"""Names of parameters: one spelling for theta.1, theta[1] and ('theta', 1), and which column is which."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from itertools import product
from typing import Any

from .._validation import listed

BRACKETS = re.compile(r"(.+?)\s*\[(.+)\]")
DOTS = re.compile(r"([^\W\d].*?)((?:\.\d+)+)")


def canonical_name(name: Any) -> str:
    """The name as ArviZ writes it.

    Examples
    --------
    >>> [canonical_name(name) for name in ("mu", "theta.1", "theta[1, 2]", ("theta", 1))]
    ['mu', 'theta[1]', 'theta[1,2]', 'theta[1]']
    """
    if isinstance(name, tuple):
        parts = [str(part) for part in name if str(part)]
        return canonical_name(parts[0] + (f"[{','.join(parts[1:])}]" if len(parts) > 1 else ""))
    text = str(name).strip()
    if match := BRACKETS.fullmatch(text):
        return f"{match[1]}[{','.join(part.strip() for part in match[2].split(','))}]"
    if match := DOTS.fullmatch(text):
        return f"{match[1]}[{match[2][1:].replace('.', ',')}]"
    return text


def variable_of(name: str) -> str:
    """The variable of a canonical name: "theta" of "theta[0]"."""
    return name.partition("[")[0]


def element_names(variable: str, axes: Sequence[int | Sequence[str]]) -> list[str]:
    """Names of the elements of an array in row-major order; an axis is its size or its labels.

    Examples
    --------
    >>> element_names("mu", ()), element_names("w", (2,)), element_names("L", (1, ["a", "b"]))
    (['mu'], ['w[0]', 'w[1]'], ['L[0,a]', 'L[0,b]'])
    """
    labels = [map(str, range(axis)) if isinstance(axis, int) else axis for axis in axes]
    indices = [",".join(index) for index in product(*labels)]
    return [f"{variable}[{index}]" if index else variable for index in indices]


def counted_from_0(label: str) -> str:
    """Stan's names count from 1, ArviZ's from 0.

    Examples
    --------
    >>> counted_from_0("theta.1.2"), counted_from_0("mu")
    ('theta[0,1]', 'mu')
    """
    return _shifted_name(canonical_name(label), -1)


def positions(columns: Sequence[str], wanted: Sequence[str], what: str) -> list[int]:
    """Where the `wanted` names are among the `columns`.

    Indices from 1 match those from 0, and labels match indices in their order.

    Raises
    ------
    ValueError
        If a name is missing: both lists and the nearest names are shown.
    """
    have = [canonical_name(column) for column in columns]
    want = [canonical_name(name) for name in wanted]
    known = set(have)
    for variable in dict.fromkeys(variable_of(name) for name in want if name not in known):
        have = _renamed_columns(have, want, variable)
    place = {name: k for k, name in enumerate(have)}
    missing = [given for given, name in zip(wanted, want, strict=True) if name not in place]
    if missing:
        raise ValueError(
            f"{what} has no column {missing[0]!r}{close_names(missing[0], columns)}; its columns are "
            f"{listed(columns)}, the target's names {listed(wanted)}"
        )
    return [place[name] for name in want]


def close_names(name: str, known: Sequence[str]) -> str:
    """Names close to a misspelt one, for messages."""
    close = difflib.get_close_matches(name, [str(other) for other in known], n=3)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def _renamed_columns(have: list[str], want: list[str], variable: str) -> list[str]:
    """`have` with the elements of one variable called as in `want`, if it is clear which is which."""
    own = [name for name in have if variable_of(name) == variable]
    new = [name for name in want if variable_of(name) == variable]
    for by in (-1, 1):
        shifted = {name: _shifted_name(name, by) for name in own}
        if set(new) <= set(shifted.values()):
            return [shifted.get(name, name) for name in have]
    if len(own) == len(new) and (None in map(_indices, own)) != (None in map(_indices, new)):
        pairs = dict(zip(_in_order(own), _in_order(new), strict=True))
        return [pairs.get(name, name) for name in have]
    return have


def _shifted_name(name: str, by: int) -> str:
    """A canonical name with `by` added to its indices; names without indices, or with labels, stay."""
    indices = _indices(name)
    if indices is None:
        return name
    return f"{variable_of(name)}[{','.join(str(index + by) for index in indices)}]"


def _indices(name: str) -> tuple[int, ...] | None:
    """The numbers that count an element; None of a name without indices or with labels."""
    parts = name.partition("[")[2][:-1].split(",")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else None


def _in_order(names: list[str]) -> list[str]:
    """Elements in row-major order: labels stand in it."""
    numbered = {name: indices for name in names if (indices := _indices(name)) is not None}
    return sorted(names, key=numbered.__getitem__) if len(numbered) == len(names) else names
