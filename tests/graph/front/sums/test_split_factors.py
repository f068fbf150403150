"""Products of float32 as three of TF32, where they are large and it is asked; sums by NumPy."""

import numpy as np
import pytest
from check import H200
from library_stand_in import stand_in
from products_with_endings import product
from tvm import relax, te, tirx
from tvm.relax import op
from zoo import graph

import tvm_stitch
from tvm_stitch import InputError, Options
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.graph.front.sums import SplitFactors, split_factors
from tvm_stitch.kernel.library_product import build as library_product
from tvm_stitch.stages.patterns.tf32 import truncated
from tvm_stitch.verify import rounded, stitched_for_cpu

ASKED = Options(tf32x3_products=True)


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(library_product, "library_us", lambda *_, **__: 0.0)
    with stand_in(monkeypatch) as found:
        yield found


@pytest.fixture
def small_ones(monkeypatch):
    monkeypatch.setattr(split_factors, "LEAST_WORK", 1)
    monkeypatch.setattr(split_factors, "LEAST_SIDE", 1)


def is_split(module):
    return "matmul_of_terms" in SplitFactors()(module).script()


def factors(dtype, *shapes):
    def build(emit, x, y):
        return emit(op.matmul(x, y))

    return graph(dtype, shapes, build, lambda x, y: x @ y)


def error(module, case, options=None):
    """The largest error of its kernels, thread by thread, of the case's arrays."""
    arrays = rounded(case.module, case.arrays)
    (found,) = Runner(stitched_for_cpu(module, H200, options), H200).run(arrays, seed=1)
    return np.abs(found - case.expected[0]).max()


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "ending", "batch", "transposed"),
    [
        (33, 72, 40, "", 0, False),
        (33, 72, 40, "", 0, True),
        (1, 1027, 31, "", 0, True),
        (7, 1, 1000, "", 0, False),
        (33, 256, 40, "bias GELU", 0, True),
        (31, 72, 40, "residual bias", 3, False),
        (31, 72, 40, "scale", 3, True),
    ],
)
def test_errors_are_those_of_float32(
    seen, small_ones, rows, depth, columns, ending, batch, transposed
):
    case = product("float32", rows, depth, columns, ending, batch, transposed)
    assert is_split(case.module)
    of_three, of_one, exact = (
        error(case.module, case, options)
        for options in (ASKED, Options(tf32_products=True), Options())
    )
    assert of_three < 2 * exact + 1e-6
    # A single row goes to a kernel that rounds nothing.
    assert rows == 1 or of_one > 20 * of_three


def test_rows_of_several_axes_are_rows(seen, small_ones):
    case = factors("float32", (3, 11, 40), (40, 31))
    assert is_split(case.module) and error(case.module, case, ASKED) < 1e-5


def test_a_transposed_left_factor_is_split_as_it_lies(seen, small_ones):
    """As in the gradient of a weight."""

    def build(emit, x, y):
        return emit(op.matmul(emit(op.permute_dims(x, [1, 0])), y))

    case = graph("float32", [(1027, 33), (1027, 40)], build, lambda x, y: x.T @ y)
    assert "R.Tensor((3, 1027, 33)" in SplitFactors()(case.module).script()
    assert error(case.module, case, ASKED) < 1e-4


def test_kernels_of_tvm_are_as_exact(small_ones):
    """The product says itself what it truncates, whoever computes it."""
    case = product("float32", 33, 300, 400, "bias", transposed=True)
    module = SplitFactors()(case.module)
    assert error(module, case, Options(schemes=("local",))) < 1e-4


def test_what_is_not_a_number_stays_so(seen, small_ones):
    case = factors("float32", (4, 8), (8, 5))
    arrays = [each.copy() for each in rounded(case.module, case.arrays)]
    arrays[0].view(np.uint32)[1, 2] = 0x7FFFFFFF
    module = stitched_for_cpu(case.module, H200, ASKED)
    found = Runner(module, H200).run(arrays, seed=0)[0]
    assert np.isnan(found[1]).all() and np.isfinite(np.delete(found, 1, axis=0)).all()


@pytest.mark.parametrize(
    ("dtype", "shapes"),
    [
        ("float16", ((1024, 1024), (1024, 1024))),
        ("float32", ((1024, 1024), (1024,))),
        ("float32", ((64, 16384), (16384, 1024))),  # reading the weight takes as long
        ("float32", ((448, 512), (512, 512))),
        ("float32", ((1, 4096, 1024), (2, 1024, 1024))),
    ],
)
def test_others_stay_as_they_are(dtype, shapes):
    assert not is_split(factors(dtype, *shapes).module)


def test_sizes_that_are_known_at_run_time_stay():
    rows = tirx.Var("n", "int64")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, 4096), "float32"))
    y = relax.Var("y", relax.TensorType((4096, 4096), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            found = builder.emit_output(builder.emit(op.matmul(x, y)))
        builder.emit_func_output(found)
    assert not is_split(builder.get())


def test_large_ones_are_planned_so_on_request(seen):
    module = factors("float32", (4096, 1024), (1024, 1024)).module
    planned = str(tvm_stitch.explain(module, H200, ASKED))
    assert "4096 x 3072 x 1024 by TF32" in planned
    assert "3072" not in str(tvm_stitch.explain(module, H200, Options()))


def test_only_with_the_library(monkeypatch):
    module = factors("float32", (4096, 1024), (1024, 1024)).module
    monkeypatch.setenv("TVM_STITCH_LIBRARIES", "off")
    assert "terms" not in str(tvm_stitch.explain(module, H200, ASKED))


def test_one_factor_alone_is_not_truncated(seen):
    """A product that cuts off one factor's bits is not the library's to round."""

    def multiplied(x, y):
        k = te.reduce_axis((0, 64), "k")

        def element(i, j):
            return te.sum(truncated(x[i, k]) * y[k, j], axis=k)

        return te.compute((64, 300), element, name="product")

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    y = relax.Var("y", relax.TensorType((64, 300), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            found = builder.emit_output(builder.call_te(multiplied, x, y))
        builder.emit_func_output(found)
    assert tvm_stitch.explain(builder.get(), H200).kernels[0].scheme != "library"


def test_rounded_or_split():
    with pytest.raises(InputError, match="not both"):
        Options(tf32_products=True, tf32x3_products=True)
