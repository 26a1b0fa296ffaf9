"""Draws in containers of the packages that are installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np


def containers(draws: Callable[[], np.ndarray]) -> dict[str, Callable[[], Any]]:
    """Label -> maker of the draws in one container; the package is imported when it is asked for."""
    makers: dict[str, dict[str, Callable[[], Any]]] = {
        "pandas": {
            "pandas": lambda: _frame("pandas", draws()),
            "pandas, dates as index": lambda: _frame("pandas", draws()).set_index(
                np.arange(len(draws())).astype("datetime64[D]")
            ),
            "pandas, column of text": lambda: _frame("pandas", draws()).assign(c="z"),
            "pandas, missing value": lambda: _frame("pandas", draws()).mask(draws() > 1),
            "pandas, one column": lambda: _frame("pandas", draws())["a"],
        },
        "polars": {
            "polars": lambda: _frame("polars", draws()),
            "polars, lazy": lambda: _frame("polars", draws()).lazy(),
            "polars, null": lambda: _frame("polars", draws()).shift(1),
        },
        "xarray": {
            "xarray": lambda: _array(draws()),
            "xarray, dataset": lambda: _array(draws()).to_dataset(name="x"),
        },
        "torch": {
            "torch": lambda: _tensor(draws()),
            "torch, with gradient": lambda: _tensor(draws()).requires_grad_(),
            "torch, sparse": lambda: _tensor(draws()).to_sparse(),
        },
    }

    there = [pool for package, pool in makers.items() if find_spec(package)]
    return {label: make for pool in there for label, make in pool.items()}


def _frame(package: str, values: np.ndarray) -> Any:
    if package == "pandas":
        import pandas

        return pandas.DataFrame(values, columns=["a", "b"])
    import polars

    return polars.DataFrame({"a": values[:, 0], "b": values[:, 1]})


def _array(values: np.ndarray) -> Any:
    import xarray

    return xarray.DataArray(values[None], dims=("chain", "draw", "dim"))


def _tensor(values: np.ndarray) -> Any:
    import torch

    return torch.as_tensor(values)
