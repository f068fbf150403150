"""Options(measure=True): regions are timed as planned and left to TVM, the faster is kept."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import tvm
from check import H200, plan_of, primfuncs, stitched
from driver import MemoryDriver
from planned import layers, random_module
from tuning_runs import softmax_model
from tvm import relax
from tvm.relax import op
from zoo import graph, layer_norm

import tvm_stitch
from tvm_stitch import InputError, Options, transform
from tvm_stitch.graph.front.read import read_block
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.plan.measured import Time
from tvm_stitch.reference import reference
from tvm_stitch.tuning import clock as clocks
from tvm_stitch.tuning.clock import GpuClock
from tvm_stitch.tuning.measuring import gpu, module

MEASURE = Options(measure=True)


class MadeUpClock:
    """Shows what it was told to, and keeps what it was asked."""

    def __init__(self, ours: Time, default: Time) -> None:
        self.answer, self.asked, self.closed = [ours, default], [], False

    def times(self, module, plans):
        self.asked.append((module, plans))
        return self.answer

    def close(self):
        self.closed = True


@pytest.fixture
def clock(monkeypatch):
    """A clock that the passes take for the GPU's."""

    def of(ours, default):
        found = MadeUpClock(ours, default)
        monkeypatch.setattr(transform, "GpuClock", lambda *_: found)
        return found

    return of


def test_the_faster_plan_is_kept(clock):
    module = random_module(5, operators=20)
    asked = clock(Time(3.0), Time(4.0))
    plan, planned = plan_of(module, options=MEASURE), plan_of(module)
    assert [group.nodes for group in plan.groups] == [group.nodes for group in planned.groups]
    assert {(m.stitched_us, m.default_us) for m in plan.measured} == {(3.0, 4.0)}
    assert asked.closed and len(asked.asked) == len(plan.measured)


def test_where_tvm_is_faster_its_kernels_are_taken(clock):
    clock(Time(4.0), Time(3.0))
    case = layer_norm("float32")
    plan = plan_of(case.module, options=MEASURE)
    assert not plan.groups
    (reason,) = {fallback.reason for fallback in plan.fallbacks}
    assert reason == "measured: stitched 4.0 us, TVM's default 3.0 us"
    # TVM gets it as it came.
    assert "layer_norm" in primfuncs(case.module, options=MEASURE)


def test_equal_regions_are_timed_once(clock):
    asked = clock(Time(1.0), Time(2.0))
    (found,) = plan_of(layers(6), options=MEASURE).measured
    assert len(asked.asked) == 1 and found.count == 6


@pytest.mark.parametrize(
    ("ours", "default", "groups"),
    [
        (Time(None, "it hung"), Time(2.0), 0),
        (Time(1.0), Time(None, "it hung"), 1),
        (Time(None, "it hung"), Time(None, "it hung"), 1),
        (Time(2.0), Time(2.0), 1),
    ],
)
def test_what_does_not_run_is_not_taken(clock, ours, default, groups):
    clock(ours, default)
    plan = plan_of(layer_norm("float32").module, options=MEASURE)
    assert len(plan.groups) == groups
    (found,) = plan.measured
    assert ("it hung" in found.why) == bool(ours.error or default.error)


def test_the_report_tells_both_times(clock):
    clock(Time(4.0), Time(3.0))
    report = tvm_stitch.explain(layer_norm("float32").module, H200, MEASURE)
    (found,) = report.to_json()["measured"]
    assert (found["stitched_us"], found["default_us"], found["count"]) == (4.0, 3.0, 1)
    assert "stitched 4.0 us, TVM's default 3.0 us" in str(report)


def test_a_plan_that_was_measured_can_be_pinned(clock):
    clock(Time(4.0), Time(3.0))
    module = layer_norm("float32").module
    report = tvm_stitch.explain(module, H200, MEASURE)
    assert not plan_of(module, options=Options(plan=report.plan)).groups
    with pytest.raises(InputError, match="plan or measure"):
        Options(plan=report.plan, measure=True)


# What is timed


@pytest.mark.slow
@pytest.mark.parametrize("seed", (0, 1))
def test_regions_by_themselves_compute_the_same(clock, seed):
    """Compiled for the CPU by an empty plan, a region is what it is in float64."""
    asked = clock(Time(1.0), Time(2.0))
    plan_of(random_module(seed, operators=12), options=MEASURE)
    for each, (ours, default) in asked.asked:
        assert ours.blocks[0].groups and not default.blocks[0].groups
        # Both plans fit the module: they would be refused if they did not.
        assert len(transformed(each, Options(plan=ours))) > 0
        transformed(each, Options(plan=default))
        arrays = [values(each, param) for param in each["main"].params]
        exact = reference(each, arrays)
        machine = relax.VirtualMachine(tvm.compile(each, "llvm"), tvm.cpu())
        found = machine["main"](*map(tvm.runtime.tensor, arrays))
        found = list(found) if len(exact) > 1 else [found]
        for got, want in zip(found, exact, strict=True):
            got = got.numpy().astype("float64")
            scale = max(1.0, np.abs(want).max(initial=0))
            assert np.abs(got - want).max(initial=0) < 0.1 * scale


def transformed(mod, options):
    """The stitched functions of a module of TIR calls."""
    log = []
    transform.StitchOps(H200, options, log)(mod)
    return log[0].groups


def values(mod, parameter):
    return module._values(mod, parameter)


def test_products_are_timed_with_the_region_that_may_end_their_kernels(clock):
    asked = clock(Time(1.0), Time(2.0))

    def build(emit, x, w, b):
        return emit(op.nn.softmax(emit(op.add(emit(op.matmul(x, w)), b))))

    plan_of(
        graph("float32", [(64, 64), (64, 64), (64,)], build, lambda *_: ()).module, options=MEASURE
    )
    ((mod, _),) = asked.asked
    (block,) = mod["main"].body.blocks
    names = [node.name for node in read_block(mod, block).nodes]
    assert names[0] == "matmul" and len(mod["main"].params) == 3


# The clock


def test_without_a_gpu_there_is_nothing_to_measure_with():
    if tvm.cuda(0).exist:
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match="measure=True needs a GPU"):
        plan_of(layer_norm("float32").module, options=MEASURE)


def test_a_gpu_of_another_kind_is_refused(monkeypatch):
    class Ampere:
        exist, compute_version = True, "8.0"

    monkeypatch.setattr(clocks.tvm, "cuda", lambda number: Ampere())
    with pytest.raises(InputError, match=r"sm_80\), which is not the target's sm_90"):
        GpuClock(H200, ())


@pytest.mark.slow
def test_a_plan_is_compiled_and_what_cannot_be_timed_says_why(monkeypatch, clock):
    asked = clock(Time(1.0), Time(2.0))
    plan_of(layer_norm("float32").module, options=MEASURE)
    ((mod, plans),) = asked.asked
    monkeypatch.setattr(clocks, "_check_gpu", lambda target: None)
    with closing(GpuClock(H200, SCHEMES, dependent_launch=False)) as real:
        (found,) = real.times(mod, plans[:1])
        assert [path.name for path in Path(real._folder.name).iterdir()] == ["0.so"]
    if not tvm.cuda(0).exist:
        assert found == Time(None, "there is no GPU that TVM can use")
    else:
        assert found.us > 0


def test_symbolic_shapes_are_not_timed(monkeypatch, clock):
    asked = clock(Time(1.0), Time(2.0))
    rows = tvm.tirx.Var("rows", "int64")
    plan_of(softmax_model(rows), options=MEASURE)
    ((mod, plans),) = asked.asked
    monkeypatch.setattr(clocks, "_check_gpu", lambda target: None)
    with closing(GpuClock(H200, SCHEMES)) as real:
        assert real.times(mod, plans) == [Time(None, "a dimension is symbolic")] * 2


def test_a_module_is_timed_as_a_whole(monkeypatch, tmp_path):
    """The GPU is played by this machine's memory."""
    mod = stitched(layer_norm("bfloat16").module, before="StitchOps")
    library = str(tmp_path / "library.so")
    tvm.compile(mod, "llvm").export_library(library)
    monkeypatch.setattr(gpu.tvm, "cuda", lambda number: tvm.cpu(number))
    monkeypatch.setattr(gpu, "FLUSH_BYTES", 1 << 10)
    monkeypatch.setattr(module, "Driver", MemoryDriver)
    assert 0 < module.Model(mod).time(library) < 1e6


def test_integers_index_nothing_outside():
    def build(emit, x, y):
        found = emit(op.take(x, y, axis=0))
        return found, emit(op.add(y, y))

    shapes, dtypes = [(5, 16), (400,)], ["float32", "int64"]
    mod = stitched(gathers(build, shapes, dtypes), before="StitchOps")
    drawn = values(mod, mod["main"].params[1])
    assert drawn.min() >= 0 and 3 <= drawn.max() < 5


def gathers(build, shapes, dtypes):
    """A module of inputs of several dtypes."""
    builder = relax.BlockBuilder()
    params = [
        relax.Var(f"x{n}", relax.TensorType(*each))
        for n, each in enumerate(zip(shapes, dtypes, strict=True))
    ]
    with builder.function("main", params):
        with builder.dataflow():
            outputs = [builder.emit_output(each) for each in build(builder.emit, *params)]
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.get()
