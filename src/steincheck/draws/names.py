"""Names of parameters: one spelling for theta.1, theta[1] and ('theta', 1), and which column is which."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
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


def reindexed(name: str, by: int) -> str:
    """A canonical name with `by` added to its indices; names without indices, or with words, stay."""
    match = BRACKETS.fullmatch(name)
    if match is None or not all(part.isdigit() for part in match[2].split(",")):
        return name
    return f"{match[1]}[{','.join(str(int(part) + by) for part in match[2].split(','))}]"


def positions(columns: Sequence[str], wanted: Sequence[str], what: str) -> list[int]:
    """Where the `wanted` names are among the `columns`; variables counted from 1 match those from 0.

    Raises
    ------
    ValueError
        If a name is missing or not unique: both lists and the nearest names are shown.
    """
    have = [canonical_name(column) for column in columns]
    want = [canonical_name(name) for name in wanted]
    for variable in {variable_of(name) for name in want if name not in have}:
        have = _recount(have, want, variable)
    missing = [given for given, name in zip(wanted, want, strict=True) if name not in have]
    if missing:
        raise ValueError(
            f"{what} has no column {missing[0]!r}{close_names(missing[0], columns)}; its columns are "
            f"{listed(columns)}, the target's names {listed(wanted)}"
        )
    twice = [given for given, name in zip(wanted, want, strict=True) if have.count(name) > 1]
    if twice:
        raise ValueError(f"{what} has more than one column {twice[0]!r}")
    return [have.index(name) for name in want]


def has_names(columns: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether every one of the `wanted` names is one of the `columns`."""
    try:
        positions(columns, wanted, "")
    except ValueError:
        return False
    return True


def _recount(have: list[str], want: list[str], variable: str) -> list[str]:
    """`have` with the indices of one variable counted from 0 instead of 1, or the reverse, if that helps."""
    own = [name for name in want if variable_of(name) == variable]
    for by in (-1, 1):
        counted = [reindexed(name, by) if variable_of(name) == variable else name for name in have]
        if all(name in counted for name in own):
            return counted
    return have


def close_names(name: str, known: Sequence[str]) -> str:
    """Names close to a misspelt one, for messages."""
    close = difflib.get_close_matches(name, [str(other) for other in known], n=3)
    return f" (did you mean {' or '.join(close)}?)" if close else ""
