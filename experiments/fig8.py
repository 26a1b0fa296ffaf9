"""Fig. 8: a Gaussian-Bernoulli RBM whose 2^d_h modes are the corners of a cube, two hidden units tilted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from steincheck import find_modes, models

from .drawing import Panel, power_figure, select
from .methods import ALL, CONSTANTS, Problem, evaluate, modes_of, sign_test
from .rows import Cell, Row, setting

TILTS = (0, 0.1, 0.2, 0.5, 1, 5)
HIDDEN = (5, 10, 20, 30, 40)
N, DIM, WIDTH, STEPS = 1000, 50, 6.0, 50
PAIRS = [(5, c) for c in TILTS] + [(h, c) for h in HIDDEN[1:] for c in (1, 5)]
CELLS = [([setting(hidden=h, tilt=c) for h, c in PAIRS], ALL)]
QUICK = {"hidden=20 tilt=1": ("KSD", "flux", "oracle")}
SETTINGS = CONSTANTS | {
    "n": N,
    "dim": DIM,
    "B": "6 times the first d_h columns of the identity",
    "n_steps": STEPS,
    "box": [-10, 10],
    "modes_of_the_perturbed_tests": "all that 500 uniform starts end at",
    "modes_of_the_flux_test": "find_modes with its walk to the neighbours, 64 at most",
}


@lru_cache
def problem(hidden: int) -> Problem:
    """The target with equal weights and its modes, or some of them."""
    target = models.gb_rbm(WIDTH * np.eye(DIM, hidden))
    some = modes_of(target, (-10, 10), max_modes=500)
    return Problem(target, some, STEPS, modes_of(target, (-10, 10), search=find_modes), formula=diagonal)


def diagonal(parameters: Any, x: Any) -> Any:
    """The model's log density for a B that is diagonal."""
    import jax.numpy as jnp

    B, b, c = parameters
    return one_logarithm(0.5 * jnp.diagonal(B) * x[: len(c)] + c, b, x)


def one_logarithm(a: Any, b: Any, x: Any) -> Any:
    """b'x - |x|^2/2 + sum_j log(2 cosh a_j) with one logarithm (the product under it is at most 2^d_h)."""
    import jax.numpy as jnp

    a = jnp.abs(a)
    return b @ x - 0.5 * (x @ x) + jnp.sum(a) + jnp.log(jnp.prod(1 + jnp.exp(-2 * a)))


def run(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one exact sample in which the first two hidden units are tilted by c0."""
    hidden = int(cell["hidden"])
    c = np.zeros(hidden)
    c[:2] = cell["tilt"]
    tilted = models.gb_rbm(WIDTH * np.eye(DIM, hidden), c=c)
    x, h = tilted.sample_with_labels(N, cell.rng("sample"))
    return evaluate(cell, methods, problem(hidden), x, lambda: sign_test(h))


def figure(rows: Sequence[Row]) -> Any:
    """Rejection rates against c0 and against the number of hidden units."""
    few = Panel(select(rows, hidden=5), "tilt", {"xlabel": r"$c_0$", "title": r"$d_h$ = 5"}, True)
    more = [
        Panel(select(rows, tilt=c), "hidden", {"xlabel": r"hidden units $d_h$", "title": f"$c_0$ = {c}"})
        for c in (5, 1)
    ]
    return power_figure((9.5, 3.1), few, *more)
