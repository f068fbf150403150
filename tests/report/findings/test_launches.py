"""What flows between launches, and which of the planner's reasons belongs to it."""

from dataclasses import replace

import pytest
from check import H200
from library_stand_in import stand_in
from products import norm_and_product
from tvm import relax
from tvm.relax import op

import tvm_stitch
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.library import locate
from tvm_stitch.plan.plan import Cut
from tvm_stitch.report.data import Edge, Kernel
from tvm_stitch.report.findings.launches import FunctionCall, Read, flow
from tvm_stitch.report.findings.operators import Operator
from tvm_stitch.report.findings.reasons import factors


def kernel(name, *ops, scheme="warp"):
    return Kernel(name, ops, scheme, "", 64, 64, 1.0, 2.0, "its own reason")


def call(function, *reads):
    return FunctionCall(function, "y", "float32[4]", reads)


ADD, SUM = kernel("add_kernel", "add", "exp"), kernel("sum_kernel", "sum")
SMALL = Cut("exp", ("add", "tir_exp"), ("sum",), 16, "the small one")
LARGE = Cut("exp", ("add", "tir_exp"), ("sum",), 4096, "the large one")
TENSOR_CORES = "a product on tensor cores reads its operands from memory: it begins a kernel"
PLACES = {"add": [0], "sum": [1]}


def test_a_reason_is_that_of_the_value_of_this_size():
    calls = [call("add"), call("sum", Read(0, "v", 4096)), call("sum", Read(0, "w", 16))]
    found = flow(calls, [ADD, SUM], PLACES, [SMALL, LARGE])
    assert [edge.reason for edge in found.edges] == ["the large one", "the small one"]


def test_a_convolution_by_cudnn_stands_between_what_it_reads_and_what_reads_it(monkeypatch):
    how = {"padding": 1, "data_layout": "NHWC", "kernel_layout": "OHWI"}

    def body(emit, x, w):
        y = emit(op.nn.softmax(emit(op.nn.conv2d(emit(op.nn.softmax(x)), w, **how))))
        return emit(op.nn.softmax(emit(op.nn.conv2d(y, w, **how))))

    builder = relax.BlockBuilder()
    shapes = {"x": (2, 14, 14, 16), "w": (16, 3, 3, 16)}
    x, w = (relax.Var(name, relax.TensorType(s, "float16")) for name, s in shapes.items())
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(body(builder.emit, x, w))
        builder.emit_func_output(out)
    with stand_in(monkeypatch, locate.CUDNN):
        report = tvm_stitch.explain(builder.get(), H200)
    names = [report.kernels[place].name for place in report.flow.launches]
    assert names.count("convolution") == 2 and len(names) == report.launches
    first = names.index("convolution")
    ends = [(edge.writer, edge.reader) for edge in report.flow.edges]
    assert (first - 1, first) in ends and (first, first + 1) in ends
    assert all(b - a == 1 for a, b in ends)
    (kernel,) = (kernel for kernel in report.kernels if kernel.name == "convolution")
    assert [stage.operator for stage in kernel.stages] == ["conv2d"] and kernel.launches == 2
    sources = [report.sources[n].text for n in kernel.stages[0].sources]
    assert sources == ["lv1 = convolution(lv, w)", "lv3 = convolution(lv2, w)"]
    assert "convolution" not in report.code()


def test_no_reason_is_made_up():
    calls = [call("add"), call("sum", Read(0, "v", 8))]
    assert flow(calls, [ADD, SUM], PLACES, [SMALL, LARGE]).edges[0].reason == ""
    assert flow(calls, [ADD, SUM], PLACES, []).edges[0].reason == ""


def test_what_is_tvms_own_says_why():
    own = kernel("sum_kernel", "sum", scheme="default")
    calls = [call("add"), call("sum", Read(0, "v", 16))]
    (edge,) = flow(calls, [ADD, own], PLACES, [SMALL]).edges
    assert edge.reason == "sum_kernel is TVM's own: its own reason"


def test_several_values_are_one_edge():
    calls = [call("add"), call("sum", Read(0, "v", 16), Read(0, "w", 4))]
    (edge,) = flow(calls, [ADD, SUM], PLACES, [SMALL]).edges
    assert edge == Edge(0, 1, ("v", "w"), 20, "the small one")


def test_a_size_that_is_not_known_leaves_the_edge_open():
    calls = [call("add"), call("sum", Read(0, "v", None), Read(0, "w", 4))]
    assert flow(calls, [ADD, SUM], PLACES, []).edges[0].bytes is None


def test_the_kernels_of_one_function_are_launched_one_after_the_other():
    calls = [call("add"), call("both", Read(0, "v", 16)), call("sum", Read(1, "w", 4))]
    found = flow(calls, [ADD, SUM], {"add": [0], "both": [1, 1], "sum": [1]}, [])
    assert found.launches == (0, 1, 1, 1)
    assert [(e.writer, e.reader, e.bytes) for e in found.edges] == [
        (0, 1, 16),
        (1, 2, None),
        (2, 3, 4),
    ]


def test_products_on_tensor_cores_say_where_they_begin_and_end():
    product = replace(SUM, mapping=str(Tiles(64, 64, 32, 32, 32, 4)))
    calls = [call("add"), call("sum", Read(0, "v", 16))]
    (edge,) = flow(calls, [ADD, product], PLACES, []).edges
    assert edge.reason == TENSOR_CORES
    calls = [call("sum"), call("add", Read(0, "v", 16))]
    (edge,) = flow(calls, [ADD, product], PLACES, []).edges
    assert "ends with its element-wise epilogue" in edge.reason


@pytest.mark.parametrize("residual", [lambda h, x: h, lambda h, x: x])
def test_what_a_product_multiplies_goes_through_memory_for_its_sake(residual):
    report = tvm_stitch.explain(norm_and_product(residual), H200)
    product = next(n for n, kernel in enumerate(report.kernels) if "matmul" in kernel.ops)
    reasons = [e.reason for e in report.flow.edges if report.flow.launches[e.reader] == product]
    assert reasons == [TENSOR_CORES]


def test_a_factor_is_what_reaches_the_product_before_its_epilogue():
    moved = Operator("permute_dims", 1, parameters=(1,))
    product = Operator("matmul", 1, reads=(0,), parameters=(2,))
    assert factors([moved, product, Operator("add", 1, reads=(1,), parameters=(0,))]) == {1, 2}


def test_a_reason_is_that_of_all_the_operators_of_a_kernel():
    """A cut behind a longer kernel has as many bytes, and all of the shorter one's operators."""
    longer = Cut("exp", ("add", "exp"), ("sum", "sum", "sum1"), 16, "of the longer one")
    fewer = Cut("exp", ("exp",), ("sum",), 16, "of the one that writes less")
    calls = [call("add"), call("sum", Read(0, "w", 16))]
    for cuts, reason in (([longer, fewer], ""), ([longer, fewer, SMALL], "the small one")):
        assert flow(calls, [ADD, SUM], PLACES, cuts).edges[0].reason == reason


def test_kernels_that_share_a_launch_keep_their_reasons():
    both = kernel("sum_kernel", "sum", "exp", scheme="independent")
    calls = [call("add"), call("sum", Read(0, "w", 16))]
    assert flow(calls, [ADD, both], PLACES, [SMALL]).edges[0].reason == "the small one"


def test_kernels_that_only_move_are_told_by_how():
    moving, cut = kernel("add_kernel", "reshape", "transpose"), ("transpose",)
    reasons = [Cut("exp", cut, ("sum",), 16, "moved"), Cut("exp", ("reshape",), ("sum",), 16, "no")]
    calls = [call("add"), call("sum", Read(0, "w", 16))]
    assert flow(calls, [moving, SUM], PLACES, reasons).edges[0].reason == "moved"
