"""The pass: finds compound operators, asks whether each is worth it, lets its family write it.

Comes in: an IRModule. Goes out: an IRModule. Functions that already belong to somebody (fused,
offloaded to a library) are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import partial

import tvm
from tvm import relax
from tvm.ir import Call, Expr, IRModule, Op
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_stitch.graph.front.canonicalize import CanonicalizeBindings
from tvm_stitch.graph.front.decompose import (
    activation,
    attention,
    loss,
    norm,
    product,
    softmax,
    statistic,
)
from tvm_stitch.graph.front.decompose.epilogue import ELEMENTWISE, on_reshaped
from tvm_stitch.graph.front.decompose.stages import (
    ACCUMULATORS,
    HALF,
    Stages,
    definition_in,
    dtype_of,
    has_shape,
    shape_of,
)
from tvm_stitch.graph.front.decompose.unchanged import unchanged
from tvm_stitch.graph.front.decompose.view import Views, before_reshapes
from tvm_stitch.graph.front.decompose.worth import legalised_well, worth_decomposing
from tvm_stitch.graph.front.functions.unused import without_unused

Family = Callable[[Call, Stages], "Expr | None"]

FAMILIES: dict[str, Family] = {
    "relax.nn.softmax": softmax.softmax,
    "relax.nn.log_softmax": softmax.log_softmax,
    "relax.nn.layer_norm": norm.layer_norm,
    "relax.nn.rms_norm": norm.rms_norm,
    "relax.nn.group_norm": norm.group_norm,
    "relax.nn.instance_norm": norm.instance_norm,
    "relax.nn.batch_norm": norm.batch_norm,
    "relax.nn.gelu": activation.gelu,
    "relax.nn.gelu_tanh": activation.gelu_tanh,
    "relax.sigmoid": activation.sigmoid,
    "relax.nn.silu": activation.silu,
    "relax.nn.selu": activation.selu,
    "relax.nn.softplus": activation.softplus,
    "relax.nn.dropout": activation.dropout,
    "relax.matmul": product.product,
    "relax.nn.attention": attention.attention,
    "relax.nn.attention_bias": attention.attention,
    "relax.power": activation.power,
    "relax.log_add_exp": activation.log_add_exp,
    "relax.ewise_fma": activation.fused_multiply_add,
    "relax.sum": statistic.widened_reduction,
    "relax.prod": statistic.widened_reduction,
    "relax.mean": statistic.widened_reduction,
    "relax.variance": statistic.variance,
    "relax.std": statistic.standard_deviation,
    "relax.nn.cross_entropy_with_logits": loss.cross_entropy_with_logits,
    "relax.nn.nll_loss": loss.nll_loss,
}
"""Who writes which compound operator out; a family returns None for a call it cannot express."""

_ELEMENTWISE = (
    activation.gelu, activation.gelu_tanh, activation.sigmoid, activation.silu, activation.selu,
    activation.softplus, activation.power, activation.log_add_exp, activation.fused_multiply_add,
)  # fmt: skip
"""Their stages are fused by TVM as well: left whole they would cost no fewer kernels."""

_OWNED = ("Primitive", "Composite", "Codegen")


@tvm.transform.module_pass(opt_level=0, name="Decompose")
class Decompose:
    """Write compound operators out as element-wise and reduction operators.

    Runs before LegalizeOps. Softmax, norms, activations, statistics and losses over float16,
    bfloat16, float32 or float64 become stages that compute in float32 (float64 stays) and end in
    the operator's own dtype; `worth_decomposing` says which are left whole. Matrix products read
    the tensors that their operands are views of and sum halves in float32; reshapes behind them
    go behind the element-wise operators that follow. Others pass through untouched.
    """

    def transform_module(self, mod: IRModule, context: tvm.transform.PassContext) -> IRModule:
        """Rewrite every Relax function of the module that is not already fused or offloaded."""
        return decomposed(mod, {}).module


@dataclass(frozen=True)
class Decomposed:
    """A module with its compound operators written out."""

    module: IRModule
    numbers: dict[relax.Var, int]  # of the operator that each variable is or was part of
    # Operators written out that TVM takes whole as well, products apart:
    halves: frozenset[int]  # in half precision
    others: frozenset[int]


def decomposed(
    mod: IRModule,
    numbers: Mapping[relax.Var, int],
    whole: Set[int] = frozenset(),
    rounds: bool = False,
) -> Decomposed:
    """Rewrite a module whose operators have these numbers, but leave those of `whole` as they are.

    What TVM refuses, or would sum in half precision (products), is rewritten all the same. With
    `rounds` products of float32 may be a library's by TF32.
    """
    rewriter = _Rewriter(mod, numbers, whole, rounds)
    for name, function in mod.functions_items():
        if isinstance(function, relax.Function):
            rewriter.builder_.update_func(name, rewriter.rewrite(function))
    return Decomposed(
        rewriter.builder_.get(),
        rewriter.numbers,
        frozenset(rewriter.halves),
        frozenset(rewriter.others),
    )


@mutator
class _Rewriter(PyExprMutator):
    """Replaces calls by what their families make of them."""

    def __init__(
        self, mod: IRModule, numbers: Mapping[relax.Var, int], whole: Set[int], rounds: bool
    ):
        super().__init__(mod)
        self.numbers: dict[relax.Var, int] = {}
        self.halves: set[int] = set()
        self.others: set[int] = set()
        self._given, self._whole, self._rounds = numbers, whole, rounds
        self._number: int | None = None  # of the operator that is being rewritten
        self._origins: dict[relax.Var, str] = {}
        self._definition = partial(definition_in, self.builder_)
        self._views = Views(self._definition)
        # Values of products and of element-wise operators that follow them, before any reshape.
        self._behind_products: set[relax.Var] = set()
        self._has_written = False

    def rewrite(self, function: relax.Function) -> relax.Function:
        """The function with its compound operators written out, or itself if it has none."""
        self._has_written = False
        rewritten = self.visit_expr(function)
        if not self._has_written:
            return function
        # The field of a tuple that was written out is a stage: no consumer should see the tuple.
        alone = CanonicalizeBindings()(IRModule({"function": rewritten}))
        return without_unused(alone["function"])

    def visit_function_(self, function: relax.Function) -> Expr:
        """Leave functions alone whose operators are already spoken for."""
        if function.attrs and any(key in function.attrs for key in _OWNED):
            return function
        return super().visit_function_(function)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Remember which operator a variable stood for before it was written out."""
        self._number = self._given.get(binding.var)
        super().visit_var_binding_(binding)
        var = self.visit_expr(binding.var)
        self._note(var)
        if not _is_operator(binding.value):
            return
        name = binding.value.op.name
        self._origins[var] = name
        operands = map(self.visit_expr, binding.value.args) if name in ELEMENTWISE else ()
        bases = {before_reshapes(operand, self._definition) for operand in operands}
        if name == "relax.matmul" or bases & self._behind_products:
            self._behind_products.add(before_reshapes(var, self._definition))

    def visit_call_(self, call: Call) -> Expr:
        """Write the call out where a family knows it and it is worth it."""
        call = super().visit_call_(call)
        if not _is_operator(call):
            return call
        earlier = self._before_reshape(call)
        if earlier is None:
            return self._written(call)
        self._has_written = True
        result = self.builder_.emit(self._written(self.builder_.normalize(earlier)))
        self._note(result)
        return relax.op.reshape(result, shape_of(call))

    def _stages(self) -> Stages:
        return Stages(self.builder_, self._origins, self._note, self._views, self._rounds)

    def _note(self, var: relax.Var) -> None:
        """A variable of the operator that is being rewritten."""
        if self._number is not None:
            self.numbers[var] = self._number

    def _before_reshape(self, call: Call) -> Call | None:
        """An element-wise call behind a product, on what was there before a reshape."""
        for operand in call.args if call.op.name in ELEMENTWISE else ():
            base = before_reshapes(operand, self._definition)
            if base in self._behind_products and not base.same_as(operand):
                return on_reshaped(call, operand, base, self._definition)
        return None

    def _written(self, call: Call) -> Expr:
        same = unchanged(call, self._views)
        if same is not None:
            self._has_written = True
            return same
        family = FAMILIES.get(call.op.name)
        if family is None or not _is_readable(call) or not worth_decomposing(call):
            return call
        is_half, is_product = dtype_of(call.args[0]) in HALF, family is product.product
        may_stay = legalised_well(call) and not (is_half and is_product)
        may_stay = may_stay and family not in _ELEMENTWISE
        if self._number in self._whole and may_stay and _is_legalised(call):
            return call
        written = family(call, self._stages())
        if written is None:
            return call
        self._has_written = True
        if self._number is not None and may_stay and not is_product:
            (self.halves if is_half else self.others).add(self._number)
        return written


def _is_legalised(call: Call) -> bool:
    """Whether TVM has TIR for an operator of these types: of some it refuses what it documents."""
    params = [relax.Var(f"x{number}", arg.ty) for number, arg in enumerate(call.args)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        result = builder.emit(Call(call.op, params, call.attrs, call.ty_args))
        builder.emit_func_output(result)
    try:
        relax.transform.LegalizeOps()(builder.get())
    except Exception:  # of whatever kind: TVM's own code was not made for these shapes or types
        return False
    return True


def _is_operator(expr: Expr) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Op)


def _is_readable(call: Call) -> bool:
    """Whether the dtypes are ones to compute in and every shape is known, as LegalizeOps needs."""
    return dtype_of(call.args[0]) in ACCUMULATORS and all(map(has_shape, call.args))
