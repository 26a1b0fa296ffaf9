"""What 10^6 and 10^7 draws cost on 100 workers, on paper: ``python -m benchmarks.cost_model``.

The time per pair of draws is measured (benchmarks/results/table.json, `ksd_test` with blocks, n = 16,384);
the rest follows from the shapes of the arrays. No such run has been made. Result: results/cost_model.md.
"""

from __future__ import annotations

import json

from steincheck.stein.bootstrap import N_RANDOM_BLOCKS
from steincheck.stein.tiles import LARGE_TILE

from .table import RESULTS

WORKERS = 100
ELEMENTWISE = 20  # multiplications and additions per pair: phi, phi', phi'' and their combination
BASE_GIB = 0.35  # Python, NumPy, JAX and compiled programs, as measured


def seconds_per_pair(d: int) -> float:
    """CPU seconds per pair of draws of `ksd_test` with blocks."""
    records = json.loads((RESULTS / "table.json").read_text())["records"]
    record = next(r for r in records if (r["case"], r["n"], r["d"]) == ("ksd_test, blocks", 16_384, d))
    return float(record["cpu"] / (record["n"] ** 2 / 2))


def row(n: int, d: int) -> str:
    """One line of the table."""
    pairs = n * n / 2
    flops = pairs * (8 * d + ELEMENTWISE + 2)  # most pieces meet one block
    data = n * (2 * d * 4 + 8)  # draws and scores in float32, block in int64
    results = WORKERS * 4 * N_RANDOM_BLOCKS**2 * 8
    pieces = min(1024, n / LARGE_TILE) * LARGE_TILE * (2 * d * 4 + 12)
    hours = pairs * seconds_per_pair(d) / 3600
    memory = BASE_GIB + (data + pieces) / 2**30
    wall = hours * 3600 / WORKERS
    return (
        f"| {n:.0e} | {d} | {flops:.1e} | {hours:.1f} h | {wall:.0f} s | {data / 1e6:.0f} MB "
        f"| {results / 1e6:.0f} MB | {memory:.2f} GiB |"
    )


def main() -> None:
    names = ("n", "d", "flops", "CPU in all", "each worker", "sent to each", "sent back", "memory of each")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    lines += [row(n, d) for n in (10**6, 10**7) for d in (10, 50)]
    text = "\n".join(lines)
    (RESULTS / "cost_model.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
