"""CUDA graphs of weights that move: each place of the weights has a graph of its own.

TVM's RewriteCUDAGraph takes it that the parameters behind `num_input` (weights) never move. Their
addresses are in the captured launches, which would go on reading where they once lay.

In: a module as the last of TVM's passes leave it (VMShapeLower). Out: the same, where the number
by which a graph is found depends on the addresses of the weights that its launches read. Must not
know what is captured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.graph.back.vm_calls.packed_functions import (
    INT64_ELEMENT,
    INTEGER,
    TYPE_INDEX,
    VALUE,
    Parameters,
    field,
    free_name,
    packed_functions,
)
from tvm_stitch.stages.stage import Expr

REPLAY = "vm.builtin.cuda_graph.run_or_capture"
# Odd, of 32 bits: a product with 32 bits of the key stays within 64.
_MULTIPLIER = 0x9E3779B1
_ROTATED = 29


def CapturedWeights() -> tvm.transform.Pass:
    """Capture once for each place of the weights; put it after VMShapeLower."""

    @tvm.transform.module_pass(opt_level=0, name="CapturedWeights")
    def captured_weights(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        mod = mod.clone()
        for var, function in mod.functions_items():
            if isinstance(function, relax.Function) and _replays(function):
                keys = _Keys(free_name(mod, f"{var.name_hint}_graph"), function)
                mod.update_func(var, keys.visit_expr(function))
                for name, host in keys.functions.items():
                    mod[tvm.ir.GlobalVar(name)] = host
        return mod

    return captured_weights


@relax.expr_functor.mutator
class _Keys(relax.PyExprMutator):
    """Gives each replay in a function that reads weights a key instead of a number."""

    def __init__(self, name: str, function: relax.Function) -> None:
        super().__init__()
        self.functions: dict[str, tirx.PrimFunc] = {}
        self._name, self._params = name, set(function.params)

    def visit_call_(self, call: relax.Call) -> Expr:
        """A replay by the key of its weights."""
        if not _is_replay(call):
            return call
        captured, tensors, number, *shape = call.args[1].fields
        weights = [each for each in tensors.fields if each in self._params]
        if not weights:
            return call
        name = f"{self._name}_{int(number.value)}"
        self.functions |= key_functions(name, len(weights))
        integer = tvm.ir.PrimType("int64")
        key = self.builder_.emit(
            relax.Call(relax.ExternFunc(name), [number, *weights], ty_args=[integer]), "key"
        )
        arguments = relax.Tuple([captured, tensors, key, *shape])
        return relax.Call(call.op, [call.args[0], arguments], call.attrs, call.ty_args)


def _replays(function: relax.Function) -> bool:
    bindings = (binding for block in function.body.blocks for binding in block.bindings)
    return any(isinstance(b.value, relax.Call) and _is_replay(b.value) for b in bindings)


def _is_replay(call: relax.Call) -> bool:
    called = call.args[0] if call.args else None
    return isinstance(called, relax.ExternFunc) and str(called.global_symbol) == REPLAY


def key_functions(name: str, weights: int) -> dict[str, tirx.PrimFunc]:
    """A host function of a number and tensors: a number that depends on all, and on their order."""
    return packed_functions(name, parameters := Parameters(), _key(parameters, weights))


def _key(parameters: Parameters, weights: int) -> Iterator[tirx.Stmt]:
    number = field(parameters.arguments, 0, VALUE, "int64")
    key: Expr = tirx.Cast("uint64", number)
    for each in range(1, weights + 1):
        # The first field of a DLTensor is its address; read as what it is, it is no number.
        address = field(parameters.tensor(each), 0, INT64_ELEMENT, "int64")
        joined, mixed = tirx.Var(f"joined_{each}", "uint64"), tirx.Var(f"mixed_{each}", "uint64")
        yield tirx.Bind(joined, key ^ tirx.Cast("uint64", address))
        yield tirx.Bind(mixed, _mixed(joined))
        key = mixed
    for which, value in ((TYPE_INDEX, INTEGER), (VALUE, tirx.Cast("int64", key))):
        yield tirx.Evaluate(
            tirx.call_intrin("int32", "tirx.tvm_struct_set", parameters.result, 0, which, value)
        )


def _mixed(key: Expr) -> Expr:
    """Rotated, and mixed by a product that does not overflow."""
    low = tirx.bitwise_and(key, tirx.const(0xFFFFFFFF, "uint64"))
    rotated = tirx.bitwise_or(key << _ROTATED, key >> (64 - _ROTATED))
    return low * tirx.const(_MULTIPLIER, "uint64") ^ rotated
