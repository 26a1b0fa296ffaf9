"""The table of times: ``make bench`` measures what is missing, ``--smoke`` fails if a ratio halves.

Results: benchmarks/results/table.json (records), table.md and table.svg. Every case runs in a new process
with one thread; ratios compare CPU times of one process, or of processes started one after the other.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.rows import ROOT, replace_file, versions

from .peers import PEERS

RESULTS = Path(__file__).parent / "results"
SIZES = (250, 1000, 4000, 16_384, 65_536, 100_000)
DIMENSIONS = (1, 10, 50)
LARGEST = {  # n and dimensions of a case: beyond, it takes too long for a table
    "ksd_test, blocks": (100_000, DIMENSIONS),
    "ksd_test, multinomial": (16_384, DIMENSIONS),
    "ksdagg_test, blocks": (100_000, (10,)),
    "ksdagg_test, wild": (4000, (10,)),
    "spksd_test, 5 theta, blocks": (100_000, (10,)),
    "check, modes given": (100_000, (10,)),
    "flux_test": (100_000, (10,)),
    "moment_test": (100_000, (10,)),
}
MORE = (
    ("ksd_test, blocks", 16_384, 2),
    ("ksd_test, multinomial", 16_384, 2),
    ("ksd_test, blocks", 65_536, 2),
    ("check, modes given", 50_000, 10),
    ("flux_test", 1_000_000, 10),
    ("moment_test", 1_000_000, 10),
    *((f"spksd_test, theta = {k}", 1000, 10) for k in (5, 17, 51)),
    *((f"flux_test, modes = {k}", 4000, 10) for k in (5, 20, 80)),
    *((f"pksd_test, steps = {k}", 1000, 10) for k in (10, 100, 1000)),
)
SMOKE = (  # case, n, d, case that it is compared with, and how many times less CPU it needed when recorded
    ("ksd_test, blocks", 16_384, 10, "ksd_test, multinomial", 5.8),
    ("ksd_test, blocks", 16_384, 2, "ksd_test, multinomial", 8.4),
)
ONE_THREAD = {
    "NPROC": "1",  # threads of XLA's own pool, which the flags leave alone
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}


def grid() -> list[tuple[str, int, int]]:
    """All cases, small ones first."""
    ours = [(name, n, d) for n in SIZES for name, (most, dims) in LARGEST.items() if n <= most for d in dims]
    theirs = [(name, n, 10) for n in SIZES for name, (_, _, most) in PEERS.items() if n <= most]
    return sorted([*ours, *MORE, *theirs], key=lambda case: case[1])


def run(name: str, n: int, d: int) -> dict[str, Any] | str:
    """The record of a case, or why there is none."""
    out = subprocess.run(
        [sys.executable, "-m", "benchmarks.engine", name, str(n), str(d)],
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )
    if out.returncode == 0:
        return json.loads(out.stdout.splitlines()[-1])
    last = out.stderr.strip().splitlines()[-1]
    if name in PEERS and "Error: No module" in last:
        return f"{name}: skipped, {last}"
    raise RuntimeError(f"{name}, n = {n}, d = {d} failed: {last}")


def provenance() -> dict[str, str]:
    """Where and with what the records are made; every case runs the code of its moment."""
    git = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True)
    cpu_name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu_name = f"{names[0]}, {len(names)} cores" if names else cpu_name
    return {
        "commit": commit.stdout.strip(),
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {cpu_name}; one thread",
        "versions": ", ".join(map(" ".join, versions("steincheck", "jax", "numpy", "scipy").items())),
        "python": platform.python_version(),
    }


def slopes(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What CPU times grow with, n and others, and slopes of their logarithms between neighbouring values."""
    points: dict[str, list[tuple[float, float]]] = {}
    for r in records:
        case, _, value = r["case"].partition(" = ")
        if value:
            points.setdefault(f"{case}, n = {r['n']}", []).append((float(value), r["cpu"]))
            continue
        points.setdefault(f"{case}, d = {r['d']}, against n", []).append((r["n"], r["cpu"]))
        if case == "ksd_test, blocks":
            points.setdefault(f"{case}, n = {r['n']}, against d", []).append((r["d"], r["cpu"]))
    rows = []
    for name, pairs in points.items():
        if len(pairs) > 1:
            x, times = np.log(np.array(sorted(pairs))).T
            rows.append((name, ", ".join(f"{s:.1f}" for s in np.diff(times) / np.diff(x))))
    return rows


def markdown(content: dict[str, Any]) -> str:
    """The table in Markdown, with slopes and what was skipped."""
    records = content["records"]
    lines = [f"- {key}: {value}" for key, value in content["provenance"].items()]
    lines += [
        "",
        "CPU seconds in steady state and of the first call in a new process without stored programs; peak",
        "memory of the process; floors: CPU time over that of evaluating the kernel of n²/2 pairs once;",
        "load of the machine during the measurement.",
        "",
        "| case | n | d | CPU s | first call | wall s | GiB | floors | load |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in sorted(records, key=lambda r: (r["case"], r["d"], r["n"])):
        quadratic = r["case"].startswith(("ksd", "spksd"))
        floors = f"{r['cpu'] / r['floor_cpu']:.2f}" if quadratic and r["n"] >= 4000 else ""
        lines.append(
            f"| {r['case']} | {r['n']:,} | {r['d']} | {r['cpu']:.3f} | {r['first_cpu']:.2f} "
            f"| {r['seconds']:.3f} | {r['peak_gib']:.2f} | {floors} | {r['load']} |"
        )
    lines += [
        "",
        "| peer | n | d | our test | times less CPU | times less memory |",
        "|---|---|---|---|---|---|",
    ]
    ours = {(r["case"], r["n"], r["d"]): r for r in records}
    for r in (r for r in records if r["case"] in PEERS):
        name = PEERS[r["case"]][1]
        own = ours.get((name, r["n"], r["d"]))
        if own is not None:
            ratios = f"{r['cpu'] / own['cpu']:.1f} | {r['peak_gib'] / own['peak_gib']:.1f}"
            lines.append(f"| {r['case']} | {r['n']:,} | {r['d']} | {name} | {ratios} |")
    lines += ["", *(f"- {text}" for text in content["skipped"])]
    lines += ["", "| case | slopes of log CPU |", "|---|---|"]
    lines += [f"| {case} | {text} |" for case, text in slopes(records)]
    return "\n".join(lines) + "\n"


def draw(content: dict[str, Any]) -> None:
    """CPU time against n, d = 10."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "table", "font.size": 8, "svg.fonttype": "none"}):
        figure, axes = pyplot.subplots(figsize=(6, 4))
        records = [r for r in content["records"] if r["d"] == 10 and " = " not in r["case"]]
        for case in dict.fromkeys(r["case"] for r in records):
            points = sorted((r["n"], r["cpu"]) for r in records if r["case"] == case)
            axes.loglog(*zip(*points, strict=True), "o--" if case in PEERS else "o-", label=case, ms=3)
        floor = sorted({r["n"]: r["floor_cpu"] for r in records}.items())
        axes.loglog(*zip(*floor, strict=True), "k:", label="floor")
        axes.set(xlabel="number of draws", ylabel="CPU seconds", title="d = 10, one thread")
        axes.legend(fontsize=6)
        figure.savefig(RESULTS / "table.svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def smoke() -> int:
    """Measure a few ratios in processes one after the other; how many have halved."""
    halved = 0
    for name, n, d, other, recorded in SMOKE:
        fast, slow = (run(case, n, d) for case in (name, other))
        assert not isinstance(fast, str)
        assert not isinstance(slow, str)
        ratio = slow["cpu"] / fast["cpu"]
        verdict = "" if ratio > recorded / 2 else ": HALVED"
        halved += bool(verdict)
        print(
            f"{name}, n = {n}, d = {d}: {ratio:.1f} times less CPU than {other}, recorded {recorded}{verdict}"
        )
    return halved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a few ratios; fails if one has halved")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--largest", type=int, default=10**6, help="largest n")
    parser.add_argument("--only", default="", help="only cases whose name begins so")
    options = parser.parse_args()
    if options.smoke:
        sys.exit(smoke())
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "table.json"
    content = {"records": [], "skipped": []}
    if path.exists() and not options.fresh:
        content = json.loads(path.read_text())
    content["skipped"] = []
    done = {(r["case"], r["n"], r["d"]) for r in content["records"]}
    missing = set()  # peers that are not installed
    for case in grid():
        if case in done or case[0] in missing or case[1] > options.largest:
            continue
        if not case[0].startswith(options.only):
            continue
        found = run(*case)
        if isinstance(found, str):
            missing.add(case[0])
            content["skipped"].append(found)
            print(found, flush=True)
            continue
        content["provenance"] = provenance()
        content["records"].append({**found, "commit": content["provenance"]["commit"]})
        print(json.dumps(found), flush=True)
        replace_file(path, (json.dumps(content, indent=1) + "\n").encode())
        (RESULTS / "table.md").write_text(markdown(content))
    draw(content)
    (RESULTS / "table.md").write_text(markdown(content))


if __name__ == "__main__":
    main()
