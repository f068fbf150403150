"""Operators as their author wrote them."""

import tvm
from tvm import relax, tirx
from tvm.relax import op

from tvm_stitch.report.findings.sources import sources_of


def test_numbers_are_told_by_their_values():
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            builder.emit(op.strided_slice(x, [1], [2], [6]))
            y = builder.emit(op.full((n, 4), relax.const(0.5), "float32"))
            out = builder.emit_output(op.add(y, builder.emit(op.clip(y, 0, 2.5))))
        builder.emit_func_output(out)
    mod: tvm.IRModule = builder.get()
    assert [source.text for source in sources_of(mod)] == [
        "lv = strided_slice(x, (1), (2), (6))",
        "lv1 = full((n, 4), constant)",
        "lv2 = clip(lv1, 0, 2.5)",
        "gv = add(lv1, lv2)",
    ]
