"""Narrow tensors that are read in float32, such as biases of halves, are read as they lie.

In: dataflow blocks of calls of TIR. Out: the same, but what broadcasts, slices or looks up such a
tensor widens what it reads. A cast of its own would be one more operator in front of each product
that ends with a bias: a kernel that computes it would have to come before the product, libraries
take biases as wide as their results, and more bytes would be read. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax, tirx
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.callee import operator_name
from tvm_stitch.graph.front.dataflow import in_blocks
from tvm_stitch.graph.front.functions.callees import Callees, operands_of
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Var, buffer_shape, buffer_size, dtype_of, same_size
from tvm_stitch.stages.visit import mapped

_FLOATS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}


def NarrowOperands() -> tvm.transform.Pass:
    """The pass; it comes before constants are folded, which it leaves narrow as well."""

    @tvm.transform.module_pass(opt_level=0, name="NarrowOperands")
    def narrow_operands(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        rewriter = _Rewriter(mod)
        changed = in_blocks(mod, rewriter.block)
        for var, function in rewriter.made.items():
            changed[var] = function
        return changed if rewriter.made else mod

    return narrow_operands


class _Rewriter:
    """The calls of a module, and the functions made for those that read something narrow."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.callees = Callees(mod)
        self._known: dict[tuple[str, tuple[str, ...]], tvm.ir.GlobalVar] = {}
        self._builder = relax.BlockBuilder(mod)

    @property
    def made(self) -> dict[tvm.ir.GlobalVar, tirx.PrimFunc]:
        """The functions that are new."""
        known = self._known.values()
        return {var: self._builder.get()[var] for var in known}

    def block(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        """The block, in which casts are left to those that read parts of what they give."""
        narrow: dict[relax.Var, Expr] = {}
        found: list[relax.Binding] = []
        for binding in block.bindings:
            operand = self._widened(binding.value)
            if operand is not None:
                narrow[binding.var] = operand
            reading = self._reading(binding.value, narrow)
            changed = reading is not binding.value
            found.append(relax.VarBinding(binding.var, reading) if changed else binding)
        return relax.DataflowBlock(found)

    def _widened(self, value: Expr) -> Expr | None:
        """What a value is but a wider copy of."""
        stages = self.callees.stages(value)
        if len(stages) != 1 or self.callees.pattern(value) is not Pattern.ELEMENTWISE:
            return None
        cast = stages[0].value
        if not isinstance(cast, tirx.Cast) or not isinstance(cast.value, tvm.ir.TensorLoad):
            return None
        before, after = (_FLOATS.get(dtype_of(each), 0) for each in (cast.value, cast))
        return operands_of(value)[0] if 0 < before < after else None

    def _reading(self, value: Expr, narrow: Mapping[relax.Var, Expr]) -> Expr:
        """A call that widens by itself what it reads parts of; or the value as it is."""
        operands = operands_of(value)
        if not any(each in narrow for each in operands):
            return value
        if self.callees.pattern(value) in (Pattern.PRODUCT, Pattern.OPAQUE):
            return value
        callee, stages = self.callees.of(value), self.callees.stages(value)
        assert callee is not None
        changed = {
            param: narrow[operand]
            for operand, param in zip(operands, callee.buffers, strict=False)
            if operand in narrow
            and not any(same_size(buffer_size(param), stage.total_size) for stage in stages)
        }
        if not changed:
            return value
        given = value.args[1].fields[:]
        both = zip(given, callee.function.params[: len(given)], strict=True)
        tensors = relax.Tuple([changed.get(param, operand) for operand, param in both])
        dtypes = {param: str(operand.ty.dtype) for param, operand in changed.items()}
        function = self._function(value.args[0], callee.function, dtypes)
        return Call(value.op, [function, tensors, *value.args[2:]], value.attrs, value.ty_args)

    def _function(
        self, var: tvm.ir.GlobalVar, function: tirx.PrimFunc, dtypes: Mapping[Var, str]
    ) -> tvm.ir.GlobalVar:
        """A function that takes some of its tensors narrow, and widens what it reads of them."""
        key = var.name_hint, tuple(dtypes.get(param, "") for param in function.params)
        if key not in self._known:
            made = reading_narrow(function, dtypes)
            self._known[key] = self._builder.add_func(made, operator_name(var.name_hint))
        return self._known[key]


def reading_narrow(function: tirx.PrimFunc, dtypes: Mapping[Var, str]) -> tirx.PrimFunc:
    """A function with parameters of other dtypes, whose elements it casts to what they were."""
    made = {
        param: tirx.decl_buffer(buffer_shape(param), dtype, param.name, layout=None)
        for param, dtype in dtypes.items()
    }
    wide = {buffer: dtype_of(param) for param, buffer in made.items()}

    def load(found: Expr) -> Expr:
        if found.source not in wide:
            return found
        return tirx.Cast(wide[found.source], found.source[tuple(found.indices)])

    renamed = (tirx.Var, lambda var: made.get(var, var))
    body = mapped(function.body, renamed, (tvm.ir.TensorLoad, load))
    params = [made.get(param, param) for param in function.params]
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs)
