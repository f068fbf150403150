"""Whatever is not stitched goes TVM's own way: the model still compiles, is right, and says why."""

import re

import numpy as np
import pytest
import tvm
from check import H200, check, fallbacks, is_stitched, plan_of, primfuncs
from tvm import relax
from tvm.relax import op
from zoo import Case, Graph, graph, graph_of, softmax64

import tvm_stitch
from tvm_stitch import Options
from tvm_stitch.build import stitch_passes
from tvm_stitch.kernel.ir.mapping import SCHEMES


def convolution64(x, w):
    """A 3 x 3 convolution with padding 1 in float64."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = x.shape[2:]
    out = np.zeros((x.shape[0], w.shape[0], height, width))
    for i in range(3):
        for j in range(3):
            window = padded[:, :, i : i + height, j : j + width]
            out += np.einsum("nchw,kc->nkhw", window, w[:, :, i, j])
    return out


def mixed() -> Case:
    """Convolution, matrix product, sort and cumulative sum between stitched rows."""
    g = Graph()
    image = g.input("image", (1, 3, 20, 20), "float32")
    filters = g.input("filters", (16, 3, 3, 3), "float32")
    matrix = g.input("matrix", (80, 80), "float32")

    def build(emit, image, filters, matrix):
        features = emit(op.nn.relu(emit(op.nn.conv2d(image, filters, padding=1))))
        rows = emit(op.nn.softmax(emit(op.reshape(features, (80, 80)))))
        product = emit(op.matmul(rows, matrix))
        ordered = emit(op.sort(emit(op.nn.softmax(emit(op.add(product, rows))))))
        return emit(op.nn.softmax(emit(op.cumsum(ordered, axis=0))))

    rows = softmax64(np.maximum(convolution64(image, filters), 0).reshape(80, 80))
    ordered = np.sort(softmax64(rows @ matrix + rows), -1)
    return g.case(build, softmax64(np.cumsum(ordered, 0)))


def test_a_mixed_model_is_stitched_where_it_can_be():
    verified = check(mixed(), kernels=None)
    assert len(verified.kernels) == 6  # the sum along columns is three


@pytest.mark.slow
def test_a_mixed_model_compiles_whole():
    """The pipeline stands in for TVM's; every stitched kernel is in the CUDA source."""
    case = mixed()
    stitched = [name for name, function in primfuncs(case.module).items() if is_stitched(function)]
    executables = (
        tvm.compile(case.module, H200, relax_pipeline=tvm_stitch.pipeline(H200)),
        tvm_stitch.compile(case.module, H200),
    )
    for executable in executables:
        source = executable.mod.imports[0].imports[0].inspect_source()
        kernels = set(
            re.findall(r"__global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(", source)
        )
        assert {f"{name}_kernel" for name in stitched} <= kernels


def test_a_mixed_model_says_why():
    reasons = {fallback.op: fallback.reason for fallback in fallbacks(mixed().module)}
    assert reasons == {
        "conv2d": "a matrix product or convolution: sums along 3 axes",
        "matmul": "a matrix product or convolution: sums over 80 elements, more than 64",
        "sort": "TVM has no TIR for it",
    }


def test_an_operator_that_depends_on_values():
    case = graph(
        "float32",
        [(6, 8)],
        lambda emit, x: (emit(op.nn.softmax(x)), emit(op.unique(x))),
        lambda x: (softmax64(x), np.unique(x)),
    )
    assert [(f.op, f.reason) for f in fallbacks(case.module)] == [
        ("unique", "TVM has no TIR for it")
    ]
    tvm_stitch.compile(case.module, H200)


def reasons_of(build, *inputs) -> list[str]:
    """Why the operators of a small graph are not stitched."""
    case = graph_of(list(inputs), build, lambda *arrays: ())
    return [fallback.reason for fallback in fallbacks(case.module)]


X = ((40, 50), "float32", None)
BLOCKS = ((4, 10, 5, 3), "float32", None)


def test_axes_that_are_apart():
    reasons = reasons_of(lambda emit, x: emit(op.sum(x, axis=[0, 2])), BLOCKS)
    assert any("reads p0 across the rows" in reason for reason in reasons)


@pytest.mark.parametrize(
    "build, reason",
    [
        (lambda emit, x: emit(op.astype(x, "float64")), "has dtype float64"),
        (
            lambda emit, x: emit(op.matmul(emit(op.permute_dims(x)), emit(op.tile(x, (1, 100))))),
            "matrix",
        ),
        (lambda emit, x: emit(op.sort(x)), "TVM has no TIR for it"),
    ],
)
def test_reasons(build, reason):
    assert any(reason in found for found in reasons_of(build, X))


def test_tuples_used_as_a_whole():
    reasons = reasons_of(lambda emit, x: emit(op.split(x, 2, 1)), X)
    assert reasons == ["its tuple is used as a whole"]


def test_results_that_nobody_uses():
    def build(emit, x):
        return emit(op.exp(emit(relax.TupleGetItem(emit(op.split(x, 2, 1)), 0))))

    assert "results of its tuple are not used" in reasons_of(build, X)


def test_shapes_checked_at_run_time():
    n = tvm.tirx.Var("n", "int64")

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(None, "float32", ndim=1))
    with builder.function("main", [x]):
        with builder.dataflow():
            known = builder.match_cast(x, relax.TensorType((n,), "float32"))
            output = builder.emit_output(op.exp(known))
        builder.emit_func_output(output)
    assert [f.reason for f in fallbacks(builder.get())] == ["it checks a shape at run time"]


def test_tensors_without_elements():
    """They are there without an operator that computes them."""
    reasons = reasons_of(lambda emit, x: emit(op.exp(x)), ((0, 50), "float32", None))
    assert reasons == ["it has no elements, or none yet"]
    case = graph("float32", [(0, 50)], lambda emit, x: emit(op.exp(x)), np.exp)
    check(case, kernels=None)


def test_a_scheme_that_is_switched_off():
    case = graph("float32", [(1000, 64)], lambda emit, x: emit(op.sum(x, axis=1)), lambda x: ())
    others = tuple(scheme for scheme in SCHEMES if scheme != "warp")
    plan = plan_of(case.module, options=Options(schemes=others))
    assert [fallback.reason for fallback in plan.fallbacks] == ["the warp scheme is switched off"]


def test_what_stays_unscheduled_is_logged():
    case = graph("float32", [BLOCKS[0]], lambda emit, x: emit(op.sum(x, axis=[0, 2])), lambda x: ())
    left = []
    module = case.module
    with H200:
        for stitch_pass in stitch_passes(H200, left=left, default_schedules=False):
            module = stitch_pass(module)
    assert [(item.op, "across the rows" in item.reason) for item in left] == [("sum", True)]


def test_epilogues_stay_with_their_product():
    """An activation after a matrix product is TVM's to fuse; a norm after it is not."""

    def build(emit, x, w):
        return emit(op.nn.relu(emit(op.matmul(x, w))))

    inputs = (((65, 80), "float32", None), ((80, 48), "float32", None))
    assert "an epilogue of matmul, whose kernel ends with it" in reasons_of(build, *inputs)
