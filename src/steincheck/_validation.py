"""The door: numbers, counts and seeds become clean values, or there is one clear error."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Seed = int | np.random.SeedSequence
#: what `rng` may be
RandomSource = np.random.Generator | np.random.SeedSequence | int | None


def as_host(values: Any) -> Any:
    """A torch tensor as a NumPy array; everything else as it is."""
    if not callable(getattr(values, "detach", None)):
        return values
    tensor = values.detach().cpu()
    return (tensor.to_dense() if getattr(tensor, "is_sparse", False) else tensor).numpy()


def as_numbers(values: Any, name: str, rule: str = "real numbers", *, verb: str = "got") -> np.ndarray:
    """A float64 array; text, truth values, masked and complex values are refused."""
    try:
        array = np.asarray(as_host(values))
        if isinstance(values, bool) or array.dtype.kind not in "iuf" or np.ma.is_masked(values):
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"`{name}` must be {rule}, {verb} {_describe(values)}") from None


def as_stored(values: Any, name: str) -> np.ndarray:
    """As `as_numbers`, but a float64 array is taken as it is: for records, which copy nothing."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    return as_numbers(values, name, "an array of real numbers")


def as_whole(values: Any, name: str) -> np.ndarray:
    """Whole numbers as an array of int; one that is such an array is taken as it is."""
    if type(values) is np.ndarray and values.dtype == np.int64:
        return values
    numbers = as_numbers(values, name, "an array of whole numbers")
    if np.any(numbers != np.floor(numbers)) or not np.all(np.abs(numbers) < 2**63):
        raise ValueError(f"`{name}` must hold whole numbers, got {shown(values)}")
    return numbers.astype(np.int64)


def check_covariances(matrices: np.ndarray, subject: str) -> None:
    """Raise unless all matrices (M, d, d) are symmetric and positive definite, `subject` naming them.

    Symmetry is judged in the units of their diagonals.
    """
    for k, matrix in enumerate(matrices):
        smallest = np.linalg.eigvalsh(matrix)[0] if np.isfinite(matrix).all() else np.nan
        width = np.sqrt(np.abs(np.diag(matrix)))
        skew = np.abs(matrix - matrix.T) > 1e-6 * np.outer(width, width)  # 1e-7 in single precision
        if not smallest > 0 or skew.any():
            fault = " symmetric" if skew.any() else f": its smallest eigenvalue is {smallest:.3g}"
            raise ValueError(f"{subject} must be symmetric and positive definite, number {k} is not{fault}")


def check_shape(array: np.ndarray, shape: tuple[int, ...], name: str, words: str) -> None:
    """Raise unless the array of a record has this shape, `words` being what it holds."""
    if array.shape != shape:
        raise ValueError(f"`{name}` must hold {words}, shape {shape}, got shape {array.shape}")


def as_positive(values: Any, name: str) -> np.ndarray:
    """A number or a 1-d array of numbers as an array (K,), all positive and finite."""
    array = np.atleast_1d(as_numbers(values, name, "a number or a 1-d array of numbers"))
    if array.ndim != 1 or not len(array):
        raise ValueError(f"`{name}` must be a number or a non-empty 1-d array, got shape {np.shape(values)}")
    bad = ~(np.isfinite(array) & (array > 0))
    if bad.any():
        raise ValueError(f"`{name}` must be positive and finite, got {array[bad][:5].tolist()}")
    return array


def as_one_positive(value: Any, name: str) -> float:
    """One positive, finite number."""
    if np.ndim(value):
        raise ValueError(f"`{name}` must be one number, got shape {np.shape(value)}")
    number = float(as_numbers(value, name, "one number"))
    if not 0 < number < np.inf:
        raise ValueError(f"`{name}` must be positive and finite, got {shown(value)}")
    return number


def as_pairs(bounds: Any, dim: int, name: str = "bounds") -> np.ndarray:
    """Bounds (2, d) of one (low, high) pair or one per coordinate, with low < high; they may be infinite."""
    pairs = as_numbers(bounds, name, "(low, high) pairs of numbers")
    if pairs.shape not in ((2,), (dim, 2)):
        raise ValueError(f"`{name}` must be one (low, high) pair or {dim} of them, got shape {pairs.shape}")
    box = np.broadcast_to(pairs, (dim, 2)).T
    for k in np.flatnonzero(~(box[0] < box[1])):
        raise ValueError(f"`{name}` must have low < high, coordinate {k} has {box[:, k].tolist()}")
    return box


def as_count(value: Any, name: str, *, minimum: int = 1, maximum: int = 10**6) -> int:
    """An integer, at least `minimum` and at most `maximum`: more would never finish or exhaust memory."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < minimum:
        rule = "a positive integer" if minimum == 1 else f"an integer of at least {minimum}"
        raise ValueError(f"`{name}` must be {rule}, got {shown(value)}")
    if value > maximum:
        raise ValueError(f"`{name}` must be at most {maximum}, got {shown(value)}")
    return int(value)


def is_number(value: Any) -> bool:
    """Whether `value` is one real number; a bool is not."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_switch(value: Any, name: str, *, optional: bool = False) -> None:
    """Raise unless `value` is True or False, or None where it is `optional`."""
    if not (isinstance(value, (bool, np.bool_)) or (optional and value is None)):
        rule = "True, False or None" if optional else "True or False"
        raise TypeError(f"`{name}` must be {rule}, got {shown(value)}")


def require_kind(value: Any, kind: type, name: str) -> None:
    """Raise unless `value` is an object of this class."""
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be a {kind.__name__}, got {type(value).__name__}")


def check_names(names: Any, argument: str) -> None:
    """Raise unless `names` are different non-empty strings."""
    several = isinstance(names, Sequence | np.ndarray) and not isinstance(names, (str, bytes))
    if not several or not all(isinstance(name, str) and name for name in names):
        raise TypeError(f"`{argument}` must be a sequence of non-empty strings, got {shown(names)}")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"`{argument}` must differ, got {twice[0]!r} more than once")


def listed(items: Sequence[Any], most: int = 10) -> str:
    """The first of several things, for messages.

    Examples
    --------
    >>> listed(["mu", "tau", "sigma"], 2)
    'mu, tau, ...'
    """
    return ", ".join(str(item) for item in items[:most]) + (", ..." if len(items) > most else "")


def listed_rows(rows: ArrayLike) -> str:
    """The first of several rows, for messages.

    Examples
    --------
    >>> listed_rows([3, 7])
    'rows [3, 7] (counted from 0)'
    """
    return f"rows {np.asarray(rows)[:10].tolist()} (counted from 0)"


def shown(value: Any) -> str:
    """The value in a message: short, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # a hostile __repr__, or an integer of more than 4300 digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:70]}..."


def as_generator(rng: Any) -> np.random.Generator:
    """A Generator from an int, a Generator, a SeedSequence, which is left as it is, or None."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if isinstance(rng, np.random.SeedSequence):
        return np.random.default_rng(deepcopy(rng))
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(int(rng))
    raise TypeError(
        f"`rng` must be a non-negative int, a numpy Generator or SeedSequence, or None, got {shown(rng)}"
    )


def _describe(x: Any) -> str:
    """What was given instead of numbers."""
    if np.ma.is_masked(x):
        return f"an array with {np.ma.count_masked(x)} masked values"
    if isinstance(x, np.ndarray):
        return f"an array of dtype {x.dtype}"
    brief = isinstance(x, (str, bytes, list, tuple)) and len(repr(x)) < 40
    return "None" if x is None else f"a {type(x).__name__}" + (f" ({x!r})" if brief else "")


def check_fraction(value: Any, name: str) -> None:
    """Raise unless `value` is a level, or another number strictly between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:
        raise ValueError(f"`{name}` must lie strictly between 0 and 1, got {shown(value)}")


def seeded(rng: Any, *, spawn: bool = False) -> tuple[np.random.Generator, Seed]:
    """A Generator for `rng`, and what recreates it: the seed itself, or one drawn afresh when `rng` is None.

    A Generator is recorded by its seed sequence as it is now: doors use it for nothing but to spawn streams.
    A door that draws numbers itself does so from a stream that the user's Generator is asked to `spawn`. What
    is recorded never changes, however often it is used.

    Examples
    --------
    >>> generator, seed = seeded(None)
    >>> bool(generator.spawn(1)[0].random() == seeded(seed)[0].spawn(1)[0].random())
    True
    """
    if rng is None:
        rng = np.random.SeedSequence().generate_state(1)[0]
    generator = as_generator(rng)
    if isinstance(rng, np.random.Generator) and spawn:
        generator = rng.spawn(1)[0]
    if isinstance(rng, np.random.Generator | np.random.SeedSequence):
        sequence: Any = generator.bit_generator.seed_seq
        return generator, deepcopy(sequence)
    return generator, int(rng)


def integer_seed(rng: Any) -> int:
    """The seed itself, a new one, or one from a stream that a Generator spawns: always a number to write."""
    _, seed = seeded(rng, spawn=True)
    return int(as_generator(seed).integers(2**32)) if isinstance(seed, np.random.SeedSequence) else seed


def resample_warnings(count: int, name: str) -> list[str]:
    """A warning if the p-value can never be as small as 0.05."""
    if count >= 19:
        return []
    return [f"with `{name}` = {count} no p-value can be below {1 / (int(count) + 1):.3g}"]


def recorded(**arguments: Any) -> dict[str, Any]:
    """Arguments as a result records them, without those that are data or change no number.

    Arrays and lists are copied, as the user may change them later.
    """
    return {
        name: deepcopy(value) if isinstance(value, (list, tuple, np.ndarray)) else value
        for name, value in arguments.items()
        if name not in ("draws", "target", "log_density", "progress")
    }


def announce(texts: Sequence[str]) -> None:
    """Warn of each of `texts` once, at the line that called the public function which calls this."""
    for text in dict.fromkeys(texts):
        warnings.warn(text, stacklevel=3)


@contextmanager
def needs(user: str, package: str, extra: str) -> Iterator[None]:
    """Say what to install if an import of a package fails that only `user` needs."""
    try:
        yield
    except ImportError:
        raise ImportError(f"{user} needs {package}: pip install 'steincheck[{extra}]'") from None


@contextmanager
def without_user_warnings() -> Iterator[None]:
    """Hold back warnings of the kind that users are given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
