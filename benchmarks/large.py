"""100,000 draws in ten dimensions: peak memory, and CPU time from the part that was done before an interrupt.

``python -m benchmarks.large [seconds]`` runs three tests, each in a new process and interrupted after so many
seconds, and writes results/large.md. Memory no longer grows once tiles stream by; the CPU time of all
tiles is that of the part done, divided by its share.
"""

from __future__ import annotations

import _thread
import json
import os
import resource
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from typing import Any

from .cases import OURS
from .table import ONE_THREAD, RESULTS

N = 100_000
DIMENSION = 10
CASES = ("ksd_test, blocks", "ksdagg_test, blocks", "spksd_test, 5 theta, blocks")


def measure(case: str, seconds: float) -> dict[str, Any]:
    """Run until the end or the interrupt."""
    from steincheck.stein import blocks

    progress = {"done": 0, "total": 1, "start": 0.0}

    @contextmanager
    def ticking(_text: str, total: int, *, shown: bool) -> Any:
        progress.update(total=total, start=time.process_time(), done=0)

        def tick() -> None:
            progress["done"] += 1

        yield tick

    blocks.ticking = ticking  # type: ignore[assignment]
    call = OURS[case](N, DIMENSION)
    start = time.process_time()
    timer = threading.Timer(seconds, _thread.interrupt_main)
    timer.start()
    with suppress(KeyboardInterrupt):
        call()
    timer.cancel()
    share = progress["done"] / progress["total"]
    before = progress["start"] - start
    return {
        "case": case,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "share": share,
        "cpu": before + (time.process_time() - progress["start"]) / max(share, 1e-9),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    warnings.simplefilter("ignore")
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    if len(sys.argv) > 2:
        print(json.dumps(measure(sys.argv[2], seconds)))
        return
    lines = [
        "| test, n = 100,000, d = 10 | peak GiB | tiles done | CPU s of the whole | load |",
        "|---|---|---|---|---|",
    ]
    for case in CASES:
        command = [sys.executable, "-m", "benchmarks.large", str(seconds), case]
        out = subprocess.run(
            command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=True
        )
        r = json.loads(out.stdout)
        lines.append(
            f"| {case} | {r['peak_gib']:.2f} | {r['share']:.1%} | {r['cpu']:.0f} | {r['load']:.1f} |"
        )
        (RESULTS / "large.md").write_text("\n".join(lines) + "\n")
        print(lines[-1], flush=True)


if __name__ == "__main__":
    main()
