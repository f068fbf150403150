"""Rows that persist on the chip between the rounds of a grid, and moments found in one of them."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from across_rows import (
    batch_norm,
    divided_by_their_norm,
    group_norm,
    programs_of,
    shares_of_groups,
    softmax_over_rows,
)
from check import H200, TOGETHER, stitched
from tvm import relax
from tvm.relax import op
from zoo import Case, graph, graph_of

from tvm_stitch import explain, simt
from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS, choose
from tvm_stitch.kernel.codegen.thread_indexing import iterations_of_segment
from tvm_stitch.kernel.cooperative import split_reduction
from tvm_stitch.kernel.cost_model.kernel_model import predicted_us
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.legal import legal
from tvm_stitch.kernel.stitched import StitchedKernel
from tvm_stitch.stages.stage import Refused

pytestmark = pytest.mark.usefixtures("grid_barriers")

SMALL = replace(device_of(H200), multiprocessors=2)


@pytest.fixture(autouse=True)
def long_segments(monkeypatch):
    """Few segments, so that small tensors make long ones."""
    monkeypatch.setattr(split_reduction, "PARTIALS", 6)
    monkeypatch.setattr(split_reduction, "FEWEST_SEGMENTS", 2)


def run(case: Case, share: float) -> list[np.ndarray]:
    """The outputs of the one kernel of a case, such a share of whose rows persist on the chip."""
    module = stitched(case.module, options=TOGETHER, before="StitchSchedule")
    (function,) = (f for _, f in module.functions_items() if isinstance(f, tvm.tirx.PrimFunc))
    programs = read_programs(function)
    # Two blocks have many segments each.
    schedule = replace(choose(programs, SMALL), blocks=2, min_blocks_per_sm=1)
    parts = []
    for program, mapping in zip(programs, schedule.parts, strict=True):
        if program.persistent_inputs:
            rows = int(share * most_rows(program, mapping)) // mapping.rows * mapping.rows
            mapping = replace(mapping, persistent_rows=rows)
        parts.append(mapping)
    assert any(part.persistent_rows for part in parts) == (share > 0)
    roomy = replace(SMALL, shared_block=1 << 24, shared_total=1 << 25)
    schedule = replace(schedule, parts=tuple(parts))
    assert legal(programs, schedule, roomy) is None
    kernel = StitchedKernel(roomy, NO_BOUNDS, programs, schedule).emit(function)
    assert not isinstance(kernel, Refused), kernel
    arrays = [np.zeros(tuple(map(int, p.ty.shape)), str(p.ty.dtype)) for p in kernel.params]
    for array, given in zip(arrays, case.arrays, strict=False):
        array[...] = given
    assert not simt.Function(kernel, H200)(arrays, seed=1).hazards
    return arrays[len(case.arrays) :]


def most_rows(program: Program, mapping: Mapping) -> int:
    """Rows of a segment that can persist, or of a tensor."""
    if program.space.row_segment is None:
        return int(program.space.rows)
    return mapping.rows * iterations_of_segment(program.space, mapping)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "case, share",
    [
        (batch_norm("float32", (500, 33)), 0),
        (batch_norm("float32", (500, 33)), 0.5),
        (batch_norm("float32", (500, 33)), 1),
        (softmax_over_rows((72, 1027)), 0.5),
        (group_norm("float16", 3, 404, 4, 10), 0.5),
    ],
)
def test_none_some_or_all_rows_persist(case, share):
    (found, *_) = run(case, share)
    tolerance = 2e-3 if found.dtype == np.float16 else 2e-6
    np.testing.assert_allclose(found, case.expected[0], rtol=tolerance, atol=tolerance)


def clipped_step(*shapes: tuple[int, ...]) -> Case:
    """Tensors less gradients, which are divided by their common norm: both are read after it."""
    half = len(shapes)

    def build(emit, *tensors):
        total = relax.const(0.0, "float32")
        for gradient in tensors[:half]:
            total = emit(op.add(total, emit(op.sum(emit(op.multiply(gradient, gradient))))))
        norm = emit(op.sqrt(total))
        pairs = zip(tensors[half:], tensors[:half], strict=True)
        return tuple(emit(op.subtract(p, emit(op.divide(g, norm)))) for p, g in pairs)

    def expected(*tensors):
        norm = np.sqrt(sum((gradient**2).sum() for gradient in tensors[:half]))
        pairs = zip(tensors[half:], tensors[:half], strict=True)
        return tuple(p - g / norm for p, g in pairs)

    return graph("float32", [*shapes, *shapes], build, expected)


@pytest.mark.parametrize(
    "make, share", [(divided_by_their_norm, 0), (divided_by_their_norm, 1), (clipped_step, 0.4)]
)
def test_whole_rows_persist_as_far_as_the_first_iterations_go(make, share):
    case = make((32, 1031), (33,), (3, 8192), (9973,))
    found = run(case, share)
    for output, exact in zip(found, case.expected, strict=False):
        np.testing.assert_allclose(output, exact, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dtype, share", [("float32", 0.5), ("bfloat16", 1), ("bfloat16", 0)])
def test_whole_rows_of_several_inputs_persist(dtype, share):
    case = shares_of_groups(dtype, 24, 1024, 3)
    found = run(case, share)
    for exact in case.expected:
        output = next(each for each in found if each.shape == exact.shape)
        tolerance = 1e-2 if dtype == "bfloat16" else 2e-5
        np.testing.assert_allclose(output.astype("float64"), exact, rtol=tolerance, atol=tolerance)


def read_late(rows: int, columns: int, over_rows: bool) -> Case:
    """The second input is read behind the first one's norm, and both again after a sum."""

    def build(emit, x, y):
        squares = emit(op.sum(emit(op.multiply(x, x)), axis=1, keepdims=True))
        z = emit(op.add(emit(op.divide(x, emit(op.sqrt(squares)))), y))
        if over_rows:
            total = emit(op.sum(z, axis=0, keepdims=True))
        else:
            sums = emit(op.reshape(emit(op.sum(z, axis=1)), (rows // 3, 3)))
            total = emit(op.repeat(emit(op.sum(sums, axis=1, keepdims=True)), 3, axis=0))
        return z, emit(op.add(emit(op.subtract(y, total)), x))

    def expected(x, y):
        z = x / np.sqrt((x * x).sum(1, keepdims=True)) + y
        if over_rows:
            total = z.sum(0, keepdims=True)
        else:
            total = z.sum(1).reshape(-1, 3).sum(1, keepdims=True).repeat(3, 0)
        return z, y - total + x

    return graph("float32", [(rows, columns)] * 2, build, expected)


@pytest.mark.spread(2)
@pytest.mark.parametrize("over_rows, shape", [(True, (500, 64)), (False, (24, 2048))])
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_rows_that_are_loaded_late_do_not_persist(over_rows, shape, share):
    """What is read only behind a reduction of the row is not at hand when the others leave."""
    case = read_late(*shape, over_rows)
    programs, _ = programs_of(case)
    kept = {buffer.name for program in programs for buffer in program.persistent_inputs}
    assert kept == {"p0"}
    for exact, output in zip(case.expected, run(case, share), strict=False):
        np.testing.assert_allclose(output, exact, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("over_rows, shape", [(True, (4096, 64)), (False, (24, 2048))])
def test_rows_that_are_loaded_late_are_refused(over_rows, shape):
    """Whoever says that they persist: a later round would find what nobody left."""
    programs, schedule = programs_of(read_late(*shape, over_rows))
    first = next(n for n, program in enumerate(programs) if program.persistent_inputs)
    all_inputs = tuple(programs[first].rows_read)
    assert len(all_inputs) == 2
    told = tuple(
        replace(p, persistent_inputs=all_inputs) if p.persistent_inputs else p for p in programs
    )
    parts = [
        replace(part, persistent_rows=part.rows) if program.persistent_inputs else part
        for program, part in zip(told, schedule.parts, strict=True)
    ]
    refused = legal(told, replace(schedule, parts=tuple(parts)), device_of(H200))
    assert isinstance(refused, Refused)
    assert "loaded before the first reduction" in refused.reason


def test_moments_of_values_far_from_zero():
    """As exact as two passes in float32, where a sum of squares would have no digit left."""
    rng = np.random.default_rng(0)
    values = rng.normal(3000, 1, (640, 40)).astype("float32").astype("float64")
    case = with_variance(values)
    variance = next(output for output in run(case, 0) if output.shape == (40,))
    wide = values.astype("float32")
    centred = wide - wide.mean(axis=0, keepdims=True)
    two_passes = (centred * centred).mean(axis=0)
    exact = case.expected[1]
    assert np.abs(variance - exact).max() <= 2 * np.abs(two_passes - exact).max() + 1e-6
    assert np.abs(variance - exact).max() <= 1e-5


def test_moments_take_two_barriers():
    programs, _ = programs_of(with_variance(np.ones((640, 40))))
    assert max(program.round for program in programs) == 2


def with_variance(values: np.ndarray) -> Case:
    """Centred columns, and the variance of each."""

    def build(emit, x):
        centred = emit(op.subtract(x, emit(op.mean(x, [0], keepdims=True))))
        variance = emit(op.mean(emit(op.multiply(centred, centred)), [0]))
        scale = emit(op.add(variance, relax.const(1.0, "float32")))
        return emit(op.divide(centred, scale)), variance

    def expected(x):
        centred = x - x.mean(axis=0, keepdims=True)
        variance = (centred**2).mean(axis=0)
        return centred / (variance + 1), variance

    return graph_of([(values.shape, "float32", values)], build, expected)


def test_schedules_whose_rows_would_be_elsewhere_are_refused():
    programs, schedule = programs_of(softmax_over_rows((4096, 64)))
    device = device_of(H200)
    persistent = [number for number, program in enumerate(programs) if program.persistent_inputs]
    assert [programs[number].round for number in persistent] == [0, 2]
    first = schedule.parts[persistent[0]]
    assert 0 < first.persistent_rows < int(programs[0].space.segment_rows)

    def changed(number: int, **fields: int):
        parts = list(schedule.parts)
        parts[number] = replace(parts[number], **fields)
        return replace(schedule, parts=tuple(parts))

    for wrong, why in (
        (changed(persistent[0], persistent_rows=first.persistent_rows + 1), "rows wait, of which"),
        (changed(persistent[1], batch=2 * first.batch), "in other blocks"),
        (changed(1, persistent_rows=4), "no other round reads"),
    ):
        refused = legal(programs, wrong, device)
        assert isinstance(refused, Refused)
        assert why in refused.reason


def test_rows_that_persist_cost_less():
    programs, schedule = programs_of(batch_norm("float32", (8192, 1024)))
    none = replace(
        schedule, parts=tuple(replace(part, persistent_rows=0) for part in schedule.parts)
    )
    device = device_of(H200)
    assert predicted_us(programs, schedule, device) < predicted_us(programs, none, device)


def test_the_report_says_what_persists():
    case = batch_norm("float32", (2048, 1024))
    (kernel,) = explain(case.module, H200, TOGETHER).kernels
    assert "% of the inputs they read again in shared memory" in kernel.why
    assert "rows of a segment persist on the chip" in kernel.mapping
    assert kernel.bytes_min < kernel.bytes_planned < 1.7 * kernel.bytes_min
