"""What a report says of symbolic extents: a kernel and its range for every operator, or why not."""

import pytest
import tvm
from check import H200
from tvm import tirx
from tvm.relax import op
from twins import TWINS
from zoo import Case, graph, softmax

import tvm_stitch
from tvm_stitch import Options

N = tirx.Var("n", "int64")


def sorted_rows(n: int = 5) -> Case:
    """A sort, which TVM's kernels do, between operators that stitch."""
    return graph(
        "float32",
        [((N, n), 64)],
        lambda emit, x: emit(op.nn.softmax(emit(op.sort(emit(op.exp(x)))))),
        lambda x: x,
    )


def scores(b: int = 2, s: int = 5, t: int = 9) -> Case:
    """A product of any rows and columns, which TVM's schedules take."""
    extents = [(tirx.Var(name, "int64"), size) for name, size in (("b", b), ("s", s), ("t", t))]
    batch, rows, columns = extents
    return graph(
        "float32",
        [(batch, 4, rows, 16), (batch, 4, 16, columns)],
        lambda emit, x, y: emit(op.matmul(x, y)),
        lambda x, y: x @ y,
    )


def both_products() -> Case:
    """Attention of any length, whose two products differ in what is symbolic."""
    b, s, t = (tirx.Var(name, "int64") for name in "bst")
    return graph(
        "float32",
        [((b, 2), 4, (s, 5), 16), ((b, 2), 4, 16, (t, 9)), ((b, 2), 4, (t, 9), 16)],
        lambda emit, q, k, v: emit(op.matmul(emit(op.nn.softmax(emit(op.matmul(q, k)))), v)),
        lambda q, k, v: q,
    )


MODULES = {
    **{name: twin.symbolic for name, twin in TWINS.items()},
    "a sort between": sorted_rows().module,
    "scores that TVM computes": scores().module,
    "few long rows": softmax("float32", (N, 5), 20_000).module,
}


@pytest.mark.spread(9)
@pytest.mark.parametrize("name", MODULES)
def test_no_line_is_empty(name):
    report = tvm_stitch.explain(MODULES[name], H200)
    for kernel in report.kernels:
        assert kernel.ops and kernel.why and kernel.scheme and kernel.mapping
        assert "?" not in kernel.mapping + kernel.why
        assert kernel.bytes_min > 0 and kernel.floor_us > 0
        if kernel.stitched:
            assert kernel.predicted_us > 0 and kernel.bytes_planned > 0
            assert kernel.formula and kernel.sizes, "bytes as a formula, and for which sizes"
    text = str(report)
    assert "? B" not in text and " 0.0 us" not in text
    assert all(fallback.reason for fallback in report.fallbacks)
    said = {name for kernel in report.kernels for name in kernel.ops}
    assert said | {fallback.op for fallback in report.fallbacks}


@pytest.mark.parametrize("name", ("softmax of a concat", "few long rows", "group norm"))
def test_ranges_are_listed(name):
    (kernel,) = tvm_stitch.explain(MODULES[name], H200).kernels
    assert "for rows of up to" in kernel.mapping or "for up to" in kernel.mapping
    assert "; for " in kernel.mapping


def test_each_product_says_which_symbol_keeps_it_from_being_stitched():
    report = tvm_stitch.explain(scores().module, H200)
    assert [kernel.why for kernel in report.kernels] == [
        "no product is small enough for a stitched kernel: "
        "rows of t results, known at run time only"
    ]
    attention = tvm_stitch.explain(both_products().module, H200)
    named = {(fallback.op, fallback.reason) for fallback in attention.fallbacks}
    own = "a matrix product or convolution: {}, known at run time only"
    assert {
        ("matmul", own.format("rows of t results")),
        ("matmul", own.format("sums over t elements")),
    } <= named


def test_sizes_are_those_that_are_named():
    module: tvm.IRModule = MODULES["few long rows"]
    for size in (1, 64, 4096):
        (kernel,) = tvm_stitch.explain(module, H200, Options(extents={"n": (size,)})).kernels
        assert (kernel.formula, kernel.sizes) == ("n * 160000", f"n = {size}")
        assert kernel.bytes_min == size * 160_000


def test_arithmetic_and_edges_are_for_the_sizes_assumed():
    mod = sorted_rows().module
    few, many = (tvm_stitch.explain(mod, H200, sizes={"n": n}) for n in (8, 800))
    for one, other in zip(few.kernels, many.kernels, strict=True):
        assert other.bytes_min == 100 * one.bytes_min
        assert one.operations is None or other.operations == 100 * one.operations
    assert [edge.bytes for edge in few.flow.edges if edge.values] == [8 * 64 * 4] * 2
    assert [edge.bytes for edge in many.flow.edges if edge.values] == [800 * 64 * 4] * 2
    assert {edge.reason for edge in few.flow.edges} == {edge.reason for edge in many.flow.edges}
