"""erf where a constant is added to it: which ones are replaced, and that nothing is lost by it."""

import math

import numpy as np
import pytest
import tvm
from check import DTYPES, check, cuda_of, the_kernel
from tvm import relax
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R
from zoo import gelu64, graph_of

from tvm_stitch import simt
from tvm_stitch.graph.front.functions.erf import EXPONENT, SumOfErf

erf64 = np.vectorize(math.erf)
X = np.linspace(-9, 9, 7 * 33).reshape(7, 33)


def number(value, dtype="float32"):
    return relax.const(value, dtype)


SUMS = {
    "gelu": (lambda emit, x: emit(op.nn.gelu(x)), gelu64),
    "one more": (
        lambda emit, x: emit(op.add(number(1.0), emit(op.erf(x)))),
        lambda x: 1 + erf64(x),
    ),
    "both of one erf": (
        lambda emit, x: (
            (e := emit(op.erf(x))),
            emit(op.multiply(emit(op.add(e, number(1.0))), emit(op.add(e, number(-1.0))))),
        )[-1],
        lambda x: erf64(x) ** 2 - 1,
    ),
}
OTHERS = {
    "erf": (lambda emit, x: emit(op.erf(x)), erf64),
    "a small constant": (
        lambda emit, x: emit(op.add(emit(op.erf(x)), number(0.125))),
        lambda x: erf64(x) + 0.125,
    ),
    "no constant": (lambda emit, x: emit(op.add(emit(op.erf(x)), x)), lambda x: erf64(x) + x),
    "scaled up": (
        lambda emit, x: emit(op.add(emit(op.multiply(emit(op.erf(x)), number(3.0))), number(1.0))),
        lambda x: 1 + 3 * erf64(x),
    ),
    "scaled and no sum": (
        lambda emit, x: emit(op.multiply(emit(op.erf(x)), number(0.5))),
        lambda x: 0.5 * erf64(x),
    ),
    "one use of two": (
        lambda emit, x: (
            (e := emit(op.erf(x))),
            (emit(op.add(e, number(1.0))), emit(op.multiply(e, x))),
        )[-1],
        lambda x: (1 + erf64(x), x * erf64(x)),
    ),
}


def case(graph, dtype="float32"):
    build, expected = graph
    return graph_of([(X.shape, dtype, X)], build, expected)


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_takes_an_exponential(name):
    source = cuda_of(the_kernel(case(SUMS[name]).module))
    assert "exp2f(" in source and "erff(" not in source
    check(case(SUMS[name]))


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", OTHERS)
def test_other_erfs_stay(name):
    assert "erff(" in cuda_of(the_kernel(case(OTHERS[name]).module))
    check(case(OTHERS[name]), orders=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu_in_every_dtype(dtype):
    check(case(SUMS["gelu"], dtype))


@pytest.mark.parametrize("dtype", ("float16", "float64"))
def test_halves_and_float64_stay(dtype):
    one = number(1.0, dtype)
    module = case((lambda emit, x: emit(op.add(one, emit(op.erf(x)))), erf64), dtype).module
    assert SumOfErf()(module).script() == module.script()


def test_an_output_and_a_graph_without_dataflow_stay():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            e = R.erf(x)
            y = R.add(e, R.const(1.0, "float32"))
            return y

    assert SumOfErf()(Module).script() == Module.script()


def test_the_error_is_a_rounding_of_one():
    """In float32, as the kernel computes it, over all arguments that matter."""
    x = np.concatenate([np.linspace(-6, 6, 24_001), np.logspace(-6, 0, 1000), [40.0, -40.0]])
    graph = graph_of([((1, len(x)), "float32", x[None])], SUMS["one more"][0], lambda x: x)
    out = np.zeros((1, len(x)), "float32")
    given = x[None].astype("float32")
    kernel = the_kernel(graph.module)
    assert simt.run(kernel, arrays={kernel.params[0].name: given, kernel.params[1].name: out}).ok
    error = np.abs(out.astype("float64") - (1 + erf64(given.astype("float64"))))
    assert error.max() < 2.5e-7


def test_large_arguments_end_at_one():
    assert EXPONENT[-1] > 0
    values = np.array([[np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0]])
    build, expected = SUMS["one more"]
    check(graph_of([(values.shape, "float32", values)], build, expected), orders=1)


def test_variables_stay_the_same():
    """Operators are told by their variables: another one was once taken for a later erf."""

    def variables(mod):
        return [b.var for block in mod["main"].body.blocks for b in block.bindings]

    before = case(SUMS["one more"]).module
    after = SumOfErf()(before)
    assert "R.erf(" in before.script() and "R.erf(" not in after.script()
    pairs = zip(variables(before), variables(after), strict=True)
    assert all(one.same_as(other) for one, other in pairs)


def test_several_functions_and_symbolic_sizes():
    builder = relax.BlockBuilder()
    for name in ("main", "other"):
        rows = tvm.tirx.Var("n", "int64")
        x = relax.Var("x", relax.TensorType((rows, 33), "float32"))
        with builder.function(name, [x]):
            with builder.dataflow():
                output = builder.emit_output(SUMS["one more"][0](builder.emit, x))
            builder.emit_func_output(output)
    written = SumOfErf()(builder.get())
    relax.analysis.well_formed(written)  # else an error
    assert "R.erf" not in written.script()
    called = [f for f in written.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    assert len(called) == 1
