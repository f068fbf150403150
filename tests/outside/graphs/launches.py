"""How many kernels a call of a module launches, counted in the module that is lowered.

A stitched function is one launch, whichever of its kernels the sizes pick; any other is as many as
it has loop nests on threads. Views launch nothing, once RewriteDataflowReshape has seen them.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir.instrument import pass_instrument

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


@pass_instrument
class Counted:
    """Listens to a pipeline and counts once calls are lowered."""

    launches: int | None = None

    def run_after_pass(self, mod: tvm.IRModule, info: Any) -> None:
        """Called by TVM after each pass."""
        if info.name == LOWERED:
            self.launches = launches_of(mod)

    @staticmethod
    def of(scheduled: tvm.IRModule) -> int:
        """Of a module whose kernels are scheduled and whose dataflow is not lowered yet."""
        passes = [
            relax.transform.RewriteDataflowReshape(),
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
        ]
        return launches_of(tvm.transform.Sequential(passes)(scheduled))
