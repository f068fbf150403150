"""The planning benchmark and the count of kernels, at sizes that tests have time for."""

import pytest

pytest.importorskip("torch")

from tvm.relax.backend.cuda import pipeline as cuda_pipeline

from bench.kernels import counted, table
from bench.planning.__main__ import main
from bench.planning.child import TARGET, explained, planned
from bench.planning.families import FAMILIES, LAYER, different_layers, equal_layers
from bench.planning.table import compared, exponent, markdown
from tvm_stitch.build import stitch_passes


def test_equal_layers_are_planned_once_and_different_ones_each():
    equal = planned("equal", equal_layers(4 * LAYER)) | explained(equal_layers(4 * LAYER))
    different = explained(different_layers(4 * LAYER))
    assert equal["operators"] == 4 * LAYER and equal["regions"] == different["regions"]
    assert equal["distinct"] < equal["regions"] == different["distinct"]
    assert equal["status"] == "optimal" and equal["cost_us"] <= equal["greedy_us"]
    assert equal["plan_s"] > 0 and equal["peak_mb"] > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_about_as_many_operators_as_are_asked_for(family):
    assert planned(family, FAMILIES[family](60))["operators"] == pytest.approx(60, rel=0.4)


def rows(slope: float):
    return [
        {"graph": "g", "asked": n, "operators": n, "plan_s": (n / 1000) ** slope, "kernels_us": 5.0}
        for n in (100, 1000, 10000)
    ]


def test_the_exponent_is_that_of_the_larger_graphs():
    assert exponent(rows(1.5)) == pytest.approx(1.5)
    assert "| g | 0.03 | 1.00 | 31.62 | 1.50 |" in markdown(rows(1.5))[2]


def test_plans_that_cost_more_than_before_are_named():
    dearer = [{**row, "kernels_us": 5.2, "kernels": 1} for row in rows(1)]
    cheaper = [{**row, "kernels_us": 4.9, "kernels": 1} for row in rows(1)]
    assert compared(rows(1), dearer)[1] == ["g"] * 3
    assert compared(rows(1), cheaper)[1] == []


@pytest.mark.slow
def test_the_program_writes_json_a_table_and_a_plot(tmp_path):
    pytest.importorskip("matplotlib")
    names = ["--families", "element-wise chain", "--sizes", "20;40"]
    assert main(["--output", str(tmp_path), *names]) == 0
    assert "| element-wise chain |" in (tmp_path / "planning.md").read_text()
    assert (tmp_path / "planning.json").exists() and (tmp_path / "planning.png").exists()


def test_products_are_not_counted():
    """A layer: two products; a softmax, and residual, norm and GELU as one kernel each."""
    module = equal_layers(LAYER)
    dispatch = cuda_pipeline.library_dispatch_passes(TARGET)
    lower = cuda_pipeline.dataflow_lower_passes(TARGET)
    default = counted(module, [*dispatch, *cuda_pipeline.legalize_passes(TARGET), *lower])
    stitched = counted(module, [*dispatch, *stitch_passes(TARGET), *lower])
    assert stitched["kernels"] == 2 <= default["kernels"]
    # TVM adds the residual at the end of a product, whose bytes are not counted.
    assert 0 < default["bytes"] < stitched["bytes"]
    text = table([{"model": "m", "default": default, "stitched": stitched, "share": 0.5}])
    assert f"| m | {default['kernels']} | 2 | 50 % |" in text
