"""Convolutions of halves with channels last, as tensor cores read them.

In: a Relax module. Out: the same with those convolutions that cuDNN takes in NHWC, and what lies
between them as well; TVM's ConvertLayout transposes at the borders. Float32 stays as it is.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.ir import Call

from tvm_stitch.graph.front.convolution.choose import convolution_of, is_convolution, layouts_of
from tvm_stitch.graph.front.decompose.stages import HALF, dtype_of
from tvm_stitch.library.convolution import Convolution


def with_channels_last(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with the convolutions of halves that cuDNN takes in NHWC."""

    def desired(call: Call) -> dict[str, list[str]]:
        if not is_convolution(call) or dtype_of(call) not in HALF:
            return {}
        found = convolution_of(call)
        if not isinstance(found, Convolution):
            return {}
        return {call.op.name: list(layouts_of(found.what, len(found.strides), True))}

    return relax.transform.ConvertLayout({}, desired)(mod)
