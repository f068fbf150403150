"""How wide vector loads and stores are: 16 bytes of the narrowest tensor, where rows allow it.

In: a Program, the length of its rows. Out: elements of a vector, and whether vectors of a row must
be peeled to aligned addresses. Must not know threads.
"""

from __future__ import annotations

import tvm

from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import constant, element_bytes

# Shorter rows are not worth to look for their first aligned element: softmax of 32768 x 197 float32
# takes 15.8 us on an H200 in vectors, 15.0 without; of 20000 x 300 float16 9.6 and 9.2.
PEELED_COLUMNS = 320


def vectors_of_rows(program: Program, columns: int) -> tuple[int, bool]:
    """Vector width, and whether vectors must be peeled to aligned addresses."""
    vector = vector_width(program)
    space = program.space
    if not space.whole:
        run = constant(space.run) or 1
        while run % vector:
            vector //= 2
        return vector, False
    if is_aligned(program, vector):
        return vector, False
    exact = constant(space.columns)
    if exact is not None and columns < max(vector * WARP, PEELED_COLUMNS):
        while exact % vector:
            vector //= 2
        return vector, False
    return vector, True


@memoized
def is_aligned(program: Program, vector: int) -> bool:
    """Whether every row starts at a multiple of so many elements."""
    run = program.space.columns if program.space.whole else program.space.run
    modular, exact = tvm.sym.Analyzer().modular_set(run), constant(run)
    step, rest = (modular.coeff, modular.base) if exact is None else (0, exact)
    return step % vector == 0 and rest % vector == 0


def vector_width(program: Program) -> int:
    """Elements of 16 bytes of the narrowest tensor that is read or written element by element."""
    return ACCESS_BYTES // narrowest_item(program)


@memoized
def narrowest_item(program: Program) -> int:
    """Bytes of an element of that tensor, of which two are the least that a mapping minds."""
    sizes = [element_bytes(buffer) for buffer in program.outputs if program.is_full(buffer)]
    read = (read.buffer for _, read in program.reads_at(Where.SAME))
    sizes += [element_bytes(buffer) for buffer in read if buffer not in program.producer]
    return max(2, min(sizes, default=4))
