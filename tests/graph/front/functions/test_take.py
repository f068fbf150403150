"""Gathers are what TVM makes of them, but that nothing is written to standard error."""

import pytest
import tvm
from tvm import relax, tirx

from tvm_stitch.graph.front.functions.take import legalize_take


def module(axis, mode, positions):
    middle = 7 if axis == 1 else tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((5, middle, 4), "float16"))
    at = relax.Var("at", positions)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, at]):
        with builder.dataflow():
            found = builder.emit_output(relax.op.take(x, at, axis=axis, mode=mode))
        builder.emit_func_output(found)
    return builder.get()


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("mode", ["fast", "clip", "wrap"])
@pytest.mark.parametrize(
    "positions",
    [
        relax.TensorType((3,), "int64"),
        relax.TensorType((2, 3), "int32"),
        relax.TensorType((), "int64"),
        tvm.ir.PrimType("int64"),
    ],
    ids=["vector", "matrix", "scalar", "number"],
)
def test_as_tvm_makes_it(axis, mode, positions, capfd):
    given = module(axis, mode, positions)
    found = relax.transform.LegalizeOps({"relax.take": legalize_take})(given)
    if isinstance(positions, relax.TensorType):
        assert "Warning" not in capfd.readouterr().err
    wanted = relax.transform.LegalizeOps()(given)
    tvm.ir.assert_structural_equal(found, wanted, map_free_vars=True)
