"""Results are written where the caller says, instead of into memory of the virtual machine.

In: a module after CallTIRRewrite, before its memory is planned. Out: the same module; what `main`
allocates only to return it became a parameter of it. Must not know kernels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Call
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_stitch.graph.front.dataflow import readers_of
from tvm_stitch.kernel.codegen.prim_func import IN_PLACE_ATTRIBUTE, NO_ALIAS_ATTRIBUTE

_ALLOCATE = "relax.builtin.alloc_tensor"
_RESHAPE = "relax.reshape"
ATTRIBUTE = "tvm_stitch.destinations"
"""On the module: for each result of main the number of its parameter among the destinations, which
come last, or -1 where it is still returned."""


def Destinations(entry: str = "main") -> tvm.transform.Pass:
    """The pass. Results that are inputs, views of them, or another result are still returned."""

    @tvm.transform.module_pass(opt_level=0, name="Destinations")
    def destinations(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        function = mod[entry]
        results = function.body.body
        fields = list(results.fields) if isinstance(results, relax.Tuple) else [results]
        bound = {b.var: b.value for block in function.body.blocks for b in block.bindings}
        origins = [_origin(field, bound) for field in fields]
        seen = [_origin(_viewed(origin, bound), bound) for origin in origins]
        params: dict[relax.Var, relax.Var] = {}
        places = []
        for origin, memory in zip(origins, seen, strict=True):
            # What is returned as it is has its own shape, whatever views of it are returned.
            own = memory is origin or memory not in origins
            fresh = own and _is_allocated(bound.get(memory)) and memory not in params
            if fresh:
                params[memory] = relax.Var(f"out_{len(params)}", origin.ty)
            places.append(len(params) - 1 if fresh else -1)
        returned = [field for field, place in zip(fields, places, strict=True) if place < 0]
        body = relax.SeqExpr(function.body.blocks, relax.Tuple(returned))
        written = _Written(mod, params).visit_expr(body)
        given = [*function.params, *params.values()]
        mod = mod.clone()
        changed = relax.Function(given, written, None, function.is_pure, function.attrs)
        mod.update_func(mod.get_global_var(entry), changed)
        return relax.transform.Normalize()(mod.with_attr(ATTRIBUTE, places))

    return destinations


def _origin(value: Any, bound: dict[relax.Var, Any]) -> Any:
    """What a value is another name of."""
    while True:
        if isinstance(value, relax.TupleGetItem):
            whole = _origin(value.tuple_value, bound)
            if not isinstance(whole, relax.Tuple):
                return value
            value = whole.fields[value.index]
        elif isinstance(bound.get(value), (relax.Var, relax.TupleGetItem, relax.Tuple)):
            value = bound[value]
        else:
            return value


def _viewed(value: Any, bound: dict[relax.Var, Any]) -> Any:
    """What a value is the elements of, in another shape."""
    while getattr(getattr(bound.get(value), "op", None), "name", "") == _RESHAPE:
        value = _origin(bound[value].args[0], bound)
    return value


def _is_allocated(value: Any) -> bool:
    return isinstance(value, Call) and getattr(value.op, "name", "") == _ALLOCATE


@mutator
class _Written(PyExprMutator):
    """Parameters take the place of what was allocated."""

    def __init__(self, mod: tvm.IRModule, params: dict[relax.Var, relax.Var]) -> None:
        super().__init__(mod)
        self._params = params

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Leave allocations out that a parameter stands for, perhaps in another shape."""
        param = self._params.get(binding.var)
        if param is None:
            super().visit_var_binding_(binding)
        elif tvm_ffi.structural_equal(param.ty, binding.var.ty, map_free_vars=True):
            self.set_var_remap(binding.var, param)
        else:
            view = relax.op.reshape(param, binding.var.ty.shape)
            self.set_var_remap(binding.var, self.builder_.emit(view))


def InPlace(pairs: Sequence[tuple[int, int]], entry: str = "main") -> tvm.transform.Pass:
    """The pass, of (result, tensor) by their numbers; put it behind Destinations.

    Results are written over tensors that nobody reads afterwards, where kernels may do so: whoever
    calls `main` gives the tensor for the destination as well. The module's attribute of kernels
    has the numbers of these results, and the kernels are told that their tensors may be one.
    """

    @tvm.transform.module_pass(opt_level=0, name="InPlace")
    def in_place(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        places = [int(place) for place in mod.attrs[ATTRIBUTE]]
        function = mod[entry]
        tensors = [p for p in function.params if isinstance(p.ty, relax.TensorType)]
        count = sum(place >= 0 for place in places)
        given, made = tensors[: len(tensors) - count], tensors[len(tensors) - count :]
        readers = readers_of([b for block in function.body.blocks for b in block.bindings])
        returned = set(relax.analysis.free_vars(function.body.body))
        mod = mod.clone()
        found = []
        for result, tensor in pairs:
            if places[result] < 0 or given[tensor] in returned:
                continue
            kernel = _writer(mod, readers, given[tensor], made[places[result]])
            if kernel is not None:
                mod.update_func(kernel, mod[kernel].with_attr(NO_ALIAS_ATTRIBUTE, False))
                found.append(result)
        return mod.with_attr(IN_PLACE_ATTRIBUTE, found)

    return in_place


def _writer(
    mod: tvm.IRModule,
    bindings: Mapping[relax.Var, Sequence[relax.Binding]],
    source: relax.Var,
    output: relax.Var,
) -> tvm.ir.GlobalVar | None:
    """The kernel that writes the output, if that may be over the source; by who reads variables."""
    readers = [b.value for b in bindings.get(source, ())]
    writers = [b.value for b in bindings.get(output, ()) if isinstance(b.value, Call)]
    if not readers or not writers or not readers[-1].same_as(writers[0]):
        return None
    call = readers[-1]
    if not isinstance(call, Call) or not isinstance(call.op, tvm.ir.GlobalVar):
        return None
    if not all(
        isinstance(each, Call) and isinstance(each.op, tvm.ir.GlobalVar) for each in readers
    ):
        return None  # a view of it might be read later
    kernel = mod[call.op]
    if not isinstance(kernel, tirx.PrimFunc):
        return None
    allowed = json.loads(str(kernel.attrs.get(IN_PLACE_ATTRIBUTE, "[]")))
    at = [[n for n, arg in enumerate(call.args) if arg.same_as(v)] for v in (source, output)]
    return (
        call.op
        if [len(each) for each in at] == [1, 1] and [at[0][0], at[1][0]] in allowed
        else None
    )
