"""Every sub-graph under NVIDIA's compute-sanitizer: stray accesses, races, barriers out of step.

`python -m bench.sanitize --output FOLDER` compiles the cases in parallel, calls each once under
memcheck, racecheck and synccheck, and writes sanitize.json and sanitize.md. Many cases share a
process; only where a tool finds something, or the process ends early, are they run one by one to
find out which it was. `--size full` runs the kernels that the benchmarks time, `small` others of
the same graphs: tiny ones, whose rows do not divide by anything.

Exit codes: 0 nothing found; 1 something found; 2 wrong use, or no GPU or no compute-sanitizer.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import environment, record
from bench.compiled import Compiled, compile_cases
from bench.progress import Progress
from bench.sanitized import DONE

PROGRAM = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "synccheck")
OTHER_TOOLS = ("initcheck",)
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
LONGEST_DETAIL = 300
# Many processes of one GPU: each case of a shard that found something has one of its own.
LARGEST_SHARD = 24
SECONDS_A_SHARD, SECONDS_A_CASE = 240.0, 90.0


@dataclass(frozen=True)
class Finding:
    """One case under one tool; errors is None where the tool came to no conclusion."""

    case: str
    tool: str
    errors: int | None
    detail: str = ""


def command(tool: str, folder: Path, size: str, cases: list[str]) -> list[str]:
    """How a tool watches one call of each case."""
    program = [sys.executable, "-m", "bench.sanitized", str(folder), size, *cases]
    return [PROGRAM, "--tool", tool, "--print-limit", "20", *program]


def parse(text: str) -> tuple[int | None, str]:
    """Errors that a tool counted, and the first thing it said of them."""
    counts = [int(errors or hazards) for errors, hazards in SUMMARY.findall(text)]
    lines = [line.removeprefix("=========").strip() for line in text.splitlines()
             if line.startswith("=========")]  # fmt: skip
    told = [line for line in lines if line and "COMPUTE-SANITIZER" not in line]
    detail = " | ".join(line for line in told[:4] if not SUMMARY.search(line))
    return (sum(counts) if counts else None), detail[:LONGEST_DETAIL]


def watch(tool: str, folder: Path, size: str, cases: list[str]) -> list[Finding]:
    """Several cases under a tool, one by one where that is needed to tell them apart."""
    limit = SECONDS_A_SHARD if len(cases) > 1 else SECONDS_A_CASE
    try:
        done = subprocess.run(
            command(tool, folder, size, cases), capture_output=True, text=True, timeout=limit,
            cwd=Path(__file__).parent.parent,
        )  # fmt: skip
        errors, detail = parse(done.stdout + done.stderr)
        finished = {line.removeprefix(DONE) for line in done.stdout.splitlines()}
        if errors == 0 and finished.issuperset(cases):
            return [Finding(case, tool, 0) for case in cases]
        if not errors:
            # It found nothing, but the program did not get to the end either.
            last = (done.stderr + done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
            errors, detail = None, last[-1][:LONGEST_DETAIL]
    except subprocess.TimeoutExpired:
        errors, detail = None, f"took more than {limit:g} s"
    if len(cases) == 1:
        return [Finding(cases[0], tool, errors, detail)]
    return [finding for case in cases for finding in watch(tool, folder, size, [case])]


def shards(cases: list[str], count: int) -> list[list[str]]:
    """The cases in so many shares of equal size, neighbours in different ones; none too large."""
    count = min(len(cases), max(count, -(-len(cases) // LARGEST_SHARD)))
    return [cases[first::count] for first in range(count)]


def watch_all(
    tools: list[str], folder: Path, size: str, cases: list[str], jobs: int
) -> Iterator[list[Finding]]:
    """The findings of every tool on every case, share by share."""
    shares = shards(cases, max(1, jobs // len(tools)))
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(watch, tool, folder, size, share) for share in shares
                   for tool in tools]  # fmt: skip
        for future in waiting:
            yield future.result()


def table(found: dict[str, Any]) -> list[str]:
    """One line a case: kernels, and what each tool counted."""
    tools = found["tools"]
    findings = {(row["case"], row["tool"]): row for row in found["findings"]}
    text = (
        f"cases at {found['size']} size, one call of each; kernels in its CUDA source, errors "
        "by tool."
    )
    lines = record.heading("compute-sanitizer", found, text)
    lines += [f"| case | kernels | {' | '.join(tools)} |", f"|---|---:|{'---:|' * len(tools)}"]
    notes = []
    for row in found["cases"]:
        if row["error"]:
            lines.append(f"| {row['case']} | not compiled |{' – |' * len(tools)}")
            notes.append(f"- {row['case']}: {row['error']}")
            continue
        cells = []
        for tool in tools:
            finding = findings[row["case"], tool]
            cells.append("–" if finding["errors"] is None else str(finding["errors"]))
            if finding["detail"]:
                notes.append(f"- {row['case']}, {tool}: {finding['detail']}")
        lines.append(f"| {row['case']} | {row['kernels']} | {' | '.join(cells)} |")
    return [*lines, *([""] * bool(notes)), *notes]


def chosen_cases(patterns: list[str] | None) -> list[str]:
    """Names of the sub-graphs that match."""
    from bench.cases import suite

    return [
        case.name
        for case in suite("subgraphs")
        if any(fnmatch.fnmatch(n, p) for p in patterns or ["*"] for n in (case.name, case.group))
    ]


def missing() -> str | None:
    """Why nothing can be watched here, if so."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed: it comes with the CUDA toolkit"
    return environment.missing_for_measuring()


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    p = argparse.ArgumentParser(
        "bench.sanitize", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--output", type=Path, default=Path("sanitize"), metavar="FOLDER")
    p.add_argument("--cases", action="append", metavar="PATTERN", help="names or groups of cases")
    p.add_argument("--size", choices=("small", "full"), default="small")
    p.add_argument(
        "--tools", default=",".join(TOOLS), metavar="A,B,…",
        help=f"of {', '.join((*TOOLS, *OTHER_TOOLS))} (default: %(default)s)",
    )  # fmt: skip
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    return p


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(arguments)
    tools = options.tools.split(",")
    names = chosen_cases(options.cases)
    unknown = [tool for tool in tools if tool not in (*TOOLS, *OTHER_TOOLS)]
    reason = missing()
    if unknown or not names or reason:
        why = f"unknown tool {', '.join(unknown)}" if unknown else reason or "no case matches"
        print(f"bench.sanitize: {why}", file=sys.stderr)
        return 2
    start = time.monotonic()
    found = {
        **record.begin("bench.sanitize", arguments),
        "size": options.size,
        "tools": tools,
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        compiled = _compile(names, options.size == "small", folder, options.jobs)
        ready = [each.case for each in compiled if not each.error]
        findings = []
        for part in watch_all(tools, folder, options.size, ready, options.jobs):
            findings += part
            for finding in part:
                if finding.errors != 0:
                    print(f"{finding.case}, {finding.tool}: {finding.errors} {finding.detail}")
    found["cases"] = [asdict(each) for each in compiled]
    found["findings"] = [asdict(finding) for finding in findings]
    found["seconds"] = round(time.monotonic() - start, 1)
    record.save(found, table(found), options.output, "sanitize")
    clean = len(ready) == len(names) and all(finding.errors == 0 for finding in findings)
    print(f"{len(ready)} of {len(names)} cases, {', '.join(tools)}: "
          f"{'clean' if clean else 'NOT CLEAN'}, {found['seconds']:.0f} s")  # fmt: skip
    return 0 if clean else 1


def _compile(names: list[str], small: bool, folder: Path, jobs: int) -> list[Compiled]:
    """The cases in their order, compiled or not."""
    progress, done = Progress(len(names)), {}
    for each in compile_cases(names, small, folder, jobs):
        done[each.case] = each
        progress.case_done()
        progress.phase(f"compiled {each.case}")
        if each.error:
            progress.line(f"{each.case}: not compiled: {each.error}")
    progress.close()
    return [done[name] for name in names]


if __name__ == "__main__":
    sys.exit(main())
