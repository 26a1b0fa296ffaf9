"""`check` on chains of repelling-attracting Metropolis on the sensors, 2.1 million iterations at a time.

    python -m experiments.ram_study

The chains are those of Table 1: ten per scale of the proposal, from uniform starts, 20,000 iterations of
burn-in and 400,000 kept, here thinned to 1000 each. Six samples are no study of the level.
Writes experiments/results/ram_study.csv.
"""

from __future__ import annotations

import warnings

import numpy as np

import steincheck as sc

from .table1 import chains, problem
from .tables import RESULTS, Table, commit

SCALES = ("0.1", "0.5", "1.08")
CHAINS_AT_ONCE = 5
DRAWS = 1000  # per chain
KEPT_SCALE = "0.5"  # the first chains of this scale are committed, so that a test can repeat their row
KEPT_CHAINS = RESULTS / "ram_chains.npz"
ANSWERS = Table(
    RESULTS / "ram_study.csv",
    ("scale", "chains", "answer", "pvalue", "weights", "null", "changes", "kinds", "commit"),
    ("scale", "chains"),
)


def thinned(scale: str) -> np.ndarray:
    """The chains (10, 1000, 8) of one scale of the proposal, in single precision, as they are committed."""
    every = np.asarray(chains(scale))
    kept = np.linspace(0, every.shape[1], DRAWS + 1).astype(int)[1:] - 1
    return every[:, kept].astype(np.float32)


def answer(draws: np.ndarray, scale: str, first: int) -> dict[str, object]:
    """The row of one set of chains, of which `first` is the first."""
    case = problem()
    verdict = sc.check(draws, case.target, modes=case.modes, rng=first)
    weights = verdict.tests.get("weights")
    return {
        "scale": scale,
        "chains": f"{first} to {first + CHAINS_AT_ONCE - 1}",
        "answer": {True: "no misfit found", False: "misfit found", None: "cannot tell"}[verdict.fits],
        "pvalue": f"{verdict.pvalue:.3g}",
        "weights": "" if weights is None else f"{weights.pvalue:.3g}",
        "null": "" if weights is None else weights.variant,
        "changes": 0 if weights is None or weights.chains is None else weights.chains.n_changes,
        "kinds": " ".join(sorted({finding.kind for finding in verdict.findings})),
        "commit": commit(),
    }


def table() -> str:
    """The rows on disk as a table in Markdown: a line per scale, a column per set of chains."""
    rows = ANSWERS.read()
    sets = list(dict.fromkeys(row["chains"] for row in rows))
    head = " | ".join(f"chains {name}" for name in sets)
    lines = [f"| scale of the proposal | {head} |", "|---" * (1 + len(sets)) + "|"]
    for scale in SCALES:
        cells = [_cell(row) for row in rows if row["scale"] == scale]
        lines.append(f"| {scale} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: dict[str, str]) -> str:
    meaning = {"missing mode": ": a mode is missing", "chains": ": the chains disagree", "": ""}
    p = "" if row["answer"] == "cannot tell" else f", p = {row['pvalue']}"
    return f"{row['answer']}{p}{meaning[row['kinds']]} ({row['changes']} changes of mode)"


def main() -> None:
    """All scales."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scale in SCALES:
            every = thinned(scale)
            for first in range(0, len(every), CHAINS_AT_ONCE):
                draws = every[first : first + CHAINS_AT_ONCE]
                ANSWERS.merge([answer(draws, scale, first)])
                if (scale, first) == (KEPT_SCALE, 0):
                    np.savez_compressed(KEPT_CHAINS, draws=draws)


if __name__ == "__main__":
    main()
