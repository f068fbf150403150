"""Bytes that a call really moves in DRAM, read from the GPU's counters by Nsight Compute.

In: rows that have a time. Out: their dram_bytes. Every row takes a process of its own under
`ncu`, which is slow, so this happens only when asked for.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from pathlib import Path

from bench.progress import Progress
from bench.results import Results, Row

METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")


def missing() -> str | None:
    """Why the counters cannot be read, if so."""
    return None if shutil.which("ncu") else "Nsight Compute (ncu) is not installed"


def parse(text: str) -> float | None:
    """The sum of both counters over all kernels of ncu's CSV; None if it holds none."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return None
    rows = csv.DictReader(io.StringIO("\n".join(lines[start:])))
    values = [
        float(row["Metric Value"].replace(",", ""))
        for row in rows
        if row.get("Metric Name") in METRICS and row.get("Metric Value")
    ]
    return sum(values) if values else None


def command(row: Row, records: str | None) -> list[str]:
    """How ncu runs one call of the row's system on its case."""
    counters = ["--metrics", ",".join(METRICS), "--csv", "--print-units", "base"]
    program = [sys.executable, "-m", "bench.dram", row.case, row.system]
    return [
        *("ncu", *counters, "--profile-from-start", "off", "--target-processes", "all"),
        *program,
        *([records] if records else []),
    ]


def measure(
    results: Results, output: Path, records: str | None, time_limit_s: float, progress: Progress
) -> None:
    """Fill in the dram_bytes of every row that has a time and none yet."""
    for row in results.rows:
        if row.status != "ok" or row.dram_bytes is not None:
            continue
        progress.phase(f"{row.case}: {row.system}, counting DRAM bytes")
        try:
            done = subprocess.run(
                command(row, records), capture_output=True, text=True, timeout=time_limit_s,
                cwd=Path(__file__).parent.parent,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            progress.line(f"{row.case}, {row.system}: ncu took more than {time_limit_s:g} s")
            continue
        row.dram_bytes = parse(done.stdout)
        if row.dram_bytes is None:
            told = (done.stdout + done.stderr).strip().splitlines() or [f"exit {done.returncode}"]
            progress.line(f"{row.case}, {row.system}: ncu counted nothing: {told[-1][:200]}")
        results.save(output)


def one_call(case: str, system: str, records: str | None) -> None:
    """Prepare a case and make one call between the marks that ncu looks for."""
    import torch

    from bench.case import make_inputs
    from bench.cases import find
    from bench.systems import Gpu, all_systems
    from bench.worker import waiting_call, warm_up

    workload = find(case).workload()
    inputs = make_inputs(workload.arrays, "cuda")
    prepared = all_systems(records)[system].prepare(workload, inputs, Gpu())
    call = waiting_call(prepared)
    warm_up({system: call})
    torch.cuda.profiler.start()
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    one_call(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
