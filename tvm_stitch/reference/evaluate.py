"""Evaluates a Relax module in float64.

Comes in: a module and its inputs. Goes out: its outputs, flattened. What cannot be evaluated is
refused with an InputError, never with an error from inside TVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule

from tvm_stitch.errors import InputError, last_line
from tvm_stitch.reference.exact import compiled
from tvm_stitch.reference.float64 import in_float64
from tvm_stitch.reference.inputs import checked_inputs, function_of


def reference(mod: IRModule, inputs: Sequence[np.ndarray], entry: str = "main") -> list[np.ndarray]:
    """The outputs of a Relax module in exact arithmetic, as far as float64 reaches.

    Every floating dtype of the module becomes float64: parameters, constants, operators and the
    PrimFuncs it calls. A cast to a half dtype therefore rounds nothing, while a cast to an
    integer stays what it is. Inputs come in parameter order; bfloat16 ones as ml_dtypes arrays or
    as their bits in uint16. Symbolic extents are those of the inputs. Outputs are the flattened
    result, float64 where it is floating.
    """
    function = function_of(mod, entry)
    values = checked_inputs(function, inputs, entry)
    exact = in_float64(mod)
    try:
        machine = relax.VirtualMachine(compiled(exact), tvm.cpu())
    except Exception as error:
        raise InputError(
            f"the float64 reference of `{entry}` cannot be compiled for the CPU: "
            f"{last_line(error)}. Give the module as it is before it is fused or scheduled for "
            "a GPU."
        ) from error
    try:
        result = machine[entry](*[tvm.runtime.tensor(value) for value in values])
    except Exception as error:
        raise InputError(
            f"the float64 reference of `{entry}` failed while it ran: {last_line(error)}. "
            "Check that the inputs are what the model expects, integer ones most of all."
        ) from error
    return list(flattened(result))


def flattened(result: Any) -> Iterable[np.ndarray]:
    """The tensors of a result, which may be a tuple of tuples; a shape or number as integers."""
    if isinstance(result, tvm.runtime.Tensor):
        yield result.numpy()
    elif isinstance(result, (int, float, tvm.runtime.ShapeTuple)):
        yield np.array(result)
    else:
        for field in result:
            yield from flattened(field)
