"""Do the tests notice when kernel/ or stages/ is broken? `python -m tests.outside.mutate`.

Each mutation breaks one decision in a copy of the project; the tests that are meant to notice run
on the copy, until one fails. What no test notices is listed: a survivor.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.outside.mutations import Mutation, mutations
from tests.outside.noticing import meant_to_notice

ROOT = Path(__file__).parents[2]
BROKEN = ("tvm_stitch/kernel", "tvm_stitch/stages")  # of which files are broken
# What their tests need; results and pictures of benchmarks are large and not needed.
COPIED = ("tvm_stitch", "tests", "bench", "pyproject.toml", "README.md")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "results", ".*_cache", "*.png")
NO_TESTS_COLLECTED = 5


@dataclass(frozen=True)
class Verdict:
    """What became of a mutation: killed, survived, or slow: stopped at the time limit."""

    mutation: Mutation
    kind: str
    seconds: float
    by: str = ""


class Copy:
    """A copy of the project in a folder of its own, of which one file at a time is broken."""

    def __init__(self, folder: Path, tests: Sequence[str] = ()) -> None:
        self.folder, self.tests = folder, tests
        self.running: subprocess.Popen[str] | None = None
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=LEFT_OUT)
            else:
                shutil.copy2(source, folder / name)

    def judge(self, mutation: Mutation, seconds: float) -> Verdict:
        """Break the copy, run the tests that are meant to notice, mend it."""
        file = self.folder / mutation.file
        text = file.read_text()
        file.write_text(mutation.apply(text))
        started = time.monotonic()
        try:
            code, output = self.run(self.tests or meant_to_notice(mutation.file), seconds)
        finally:
            file.write_text(text)
        took = time.monotonic() - started
        if code is None:
            return Verdict(mutation, "slow", took)
        if code == 0:
            return Verdict(mutation, "survived", took)
        return Verdict(mutation, "killed", took, _failed(output))

    def run(self, tests: Iterable[str], seconds: float) -> tuple[int | None, str]:
        """Pytest's exit code, None at the time limit, and its output."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line"]
        command += ["-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            self.running = process
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                self.stop()
                return None, process.communicate()[0]
        return process.returncode, output

    def stop(self) -> None:
        """End the tests that run, and the compilers that they have started."""
        if self.running is not None and self.running.poll() is None:
            os.killpg(self.running.pid, signal.SIGKILL)


def _failed(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0].split(maxsplit=1)[-1] if lines else "the tests do not start"


def found(pattern: str) -> list[Mutation]:
    """All mutations of the files of kernel/ and stages/ whose path contains a pattern."""
    within = (file for folder in BROKEN for file in (ROOT / folder).rglob("*.py"))
    files = sorted(file.relative_to(ROOT) for file in within)
    chosen = [file for file in files if pattern in str(file)]
    return [m for file in chosen for m in mutations(str(file), (ROOT / file).read_text())]


def judged(
    chosen: list[Mutation], jobs: int, seconds: float, deadline: float, tests: Sequence[str] = ()
) -> Iterable[Verdict]:
    """The verdicts, as they come; none for what the deadline left no time for."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        made = [Copy(Path(folder) / str(number), tests) for number in range(jobs)]
        copies: SimpleQueue[Copy] = SimpleQueue()
        for copy in made:
            copies.put(copy)

        def judge(mutation: Mutation) -> Verdict | None:
            left = deadline - time.monotonic()
            if left < seconds / 2:
                return None
            copy = copies.get()
            try:
                return copy.judge(mutation, seconds)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                yield from filter(None, pool.map(judge, chosen))
            except BaseException:  # interrupted: no test outlives this
                pool.shutdown(wait=False, cancel_futures=True)
                for copy in made:
                    copy.stop()
                raise


def unbroken(chosen: list[Mutation], seconds: float) -> str:
    """What fails without any mutation: then no verdict means anything."""
    tests = sorted({test for m in chosen for test in meant_to_notice(m.file)})
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        code, output = Copy(Path(folder) / "0").run(tests, 10 * seconds)
    return "" if code == 0 else output[-2000:]


def table(verdicts: list[Verdict], chosen: int, of: int) -> str:
    """The counts, by kind of mutation, and the survivors."""
    counts = Counter((v.mutation.kind, v.kind) for v in verdicts)
    lines = [f"{len(verdicts)} of {chosen} chosen mutations judged, of {of} there are", ""]
    lines += ["| mutation | killed | survived | slow |", "|---|---|---|---|"]
    for kind in sorted({v.mutation.kind for v in verdicts}):
        row = [str(counts[kind, verdict]) for verdict in ("killed", "survived", "slow")]
        lines.append(f"| {kind} | {' | '.join(row)} |")
    whole = [str(sum(v.kind == kind for v in verdicts)) for kind in ("killed", "survived", "slow")]
    lines.append(f"| together | {' | '.join(whole)} |")
    left = [f"- {v.mutation}" for v in verdicts if v.kind != "killed"]
    return "\n".join([*lines, "", *(["Not noticed:", "", *left] if left else [])])


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 if there are survivors, 2 if the tests fail unbroken."""
    parser = argparse.ArgumentParser(prog="python -m tests.outside.mutate", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what would be broken, run nothing")
    parser.add_argument("--file", default="", help="only files whose path contains this")
    parser.add_argument("--line", type=int, help="only mutations of this line")
    parser.add_argument("--kind", default="", help="only kinds that contain this: barrier, guard")
    parser.add_argument("--sample", type=int, help="so many, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time")
    parser.add_argument("--seconds", type=float, default=300, help="for one mutation's tests")
    parser.add_argument("--minutes", type=float, default=600, help="for all of them")
    parser.add_argument("--tests", nargs="+", default=[], help="only these, as pytest takes them")
    parser.add_argument("--trust", action="store_true", help="do not run the tests unbroken first")
    parser.add_argument("--report", type=Path, help="write the counts to this file")
    given = parser.parse_args(arguments)
    everything = found(given.file)
    chosen = [
        m
        for m in everything
        if given.kind in m.kind and (given.line is None or m.line == given.line)
    ]
    if given.sample is not None and given.sample < len(chosen):
        kept = set(random.Random(given.seed).sample(range(len(chosen)), given.sample))
        chosen = [m for number, m in enumerate(chosen) if number in kept]
    if given.list:
        print(*chosen, sep="\n")
        return 0
    failure = "" if given.trust else unbroken(chosen, given.seconds)
    if failure:
        print(f"the tests fail without any mutation:\n{failure}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    verdicts: list[Verdict] = []
    deadline = time.monotonic() + 60 * given.minutes
    for verdict in judged(chosen, given.jobs, given.seconds, deadline, given.tests):
        print(f"{verdict.kind:8} {verdict.seconds:4.0f} s  {verdict.mutation}  {verdict.by}")
        sys.stdout.flush()
        verdicts.append(verdict)
    text = table(verdicts, len(chosen), len(everything))
    print(text)
    if given.report is not None:
        given.report.write_text(text + "\n")
    return int(any(v.kind == "survived" for v in verdicts))


if __name__ == "__main__":
    sys.exit(main())
