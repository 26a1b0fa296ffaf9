"""Calls of what looks at Markov chains."""

from __future__ import annotations

import numpy as np

import steincheck as sc

from . import values as v
from .arguments import Function, without
from .values import Kind, constants

N_DRAWS = 40  # of `values.draws`


def labels() -> np.ndarray:
    """The chain of each draw."""
    return np.repeat([0, 1], N_DRAWS // 2)


CHAIN = Kind(
    {
        "two": labels,
        "list": lambda: labels().tolist(),
        "uint8": lambda: labels().astype(np.uint8),
        "one": lambda: np.zeros(N_DRAWS, dtype=int),
        "unequal": lambda: np.repeat([0, 1], [30, 10]),
    },
    {
        "floats": lambda: labels().astype(float),
        "single draws": lambda: np.arange(N_DRAWS),
        "a single draw first": lambda: np.repeat([0, 1], [1, N_DRAWS - 1]),
    },
    {
        "from 1": lambda: labels() + 1,
        "descending": lambda: labels()[::-1],
        "negative": lambda: labels() - 1,
        "with a gap": lambda: 2 * labels(),
        "alternating": lambda: np.arange(N_DRAWS) % 2,
        "halves": lambda: labels() / 2,
        "NaN": lambda: np.where(labels() > 0, np.nan, 0.0),
        "inf": lambda: np.where(labels() > 0, np.inf, 0.0),
        "huge": lambda: labels() * 10**18,
        "2-d": lambda: labels().reshape(2, -1),
        "truth values": lambda: labels() > 0,
        "text": lambda: labels().astype(str),
        "empty": lambda: np.array([], dtype=int),
        "ragged": lambda: [[0], [0, 1]],
        **constants(*v.STRANGE, 3),
    },
)
CHAIN_OF_DRAWS = CHAIN._replace(bad={**CHAIN.bad, "too short": lambda: np.zeros(7, dtype=int)})
MAYBE_CHAIN = Kind({**CHAIN.sound, "None": lambda: None}, CHAIN.odd, without(CHAIN_OF_DRAWS.bad, "None"))
COLUMNS = Kind(
    {"array": v.draws, "list": lambda: v.draws().tolist(), "one column": lambda: v.draws(N_DRAWS, 1)},
    {
        "constant": lambda: np.ones((N_DRAWS, 2)),
        "one column constant": lambda: v.draws() * [1.0, 0.0],
        "wide": lambda: v.draws(N_DRAWS, 60),
        "tiny": lambda: 1e-200 * v.draws(),
        "large": lambda: 1e130 * v.draws(),
        "huge": lambda: 1e300 * v.draws(),
        "integers": lambda: np.arange(2 * N_DRAWS).reshape(-1, 2),
    },
    {
        "NaN": lambda: v.with_value(np.nan),
        "inf": lambda: v.with_value(np.inf),
        "0-d": lambda: np.array(1.0),
        "1-d": lambda: v.draws()[:, 0],
        "3-d": lambda: np.zeros((2, 20, 2)),
        "no columns": lambda: np.empty((N_DRAWS, 0)),
        "no rows": lambda: np.empty((0, 2)),
        "complex": lambda: 1j * v.draws(),
        "text": lambda: v.draws().astype(str),
        "ragged": lambda: [[1.0], [1.0, 2.0]],
        **constants(*v.STRANGE, 3),
    },
)
SERIES = COLUMNS._replace(
    sound={**COLUMNS.sound, "1-d": COLUMNS.bad["1-d"]},
    bad=without(COLUMNS.bad, "1-d"),
)
LOG_DENSITY = Kind(
    {
        "array": lambda: v.normal(v.draws()),
        "list": lambda: v.normal(v.draws()).tolist(),
        "None": lambda: None,
    },
    {"constant": lambda: np.zeros(N_DRAWS)},
    {
        "too short": lambda: v.normal(v.draws(7)),
        "2-d": v.draws,
        "NaN": lambda: np.full(N_DRAWS, np.nan),
        "text": lambda: v.draws()[:, 0].astype(str),
        **constants(*v.STRANGE[1:], 3),
    },
)


def chains() -> dict[str, Function]:
    """Dependence, autocorrelation times, blocks, diagnostics and agreement."""
    names = v.NAMES._replace(  # one name is right for one column
        odd={**without(v.NAMES.odd, "['', 'b']"), **constants(["a"])}, bad=without(v.NAMES.bad, "['a']")
    )
    return {
        "chains.looks_dependent": Function(
            sc.chains.looks_dependent,
            {"values": v.draws},
            {"values": COLUMNS, "log_density": LOG_DENSITY, "names": names},
        ),
        "chains.autocorrelation_time": Function(
            sc.chains.autocorrelation_time,
            {"h": v.draws},
            {"h": SERIES, "chain": MAYBE_CHAIN},
        ),
        "chains.convergence": Function(
            sc.chains.convergence,
            {"draws": v.draws, "chain": labels},
            {"draws": COLUMNS, "chain": MAYBE_CHAIN},
        ),
        "chains.agreement": Function(
            sc.chains.agreement,
            {"features": v.draws, "chain": labels, "rng": lambda: 0, "n_resamples": lambda: 19},
            {"features": COLUMNS, "chain": CHAIN_OF_DRAWS, "rng": v.RNG, "n_resamples": v.COUNT},
        ),
        "chains.cut_blocks": Function(
            sc.chains.cut_blocks,
            {"tau": lambda: 3.0, "chain": labels},
            {
                "tau": v.POSITIVE._replace(bad={**v.POSITIVE.bad, **constants(None)}),
                "chain": CHAIN,
                "max_blocks": v.COUNT,
                "min_blocks": v.COUNT,
                "cut_every": v.COUNT,
            },
        ),
    }
