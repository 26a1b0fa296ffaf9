"""The first `check` of a process, n = 1000, d = 10, five modes given: ``python -m benchmarks.first_call``.

CPU seconds of three processes: without stored programs, with those that the first has stored, and once more;
writes results/first_call.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from .table import ONE_THREAD, RESULTS

PROGRAM = """
import json, time
start = time.process_time()
import steincheck
imported = time.process_time()
from benchmarks.cases import check
call = check(1000, 10)
begin = time.process_time()
call()
first = time.process_time() - begin
steady = []
for _ in range(5):
    begin = time.process_time()
    call()
    steady.append(time.process_time() - begin)
print(json.dumps([imported - start, first, sorted(steady)[2]]))
"""


def main() -> None:
    names = ("process", "import", "first call", "further calls")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **ONE_THREAD, "JAX_COMPILATION_CACHE_DIR": folder}
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
        for name in ("nothing stored", "programs stored", "programs stored"):
            out = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", PROGRAM],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            times = json.loads(out.stdout)
            lines.append(f"| {name} | {' | '.join(f'{seconds:.2f}' for seconds in times)} |")
            print(lines[-1], flush=True)
    lines += ["", f"Load of the machine: {os.getloadavg()[0]:.1f}."]
    (RESULTS / "first_call.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
