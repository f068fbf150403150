"""How many kernels a call of a module launches, counted in the module that is lowered.

A stitched function is one launch, whichever of its kernels the sizes pick; any other is as many as
it has loop nests on threads. Views launch nothing, once RewriteDataflowReshape has seen them.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir.instrument import pass_instrument

from tests.outside.graphs.number import HALVES
from tvm_stitch.graph.back.launches import calls, nests
from tvm_stitch.kernel.build import is_emitted

LOWERED = "CallTIRRewrite"


def launches_of(mod: tvm.IRModule) -> int:
    """Launches of one call of each Relax function of a lowered module."""
    count = 0
    for name, times in calls(mod).items():
        function = mod[name]
        if isinstance(function, tirx.PrimFunc):
            count += times * (1 if is_emitted(function) else len(nests(function)))
    return count


def sums_in_halves(mod: tvm.IRModule) -> bool:
    """Whether a kernel that is TVM's own adds to elements that halves hold."""
    found: list[bool] = []

    def visit(store: tirx.BufferStore) -> None:
        added = isinstance(store.value, tirx.Add) and str(store.buffer.dtype) in HALVES
        if added:
            terms = (store.value.a, store.value.b)
            found.extend(
                isinstance(term, tvm.ir.TensorLoad) and term.source.same_as(store.buffer)
                for term in terms
            )

    for function in mod.functions.values():
        if isinstance(function, tirx.PrimFunc) and not is_emitted(function):
            tvm_ffi.structural_walk(function.body, (tirx.BufferStore, visit), order="pre")
    return any(found)


@pass_instrument
class Counted:
    """Listens to a pipeline and counts once calls are lowered."""

    launches: int | None = None
    in_halves = False  # whether a kernel that is not stitched sums up in halves

    def run_after_pass(self, mod: tvm.IRModule, info: Any) -> None:
        """Called by TVM after each pass."""
        if info.name == LOWERED:
            self.launches, self.in_halves = launches_of(mod), sums_in_halves(mod)

    @staticmethod
    def of(scheduled: tvm.IRModule) -> Counted:
        """In a module whose kernels are scheduled and whose dataflow is not lowered yet."""
        passes = [
            relax.transform.RewriteDataflowReshape(),
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
        ]
        lowered = tvm.transform.Sequential(passes)(scheduled)
        found = Counted()
        found.launches, found.in_halves = launches_of(lowered), sums_in_halves(lowered)
        return found
