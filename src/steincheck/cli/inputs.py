"""Files that a command line names: draws, modes, and where to write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from .. import report as pages
from ..draws import Draws, read_draws, to_unconstrained
from ..target import Target


def load_draws(paths: list[Path], target: Target, key: str | None, minimum: int = 2) -> Draws:
    """Draws of files, one chain per file if there are several."""
    if target.unconstrain is not None:  # named parameters of a model, on their own scale
        return read_draws(paths, key=key, minimum=minimum)
    return read_draws(paths, dim=target.dim, names=target.names, key=key, minimum=minimum)


def load_modes(path: Path | None, target: Target) -> np.ndarray | None:
    """Mode locations (M, d) from a file."""
    if path is None:
        return None
    try:
        places = load_draws([path], target, None, minimum=1)
    except ValueError as error:
        text = str(error).replace("`paths` must end in", "--modes must end in")
        raise ValueError(text.replace("name one by `key`", "--modes takes a file with one")) from None
    return to_unconstrained(places, target, name="--modes", minimum=1).values


def as_bounds(text: str | None) -> Any:
    """(low, high), or one such pair per coordinate, from "low,high;low,high"."""
    if text is None:
        return None
    try:
        pairs = [tuple(map(float, pair.split(","))) for pair in text.split(";")]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError
    except ValueError:
        raise ValueError(f"--bounds must be LOW,HIGH or LOW,HIGH;LOW,HIGH;..., got {text!r}") from None
    return pairs[0] if len(pairs) == 1 else pairs


def check_writable(*paths: Path | None, inputs: tuple[Any, ...] = ()) -> None:
    """Raise before the work starts, not after it; an output must not replace an input or another output."""
    taken = {os.path.realpath(str(i).rpartition(":")[0] or str(i)) for i in inputs if i is not None}
    taken |= {os.path.realpath(i) for i in inputs if isinstance(i, Path)}
    for path in paths:
        if path is not None:
            pages.check_output(path)
            if os.path.realpath(path) in taken:
                raise ValueError(f"cannot write {path}: it is an input or another output of this command")
            taken.add(os.path.realpath(path))


def check_picture(path: Path | None) -> None:
    """Raise before the work starts if Matplotlib has no format of this suffix."""
    if path is None:
        return
    try:
        from matplotlib.backend_bases import FigureCanvasBase  # slow to import
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'steincheck[plot]'") from None
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in known:
        raise ValueError(f"cannot draw {path}: the suffix must be one of {', '.join(known)}")
