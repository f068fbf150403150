"""Functions without what nobody reads: as TVM leaves them."""

import random

import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op

from tvm_stitch.graph.front.functions.unused import without_unused

TYPE = relax.TensorType((4, 8), "float32")


def built(fill, pure=True):
    """A function of two tensors, of which one is of any shape."""
    builder = relax.BlockBuilder()
    x, y = relax.Var("x", TYPE), relax.Var("y", relax.TensorType(dtype="float32", ndim=2))
    with builder.function("main", [x, y], pure=pure):
        builder.emit_func_output(fill(builder, x, y))
    return builder.get()["main"]


def same(function):
    found = without_unused(function)
    tvm.ir.assert_structural_equal(found, relax.analysis.remove_all_unused(function))
    relax.analysis.well_formed(found)
    return found


def count(function):
    return sum(len(block.bindings) for block in function.body.blocks)


@pytest.mark.parametrize("seed", range(20))
def test_what_leads_to_no_result_is_gone(seed):
    rng = random.Random(seed)

    def fill(builder, x, _y):
        values = [x]
        for _ in range(3):
            with builder.dataflow():
                for _ in range(8):
                    a, b = rng.choice(values), rng.choice(values)
                    values.append(builder.emit(op.add(a, b) if rng.random() < 0.6 else op.exp(a)))
                values = [builder.emit_output(op.negative(rng.choice(values))) for _ in range(2)]
            if rng.random() < 0.5:
                values.append(builder.emit(op.exp(rng.choice(values))))
        return rng.choice(values)

    function = built(fill)
    assert count(same(function)) < count(function)


def test_checks_and_what_has_effects_stay():
    def fill(builder, x, y):
        with builder.dataflow():
            builder.match_cast(y, TYPE)
            out = builder.emit_output(op.exp(x))
        builder.match_cast(y, TYPE)
        builder.emit(op.print(builder.emit(op.exp(out)), format="{}"))
        builder.emit(op.exp(out))  # and this does not
        return out

    function = built(fill, pure=False)
    assert count(same(function)) == count(function) - 1


def test_a_function_all_of_which_is_read_stays():
    function = built(lambda builder, x, _y: builder.emit(op.exp(builder.emit(op.exp(x)))))
    assert tvm_ffi.structural_equal(same(function), function)


def test_branches_are_looked_into():
    def branch(value):
        var = relax.Var("branch", TYPE)
        unused = relax.VarBinding(relax.Var("unused", TYPE), op.exp(value))
        block = relax.BindingBlock([unused, relax.VarBinding(var, op.negative(value))])
        return relax.SeqExpr([block], var)

    condition = relax.Var("condition", relax.TensorType((), "bool"))
    x, result = relax.Var("x", TYPE), relax.Var("result", TYPE)
    either = relax.VarBinding(result, relax.If(condition, branch(x), branch(op.exp(x))))
    body = relax.SeqExpr([relax.BindingBlock([either])], result)
    function = relax.Function([condition, x], body, TYPE)
    module = relax.transform.Normalize()(tvm.IRModule({"main": function}))
    same(module["main"])
