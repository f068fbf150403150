"""How exact single functions are on a GPU: by default, with fast_math, and without fast maths.

`python -m bench.functions --output FOLDER` computes each function of a million random numbers by a
stitched kernel and compares with float64; it writes functions.json and functions.md. TVM compiles
CUDA with `--use_fast_math`, so the default's exponentials, logarithms, divisions, roots and tanh
are the hardware's; the way named "precise" compiles by nvcc without that flag.

Exit codes: 0 done; 2 no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from bench import check, environment, record
from bench.case import Array, Workload, as_list, make_inputs
from bench.importing import to_relax_by_shape

SHAPE = (1024, 1024)
NORMAL = Array(SHAPE, fill="normal", scale=3.0)
POSITIVE = Array(SHAPE, fill="uniform", scale=10.0, shift=1e-3)
FUNCTIONS: dict[str, tuple[Callable[..., Any], Array]] = {
    "exp": (torch.exp, NORMAL),
    "log": (torch.log, POSITIVE),
    "1 / x": (torch.reciprocal, POSITIVE),
    "sqrt": (torch.sqrt, POSITIVE),
    "rsqrt": (torch.rsqrt, POSITIVE),
    "tanh": (torch.tanh, NORMAL),
    "erf": (torch.erf, NORMAL),
    "sigmoid": (torch.sigmoid, NORMAL),
    "GELU": (F.gelu, NORMAL),
    "GELU by tanh": (lambda x: F.gelu(x, approximate="tanh"), NORMAL),
    "SiLU": (F.silu, NORMAL),
    "softmax": (lambda x: F.softmax(x, dim=-1), NORMAL),
    "layer norm": (lambda x: F.layer_norm(x, SHAPE[1:]), NORMAL),
}
# What TVM looks at when it compiles CUDA source.
PRECISE = {"TVM_CUDA_COMPILE_MODE": "nvcc", "TVM_CUDA_NVCC_NO_FAST_MATH": "1"}


@dataclass(frozen=True)
class Way:
    """One way to compile."""

    name: str
    fast_math: bool
    variables: dict[str, str]


WAYS = (Way("precise", False, PRECISE), Way("default", False, {}), Way("fast_math", True, {}))


@contextlib.contextmanager
def set_for_a_while(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables that are as before afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def measure(function: Callable[..., Any], array: Array, way: Way) -> float:
    """The largest error, relative to |reference| + RMS(reference)."""
    import tvm
    from tvm import relax

    import tvm_stitch

    workload = Workload(function, function, (array,))
    device = tvm.cuda()
    options = tvm_stitch.Options(fast_math=way.fast_math)
    with set_for_a_while(way.variables):
        executable = tvm_stitch.compile(to_relax_by_shape(workload), options=options)
        main = relax.VirtualMachine(executable, device)["main"]
    inputs = make_inputs(workload.arrays, "cuda")
    torch.cuda.synchronize()
    result = main(*map(tvm.runtime.from_dlpack, inputs))
    device.sync()
    outputs = [torch.from_dlpack(leaf) for leaf in as_list(list(result))]
    return check.error(workload, inputs, outputs)


def table(found: dict[str, Any]) -> list[str]:
    """One line a function."""
    errors = {(row["function"], row["way"]): row["error"] for row in found["rows"]}
    text = (
        "the largest error in float32 over a million random numbers (of deviation 3; for log, "
        "1 / x and roots between 0.001 and 10), relative to |reference| + RMS(reference)."
    )
    lines = record.heading("Errors of single functions", found, text)
    lines += [
        f"| function | {' | '.join(way.name for way in WAYS)} |",
        f"|---|{'---:|' * len(WAYS)}",
    ]
    for name in dict.fromkeys(row["function"] for row in found["rows"]):
        cells = [f"{errors[name, way.name]:.1e}" for way in WAYS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    p = argparse.ArgumentParser(
        "bench.functions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--output", type=Path, default=Path("functions"), metavar="FOLDER")
    options = p.parse_args(arguments)
    if (reason := environment.missing_for_measuring()) is not None:
        print(f"bench.functions: {reason}", file=sys.stderr)
        return 2
    found = record.begin("bench.functions", arguments)
    found["ways"] = [asdict(way) for way in WAYS]
    found["rows"] = []
    for name, (function, array) in FUNCTIONS.items():
        for way in WAYS:
            error = measure(function, array, way)
            found["rows"].append({"function": name, "way": way.name, "error": error})
            print(f"{name}, {way.name}: {error:.2e}", flush=True)
    record.save(found, table(found), options.output, "functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
