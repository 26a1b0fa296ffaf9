"""Warnings about how draws and models were read."""

from __future__ import annotations

from collections.abc import Sequence

from .._validation import listed


def doubtful_axes(name: str, n_chains: int, length: int, *, swapped: bool) -> str:
    """Chains and draws may be the other way round; `swapped` if correlations say so."""
    seen = "only draws of successive chains are" if swapped else "successive draws are not"
    return (
        f"`{name}` was read as {n_chains} chains of {length} draws, but {seen} correlated: if its axes are "
        "(draw, chain, ...), swap the first two"
    )


def parameters_as_coordinates(name: str, parameters: Sequence[str], gain: float) -> str:
    """Draws that were read as coordinates fit far better as values of the parameters."""
    return (
        f"`{name}` was read in the unconstrained coordinates of the target, but if it holds "
        f"{listed(parameters)} itself, the median log density is {gain:.3g} larger: give the parameters by "
        "name, or map them by `target.unconstrain` first"
    )


def single_precision(dtype: object) -> str:
    """A module of PyTorch has parameters of less than double precision."""
    return f"the parameters of `log_density` are {dtype}: precision is lost, module.double() keeps it"
