"""Mode searches in words: how they ended, what to know of their modes, and symmetries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..result.modes import Modes, ModeSearch, SignedPermutation

SEARCH_ENDS = {
    "complete": "no mode of weight above 1/1000 was new in the last round",
    "max_modes": "there are more modes than `max_modes`",
    "max_evaluations": "`max_evaluations` reached",
    "max_seconds": "`max_seconds` reached",
    "one round": "all starts were climbed from",
}
WHY_NO_MODE = {
    "raises": "the target raises {}",
    "not finite": "the density or its score is 0 or not finite at all starts; begin inside its support",
    "limit": "`{}` was reached before a local optimisation converged",
    "not converged": "no local optimisation converged",
    "improper": "the density does not fall off on a line through {}: it is improper, or its sign is reversed",
    "grows": "the density grows towards {}",
}


def no_mode_message(kind: str, detail: str = "") -> str:
    """Why a search found no mode."""
    return "no mode found: " + WHY_NO_MODE[kind].format(detail)


def search_sentence(search: ModeSearch | None, dim: int) -> str:
    """How thorough a search was, and what it could not have found."""
    if search is None:
        return "the modes were given"
    text = f"evaluated {search.n_evaluations:,} points; {search.message}"
    if dim >= 10:
        text += f". A mode much narrower than these in {dim} dimensions would not have been found"
    return text


def search_context(modes: Modes, names: Sequence[str]) -> tuple[str, ...]:
    """How the search went and which symmetries it found, as sentences of a verdict."""
    sentence = f"Mode search: {search_sentence(modes.search, modes.locations.shape[1])}."
    if not modes.symmetries:
        return (sentence,)
    symmetries = "; ".join(symmetry_words(symmetry, names) for symmetry in modes.symmetries)
    return (sentence, f"Symmetries of the density: {symmetries}.")


def early_end_warning(message: str) -> str:
    """What a search that reached a limit may have missed."""
    return f"the mode search ended early: {message}; modes may be missing"


def flat_tops_warning(flat: int, total: int) -> str:
    """What the width of modes without a Hessian is."""
    top = "modes have a flat or pointed top: their width is where the log density has dropped by 1/2"
    return f"{flat} of {total} {top}"


def growth_warning(place: str) -> str:
    """Where a climb went on far above all modes."""
    return f"the density is still growing at {place}, far above all modes: it may be unbounded"


def symmetry_words(g: SignedPermutation, names: Sequence[Any] | None = None) -> str:
    """A symmetry in words.

    Examples
    --------
    >>> from steincheck.result.modes import SignedPermutation
    >>> symmetry_words(SignedPermutation((2, 3, 0, 1), (1, 1, 1, 1)))
    'exchange of coordinates (0, 1) and (2, 3)'
    """
    label = [str(name) for name in (names or range(len(g.order)))]
    flips = [label[i] for i, sign in enumerate(g.sign) if sign < 0]
    signs = f"change of sign of {_group(flips)}"
    if g.kind == "change of sign":
        return signs
    words = f"permutation of coordinates {_group([label[i] for i in g.moved])}"
    if all(g.order[g.order[i]] == i for i in g.moved):
        first = [i for i in g.moved if i < g.order[i]]
        second = [label[g.order[i]] for i in first]
        words = f"exchange of coordinates {_group([label[i] for i in first])} and {_group(second)}"
    return f"{words}, with {signs}" if flips else words


def _group(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
