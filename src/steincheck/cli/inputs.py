"""Files that a command line names: draws, modes, and where to write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .._files import check_output
from .._validation import listed
from ..draws import Draws, as_draws, read_draws, to_unconstrained
from ..target import Target


def load_modes(path: Path, target: Target) -> Any:
    """Modes from a file: locations (M, d) of one like those of draws, or all that JSON has of them."""
    if path.suffix.lower() != ".json":
        return to_unconstrained(read_draws(path), target, name="modes", minimum=1).values
    try:
        record = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(record, dict) or "locations" not in record:
        raise ValueError(f'{path} must hold an object with "locations", as steincheck modes --json writes it')
    names = record.get("names")
    if names and target.names and list(names) != list(target.names):
        raise ValueError(f"the modes of {path} are those of {names}, the target has {list(target.names)}")
    return (record["locations"], record["covariances"]) if "covariances" in record else record["locations"]


def take_column(draws: Draws, source: str, argument: str) -> tuple[np.ndarray, Draws]:
    """Numbers of a column of the draws or of a file, one per draw; and the draws without them."""
    names = draws.names or ()
    if source in names:
        kept = [name for name in names if name != source]
        return draws.values[:, names.index(source)], as_draws(draws, names=kept)
    if Path(source).exists():
        return np.squeeze(read_draws(source).values), draws
    raise ValueError(
        f"`{argument}` must be a file or a column of the draws ({listed(names)}), got {source!r}"
    )


def as_bounds(text: str) -> Any:
    """(low, high), or one such pair per coordinate, from "low,high;low,high"."""
    try:
        pairs = [tuple(map(float, pair.split(","))) for pair in text.split(";")]
    except ValueError:
        raise ValueError(f"--bounds must be LOW,HIGH or LOW,HIGH;LOW,HIGH;..., got {text!r}") from None
    return pairs[0] if len(pairs) == 1 else pairs


def check_outputs(*paths: Path | None, inputs: tuple[Any, ...] = ()) -> None:
    """Raise before the work starts, not after it; an output must not replace an input or another output."""
    files = [str(item) for item in inputs if item is not None]
    files += [name.rpartition(":")[0] for name in files if ":" in name]  # FILE.py:NAME
    taken = {os.path.realpath(name) for name in files}
    for path in paths:
        if path is not None:
            check_output(path)
            if os.path.realpath(path) in taken:
                raise ValueError(f"cannot write {path}: it is an input or another output of this command")
            taken.add(os.path.realpath(path))
