"""What passes between kernels, as a report tells it: all of it, each pair of kernels once."""

from check import H200
from documents import masked_softmax
from products import norm_and_product

from tvm_stitch.report import explain
from tvm_stitch.report.data import Edge, Flow, Passed


def test_equal_lines_are_one():
    edges = [Edge(0, 1, ("a",), 8, "x"), Edge(2, 3, ("b",), 8, "x"), Edge(1, 3, ("c",), None)]
    assert Flow((0, 1, 0, 1), tuple(edges)).passed == (
        Passed(0, 1, ("a", "b"), 16, "x", 2),
        Passed(1, 1, ("c",), None, "", 1),
    )


def test_products_are_among_them_and_named():
    report = explain(norm_and_product(lambda h, x: x), H200)
    text = str(report)
    product = next(n for n, kernel in enumerate(report.kernels, 1) if "matmul" in kernel.ops)
    assert f"-> {product} matmul ... add (lv, 1.6 MB)" in text
    assert f"{product} matmul ... add -> " in text
    lines = text.partition("Passed between kernels through memory:")[2].splitlines()
    ends = [line for line in lines if " -> " in line]
    assert len(ends) == len(set(ends)) == len(report.flow.passed)
    assert [each["count"] for each in report.to_json()["passed"]] == [1, 1]


def test_nothing_where_nothing_passes():
    report = explain(masked_softmax(64, 128), H200)
    assert report.flow.passed == () and "Passed between" not in str(report)
