"""The mode table as rows of text, for printing and for pages."""

from __future__ import annotations

import numpy as np

from .modes import ModeTable


def mode_rows(table: ModeTable) -> list[tuple[str, str, str, str, str]]:
    """The modes as rows of text: number, draws, observed share, implied share, what that says."""
    rows = []
    for k, word in enumerate(table.words):
        observed = _share(table.observed[k], table.observed_interval[k])
        implied = _share(table.implied[k], table.implied_interval[k])
        words = f"missing, {word}" if table.n_draws[k] == 0 else word
        rows.append((str(k), str(table.n_draws[k]), observed, implied, words))
    return rows


def _share(share: float, interval: np.ndarray) -> str:
    if np.isnan(share):
        return "-"
    if np.isnan(interval[0]):
        return f"{share:.1%} (no interval)"
    return f"{share:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"
