"""Fig. 4: ten t and ten banana-shaped distributions with wrong weights, in 50 and in fewer dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from steincheck import models

from .drawing import Panel, power_figure, select
from .methods import ALL, Problem, evaluate_mixture, modes_of
from .rows import Cell, Figure, Row, parts, setting

SIGMAS = (0, 0.2, 0.5, 1, 2, 5)
DIMS = (2, 10, 25, 50)
N, STEPS, CENTRES = 1000, 100, 2023


@lru_cache
def problem(dim: int) -> Problem:
    """The mixture and its modes."""
    target = models.t_banana_mixture(dim, rng=CENTRES)
    return Problem(target, modes_of(target, (-20, 20), 2000), STEPS)


def run(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one sample with its own wrong weights."""
    case = problem(int(cell["dim"]))
    if "grid" in parts(cell.setting):
        case = replace(case, theta=np.linspace(0.96, 1.04, 51))
    weights = np.exp(cell["sigma"] * cell.rng("weights").standard_normal(20))
    return evaluate_mixture(cell, methods, case, N, weights / weights.sum(), np.full(20, 1 / 20))


def draw(rows: Sequence[Row]) -> Any:
    """Rejection rates against sigma and against the dimension."""
    rows = [row for row in rows if "grid" not in row.setting]
    weights = {"xlabel": r"$\sigma_s$ of the log weights", "title": "d = 50"}
    dimensions = {"xlabel": "dimension d", "title": r"$\sigma_s$ = 1"}
    return power_figure(
        (7.5, 3.2),
        Panel(select(rows, dim=50), "sigma", weights, even=True),
        Panel(select(rows, sigma=1), "dim", dimensions),
    )


FIGURES = {
    "fig4": Figure(
        [
            ([setting(dim=50, sigma=s) for s in SIGMAS], ALL),
            ([setting(dim=d, sigma=1) for d in DIMS if d != 50], ALL),
            ([setting(dim=50, sigma=2, grid="narrow")], ("spKSD", "ospKSD")),
        ],
        {"dim=2 sigma=1": ("KSD", "KSDAgg", "FSSD", "oracle")},
        run,
        draw,
    )
}
