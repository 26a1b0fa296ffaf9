"""The answer in one sentence, and misfits of the shape."""

from __future__ import annotations

from collections.abc import Sequence

from ..result import Finding, pvalue_text


def headline(
    fits: bool | None, alpha: float, pvalue: float, reasons: Sequence[str], *, smallest: bool = False
) -> str:
    """The answer in one sentence; `smallest` says that no smaller p-value was possible."""
    if fits is None:
        why = "; ".join(reasons)
        return f"Cannot tell whether the draws fit the density: {why}{'' if why.endswith('?') else '.'}"
    p = f"p {pvalue_text(pvalue, smallest=smallest)}"
    if fits:
        return f"No misfit found at level {alpha:g} ({p})."
    return f"The draws do not fit the density: misfit found at level {alpha:g} ({p})."


def shape_finding(pvalue: float, parameters: tuple[str, ...] = (), *, several: bool) -> Finding:
    """The shape is wrong in a way that no single moment shows; `parameters` are those in which it is most."""
    text = f"The shape of the distribution{' within modes' if several else ''} is wrong"
    if parameters:
        text += f", most visibly in {' and '.join(parameters)}"
    return Finding.without_size("shape", None, pvalue, text, parameters)


def unknown_misfit_finding(pvalue: float, *, several: bool) -> Finding:
    """Something is wrong, and without the moment test it cannot be said what."""
    text = (
        f"The draws{' within modes' if several else ''} differ from the density in location, spread or "
        "shape: there are too few of them to say in which"
    )
    return Finding.without_size("shape", None, pvalue, text)
