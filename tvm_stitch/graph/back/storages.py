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
from tvm import relax, tirx
from tvm.ir import Call
from tvm.relax.expr_functor import PyExprMutator, mutator

ATTRIBUTE = "tvm_stitch.storage"
"""On the module: the bytes of that parameter, which comes last, in TIR; not there without one."""
VIEW = "runtime.TVMTensorCreateView"
# Kernels take no tensor that begins somewhere within its memory.
_BEGINNING = "vm.builtin.ensure_zero_offset"
_STORAGE = "relax.memory.alloc_storage"
_TENSOR = "relax.memory.alloc_tensor"
_KILLS = ("relax.memory.kill_storage", "relax.memory.kill_tensor")
_GLOBAL = "global"
# Bytes that storages lie apart, as those of allocators do.
_APART = 512
_UINT8 = tvm.ir.GenericConst(tvm.DataType("uint8"), relax.AnyType())


def Storages(entry: str = "main") -> tvm.transform.Pass:
    """The pass; put it after LowerAllocTensor, and no KillAfterLastUse after it."""

    @tvm.transform.module_pass(opt_level=0, name="Storages")
    def storages(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        function = mod[entry]
        bindings = [b for block in function.body.blocks for b in block.bindings]
        places, size = {}, tirx.IntImm("int64", 0)
        for binding in bindings:
            if _is_storage(binding.value):
                length = _rounded(binding.value.args[0].values[0])
                places[binding.var] = size, length
                size = size + length
        if not places:
            return mod
        memory = relax.Var("storage", relax.TensorType(dtype="uint8", ndim=1))
        body = _Viewed(mod, memory, places).visit_expr(function.body)
        given = [*function.params, memory]
        mod = mod.clone()
        changed = relax.Function(given, body, None, function.is_pure, function.attrs)
        mod.update_func(mod.get_global_var(entry), changed)
        return relax.transform.Normalize()(mod.with_attr(ATTRIBUTE, size))

    return storages


def _rounded(size: Any) -> Any:
    return tirx.floordiv(size + (_APART - 1), _APART) * _APART


def _called(value: Any) -> str:
    return str(getattr(value.op, "name", "")) if isinstance(value, Call) else ""


def _is_storage(value: Any) -> bool:
    if _called(value) != _STORAGE:
        return False
    _size, device, scope, _dtype = value.args
    return str(scope.value) == _GLOBAL and not int(device)


@mutator
class _Viewed(PyExprMutator):
    """Pieces of the parameter take the place of storages, views that of their tensors."""

    def __init__(
        self, mod: tvm.IRModule, memory: relax.Var, places: dict[relax.Var, tuple[Any, Any]]
    ) -> None:
        super().__init__(mod)
        self._memory, self._places = memory, places
        self._pieces: dict[relax.Var, relax.Var] = {}
        self._views: dict[tuple[str, ...], relax.Var] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Leave out what allocates, what frees, and views that are there already."""
        called = _called(binding.value)
        if binding.var in self._places:
            self._pieces[binding.var] = self._piece(*self._places[binding.var])
        elif called == _TENSOR and binding.value.args[0] in self._pieces:
            self._view(binding.var, binding.value)
        elif called not in _KILLS:
            super().visit_var_binding_(binding)

    def _piece(self, offset: Any, length: Any) -> relax.Var:
        if isinstance(offset, tirx.IntImm) and not int(offset):
            return self._memory
        bytes_ = relax.TensorType([length], "uint8")
        shape = relax.ShapeExpr([length])
        arguments = [self._memory, shape, _UINT8, relax.expr.prim_value(offset)]
        whole = self._call(VIEW, arguments, bytes_)
        return self._call(_BEGINNING, [whole], bytes_)

    def _view(self, var: relax.Var, call: Call) -> None:
        storage, offset, shape, dtype, *_device = call.args
        piece = self._pieces[storage]
        key = str(hash(piece)), str(offset), str(shape), str(dtype)
        if key not in self._views:
            self._views[key] = self._call(VIEW, [piece, shape, dtype, offset], call.ty)
        self.set_var_remap(var, self._views[key])

    def _call(self, function: str, arguments: list[Any], type_: Any) -> relax.Var:
        call = relax.Call(relax.ExternFunc(function), arguments, ty_args=[type_])
        return self.builder_.emit(call)
