"""The planning benchmark and the count of kernels, at sizes that tests have time for."""

import pytest

pytest.importorskip("torch")

from tvm.relax.backend.cuda import pipeline as cuda_pipeline

from bench.kernels import counted, table
from bench.planning import LAYER, TARGET, draw, layers, measure
from tvm_stitch.build import stitch_passes


def test_equal_layers_are_planned_once_and_different_ones_each():
    equal = measure("equal layers", layers(4 * LAYER, different=False))
    different = measure("different layers", layers(4 * LAYER, different=True))
    assert equal["operators"] == different["operators"] == 4 * LAYER
    assert equal["regions"] == different["regions"]
    assert equal["distinct"] < equal["regions"] == different["distinct"]
    assert equal["status"] == "optimal" and equal["cost_us"] <= equal["greedy_us"]
    assert equal["seconds"] > 0 and equal["peak_mb"] > 0


def test_the_plot_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [
        {"graph": graph, "operators": operators, "cpu_seconds": operators / 100}
        for graph in ("equal layers", "different layers", "a model")
        for operators in (100, 1000)
    ]
    draw(rows, tmp_path / "planning.png")
    assert (tmp_path / "planning.png").stat().st_size > 1000


def test_products_are_not_counted():
    """A layer: two products; a softmax, and residual, norm and GELU as one kernel each."""
    module = layers(LAYER, different=False)
    dispatch = cuda_pipeline.library_dispatch_passes(TARGET)
    lower = cuda_pipeline.dataflow_lower_passes(TARGET)
    default = counted(module, [*dispatch, *cuda_pipeline.legalize_passes(TARGET), *lower])
    stitched = counted(module, [*dispatch, *stitch_passes(TARGET), *lower])
    assert stitched["kernels"] == 2 <= default["kernels"]
    # TVM adds the residual at the end of a product, whose bytes are not counted.
    assert 0 < default["bytes"] < stitched["bytes"]
    text = table([{"model": "m", "default": default, "stitched": stitched, "share": 0.5}])
    assert f"| m | {default['kernels']} | 2 | 50 % |" in text
