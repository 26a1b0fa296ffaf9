"""Captions and notes of the report."""

from __future__ import annotations


class Captions:
    """Below the pictures."""

    errors = (
        "Errors of the draws, with 95 % intervals: of means in standard deviations of the density, of "
        "standard deviations as the log of the ratio (0.1 is about 10 % too wide); rough ones are hollow."
    )
    shares = "Share of the draws at each mode, and the share the density gives it, with 95 % intervals."


class PageNotes:
    """Below the tables."""

    errors = (
        "Errors of means are in standard deviations of the density, sds of the draws are divided by those of "
        "the density. In brackets: 95 % intervals. Rough: more than 0.05 sd or 5 % to either side."
    )
    shares = "In brackets: 95 % intervals, each for one mode alone."
    no_test = "No test was run."


def tests_note(alpha: float) -> str:
    """How the p-values are to be read."""
    return f"Adjusted p-values account for the number of tests (Holm's method); the level is {alpha:g}."


def meaning(fits: bool | None, n: int, dim: int) -> str:
    """What an answer about `n` draws is worth."""
    worth = "A small p-value is evidence against the fit."
    if fits:
        worth = "No misfit found does not prove a fit; what was not examined is listed below."
    return f"{n} draws of dimension {dim}. {worth}"


def first_of(shown: int, total: int, what: str) -> str:
    """That a table shows only some of its rows; nothing if it shows all."""
    return "" if total <= shown else f"The first {shown} of {total} {what}; the JSON has all."


def draws_caption(dim: int, drawn: int, n_modes: int) -> str:
    """What is in the picture of the draws, of which `drawn` coordinates are drawn."""
    what = "the modes" if n_modes > 1 else "the mode"
    if dim == 1:
        return f"The draws, the density and {what}."
    if dim == 2:
        return f"The draws and the density; numbers mark {what}."
    return (
        "The draws, and ellipses of 1 and 2 standard deviations of the density about its mean within "
        f"{what}, in the {drawn} coordinates that matter most."
    )
