"""StitchOps, seen from the module before it and the module after it."""

import pytest
import tvm
from check import H200, stitched
from planned import random_module
from tvm import relax
from tvm.relax import op
from zoo import graph

from tvm_stitch.graph.back.dissolve import without_groups
from tvm_stitch.transform import StitchOps

FUNCTIONS = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def exp(x: T.Buffer((65, 72), "float32"), y: T.Buffer((65, 72), "float32")):
        for i, j in T.grid(65, 72):
            with T.sblock("exp"):
                v, w = T.axis.remap("SS", [i, j])
                y[v, w] = T.exp(x[v, w])

    @T.prim_func(private=True, s_tir=True)
    def sum(x: T.Buffer((65, 72), "float32"), y: T.Buffer((65, 1), "float32")):
        for i, j, k in T.grid(65, 1, 72):
            with T.sblock("sum"):
                v, w, r = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[v, w] = T.float32(0)
                y[v, w] = y[v, w] + x[v, r]

    @T.prim_func(private=True, s_tir=True)
    def divide(x: T.Buffer((65, 72), "float32"), y: T.Buffer((65, 1), "float32"),
               z: T.Buffer((65, 72), "float32")):
        for i, j in T.grid(65, 72):
            with T.sblock("divide"):
                v, w = T.axis.remap("SS", [i, j])
                z[v, w] = x[v, w] / y[v, 0]

    @T.prim_func(private=True, s_tir=True)
    def matmul(x: T.Buffer((65, 72), "float32"), y: T.Buffer((72, 72), "float32"),
               z: T.Buffer((65, 72), "float32")):
        for i, j, k in T.grid(65, 72, 72):
            with T.sblock("matmul"):
                v, w, r = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    z[v, w] = T.float32(0)
                z[v, w] = z[v, w] + x[v, r] * y[r, w]
"""

BEFORE = """
    @R.function
    def main(x: R.Tensor((65, 72), "float32"), w: R.Tensor((72, 72), "float32")):
        cls = Module
        with R.dataflow():
            exps = R.call_tir(cls.exp, (x,), out_ty=R.Tensor((65, 72), "float32"))
            total = R.call_tir(cls.sum, (exps,), out_ty=R.Tensor((65, 1), "float32"))
            ratio = R.call_tir(cls.divide, (exps, total), out_ty=R.Tensor((65, 72), "float32"))
            result = R.call_tir(cls.matmul, (ratio, w), out_ty=R.Tensor((65, 72), "float32"))
            R.output(total, result)
        return (result, total)
"""

AFTER = """
    @R.function(private=True)
    def stitched_exp_sum_divide(
        x: R.Tensor((65, 72), "float32"),
    ) -> R.Tuple(R.Tensor((65, 1), "float32"), R.Tensor((65, 72), "float32")):
        R.func_attr({"Primitive": True})
        cls = Module
        with R.dataflow():
            exps = R.call_tir(cls.exp, (x,), out_ty=R.Tensor((65, 72), "float32"))
            total = R.call_tir(cls.sum, (exps,), out_ty=R.Tensor((65, 1), "float32"))
            ratio = R.call_tir(cls.divide, (exps, total), out_ty=R.Tensor((65, 72), "float32"))
            both: R.Tuple(
                R.Tensor((65, 1), "float32"), R.Tensor((65, 72), "float32")
            ) = (total, ratio)
            R.output(both)
        return both

    @R.function
    def main(x: R.Tensor((65, 72), "float32"), w: R.Tensor((72, 72), "float32")):
        cls = Module
        with R.dataflow():
            both: R.Tuple(R.Tensor((65, 1), "float32"), R.Tensor((65, 72), "float32")) = (
                cls.stitched_exp_sum_divide(x)
            )
            total: R.Tensor((65, 1), "float32") = both[0]
            ratio: R.Tensor((65, 72), "float32") = both[1]
            result = R.call_tir(cls.matmul, (ratio, w), out_ty=R.Tensor((65, 72), "float32"))
            R.output(total, result)
        return (result, total)
"""


def module_of(text: str) -> tvm.IRModule:
    return tvm.script.from_source(FUNCTIONS + text)


def test_before_and_after():
    module = StitchOps(H200)(module_of(BEFORE))
    tvm.ir.assert_structural_equal(without_groups(module), module_of(AFTER))


@pytest.mark.slow
def test_what_is_grouped_already_stays():
    tvm.ir.assert_structural_equal(StitchOps(H200)(module_of(AFTER)), module_of(AFTER))


def functions_of(module: tvm.IRModule) -> dict[str, relax.Function]:
    return {
        var.name_hint: function
        for var, function in module.functions_items()
        if isinstance(function, relax.Function)
    }


def grouped(build, *shapes) -> dict[str, relax.Function]:
    """The Relax functions of a small graph after StitchOps."""
    module = graph("float32", list(shapes), build, lambda *arrays: ()).module
    return functions_of(stitched(module, before="FuseOps"))


def test_equal_groups_are_one_function():
    def build(emit, x):
        return emit(op.nn.softmax(emit(op.sort(emit(op.nn.softmax(x))))))

    assert len(grouped(build, (64, 128))) == 2  # main, and the softmax


def test_an_operator_alone_is_a_group():
    functions = grouped(lambda emit, x: emit(op.exp(x)), (4, 5))
    assert set(functions) == {"main", "stitched_tir_exp"}


def test_operands_come_once_and_have_names_apart():
    def build(emit, x):
        first = emit(op.add(x, relax.const([1.0, 2.0, 3.0, 4.0, 5.0])))
        return emit(op.multiply(emit(op.multiply(first, x)), relax.const([2.0] * 4 + [3.0])))

    (function,) = (f for name, f in grouped(build, (4, 5)).items() if name != "main")
    names = [param.name for param in function.params]
    assert len(set(names)) == len(names) == 3


def test_long_groups_have_short_names():
    def build(emit, x):
        for each in ("exp", "tanh", "sigmoid", "sqrt", "abs", "negative", "floor", "ceil"):
            x = emit(getattr(op, each)(x))
            x = emit(op.add(x, x))
            x = emit(op.maximum(x, relax.const(0.0)))
        return x

    assert all(len(name) <= 60 for name in grouped(build, (4, 5)))


def test_blocks_with_pure_operators_between_are_planned_together():
    x = relax.Var("x", relax.TensorType((4, 5), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit_output(op.nn.softmax(x))
        outside = builder.emit(op.unique(first))
        with builder.dataflow():
            second = builder.emit_output(op.exp(first))
        builder.emit_func_output(relax.Tuple([second, outside]))
    functions = functions_of(stitched(builder.get(), before="FuseOps"))
    assert set(functions) == {"main", "stitched_max_subtract_tir_exp_sum_divide"}


def test_blocks_around_an_effect_stay_apart():
    x = relax.Var("x", relax.TensorType((4, 5), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x], pure=False):
        with builder.dataflow():
            first = builder.emit_output(op.nn.softmax(x))
        builder.emit(op.print(first))
        with builder.dataflow():
            second = builder.emit_output(op.exp(first))
        builder.emit_func_output(second)
    functions = functions_of(stitched(builder.get(), before="FuseOps"))
    assert len(functions) == 3


def test_every_function_of_a_module_is_grouped():
    main = graph("float32", [(4, 5)], lambda emit, x: emit(op.exp(x)), lambda x: ()).module["main"]
    module = tvm.IRModule({"main": main, "other": main.with_attr("global_symbol", "other")})
    functions = functions_of(stitched(module, before="FuseOps"))
    assert set(functions) == {"main", "other", "stitched_tir_exp"}


@pytest.mark.spread(2)
@pytest.mark.parametrize("seed", range(6))
def test_modules_are_well_formed(seed):
    module = random_module(seed)
    for each in (stitched(module, before="FuseOps"), stitched(module)):
        relax.analysis.well_formed(each)  # else an error
        assert any(var.name_hint.startswith("stitched_") for var in each.get_global_vars())
