"""Symbols that no tensor's shape tells, through groups, their kernels and back out of them."""

import numpy as np
import tvm
from check import check, primfuncs, stitched
from tvm import relax, tirx
from tvm.relax import op
from zoo import Case, graph, softmax64

from tvm_stitch.graph.back.dissolve import dissolved, group_names

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def softmax_of_concat(n: int = 33, m: int = 7) -> Case:
    """Rows of n + m elements, which say neither n nor m."""
    return graph(
        "float32",
        [(4, (N, n)), (4, (M, m))],
        lambda emit, x, y: emit(op.nn.softmax(emit(op.exp(emit(op.concat([x, y], axis=1)))))),
        lambda x, y: softmax64(np.exp(np.concatenate([x, y], axis=1))),
    )


def without_concat() -> Case:
    """The same, where what n and m are comes from elsewhere than the group's own tensors."""
    return graph(
        "float32",
        [(4, (N, 33)), (4, (M, 7))],
        lambda emit, x, y: emit(
            op.nn.softmax(emit(op.exp(emit(op.sort(emit(op.concat([x, y], axis=1)))))))
        ),
        lambda x, y: softmax64(np.exp(np.sort(np.concatenate([x, y], axis=1)))),
    )


def test_symbols_are_arguments_of_the_kernel():
    check(softmax_of_concat())
    kernels = primfuncs(without_concat().module)
    (kernel,) = (kernel for name, kernel in kernels.items() if "exp" in name)
    assert {param.name for param in kernel.params[1:-1]} == {"n", "m"}
    assert "tirx.is_scheduled" in kernel.attrs


def test_a_group_of_such_symbols_comes_apart():
    before = stitched(without_concat().module, before="StitchSchedule")
    (name,) = (name for name in group_names(before) if "exp" in name)
    apart = dissolved(before, [name])
    relax.analysis.well_formed(apart)
    (main,) = (f for f in apart.functions.values() if isinstance(f, relax.Function))
    symbols = {symbol for param in main.params for symbol in param.ty.shape.values[1:]}
    calls = [
        binding.value
        for block in main.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, tvm.ir.Call) and "call_tir" in str(binding.value.op)
    ]
    given = [arg for call in calls for arg in call.args[1].fields if isinstance(arg, tirx.Var)]
    given = [arg for arg in given if isinstance(arg.ty, tvm.ir.PrimType)]
    assert given and {symbol.name for symbol in given} == {symbol.name for symbol in symbols}
    assert len(calls) > 1
