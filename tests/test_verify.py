"""`verify`: what it finds, what it says, and what it refuses."""

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from check import A100, H200
from tvm import relax, tirx
from tvm.relax import op
from zoo import graph, graph_of, softmax, softmax64

import tvm_stitch
from tvm_stitch import Options, verify
from tvm_stitch.errors import InputError
from tvm_stitch.kernel import stitched
from tvm_stitch.kernel.codegen.thread_indexing import Guard, Position


def test_a_right_module():
    found = verify(softmax("float32").module, H200)
    assert found.ok and not found.hazards
    assert found.kernels == ("stitched_max_subtract_tir_exp_sum_divide",)
    (error,) = found.errors
    assert (error.dtype, error.ok) == ("float32", True)
    assert 0 < error.error <= error.tolerance
    assert str(found).splitlines()[0] == "1 stitched kernel runs in 3 thread orders"
    assert str(found).endswith("\nok")


@pytest.mark.slow
def test_a_kernel_without_its_guards_is_named_with_its_lines(monkeypatch):
    """128 x 1000: without guards, the last threads of a row go past its end."""
    monkeypatch.setattr(Position, "_guard", lambda *_: Guard.NONE)
    found = verify(softmax("float32", 128, 1000).module, H200, options=Options(cache="off"))
    assert not found.ok and str(found).endswith("NOT OK")
    (name,) = set(found.kernels)
    kinds = {hazard.kind for hazard in found.hazards}
    assert {"out-of-bounds read", "out-of-bounds write", "race"} <= kinds
    assert all(f" of {name}: " in str(hazard) for hazard in found.hazards)
    assert all(hazard.line > 0 for hazard in found.hazards)


@pytest.mark.parametrize("target", ["cuda", {"kind": "cuda", "arch": "sm_80"}, A100, H200])
def test_targets(target):
    assert verify(softmax("float32").module, target, orders=1).ok


def test_inputs_of_ones_own():
    case = softmax("float32", 4, 50)
    assert verify(case.module, H200, [np.zeros((4, 50), "float32")], orders=1).ok


@pytest.mark.parametrize("given", ["float64", "float32", "bfloat16"])
def test_floating_inputs_are_rounded(given):
    array = np.random.default_rng(0).standard_normal((4, 50))
    array = array.astype(getattr(ml_dtypes, given, given))
    assert verify(softmax("float16", 4, 50).module, H200, [array], orders=1).ok


def test_bfloat16_inputs_may_be_bits():
    bits = np.full((4, 50), 0x3F80, "uint16")
    assert verify(softmax("bfloat16", 4, 50).module, H200, [bits], orders=1).ok


def test_the_same_seed_gives_the_same_errors():
    module = softmax("float16").module
    assert verify(module, H200, seed=3).errors == verify(module, H200, seed=3).errors


@pytest.mark.slow
def test_several_kernels_and_several_outputs():
    def build_graph(emit, x, y):
        return emit(op.nn.softmax(x)), emit(op.exp(emit(op.sort(emit(op.tanh(y))))))

    case = graph("float32", [(5, 70), (3, 4)], build_graph, lambda x, y: ())
    found = verify(case.module, H200)
    assert found.ok and len(found.errors) == 2 and len(found.kernels) >= 2


def test_views_alone():
    x = relax.Var("x", relax.TensorType((8,), "uint8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            views = [builder.emit(relax.op.reshape(x, (2, 4))), builder.emit(relax.op.flatten(x))]
            out = builder.emit_output(relax.Tuple(views))
        builder.emit_func_output(out)
    assert tvm_stitch.verify(builder.get(), "sm_90").ok


def test_options_are_passed_on():
    found = verify(softmax("float32", 4, 50).module, H200, options=Options(schemes=("cluster",)))
    assert found.ok and not found.kernels


def test_a_wrong_kernel_is_wrong(monkeypatch):
    """A kernel whose last element is off must not pass."""
    breaking(monkeypatch, lambda value: value * tirx.const(1.01, "float32"))
    found = verify(softmax("float32", 4, 33).module, H200)
    assert not found.ok
    (error,) = found.errors
    assert error.wrong == 4 * 33 and error.error > 1e3 * error.tolerance
    assert "WRONG" in str(found) and str(found).endswith("NOT OK")


def test_not_a_number_is_wrong(monkeypatch):
    breaking(monkeypatch, lambda value: value * tirx.const(float("nan"), "float32"))
    found = verify(softmax("float32", 4, 33).module, H200)
    assert not found.ok and "NOT OK" in str(found)


def breaking(monkeypatch, change):
    """Let every kernel apply a change to each element that it writes."""
    emit = stitched.emit

    def emit_broken(*arguments):
        kernel = emit(*arguments)

        def visit(store):
            if store.buffer.scope() != "global":
                return store
            return tirx.BufferStore(store.buffer, change(store.value), store.indices)

        body = tvm_ffi.structural_map(kernel.body, (tirx.BufferStore, visit))
        return tirx.PrimFunc(kernel.params, body, kernel.ret_type, kernel.attrs)

    monkeypatch.setattr(stitched, "emit", emit_broken)


def test_infinities_and_not_a_number_must_agree():
    values = np.random.default_rng(8).standard_normal((4, 50))
    values[1, 2], values[2, 3] = np.inf, np.nan
    case = graph_of([((4, 50), "float32", values)], lambda emit, x: emit(op.exp(x)), np.exp)
    assert verify(case.module, H200, case.arrays).ok


def test_integer_and_boolean_outputs_must_be_equal():
    values = np.arange(-100, 100, dtype="int32").reshape(4, 50)
    case = graph_of(
        [((4, 50), "int32", values)],
        lambda emit, x: (emit(op.multiply(x, x)), emit(op.greater(x, emit(op.negative(x))))),
        lambda x: (x * x, x > -x),
    )
    found = verify(case.module, H200, case.arrays)
    assert found.ok and [error.tolerance for error in found.errors] == [0.0, 0.0]


def test_scalars_and_constants():
    case = graph("float32", [()], lambda emit, x: emit(op.exp(x)), np.exp)
    assert verify(case.module, H200).ok


def test_symbolic_shapes_get_sizes():
    n = tirx.Var("n", "int64")
    assert verify(softmax("float32", (n, 4), 50).module, H200).ok


# Refusals


@pytest.mark.parametrize("orders", (0, -1))
def test_orders(orders):
    with pytest.raises(InputError, match="orders must be at least 1"):
        verify(softmax("float32").module, H200, orders=orders)


@pytest.mark.parametrize("mod", [None, "main", 3, tvm.IRModule({})])
def test_what_is_no_module(mod):
    with pytest.raises(InputError, match="Relax IRModule with a function main"):
        verify(mod, H200)


@pytest.mark.parametrize("count", (0, 2))
def test_the_wrong_number_of_inputs(count):
    with pytest.raises(InputError, match=f"takes 1 inputs .*got {count}"):
        verify(softmax("float32", 4, 50).module, H200, [np.zeros((4, 50), "float32")] * count)


def test_inputs_of_the_wrong_shape():
    with pytest.raises(InputError, match=r"shape \(4, 51\), expected \(4, 50\)"):
        verify(softmax("float32", 4, 50).module, H200, [np.zeros((4, 51), "float32")])


def test_inputs_of_the_wrong_kind():
    with pytest.raises(InputError, match="dtype int32, expected float32"):
        verify(softmax("float32", 4, 50).module, H200, [np.zeros((4, 50), "int32")])


def test_targets_without_cuda():
    with pytest.raises(InputError, match="stitching is for CUDA"):
        verify(softmax("float32").module, "llvm")


def test_public():
    assert tvm_stitch.verify is verify
    assert softmax64(np.zeros((1, 2))).sum() == 1


@pytest.mark.slow
def test_deeply_nested_rounding_comes_to_an_end():
    """Every rounding is a Let, and one of TVM's passes takes twice as long for each in another."""
    x = relax.Var("x", relax.TensorType((2, 3, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        grid = builder.emit(op.image.affine_grid(x, (4, 5, 6), align_corners=False))
        builder.emit_func_output(grid)
    assert verify(builder.get(), H200, orders=1).ok
