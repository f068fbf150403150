"""What TVM's own fusion makes of a module: its kernels, by the operators that they compute.

In: a Relax module of TIR calls, and the numbers that operators have (graph/front/origins). Out:
DefaultKernels. This is what a plan must not launch more than, and where what no plan takes goes.
Must not know plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.graph.back.merge import merged
from tvm_stitch.graph.front.read import is_call_tir
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused

Numbers = frozenset[int]


@dataclass(frozen=True, eq=False)
class DefaultKernel:
    """Operators that TVM would fuse, and the function that they become."""

    numbers: Numbers
    functions: tuple[tirx.PrimFunc, ...]  # in order
    module: tvm.IRModule  # the fused function as main, what it calls beside it

    def function(self) -> tirx.PrimFunc:
        """The fused function as TIR; an error of TVM's if it cannot be merged."""
        (alone, *more) = self.functions
        return merged(self.module)["main"] if more else alone

    @property
    def is_view(self) -> bool:
        """Whether it only reshapes: TVM launches nothing for it."""
        return all(map(_is_view, self.functions))

    @property
    def is_scheduled(self) -> bool:
        """Whether its TIR comes with a schedule."""
        return all("tirx.is_scheduled" in (each.attrs or {}) for each in self.functions)

    @property
    def holds_product(self) -> bool:
        """Whether it multiplies matrices or convolves."""
        return any(map(holds_product, self.functions))


def default_kernels(
    mod: tvm.IRModule, numbers: Mapping[relax.Var, int]
) -> tuple[DefaultKernel, ...]:
    """The kernels of a module by FuseOps; what is Primitive already is left out.

    So are ours that stand for no operator, and are there so that others of ours take less.
    """
    return tuple(
        kernel
        for var, function in mod.functions_items()
        if isinstance(function, relax.Function) and "Primitive" not in (function.attrs or {})
        for kernel in _kernels_of(_Marked(mod, var, numbers))
        if kernel.numbers or not kernel.is_scheduled
    )


def _kernels_of(marked: _Marked) -> list[DefaultKernel]:
    fused = relax.transform.FuseOps()(marked.module)
    found: list[DefaultKernel] = []
    for function in fused.functions.values():
        if not isinstance(function, relax.Function):
            continue
        if "Primitive" in (function.attrs or {}):
            callees = [callee for callee in _callees(function) if callee in marked.number]
            if callees:
                found.append(marked.kernel(function, callees))
            continue
        # What fuses with nothing is still called where it stood.
        for callee in _callees(function):
            if callee in marked.number:
                found.append(marked.kernel(None, [callee]))
    return found


def _callees(function: relax.Function) -> Iterable[str]:
    for block in function.body.blocks:
        for binding in block.bindings[:]:
            if is_call_tir(binding.value):
                yield binding.value.args[0].name_hint


def _is_view(function: tirx.PrimFunc) -> bool:
    try:
        return relax.analysis.has_reshape_pattern(function)
    except Exception:  # TVM's analyzer gives up on some quotients of symbols
        return False


def holds_product(function: tirx.PrimFunc) -> bool:
    """Whether a fused function multiplies matrices or convolves."""
    stages = read_stages(function)
    if isinstance(stages, Refused):
        return False
    return any(stage.is_reduction and is_product(stage) for stage in stages)


class _Marked:
    """One function of a module, every call of TIR in it with a callee of its own.

    So it can be told what became of each.
    """

    def __init__(
        self, mod: tvm.IRModule, var: tvm.ir.GlobalVar, numbers: Mapping[relax.Var, int]
    ) -> None:
        self.number: dict[str, int | None] = {}
        self.functions: dict[tvm.ir.GlobalVar, Any] = {}
        self._mod = mod
        others = [
            (v, f)
            for v, f in mod.functions_items()
            if "Primitive" in (f.attrs or {}) or isinstance(f, tirx.PrimFunc)
        ]
        marked = self._function(mod[var], numbers)
        self.module = tvm.IRModule({**dict(others), **self.functions, var: marked})
        self.by_name = {var.name_hint: f for var, f in self.functions.items()}
        self.vars = {var.name_hint: var for var in self.functions}

    def _function(
        self, function: relax.Function, numbers: Mapping[relax.Var, int]
    ) -> relax.Function:
        blocks = []
        for block in function.body.blocks:
            bindings = [
                relax.VarBinding(binding.var, self._call(binding.value, numbers.get(binding.var)))
                if is_call_tir(binding.value)
                else binding
                for binding in block.bindings[:]
            ]
            blocks.append(type(block)(bindings))
        body = relax.SeqExpr(blocks, function.body.body)
        params, returns = function.params, function.ret_ty
        return relax.Function(params, body, returns, function.is_pure, function.attrs)

    def _call(self, call: tvm.ir.Call, number: int | None) -> tvm.ir.Call:
        callee = call.args[0]
        alone = tvm.ir.GlobalVar(f"{callee.name_hint}__{len(self.number)}")
        relax.expr._update_type(alone, callee.ty)
        self.number[alone.name_hint] = number
        self.functions[alone] = self._mod[callee]
        return tvm.ir.Call(
            call.op, [alone, *call.args[1:]], call.attrs, call.ty_args, ret_ty=call.ty
        )

    def kernel(self, function: relax.Function | None, callees: list[str]) -> DefaultKernel:
        """The kernel of some calls, by the function that FuseOps made of them if it did."""
        functions = tuple(self.by_name[callee] for callee in callees)
        numbers = frozenset(n for c in callees if (n := self.number[c]) is not None)
        main = tvm.ir.GlobalVar("main")
        if function is None:
            return DefaultKernel(numbers, functions, tvm.IRModule({main: functions[0]}))
        relax.expr._update_type(main, function.ty)
        called = {self.vars[callee]: self.by_name[callee] for callee in callees}
        return DefaultKernel(numbers, functions, tvm.IRModule({**called, main: function}))
