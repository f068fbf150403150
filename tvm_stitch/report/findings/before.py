"""What TVM's default pipeline makes of the same module: its kernels, and what is between them.

In: a Relax module, before any pass. Out: Before, also where TVM refuses the module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tvm
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

from tvm_stitch.device import Device
from tvm_stitch.errors import first_line
from tvm_stitch.report.data import Before, Source
from tvm_stitch.report.findings.kernels import kernels_by_function, places
from tvm_stitch.report.findings.launches import flow
from tvm_stitch.report.findings.notes import Listener, Notes
from tvm_stitch.stages.extents import Extents

WHY = "TVM's own fusion"


def by_default(
    mod: tvm.IRModule,
    cuda: tvm.target.Target,
    device: Device,
    extents: Extents,
    sources: Sequence[Source],
) -> Before:
    """The kernels of TVM's default pipeline; `sources` are the module's operators."""
    passes = [
        *cuda_pipeline.library_dispatch_passes(cuda),
        *cuda_pipeline.legalize_passes(cuda),
        *cuda_pipeline.dataflow_lower_passes(cuda),
    ]
    notes = Notes(sources=tuple(sources))
    listener = Listener(notes)
    context = tvm.transform.PassContext(opt_level=3, instruments=[listener])
    try:
        with cuda, context:
            lowered = tvm.transform.Sequential(passes)(mod)
    except Exception as error:
        return Before(None, None, f"{first_line(error)} in its pass {listener.running}")
    found = kernels_by_function(lowered, notes, device, extents)
    kernels = tuple(replace(kernel, why=WHY) for each in found.values() for kernel in each)
    launches = sum(kernel.launches for kernel in kernels)
    return Before(
        len(kernels), launches, "", kernels, flow(notes.calls, kernels, places(found), ())
    )
