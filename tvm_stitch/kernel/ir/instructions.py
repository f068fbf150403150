"""How many operations an element of a stage takes, by what nvcc makes of them.

In: a Stage. Out: plain operations and special functions, plain numbers. Must not know threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.guards import NOTHING_KNOWN, is_branch, mentions, narrowed, share_of
from tvm_stitch.stages.memoized import memoized, memoized_for_copies
from tvm_stitch.stages.stage import Expr, Stage, constant, dtype_of, handle, loads_in
from tvm_stitch.stages.visit import walked

# Plain operations of one evaluation in float32 and in half precision, and special-function
# operations: instructions that nvcc 13 makes of TVM's CUDA with fast maths for sm_90. What is not
# named is one plain operation; two halves share one.
INSTRUCTIONS = {
    "exp": (1, 8, 1), "log": (1, 8, 1), "exp2": (0, 8, 1), "log2": (0, 8, 1),
    "tanh": (0, 2, 1), "sigmoid": (3, 20, 2), "sqrt": (0, 3, 1), "rsqrt": (0, 3, 1),
    "sin": (1, 26, 1), "cos": (1, 26, 1), "tan": (2, 4, 3), "pow": (1, 3, 2),
    "erf": (22, 24, 1), "Div": (1, 11, 1), "Max": (1, 3.5, 0), "Min": (1, 3.5, 0),
    "Cast": (1, 1, 0), "FloorDiv": (4, 4, 0), "FloorMod": (5, 5, 0),
}  # fmt: skip
_OTHERS = (1, 0.5, 0)
# In float64: arithmetic at half the rate, conversions and roundings at an eighth, beside other
# pipes. A kernel with five of these an element took 32 us on an H200 where its bytes take 17.
_DOUBLE, _CONVERTED = 2, 6
_CONVERSIONS = ("Cast", "nearbyint", "round", "floor", "ceil", "trunc")
_FUNCTION_OF_DOUBLE = 60  # in software. Not measured.
_FREE = ("Var", "IntImm", "FloatImm", "Op", "PrimType", "Array", "StringImm")


# Operations of branches that an element is not in. Not measured.
LONG_BRANCHES = 32


@dataclass(frozen=True)
class Instructions:
    """Operations of one element of a stage."""

    plain: float
    special: float  # functions
    avoided: float  # plain ones of branches, where a thread takes one and its warp no other


@memoized_for_copies
def instructions(stage: Stage) -> Instructions:
    """What one of its elements takes."""
    count = _Count(stage)
    walked(stage.value, (tvm.ir.Expr, count.visit), pre=True)
    # A reduction combines once for each element.
    return Instructions(count.plain + stage.is_reduction, count.special, count.avoided)


@memoized
def computes_in_branches(program: Program) -> bool:
    """Whether columns are computed in different ways, each of which takes a while.

    A thread with a whole row knows which, and its neighbours take the same.
    """
    return sum(instructions(stage).avoided for stage in program.stages) > LONG_BRANCHES


class _Count:
    """Counts the operations of an expression; what stands in several places is computed once."""

    def __init__(self, stage: Stage) -> None:
        self.plain = self.special = self.avoided = 0.0
        self._stage, self._sizes = stage, sizes_of(stage)
        self._seen: set[int] = set()
        self._with_sum: set[int] = set()  # products that a sum takes in its own instruction
        self._known = NOTHING_KNOWN  # of the axes in a branch
        self._taken = 1.0  # of how many elements the branch is

    def visit(self, node: Any) -> Any:
        kind = type(node).__name__
        if kind == "TensorLoad":
            # Its index is not computed for each element, as a thread moves along the row, unless
            # it is made of what is loaded.
            for index in node.indices:
                if loads_in(index):
                    walked(index, (tvm.ir.Expr, self.visit), pre=True)
            return tvm_ffi.WalkResult.SKIP
        if kind == "Call":
            kind = getattr(node.op, "name", "").removeprefix("tirx.")
        if kind in _FREE:
            return None
        is_branching = isinstance(node, tvm.ir.Call) and is_branch(node)
        if not (is_branching and self._is_shared(node)):
            value = tvm_ffi.structural_hash(node)
            if value in self._seen:
                return tvm_ffi.WalkResult.SKIP
            self._seen.add(value)
            self._add(node, kind)
            if is_branching:
                walked(node.args[0], (tvm.ir.Expr, self.visit), pre=True)
        if not is_branching:
            return None
        condition, then, otherwise = node.args
        self._visit_branch(then, condition)
        self._visit_branch(otherwise, tirx.Not(condition))
        return tvm_ffi.WalkResult.SKIP

    def _is_shared(self, node: Any) -> bool:
        """Whether it is a branch that a whole vector takes or not: its guard is its thread's."""
        axes = self._stage.axes
        return bool(axes) and not mentions(node.args[0], axes[-1])

    def _visit_branch(self, side: Expr, condition: Expr) -> None:
        around = self._known, self._taken
        self._known = narrowed(self._known, condition, self._sizes)
        self._taken = share_of(self._known, self._sizes)
        walked(side, (tvm.ir.Expr, self.visit), pre=True)
        self._known, self._taken = around

    def _add(self, node: Any, kind: str) -> None:
        if kind in ("Add", "Sub"):
            products = [side for side in (node.a, node.b) if isinstance(side, tirx.Mul)]
            self._with_sum.update(map(handle, products[:1]))
        if handle(node) not in self._with_sum:
            plain, more = _operations(node, kind)
            self.plain += plain
            self.avoided += (1 - self._taken) * plain
            self.special += more


def _operations(node: Expr, kind: str) -> tuple[float, float]:
    """Plain operations and special functions of a node by itself."""
    wide, half, more = INSTRUCTIONS.get(kind, _OTHERS)
    dtype = dtype_of(node)
    if "float64" in (dtype, dtype_of(node.value) if kind == "Cast" else dtype):
        if kind in _CONVERSIONS:
            return _CONVERTED, 0
        return (_FUNCTION_OF_DOUBLE, 0) if more else (_DOUBLE * wide, 0)
    return half if dtype in ("float16", "bfloat16") else wide, more


def sizes_of(stage: Stage) -> dict[Expr, int]:
    """The extents of a stage's axes that are numbers."""
    sizes = {axis: constant(n) for axis, n in zip(stage.axes, stage.extents, strict=True)}
    return {axis: size for axis, size in sizes.items() if size}
