"""The process that compute-sanitizer watches: one call of every case given, from its library.

In: a folder of libraries, "small" or "full", names of cases. Out: a line on standard output when a
case is done. The inputs are made on the CPU, so that the only kernels here are those of the cases.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.case import Array
from bench.cases import find
from bench.compiled import load

DONE = "done: "
# Random numbers are drawn once and repeated: what is looked for does not depend on them.
DRAWN = (1 << 20) - 3


def filled(array: Array, generator: torch.Generator) -> torch.Tensor:
    """An input, in little time however large."""
    count = math.prod(array.shape)
    if count <= DRAWN or array.fill == "causal":
        return array.make(generator)
    drawn = replace(array, shape=(DRAWN,)).make(generator)
    return drawn.repeat(-(-count // DRAWN))[:count].reshape(array.shape)


def run(folder: Path, case: str, small: bool) -> None:
    """One call of a case."""
    import tvm

    generator = torch.Generator().manual_seed(0)
    device = tvm.cuda()
    arguments: list[Any] = [
        tvm.runtime.from_dlpack(filled(array, generator)).copyto(device)
        for array in find(case).workload(small).arrays
    ]
    load(folder, case)(*arguments)
    device.sync()


def main(arguments: list[str]) -> int:
    """The program."""
    folder, size, *cases = arguments
    for case in cases:
        run(Path(folder), case, size == "small")
        print(f"{DONE}{case}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
