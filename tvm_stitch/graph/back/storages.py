"""Memory between kernels is the caller's, instead of a pool of the virtual machine's.

In: a module whose memory is planned (StaticPlanBlockMemory, LowerAllocTensor). Out: the same
module; each storage that `main` allocates became a parameter of it, and its tensors views of those.
Must not know kernels, nor who the caller is.

The virtual machine's pool knows no streams: what one stream's kernels still read, another's may
write. And it keeps what it has, beside another allocator that would have the same memory.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.ir import Call
from tvm.relax.expr_functor import PyExprMutator, mutator

ATTRIBUTE = "tvm_stitch.storages"
"""On the module: the bytes of each of those parameters, which come last, in TIR."""
VIEW = "runtime.TVMTensorCreateView"
_STORAGE = "relax.memory.alloc_storage"
_TENSOR = "relax.memory.alloc_tensor"
_KILLS = ("relax.memory.kill_storage", "relax.memory.kill_tensor")
_GLOBAL = "global"


def Storages(entry: str = "main") -> tvm.transform.Pass:
    """The pass; put it after LowerAllocTensor, and no KillAfterLastUse after it."""

    @tvm.transform.module_pass(opt_level=0, name="Storages")
    def storages(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        function = mod[entry]
        bindings = [b for block in function.body.blocks for b in block.bindings]
        found = {b.var: b.value.args[0].values[0] for b in bindings if _is_storage(b.value)}
        memory = {
            var: relax.Var(f"storage_{number}", relax.TensorType(dtype="uint8", ndim=1))
            for number, var in enumerate(found)
        }
        body = _Viewed(mod, memory).visit_expr(function.body)
        given = [*function.params, *memory.values()]
        mod = mod.clone()
        changed = relax.Function(given, body, None, function.is_pure, function.attrs)
        mod.update_func(mod.get_global_var(entry), changed)
        return relax.transform.Normalize()(mod.with_attr(ATTRIBUTE, list(found.values())))

    return storages


def _called(value: Any) -> str:
    return str(getattr(value.op, "name", "")) if isinstance(value, Call) else ""


def _is_storage(value: Any) -> bool:
    if _called(value) != _STORAGE:
        return False
    _size, device, scope, _dtype = value.args
    return str(scope.value) == _GLOBAL and not int(device)


@mutator
class _Viewed(PyExprMutator):
    """Parameters take the place of storages, views that of their tensors."""

    def __init__(self, mod: tvm.IRModule, memory: dict[relax.Var, relax.Var]) -> None:
        super().__init__(mod)
        self._memory = memory
        self._views: dict[tuple[str, ...], relax.Var] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Leave out what allocates, what frees, and views that are there already."""
        called = _called(binding.value)
        if binding.var in self._memory:
            self.set_var_remap(binding.var, self._memory[binding.var])
        elif called == _TENSOR and binding.value.args[0] in self._memory:
            self._view(binding.var, binding.value)
        elif called not in _KILLS:
            super().visit_var_binding_(binding)

    def _view(self, var: relax.Var, call: Call) -> None:
        storage, offset, shape, dtype, *_device = call.args
        memory = self._memory[storage]
        key = memory.name, str(offset), str(shape), str(dtype)
        if key not in self._views:
            arguments = [memory, shape, dtype, offset]
            view = relax.Call(relax.ExternFunc(VIEW), arguments, ty_args=[call.ty])
            self._views[key] = self.builder_.emit(view)
        self.set_var_remap(var, self._views[key])
