"""Values as plain text and plain Python: for printing and for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

import numpy as np


def freeze_mappings(record: Any, names: Sequence[str]) -> None:
    """Make these mappings of a frozen record read-only copies."""
    for name in names:
        object.__setattr__(record, name, MappingProxyType(dict(getattr(record, name))))


def picklable_state(record: Any, names: Sequence[str]) -> dict[str, Any]:
    """The fields of a record, these read-only mappings, which do not pickle, as dictionaries."""
    return record.__dict__ | {name: dict(getattr(record, name)) for name in names}


def seed_text(seed: int | np.random.SeedSequence) -> str:
    """The seed in one line, as Python reads it.

    Examples
    --------
    >>> seed_text(np.random.default_rng(5).spawn(2)[1].bit_generator.seed_seq)
    'SeedSequence(entropy=5, spawn_key=(1,))'
    """
    if not isinstance(seed, np.random.SeedSequence):
        return str(seed)
    given = {"spawn_key": seed.spawn_key, "n_children_spawned": seed.n_children_spawned}
    more = "".join(f", {name}={value}" for name, value in given.items() if value)
    return f"SeedSequence(entropy={seed.entropy}{more})"


def as_plain(value: Any) -> Any:
    """Turn arrays, NumPy scalars and records into lists, numbers and dictionaries; non-finite into None.

    Functions are written by name, kernels as they are printed.
    """
    if callable(value) or hasattr(value, "profile"):
        return getattr(value, "__name__", repr(value))
    if isinstance(value, np.random.SeedSequence):
        return seed_text(value)
    if hasattr(value, "to_dict"):
        return as_plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: as_plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return as_plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)
