"""Files that a command line names: draws, modes, and where to write."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._files import check_output
from ..draws import Draws, read_draws, to_unconstrained
from ..draws.names import positions
from ..result import Modes
from ..target import Target


def load_draws(paths: list[Path], target: Target, key: str | None, minimum: int = 2) -> Draws:
    """Draws of files, one chain per file if there are several."""
    if target.unconstrain is not None:  # named parameters of a model, on their own scale
        return read_draws(paths, key=key, minimum=minimum)
    return read_draws(paths, dim=target.dim, names=target.names, key=key, minimum=minimum)


def load_modes(path: Path | None, target: Target) -> Any:
    """Modes from a file: locations (M, d) of one like those of draws, or all that JSON has of them."""
    if path is None:
        return None
    if path.suffix.lower() == ".json":
        return _modes_of_json(path, target)
    places = load_draws([path], target, None, minimum=1)
    return to_unconstrained(places, target, name="modes", minimum=1).values


def _modes_of_json(path: Path, target: Target) -> Any:
    """Modes of what ``steincheck modes --json`` writes, or of as little as their locations.

    These are in the coordinates of the target; modes that a search found are put in the order of its names.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        record = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(record, dict) or "locations" not in record:
        raise ValueError(
            f'{path} must hold an object with "locations", and "covariances" if they are known, as '
            "steincheck modes --json writes it"
        )
    if "search" not in record:
        covariances = record.get("covariances")
        return record["locations"] if covariances is None else (record["locations"], covariances)
    try:
        modes = Modes.from_dict(record)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not modes.names or not target.names:
        return modes
    order = positions(modes.names, target.names, str(path))
    covariances = modes.covariances[:, order][:, :, order]
    return replace(
        modes, locations=modes.locations[:, order], covariances=covariances, names=tuple(target.names)
    )


def as_bounds(text: str | None, dim: int) -> Any:
    """(low, high), or one such pair for each of `dim` coordinates, from "low,high;low,high"."""
    if text is None:
        return None
    try:
        pairs = [tuple(map(float, pair.split(","))) for pair in text.split(";")]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError
    except ValueError:
        raise ValueError(f"--bounds must be LOW,HIGH or LOW,HIGH;LOW,HIGH;..., got {text!r}") from None
    if len(pairs) not in (1, dim):
        raise ValueError(f"--bounds must be one pair LOW,HIGH or {dim} of them, got {len(pairs)}")
    return pairs[0] if len(pairs) == 1 else pairs


def check_writable(*paths: Path | None, inputs: tuple[Any, ...] = ()) -> None:
    """Raise before the work starts, not after it; an output must not replace an input or another output."""
    taken = {os.path.realpath(str(i).rpartition(":")[0] or str(i)) for i in inputs if i is not None}
    taken |= {os.path.realpath(i) for i in inputs if isinstance(i, Path)}
    for path in paths:
        if path is not None:
            check_output(path)
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
