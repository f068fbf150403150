"""The page of a report that explain made, in a real browser: what people do with it first."""

import re

import pytest
from check import H200
from products import norm_and_product

from tvm_stitch.report import explain


@pytest.fixture(scope="module")
def report():
    return explain(norm_and_product(lambda h, x: h), H200)


@pytest.fixture
def tab(report, tmp_path, opened_file):
    report.to_html(tmp_path / "report.html")
    return opened_file(tmp_path / "report.html")


def transform(tab):
    """Where the picture is, and its scale."""
    found = tab.locator("#graph > g").get_attribute("transform")
    return tuple(map(float, re.findall(r"-?[\d.]+(?:e-?\d+)?", found)))


@pytest.mark.slow
def test_a_kernel_tells_where_it_ends_and_its_code(tab, report):
    assert tab.locator(".box.kernel").count() == report.launches == 3
    product = report.flow.launches[1]
    tab.locator("#launch-1 > text.name").click()
    text = tab.locator("#details").inner_text()
    kernel = report.kernels[product]
    for expected in (kernel.name, kernel.why, "Begins after", "Ends before", "lv1 = matmul(lv, w)"):
        assert expected in text
    assert report.flow.edges[0].reason in text
    tab.locator("details.code summary", has_text="CUDA").click()
    assert kernel.name in tab.locator("code.hljs").inner_text()


@pytest.mark.slow
def test_an_operator_is_found(tab):
    tab.locator("#search").fill("matmul")
    assert tab.locator("#found").inner_text() == "1 kernel"
    tab.locator("#search").press("Enter")
    assert tab.locator(".box.selected").count() == 1
    assert "matmul" in tab.locator(".box.selected > text.name").text_content()


def test_the_picture_zooms_and_moves(tab):
    x, y, scale = transform(tab)
    tab.locator("#closer").click()
    assert transform(tab)[2] == pytest.approx(1.4 * scale)
    tab.locator("#fit").click()
    assert transform(tab) == pytest.approx((x, y, scale))
    bounds = tab.locator("#graph").bounding_box()
    corner = bounds["x"] + 20, bounds["y"] + bounds["height"] - 80
    tab.mouse.move(*corner)
    tab.mouse.wheel(0, -240)
    tab.wait_for_function(
        "scale => d3.zoomTransform(document.getElementById('graph')).k > scale", arg=scale
    )
    moved = transform(tab)
    tab.mouse.down()
    tab.mouse.move(corner[0] + 60, corner[1] - 30, steps=4)
    tab.mouse.up()
    assert transform(tab) == pytest.approx((moved[0] + 60, moved[1] - 30, moved[2]))
    tab.locator("#farther").click()
    assert transform(tab)[2] == pytest.approx(moved[2] / 1.4)


def test_every_view_holds_the_kernels(tab, report):
    tab.locator("nav button", has_text="Kernels").click()
    assert tab.locator("#table tbody tr").count() == len(report.kernels)
    tab.locator("nav button", has_text="Roofline").click()
    assert tab.locator("circle.point").count() == len(report.kernels)
    tab.locator("nav button", has_text="Not fused").click()
    assert "reads its operands from memory" in tab.locator("#left").inner_text()
