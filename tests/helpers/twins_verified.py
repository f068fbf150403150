"""Whether the module of a symbolic twin is right at sizes that only run time knows."""

import tvm
from check import H200
from twins import Twin

from tvm_stitch import Options
from tvm_stitch.reference import random_inputs, reference
from tvm_stitch.verify import compare, stitched_for_cpu


def verify(
    twin: Twin,
    *sizes: dict[str, int],
    orders: int = 2,
    options: Options | None = None,
) -> None:
    """One compiled module is right at all of these sizes."""
    verify_module(twin.symbolic, *sizes, orders=orders, options=options or twin.options)


def verify_module(
    module: tvm.IRModule,
    *sizes: dict[str, int],
    orders: int = 2,
    options: Options | None = None,
) -> None:
    """The same of a module that is no twin's."""
    stitched = stitched_for_cpu(module, H200, options)
    for each in sizes:
        arrays = random_inputs(module, 0, each)
        found = compare(module, stitched, H200, arrays, reference(module, arrays), orders)
        assert found.ok, f"{each}: {found}"
