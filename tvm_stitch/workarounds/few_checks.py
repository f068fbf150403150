"""What TVM's host functions ask of their arguments, where their caller has asked it.

In: the host's code of lowered functions. Out: the same without questions that are answered.

TVM asks a dozen things of every tensor that a kernel takes: dtype, rank, each extent, strides. Each
answer that it does not like is code that makes a message of the kernel's whole signature. Of DIEN's
training step, whose largest kernel takes 98 tensors, that is 20,000 questions, 97 MB of TVMScript:
LLVM takes 13 s of one core for them, whatever the cache holds, and each call asks them all. Between
its kernels the virtual machine passes what it has allocated itself. Which device a tensor is on is
asked as before: no module knows on which one a virtual machine will be.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import tvm
from tvm import tirx

from tvm_stitch.graph.back.vm_calls.packed_functions import DEVICE_ID, DEVICE_TYPE
from tvm_stitch.stages.visit import mapped, walked

FIELD = "tirx.tvm_struct_get"


def without_checks(host: tvm.IRModule, checked: Set[str]) -> tvm.IRModule:
    """The host's code, in which the functions of these names ask for the device alone."""
    if not checked:
        return host
    host = host.clone()
    for var, function in host.functions_items():
        if var.name_hint in checked:
            body = mapped(function.body, (tirx.AssertStmt, _if_needed))
            made = tirx.PrimFunc(function.params, body, function.ret_type, function.attrs)
            host.update_func(var, made)
    return host


def _if_needed(check: tirx.AssertStmt) -> tirx.Stmt:
    return check if _asks_for_the_device(check.condition) else tirx.Evaluate(0)


def _asks_for_the_device(condition: Any) -> bool:
    fields: list[int] = []

    def note(call: tvm.ir.Call) -> None:
        if str(call.op.name) == FIELD:
            fields.append(int(call.args[2]))

    walked(condition, (tvm.ir.Call, note))
    return DEVICE_ID in fields or DEVICE_TYPE in fields
