"""Figs. 7 and 8: Gaussian-Bernoulli Boltzmann machines, with noise on B, and with two hidden units tilted.

Fig. 7 is the standard benchmark, whose density has one dominant mode. In Fig. 8 the 2^d_h modes are the
corners of a cube.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from steincheck import find_modes, models

from .drawing import Panel, power_figure, select
from .methods import ALL, Problem, evaluate, modes_of, sign_test
from .rows import Cell, Figure, Row, setting, stream

NOISES = (0, 0.01, 0.02, 0.04, 0.06)
TILTS = (0, 0.1, 0.2, 0.5, 1, 5)
HIDDEN = (5, 10, 20, 30, 40)
PAIRS = [(5, c) for c in TILTS] + [(h, c) for h in HIDDEN[1:] for c in (1, 5)]
N, DIM, WIDTH, STEPS = 1000, 50, 6.0, 50


@lru_cache
def parameters() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B, b and c of the target of Fig. 7, space turned such that only the first rows of B are not zero.

    All tests look at distances and scores only, which turn with the space.
    """
    rng = stream("fig7", "target")
    B = rng.choice([-1.0, 1.0], size=(DIM, 5))
    b, c = rng.standard_normal(DIM), rng.standard_normal(5)
    turn, triangle = np.linalg.qr(B, mode="complete")
    return triangle, turn.T @ b, c


@lru_cache
def noisy_problem() -> Problem:
    """The target of Fig. 7 and its modes."""
    target = models.gb_rbm(*parameters())
    return Problem(target, modes_of(target, (-10, 10)), STEPS)


@lru_cache
def cube(hidden: int) -> Problem:
    """The target of Fig. 8 with equal weights and its modes, or some of them."""
    target = models.gb_rbm(WIDTH * np.eye(DIM, hidden))
    some = modes_of(target, (-10, 10), max_modes=500)
    return Problem(target, some, STEPS, modes_of(target, (-10, 10), search=find_modes))


def run_noise(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one exact sample of the RBM with noise on B."""
    B, b, c = parameters()
    noisy = B + cell["noise"] * cell.rng("noise").standard_normal(B.shape)
    x = models.gb_rbm(noisy, b, c).sample(N, cell.rng("sample"))
    return evaluate(cell, methods, noisy_problem(), x)


def run_tilt(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one exact sample in which the first two hidden units are tilted by c0."""
    hidden = int(cell["hidden"])
    c = np.zeros(hidden)
    c[:2] = cell["tilt"]
    tilted = models.gb_rbm(WIDTH * np.eye(DIM, hidden), c=c)
    x, h = tilted.sample_with_labels(N, cell.rng("sample"))
    return evaluate(cell, methods, cube(hidden), x, lambda: sign_test(h))


def draw_noises(rows: Sequence[Row]) -> Any:
    """Rejection rates."""
    labels = {"xlabel": r"standard deviation $\sigma$ of the noise on B"}
    return power_figure((5.5, 3.4), Panel(rows, "noise", labels))


def draw_tilts(rows: Sequence[Row]) -> Any:
    """Rejection rates against c0 and against the number of hidden units."""
    few = Panel(select(rows, hidden=5), "tilt", {"xlabel": r"$c_0$", "title": r"$d_h$ = 5"}, True)
    more = [
        Panel(select(rows, tilt=c), "hidden", {"xlabel": r"hidden units $d_h$", "title": f"$c_0$ = {c}"})
        for c in (5, 1)
    ]
    return power_figure((9.5, 3.1), few, *more)


FIGURES = {
    "fig7": Figure(
        [([setting(noise=s) for s in NOISES], tuple(m for m in ALL if m != "oracle"))],
        {"noise=0.06": ("KSD", "ospKSD")},
        run_noise,
        draw_noises,
    ),
    "fig8": Figure(
        [([setting(hidden=h, tilt=c) for h, c in PAIRS], ALL)],
        {"hidden=20 tilt=1": ("KSD", "flux", "oracle")},
        run_tilt,
        draw_tilts,
    ),
}
