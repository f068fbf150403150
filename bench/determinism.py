"""Does every case give the same bits every time? Ten calls of each at full size, on a GPU.

`python -m bench.determinism --output FOLDER` compiles the cases in parallel, calls each ten times
on the same inputs, at every second call with another stream's work beside it, so that blocks start
at other times in another order, and compares all outputs bit by bit. It writes determinism.json and
determinism.md.

Exit codes: 0 the same bits everywhere; 1 not so, or a case failed; 2 wrong use, or no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from bench import environment, record
from bench.case import as_list, make_inputs
from bench.cases import find
from bench.compiled import compile_cases, load
from bench.sanitize import chosen_cases

CALLS = 10
DISTURBANCE = 1 << 22  # elements that the other stream sorts


@dataclass(frozen=True)
class Repeated:
    """A case called again and again."""

    case: str
    outputs: int = 0
    bytes: int = 0
    differing: int = 0  # calls that did not give the first call's bits
    error: str = ""


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor: not-a-numbers equal each other there, zeros of other sign do not."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def repeat(
    case: str,
    call: Callable[[], list[torch.Tensor]],
    beside: Callable[[int], contextlib.AbstractContextManager[None]],
    calls: int = CALLS,
) -> Repeated:
    """Compare all calls with the first."""
    first = [bits(output).clone() for output in call()]
    differing = 0
    for number in range(1, calls):
        with beside(number):
            outputs = call()
        same = all(torch.equal(a, bits(b)) for a, b in zip(first, outputs, strict=True))
        differing += not same
    return Repeated(case, len(first), sum(output.numel() for output in first), differing)


class Disturbance:
    """Work on a stream of its own at every second call."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._noise = torch.rand(DISTURBANCE, device="cuda")

    @contextlib.contextmanager
    def __call__(self, number: int) -> Iterator[None]:
        """The number of a call; odd ones have company."""
        if number % 2:
            with torch.cuda.stream(self._stream):
                for _ in range(number):
                    self._noise.sort()
        yield
        torch.cuda.synchronize()


def run(case: str, folder: Path, disturbance: Disturbance) -> Repeated:
    """One compiled case."""
    import tvm

    inputs = make_inputs(find(case).workload().arrays, "cuda")
    torch.cuda.synchronize()
    main = load(folder, case)
    arguments = [tvm.runtime.from_dlpack(x) for x in inputs]

    def call() -> list[torch.Tensor]:
        result = main(*arguments)
        tvm.cuda().sync()
        leaves = [result] if hasattr(result, "__dlpack__") else list(result)
        return [torch.from_dlpack(leaf) for leaf in as_list(leaves)]

    return repeat(case, call, disturbance)


def table(found: dict[str, Any]) -> list[str]:
    """One line a case."""
    text = (
        f"{CALLS} calls on the same inputs, every second one beside the work of another stream; "
        "calls whose outputs differ from the first call's in any bit."
    )
    lines = record.heading("Determinism", found, text)
    lines += ["| case | outputs | MiB of output | differing calls |", "|---|---:|---:|---:|"]
    for row in found["rows"]:
        cells = [str(row["outputs"]), f"{row['bytes'] / 2**20:.1f}", str(row["differing"])]
        cells = cells if not row["error"] else ["–", "–", row["error"].replace("|", "/")]
        lines.append(f"| {row['case']} | {' | '.join(cells)} |")
    return lines


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    p = argparse.ArgumentParser(
        "bench.determinism",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--output", type=Path, default=Path("determinism"), metavar="FOLDER")
    p.add_argument("--cases", action="append", metavar="PATTERN", help="names or groups of cases")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    options = p.parse_args(arguments)
    names = chosen_cases(options.cases)
    if (reason := environment.missing_for_measuring()) or not names:
        print(f"bench.determinism: {reason or 'no case matches'}", file=sys.stderr)
        return 2
    found = record.begin("bench.determinism", arguments)
    rows = _rows(names, options.jobs)
    found["rows"] = [asdict(row) for row in rows]
    record.save(found, table(found), options.output, "determinism")
    wrong = [row for row in rows if row.error or row.differing]
    print(f"{len(rows)} cases, {CALLS} calls of each: "
          f"{'the same bits' if not wrong else f'{len(wrong)} differ or failed'}")  # fmt: skip
    return 1 if wrong else 0


def _rows(names: list[str], jobs: int) -> list[Repeated]:
    """Every case in its order, run as soon as it is compiled."""
    done: dict[str, Repeated] = {}
    disturbance = Disturbance()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for each in compile_cases(names, False, folder, jobs):
            row = Repeated(each.case, error=each.error)
            if not each.error:
                try:
                    row = run(each.case, folder, disturbance)
                except Exception as error:
                    row = Repeated(each.case, error=f"{type(error).__name__}: {error}"[:300])
            done[each.case] = row
            print(f"{row.case}: {row.error or f'{row.differing} differing calls'}", flush=True)
            gc.collect()
            torch.cuda.empty_cache()
    return [done[name] for name in names]


if __name__ == "__main__":
    sys.exit(main())
