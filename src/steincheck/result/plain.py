"""Values as plain text and plain Python: for printing and for JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

import numpy as np


class Record:
    """What frozen dataclasses share: their mappings are read-only, they pickle, and they become JSON."""

    def __post_init__(self) -> None:
        self.__setstate__(self.__dict__)

    def __getstate__(self) -> dict[str, Any]:
        """The fields; a read-only mapping does not pickle, a dictionary does."""
        return {name: dict(x) if isinstance(x, Mapping) else x for name, x in self.__dict__.items()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(
            {name: MappingProxyType(dict(x)) if isinstance(x, Mapping) else x for name, x in state.items()}
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain(dict(self.__dict__))

    def to_json(self) -> str:
        """JSON text; infinities and NaN become null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


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
    value = _as_mapping(value)
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


def _as_mapping(value: Any) -> Any:
    """The fields of a record by name; anything else as it is."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    return value._asdict() if hasattr(value, "_asdict") else value
