"""Results are written where the caller says, instead of into memory of the virtual machine.

In: a module after CallTIRRewrite, before its memory is planned. Out: the same module; what `main`
allocates only to return it became a parameter of it. Must not know kernels.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.ir import Call
from tvm.relax.expr_functor import PyExprMutator, mutator

_ALLOCATE = "relax.builtin.alloc_tensor"
ATTRIBUTE = "tvm_stitch.destinations"
"""On the module: for each result of main the number of its parameter among the destinations, which
come last, or -1 where it is still returned."""


def Destinations(entry: str = "main") -> tvm.transform.Pass:
    """The pass. Results that are inputs, views, or another result are returned as before."""

    @tvm.transform.module_pass(opt_level=0, name="Destinations")
    def destinations(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        function = mod[entry]
        results = function.body.body
        fields = list(results.fields) if isinstance(results, relax.Tuple) else [results]
        bound = {b.var: b.value for block in function.body.blocks for b in block.bindings}
        origins = [_origin(field, bound) for field in fields]
        params: dict[relax.Var, relax.Var] = {}
        places = []
        for origin in origins:
            fresh = _is_allocated(bound.get(origin)) and origin not in params
            if fresh:
                params[origin] = relax.Var(f"out_{len(params)}", origin.ty)
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


def _is_allocated(value: Any) -> bool:
    return isinstance(value, Call) and getattr(value.op, "name", "") == _ALLOCATE


@mutator
class _Written(PyExprMutator):
    """Parameters take the place of what was allocated."""

    def __init__(self, mod: tvm.IRModule, params: dict[relax.Var, relax.Var]) -> None:
        super().__init__(mod)
        self._params = params

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Leave allocations out that a parameter stands for."""
        if binding.var in self._params:
            self.set_var_remap(binding.var, self._params[binding.var])
        else:
            super().visit_var_binding_(binding)
