"""Views in place of the NumPy arrays that a function holds, for as long as JAX traces it.

JAX keeps one converted copy per NumPy array object for as long as a traced function holds it, whatever the
precision: a function that ran in float32 would be traced in float64 with float32 data, and the other way
round. Another object with the same memory has a copy of its own, so neither use meets the other.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np

MAX_HOLDERS = 1000  # functions and objects that are looked into
NUMERICAL_LIBRARIES = {"jax", "jaxlib", "numpy", "scipy"}  # hold no data of the user

_lock = threading.RLock()


@contextmanager
def stand_ins(function: Callable[..., Any]) -> Iterator[tuple[Callable[..., Any], list[np.ndarray]]]:
    """The function with views in place of its arrays, and these views; afterwards all is as it was.

    Closures, global variables, defaults, attributes of objects and arguments of partial functions are looked
    into. While it lasts other threads see the views too, which hold the same numbers.
    """
    with _lock:
        exchange = _Exchange()
        try:
            yield exchange.renewed(function), [view for _, view in exchange.views.values()]
        finally:
            for restore in reversed(exchange.restores):
                restore()


class _Exchange:
    """Arrays that have been found, the holders that have been looked into, and how to undo it all."""

    def __init__(self) -> None:
        self.views: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by the identity of the array
        self.seen: dict[int, Any] = {}
        self.restores: list[Callable[[], None]] = []

    def renewed(self, value: Any) -> Any:
        """The value with views in place of arrays; functions and objects in it are changed in place."""
        try:
            leaves, tree = jax.tree.flatten(value, is_leaf=lambda part: isinstance(part, functools.partial))
        except (TypeError, ValueError):  # a dictionary whose keys cannot be sorted
            return value
        new = [self._renewed_leaf(leaf) for leaf in leaves]
        same = all(one is other for one, other in zip(leaves, new, strict=True))
        return value if same else jax.tree.unflatten(tree, new)

    def _renewed_leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            if id(leaf) not in self.views:
                view = leaf.view()
                self.views[id(leaf)] = (leaf, view)
                self.views[id(view)] = (view, view)  # met again through another function
            return self.views[id(leaf)][1]
        if isinstance(leaf, functools.partial):
            parts = (leaf.func, leaf.args, leaf.keywords)
            func, args, keywords = (self.renewed(part) for part in parts)
            same = func is leaf.func and args is leaf.args and keywords is leaf.keywords
            return leaf if same else type(leaf)(func, *args, **keywords)
        self._look_into(leaf)
        return leaf

    def _look_into(self, holder: Any) -> None:
        if not (
            hasattr(holder, "__dict__") or hasattr(holder, "__wrapped__") or isinstance(holder, MethodType)
        ):
            return  # a number or a text
        if id(holder) in self.seen or len(self.seen) >= MAX_HOLDERS or isinstance(holder, type | ModuleType):
            return
        module = getattr(holder, "__module__", None)
        if isinstance(module, str) and module.partition(".")[0] in NUMERICAL_LIBRARIES:
            return
        self.seen[id(holder)] = holder
        if isinstance(holder, MethodType):
            self._look_into(holder.__self__)
            self._look_into(holder.__func__)
        elif isinstance(holder, FunctionType):
            self._look_into_function(holder)
        else:
            attributes = getattr(holder, "__dict__", None)
            if isinstance(attributes, dict):
                self._exchange_items(attributes, list(attributes))
                self._look_into(type(holder).__call__ if callable(holder) else None)
            self._look_into(getattr(holder, "__wrapped__", None))

    def _look_into_function(self, function: FunctionType) -> None:
        for cell in function.__closure__ or ():
            try:
                self._exchange_attribute(cell, "cell_contents")
            except ValueError:  # a variable without a value yet
                continue
        for name in ("__defaults__", "__kwdefaults__"):
            self._exchange_attribute(function, name)
        names = [name for name in _names(function.__code__) if name in function.__globals__]
        self._exchange_items(function.__globals__, names)

    def _exchange_attribute(self, holder: Any, name: str) -> None:
        value = getattr(holder, name)
        new = self.renewed(value)
        if new is not value:
            setattr(holder, name, new)
            self.restores.append(functools.partial(setattr, holder, name, value))

    def _exchange_items(self, namespace: MutableMapping[str, Any], names: Iterable[str]) -> None:
        for name in names:
            value = namespace[name]
            new = self.renewed(value)
            if new is not value:
                namespace[name] = new
                self.restores.append(functools.partial(namespace.__setitem__, name, value))


def _names(code: CodeType) -> set[str]:
    """Names of the global variables and attributes that a function and those inside it use."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)
