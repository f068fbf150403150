"""Convolutions become calls of cuDNN, with what it computes behind them, and are right."""

import math

import ml_dtypes
import numpy as np
import pytest
import tvm
from library_convolutions import TARGET, calls, check, module, packed
from library_stand_in import stand_in
from tvm import relax, tirx
from tvm.relax import op

import tvm_stitch
from tvm_stitch import Options
from tvm_stitch.build import stitch_passes
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.graph.front.convolution import LibraryConvolutions
from tvm_stitch.kernel.ir.mapping import LIBRARY, SCHEMES
from tvm_stitch.library import locate
from tvm_stitch.library.convolution import WORKSPACE_BYTES, decoded
from tvm_stitch.reference import random_inputs, reference
from tvm_stitch.verify import stitched_for_cpu


@pytest.fixture(autouse=True)
def _library(monkeypatch):
    with stand_in(monkeypatch, locate.CUDNN):
        yield


@pytest.mark.parametrize("measure", [False, True])
def test_the_clock_chooses_engines_if_it_is_to_measure(measure):
    passes = stitch_passes(TARGET, Options(measure=measure))
    (library,) = (each for each in passes if each.info.name == "LibraryConvolutions")
    mod = module(lambda emit, x, w: emit(op.nn.conv2d(x, w)), (2, 8, 9, 9), (16, 8, 3, 3))
    (call,) = packed(library(mod))
    assert decoded([int(n) for n in call.args[1].fields[-1].values]).timed == measure


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("rank", "how"),
    [
        (1, {"strides": 2, "padding": 1}),
        (2, {"strides": (2, 1), "padding": (1, 2), "dilation": (1, 2)}),
        (2, {"groups": 2}),
        (2, {"strides": (2, 2), "padding": (0, 0, 1, 1)}),
        (3, {"padding": 1}),
    ],
)
def test_convolutions(dtype, rank, how):
    convolve = getattr(op.nn, f"conv{rank}d")
    weight = (6, 4 // how.get("groups", 1), *(3, 2, 3)[:rank])
    shapes = (3, 4, *(7, 6, 5)[:rank]), weight
    check(module(lambda emit, x, w: emit(convolve(x, w, **how)), *shapes, dtype=dtype))


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_cast_behind_rounds_what_is_summed_in_float32(dtype, transposed):
    convolve = op.nn.conv2d_transpose if transposed else op.nn.conv2d

    def body(emit, x, w, b):
        h = emit(convolve(x, w, padding=1, strides=2, out_dtype="float32"))
        return emit(op.add(emit(op.astype(h, dtype)), emit(op.reshape(b, (1, -1, 1, 1)))))

    mod = module(body, (2, 4, 7, 5), (4, 4, 3, 3), (4,), dtype=dtype)
    check(mod, kernels=2)
    (found,), refused = calls(mod)
    assert found.bias != transposed and found.channels_last and not refused


def test_a_cast_that_is_not_alone_or_to_another_type_stays():
    def both(emit, x, w):
        h = emit(op.nn.conv2d(x, w, out_dtype="float32"))
        return emit(op.add(h, emit(op.astype(emit(op.astype(h, "float16")), "float32"))))

    def other(emit, x, w):
        return emit(op.astype(emit(op.nn.conv2d(x, w, out_dtype="float32")), "bfloat16"))

    for body in (both, other):
        assert calls(module(body, (2, 4, 4, 4), (4, 4, 3, 3)))[0] == []


def test_groups_of_several_channels():
    how = {"groups": 2, "padding": 1}
    check(module(lambda emit, x, w: emit(op.nn.conv2d(x, w, **how)), (2, 4, 7, 5), (8, 2, 3, 3)))


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions(groups):
    how = {"strides": (2, 2), "padding": (1, 1), "output_padding": (1, 0), "groups": groups}
    mod = module(
        lambda emit, x, w: emit(op.nn.conv2d_transpose(x, w, **how)), (2, 4, 5, 4), (4, 3, 3, 3)
    )
    check(mod)


@pytest.mark.spread(2)
@pytest.mark.parametrize("bias", [(6, 1, 1), (1, 6, 1, 1)])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("relu", [True, False])
def test_what_follows_is_cudnns(bias, residual, relu):
    def body(emit, x, w, b, z):
        h = emit(op.add(b, emit(op.nn.conv2d(x, w, padding=1))))
        h = emit(op.add(h, z)) if residual else h
        return emit(op.nn.relu(h)) if relu else h

    mod = module(body, (2, 4, 7, 5), (6, 4, 3, 3), bias, (2, 6, 7, 5))
    check(mod)
    (found,), refused = calls(mod)
    assert (found.bias, found.residual, found.relu) == (True, residual, relu)
    assert found.channels_last and not refused


def test_what_others_read_is_not_swallowed():
    def body(emit, x, w, b):
        h = emit(op.add(emit(op.nn.conv2d(x, w)), b))
        return emit(op.add(emit(op.nn.relu(h)), h))

    mod = module(body, (2, 4, 5, 5), (4, 4, 1, 1), (1, 4, 1, 1))
    check(mod)
    ((found,), _) = calls(mod)
    assert found.bias and not found.relu


def test_the_sum_of_two_convolutions_is_one_of_them_alone():
    """A residual block whose shortcut is a convolution, each with a bias."""

    def body(emit, x, y, w, v, b, c):
        h = emit(op.add(emit(op.nn.conv2d(x, w, padding=1)), b))
        return emit(op.nn.relu(emit(op.add(h, emit(op.add(emit(op.nn.conv2d(y, v)), c))))))

    bias = (1, 6, 1, 1)
    mod = module(body, (2, 4, 5, 5), (2, 3, 5, 5), (6, 4, 3, 3), (6, 3, 1, 1), bias, bias)
    check(mod, count=2)
    found, refused = calls(mod)
    assert [(each.bias, each.residual, each.relu) for each in found] == [
        (True, False, False),
        (True, True, True),
    ]
    assert not refused


@pytest.mark.parametrize("rank", [1, 2])
def test_transposed_convolutions_end_with_nothing(rank):
    """cuDNN would generate a kernel, for each size anew."""

    def body(emit, x, w, b, z):
        h = emit(getattr(op.nn, f"conv{rank}d_transpose")(x, w, padding=1))
        return emit(op.nn.relu(emit(op.add(emit(op.add(h, b)), z))))

    channels = (1, 6, *[1] * rank)
    mod = module(
        body, (2, 4, 7, 5)[: rank + 2], (4, 6, 3, 3)[: rank + 2], channels, (2, 6, 7, 5)[: rank + 2]
    )
    check(mod)
    (found,), refused = calls(mod)
    assert (found.what, found.bias, found.residual, found.relu) == ("data", False, False, False)
    assert not refused


def test_grouped_convolutions_end_with_nothing():
    def body(emit, x, w, b):
        return emit(op.nn.relu(emit(op.add(emit(op.nn.conv2d(x, w, groups=2)), b))))

    mod = module(body, (2, 4, 5, 5), (4, 2, 3, 3), (1, 4, 1, 1))
    check(mod)
    ((found,), _) = calls(mod)
    assert not found.bias and not found.relu


def test_a_bias_along_another_axis_is_none():
    mod = module(
        lambda emit, x, w, b: emit(op.add(emit(op.nn.conv2d(x, w)), b)),
        (2, 4, 4, 4), (4, 4, 1, 1), (1, 1, 4, 1),
    )  # fmt: skip
    check(mod)
    ((found,), _) = calls(mod)
    assert not found.bias


def test_a_chain_stays_with_channels_last():
    def body(emit, x, w1, b1, w2, b2, w3, b3):
        h = emit(op.nn.relu(emit(op.add(emit(op.nn.conv2d(x, w1)), b1))))
        h = emit(op.nn.relu(emit(op.add(emit(op.nn.conv2d(h, w2, padding=1)), b2))))
        return emit(op.nn.relu(emit(op.add(emit(op.add(emit(op.nn.conv2d(h, w3)), b3)), x))))

    narrow, wide = (1, 4, 1, 1), (1, 8, 1, 1)
    shapes = (2, 8, 6, 5), (4, 8, 1, 1), narrow, (4, 4, 3, 3), narrow, (8, 4, 1, 1), wide
    # The image and weights are transposed in one kernel, the result in another.
    check(module(body, *shapes), count=3, kernels=2)


def test_channels_last_outside_cost_no_kernel():
    def body(emit, x, w, b):
        x = emit(op.permute_dims(x, [0, 3, 1, 2]))
        h = emit(op.add(emit(op.nn.conv2d(x, w)), b))
        return emit(op.permute_dims(h, [0, 2, 3, 1]))

    check(module(body, (2, 6, 5, 8), (4, 8, 1, 1), (1, 4, 1, 1)), kernels=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_that_are_known_are_laid_out_at_once(dtype):
    weight = np.random.default_rng(0).normal(size=(4, 8, 3, 3)).astype("float32")
    known = relax.const(tvm.runtime.tensor(weight.astype(getattr(ml_dtypes, dtype, dtype))), dtype)

    def body(emit, x):
        h = emit(op.nn.conv2d(emit(op.permute_dims(x, [0, 3, 1, 2])), known))
        return emit(op.permute_dims(h, [0, 2, 3, 1]))

    check(module(body, (2, 6, 5, 8), dtype=dtype), kernels=0)


def test_float32_stays_with_channels_first():
    mod = module(
        lambda emit, x, w: emit(op.nn.conv2d(x, w)), (2, 8, 6, 5), (4, 8, 1, 1), dtype="float32"
    )
    check(mod, kernels=0)
    ((found,), _) = calls(mod)
    assert not found.channels_last


def test_tf32_lies_with_channels_last():
    mod = module(
        lambda emit, x, w: emit(op.nn.relu(emit(op.nn.conv2d(x, w)))),
        (2, 8, 6, 5), (4, 8, 1, 1), dtype="float32",
    )  # fmt: skip
    check(mod, tf32=True)
    ((found,), _) = calls(mod, tf32=True)
    assert found.channels_last and found.tf32 and found.relu


@pytest.mark.parametrize(
    ("channels", "tf32", "copied"), [(3, True, True), (8, True, False), (3, False, False)]
)
def test_there_is_room_for_rounded_copies_of_factors(channels, tf32, copied):
    """Tensor cores read float32 of channels that are no multiple of four from copies."""
    shapes = (2, channels, 6, 5), (4, channels, 3, 3)
    mod = module(lambda emit, x, w: emit(op.nn.conv2d(x, w)), *shapes, dtype="float32")
    (call,) = packed(LibraryConvolutions(tf32=tf32)(mod))
    _, workspace = call.ty.fields
    more = 4 * sum(map(math.prod, shapes)) if copied else 0
    assert int(workspace.shape[0]) == WORKSPACE_BYTES + more


def test_a_reshape_across_dimensions_stays():
    """As of positions relative to others, beside a convolution."""

    def body(emit, x, w, p):
        shifted = emit(op.reshape(emit(op.tanh(p)), (5, 6)))
        return emit(op.add(emit(op.nn.conv2d(x, w)), shifted))

    check(module(body, (2, 8, 5, 6), (4, 8, 1, 1), (6, 5)))


def test_gradients():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4, 7, 8), "float32"))
    w = relax.Var("w", relax.TensorType((6, 4, 3, 3), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            h = builder.emit(op.nn.conv2d(x, w, strides=2, padding=1))
            output = builder.emit_output(op.sum(builder.emit(op.multiply(h, h))))
        builder.emit_func_output(output)
    adjoint = relax.transform.Gradient("main")(builder.get())["main_adjoint"]
    mod = tvm.IRModule({"main": adjoint.with_attr("global_symbol", "main")})
    found, refused = calls(mod)
    assert [each.what for each in found] == ["forward", "data", "weight"] and not refused
    check(mod, count=3)


@pytest.fixture
def no_conversion(monkeypatch):
    """TVM's pass that moves channels fails."""

    def unasked(*_):
        raise AssertionError("it takes seconds for a model")

    monkeypatch.setattr(relax.transform, "ConvertLayout", unasked)


def between_transposes(rank, residual=False, **how):
    """A transposed convolution of channels first, as gradients of channels last are written."""
    spatial = range(1, rank + 1)
    to_first, to_last = (0, rank + 1, *spatial), (0, *(axis + 1 for axis in spatial), 1)
    convolve = getattr(op.nn, f"conv{rank}d_transpose")

    def body(emit, g, w, *more):
        first = [emit(op.permute_dims(each, to_first)) for each in (g, w)]
        found = emit(op.permute_dims(emit(convolve(*first, **how)), to_last))
        return emit(op.add(*more, found)) if residual else found

    return body


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("rank", "how"),
    [
        (1, {"strides": 2, "padding": 1, "output_padding": 1}),
        (2, {"strides": (2, 1), "padding": (1, 2)}),
        (2, {"strides": 2, "padding": 1, "output_padding": 1, "groups": 2}),
        (3, {"padding": 1}),
    ],
)
def test_gradients_between_transposes_lie_with_channels_last(rank, how, dtype, no_conversion):
    shapes = (2, *(5, 4, 3)[:rank], 4), (4, *(3, 3, 3)[:rank], 6 // how.get("groups", 1))
    mod = module(between_transposes(rank, **how), *shapes, dtype=dtype)
    check(mod, kernels=0)
    (found,), refused = calls(mod)
    assert found.what == "data" and found.channels_last and not refused


def test_behind_such_a_gradient_nothing_is_cudnns(no_conversion):
    mod = module(between_transposes(2, True), (2, 5, 4, 4), (4, 1, 1, 6), (2, 5, 4, 6))
    check(mod, kernels=1)
    (found,), _ = calls(mod)
    assert not found.residual


@pytest.mark.parametrize("before", [True, False])
def test_what_is_transposed_on_one_side_alone_is_converted(before):
    def body(emit, g, w):
        if before:
            first = [emit(op.permute_dims(each, (0, 3, 1, 2))) for each in (g, w)]
            return emit(op.nn.conv2d_transpose(*first))
        return emit(op.permute_dims(emit(op.nn.conv2d_transpose(g, w)), (0, 2, 3, 1)))

    mod = module(body, (2, 4, 4, 4), (4, 4, 4, 4))
    check(mod)
    assert calls(mod)[0][0].channels_last


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad", "rows"),
    [(7, 3, 2, 1, 7), (8, 3, 2, 1, 8), (8, 1, 2, 0, 7), (9, 4, 4, 0, 8), (8, 3, 1, 1, 8)],
)
def test_weights_gradients_are_of_all_rows(size, kernel, stride, pad, rows):
    """`rows` some window reads; padding that none reads is left out behind, too."""
    count = (size + 2 * pad - kernel) // stride + 1
    behind = stride * (count - 1) + kernel - rows - pad

    def body(emit, x, g):
        cut = x if rows == size else emit(op.strided_slice(x, [1, 2], [0, 0], [rows, rows]))
        around = [pad, pad, behind, behind]
        return emit(op.nn.conv2d(
            cut, g, padding=around, dilation=stride,
            data_layout="CHWN", kernel_layout="IHWO", out_layout="CHWN",
        ))  # fmt: skip

    mod = module(body, (2, size, size, 4), (2, count, count, 6))
    check(mod, kernels=0)
    ((found,), _) = calls(mod)
    assert (found.what, found.before, found.after) == ("weight", (pad, pad), (pad, pad))


def test_a_batch_of_any_size():
    n = tirx.Var("n", "int64")
    mod = module(
        lambda emit, x, w: emit(op.nn.relu(emit(op.nn.conv2d(x, w)))), (n, 4, 6, 5), (4, 4, 3, 3)
    )
    stitched = stitched_for_cpu(mod, TARGET)
    runner = Runner(stitched, TARGET, {"n": 3})
    random = np.random.default_rng(0)
    for size in (1, 3):
        arrays = [
            random.normal(size=shape).astype("float16") for shape in ((size, 4, 6, 5), (4, 4, 3, 3))
        ]
        (want,) = reference(mod, arrays)
        (got,) = runner.run(arrays, 0)
        assert np.abs(got - want).max() <= 4e-3 * np.abs(want).max()


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"data_layout": "NHWC", "kernel_layout": "HWIO"}, "no layouts NHWC, HWIO and NHWC"),
        ({"out_dtype": "float32"}, "no float32 of float16 and float16"),
    ],
)
def test_others_are_tvms_and_say_why(how, why):
    mod = module(lambda emit, x, w: emit(op.nn.conv2d(x, w, **how)), (2, 4, 4, 4), (4, 4, 4, 4))
    found, refused = calls(mod)
    assert not found
    assert [why in each for each in refused] == [True]
    check(mod, count=0)


def test_the_report_says_which():
    def body(emit, x, w):
        h = emit(op.nn.relu(emit(op.nn.conv2d(x, w))))
        return emit(
            op.nn.conv2d(
                emit(op.astype(h, "float32")), emit(op.astype(w, "float32")), out_dtype="float16"
            )
        )

    mod = module(body, (2, 4, 5, 5), (4, 4, 3, 3))
    report = tvm_stitch.explain(mod, TARGET)
    (kernel,) = (each for each in report.kernels if each.by_library)
    assert kernel.ops == ("conv2d", "relu") and kernel.bytes_min == 2 * (200 + 144 + 72)
    assert kernel.why == "float16 of 2x5x5x4 and 4x3x3x4 by cuDNN: channels last, ReLU"
    assert "convolution" in str(report) and report.to_json()["kernels"]
    reasons = [each.reason for each in report.fallbacks if each.op == "conv2d"]
    assert any("no float16 of float32" in reason for reason in reasons)
    without = Options(schemes=tuple(each for each in SCHEMES if each != LIBRARY))
    report = tvm_stitch.explain(mod, TARGET, without)
    assert not any("cuDNN" in each.reason for each in report.fallbacks)


def test_modules_run_in_another_process_or_say_what_is_missing(monkeypatch):
    mod = module(lambda emit, x, w: emit(op.nn.conv2d(x, w)), (2, 4, 5, 5), (4, 4, 1, 1))
    calling = LibraryConvolutions()(mod)
    machine = relax.VirtualMachine(tvm.compile(calling, "llvm"), tvm.cpu())
    arrays = random_inputs(mod, 0)
    got = machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()
    (want,) = reference(mod, arrays)
    assert np.abs(got - want).max() <= 4e-3 * np.abs(want).max()
