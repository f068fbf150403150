"""`verify` runs every kernel that the GPU would: TVM's own, symbolic ones, and none at all."""

import numpy as np
import pytest
import tvm
from check import H200
from tvm import relax, tirx
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from zoo import graph, graph_of, softmax

from tvm_stitch import verify
from tvm_stitch.errors import InputError
from tvm_stitch.executable import on_cpu
from tvm_stitch.options import Options
from tvm_stitch.reference import reference
from tvm_stitch.verify import compare

TVM_ONLY = Options(schemes=())


@I.ir_module
class Divided:
    """A value by its minimum: 1."""

    @R.function
    def main(p: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        with R.dataflow():
            least = R.min(p, axis=[0], keepdims=True)
            q = R.divide(p, least)
            R.output(q)
        return q


@I.ir_module
class Miscompiled:
    """What DLight makes of both in one function: the minimum is not there yet."""

    @T.prim_func(private=True, s_tir=True)
    def divide(p: T.Buffer((1,), "float32"), q: T.Buffer((1,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for _ in T.thread_binding(1, thread="threadIdx.x"):
            with T.sblock("divide"):
                T.reads(p[0])
                T.writes(q[0])
                q[0] = p[0] / T.float32(3.4028234663852886e38)
                q[0] = p[0] / T.min(q[0], p[0])

    @R.function
    def main(p: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        cls = Miscompiled
        with R.dataflow():
            q = R.call_tir(cls.divide, (p,), out_ty=R.Tensor((1,), "float32"))
            R.output(q)
        return q


@I.ir_module
class Merged:
    """Both in one function, which is right as it stands; DLight will schedule it."""

    @T.prim_func(private=True, s_tir=True)
    def divide(p: T.Buffer((1,), "float32"), q: T.Buffer((1,), "float32")):
        T.func_attr({"tirx.noalias": True})
        least = T.sblock_alloc_buffer((1,))
        for k in range(1):
            with T.sblock("min"):
                v = T.axis.reduce(1, k)
                T.reads(p[v])
                T.writes(least[0])
                with T.init():
                    least[0] = T.float32(3.4028234663852886e38)
                least[0] = T.min(least[0], p[v])
        for i in range(1):
            with T.sblock("divide"):
                v = T.axis.spatial(1, i)
                T.reads(p[v], least[0])
                T.writes(q[v])
                q[v] = p[v] / least[0]

    @R.function
    def main(p: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        cls = Merged
        with R.dataflow():
            q = R.call_tir(cls.divide, (p,), out_ty=R.Tensor((1,), "float32"))
            R.output(q)
        return q


def no_array(*_arrays):
    """For cases that `verify` alone judges."""
    return ()


def judged(compiled, value=2.0):
    """What is said of a module that stands for the compiled one."""
    arrays = [np.array([value], "float32")]
    return compare(Divided, compiled, H200, arrays, reference(Divided, arrays), 1)


def test_a_kernel_of_tvm_that_is_wrong():
    found = judged(Miscompiled)
    assert not found.ok and found.default == ("divide",) and not found.not_run
    assert found.errors[0].wrong == 1 and "WRONG, 1 elements" in str(found)


def test_what_dlight_miscompiles_does_not_pass_for_right():
    """Its schedule of a merged reduction of one element is what runs, not the function itself."""
    found = judged(Merged)
    assert found.default == ("divide",) and not found.not_run
    assert found.ok == (float(found.errors[0].error) < 1e-6)


def test_kernels_of_tvm_run_as_cuda():
    case = softmax("float32", 4, 50)
    found = verify(case.module, H200, options=TVM_ONLY)
    assert found.ok and not found.kernels and found.default and not found.not_run
    assert str(found).startswith(f"0 stitched kernel runs and {len(found.default)} of TVM's in 3")


@pytest.mark.parametrize("operator", ["sort", "topk"])
def test_kernels_that_tvm_writes_for_threads(operator):
    """Several launches a function."""
    builds = {
        "sort": lambda emit, x: emit(op.sort(x)),
        "topk": lambda emit, x: emit(op.topk(x, 3, ret_type="values")),
    }
    case = graph("float32", [(3, 300)], builds[operator], no_array)
    found = verify(case.module, H200, orders=2)
    assert found.ok and found.default and not found.not_run


def test_scans_are_left_to_llvm():
    """Those of rows that are too long to be stages of a kernel."""
    case = graph("float32", [(2, 20000)], lambda emit, x: emit(op.cumsum(x, 1)), no_array)
    found = verify(case.module, H200, orders=1)
    assert found.ok and "by LLVM: relax.cumsum: the module has scans, whose" in str(found)


def test_what_the_executor_cannot_run_is_named(monkeypatch):
    monkeypatch.setattr(on_cpu, "MOST_STEPS", 1000)
    case = graph(
        "float32", [(90, 80), (80, 70)], lambda emit, x, y: emit(op.matmul(x, y)), no_array
    )
    found = verify(case.module, H200, orders=1)
    assert found.ok and not found.default
    assert [kernel.name for kernel in found.not_run] == ["matmul"]
    assert "its 5.0e+05 steps are more than" in found.not_run[0].reason
    assert "not as CUDA, but by LLVM: matmul: its" in str(found)


# Symbolic dimensions


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", ["batch-size", "float", "threadIdx", "n"])
def test_symbols_of_any_name(name):
    n, m = tirx.Var(name, "int64"), tirx.Var("n", "int64")

    def build(emit, x, y):
        # Neither is the extent of a tensor of its own: both are arguments.
        return emit(op.exp(emit(op.reshape(emit(op.tanh(x)), (2 * n,))))), emit(op.exp(y))

    case = graph(
        "float32", [(2, (n, 9)), ((m, 7),)], build, lambda x, y: (np.exp(np.tanh(x).ravel()), y)
    )
    found = verify(case.module, H200, case.arrays)
    assert found.ok and not found.not_run
    found = verify(case.module, H200, case.arrays, options=TVM_ONLY)
    # Of CUDA's own variables, TVM makes kernels that no compiler takes.
    assert found.ok and bool(found.not_run) == (name == "threadIdx")


def bounded_softmax(columns):
    m = tirx.Var("m", "int64")
    case = softmax("float32", 3, (m, columns))
    main = case.module["main"].with_attr("tir_var_upper_bound", {"m": 1024})
    return tvm.IRModule({"main": main}), case.arrays


@pytest.mark.parametrize("columns", (1025, 2045, 5000))
def test_rows_past_their_bound_are_an_error(columns):
    module, arrays = bounded_softmax(columns)
    with pytest.raises(InputError, match="at most 1024 elements"):
        verify(module, H200, arrays, orders=1)


def test_rows_within_their_bound_are_not():
    module, arrays = bounded_softmax(1024)
    assert verify(module, H200, arrays, orders=1).ok


# Little or nothing to compute


def test_symbolic_dimensions_without_elements():
    n = tirx.Var("n", "int64")
    case = softmax("float32", (n, 5), 50)
    empty = [np.zeros((0, 50), "float32")]
    assert verify(case.module, H200, empty).ok
    assert verify(case.module, H200, empty, options=TVM_ONLY).ok


def test_a_shape_is_returned():
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(op.exp(x))
        builder.emit_func_output(relax.Tuple([y, relax.ShapeExpr([n, 2 * n])]))
    found = verify(builder.get(), H200)
    assert found.ok and [error.dtype for error in found.errors] == ["float32", "int64"]


# Integer division


@pytest.mark.spread(2)
@pytest.mark.parametrize("options", [None, TVM_ONLY])
@pytest.mark.parametrize("name", ["floor_divide", "floor_mod", "divide", "mod"])
def test_integers_are_divided_by_random_ones(name, options):
    inputs = [((4, 50), "int32", np.zeros((4, 50), "int32"))] * 2
    case = graph_of(inputs, lambda emit, x, y: emit(getattr(op, name)(x, y)), no_array)
    assert verify(case.module, H200, options=options).ok


def test_division_of_integers_by_zero_does_not_kill():
    """As on a GPU, where it gives what it gives; here nobody uses it."""

    def build(emit, x, y):
        zero, one = relax.const(0, "int32"), relax.const(1, "int32")
        quotient = emit(op.floor_divide(x, y))
        return emit(op.where(emit(op.equal(y, zero)), one, quotient))

    x = np.arange(-100, 100, dtype="int32").reshape(4, 50)
    y = np.arange(200, dtype="int32").reshape(4, 50) % 5 - 2
    case = graph_of([((4, 50), "int32", x), ((4, 50), "int32", y)], build, no_array)
    for options in (None, TVM_ONLY):
        assert verify(case.module, H200, case.arrays, options=options).ok
