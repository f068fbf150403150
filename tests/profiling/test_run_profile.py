"""profile: what kernels took, beside what was expected. No GPU is needed: a source is pretended."""

import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

import tvm_stitch
from tvm_stitch.commands.cli import main
from tvm_stitch.errors import InputError
from tvm_stitch.frontend.read import read
from tvm_stitch.profiling import profile as profiled
from tvm_stitch.profiling.cupti import Cupti, device_events
from tvm_stitch.profiling.data import Event, Run
from tvm_stitch.profiling.events import DriverClock, VmEvents
from tvm_stitch.profiling.join import joined
from tvm_stitch.report import explain

H200 = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})


def two_softmaxes():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 128), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.nn.softmax(x))
            y = builder.emit(op.nn.softmax(builder.emit(op.sort(y))))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    return builder.get()


def softmax():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 128), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(op.nn.softmax(x))
        builder.emit_func_output(out)
    return builder.get()


@pytest.fixture(scope="module")
def report():
    return explain(two_softmaxes(), H200)


STITCHED = "stitched_max_subtract_tir_exp_sum_divide_kernel"


def run(first=2.0, last=3.0):
    """A softmax, a copy by somebody else, and the softmax again, 1 and 4 us apart."""
    events = Event(STITCHED, 0.0, first), Event("Memcpy DtoD", first + 1, 0.5)
    return Run((*events, Event(STITCHED, first + 5.5, last)))


def test_measured_times_stand_beside_predicted_ones(report):
    profile = joined([run(), run(2.2, 3.2), run(1.8, 3.0)], "a clock", "H200", report, host_us=50.0)
    by_name = {kernel.name: kernel for kernel in profile.kernels}
    kernel = by_name[STITCHED]
    expected = next(each for each in report.kernels if each.name == STITCHED)
    assert (kernel.launches, kernel.measured_us, kernel.total_us) == (2, 2.6, 5.0)
    assert (kernel.predicted_us, kernel.floor_us) == (expected.predicted_us, expected.floor_us)
    assert kernel.copy_share == pytest.approx(expected.floor_us / 2.6)
    assert by_name["Memcpy DtoD"].scheme == "" and by_name["Memcpy DtoD"].predicted_us is None
    assert by_name["sort_kernel"].launches == 0  # the report has it, the run had not
    assert (profile.total_us, profile.gaps_us, profile.host_us) == (5.5, 5.0, 50.0)
    assert profile.kernels[0].name == STITCHED


def test_kernels_that_overlap_leave_no_gap():
    events = Event("a", 0.0, 10.0), Event("b", 2.0, 3.0), Event("c", 11.0, 1.0)
    assert joined([Run(events)], "a clock", "H200").gaps_us == 1.0


def test_the_text_is_a_table(report):
    text = str(joined([run()], "a clock", "H200", report, host_us=50.0))
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith("5.5 us on the H200 a call, 5.0 us between its launches, 50.0 us as")
    assert "of a copy" in text and STITCHED[:24] in text and "median of 1 call." in text


def test_the_trace_has_what_was_and_what_was_expected(report, tmp_path):
    joined([run()], "a clock", "H200", report).to_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    measured = [(e["name"], e["ts"], e["dur"]) for e in slices if e["tid"] == 1]
    assert measured[0] == (STITCHED, 0.0, 2.0) and measured[2] == (STITCHED, 7.5, 3.0)
    assert [e["ts"] for e in slices if e["tid"] == 2] == [0.0, 7.5]
    assert slices[0]["args"]["floor_us"] == slices[1]["args"]["floor_us"] > 0


def test_json_and_the_page_hold_the_times(report, tmp_path):
    profile = joined([run()], "a clock", "H200", report)
    data = json.loads(json.dumps(profile.to_json()))
    assert data["measured"] and data["report"] == json.loads(json.dumps(report.to_json()))
    assert {k["name"]: k["measured_us"] for k in data["kernels"]}[STITCHED] == 2.5
    profile.to_html(tmp_path / "page.html")
    assert '"measured_us":2.5' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_executable_is_profiled_without_a_report(tmp_path):
    profile = joined([run()], "a clock", "H200")
    assert profile.to_json()["report"] is None
    profile.to_html(tmp_path / "page.html")


class Counting:
    """A source that calls, and makes up what it saw."""

    how = "a clock"

    def __init__(self):
        self.results = []

    def run(self, call):
        self.results.append(call())
        return run()


def test_the_model_is_really_called():
    source, arrays = Counting(), [np.ones((64, 128), "float32")]
    executable = tvm.compile(softmax(), "llvm")
    profile = tvm_stitch.profile(executable, arrays, calls=4, source=source)
    assert profile.calls == 4 and len(source.results) == 4 + 3
    assert profile.host_us > 0
    np.testing.assert_allclose(source.results[0].numpy(), 1 / 128, rtol=1e-6)


SYMBOLIC = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 96), "float32")) -> R.Tensor(("n", 96), "float32"):
        with R.dataflow():
            y = R.nn.softmax(x)
            R.output(y)
        return y
"""


@pytest.fixture
def any_rows(tmp_path):
    """A softmax of any number of rows, in TVMScript."""
    path = tmp_path / "model.py"
    path.write_text(SYMBOLIC)
    return path


@pytest.mark.parametrize(
    ("given", "rows"),
    [({}, 256), ({"sizes": {"n": 7}}, 7), ({"inputs": [np.ones((3, 96), "float32")]}, 3)],
)
def test_expected_times_are_for_the_sizes_that_run(any_rows, monkeypatch, given, rows):
    monkeypatch.setattr(profiled, "stitch_compile", lambda mod, *_: tvm.compile(mod, "llvm"))
    source = Counting()
    profile = tvm_stitch.profile(read(str(any_rows)), target=H200, source=source, **given)
    assert source.results[0].shape == (rows, 96)
    (kernel,) = profile.report.kernels
    assert kernel.sizes == f"n = {rows}" and kernel.bytes_min == 2 * 4 * 96 * rows


def test_the_events_of_a_profilers_trace():
    events = [
        {"cat": "kernel", "name": "b", "ts": 12.5, "dur": 2},
        {"cat": "cpu_op", "name": "host", "ts": 1, "dur": 100},
        {"cat": "kernel", "name": "a", "ts": 10, "dur": 1.5},
        {"ph": "M", "name": "process_name"},
    ]
    found = device_events({"traceEvents": events})
    assert found == (Event("a", 0.0, 1.5), Event("b", 2.5, 2.0))
    assert device_events({}) == ()


class PretendedTorch:
    """As much of PyTorch as Cupti asks; its profiler saw one kernel."""

    def __init__(self):
        self.cuda = SimpleNamespace(synchronize=lambda: None)
        activity = SimpleNamespace(CUDA="CUDA")
        self.profiler = SimpleNamespace(ProfilerActivity=activity, profile=self.profile)

    @contextmanager
    def profile(self, activities, acc_events):
        assert activities == ["CUDA"] and acc_events
        yield SimpleNamespace(export_chrome_trace=self.export)

    def export(self, path):
        events = [{"cat": "kernel", "name": "a", "ts": 5, "dur": 1.5}]
        Path(path).write_text(json.dumps({"traceEvents": events}))


def test_cupti_by_way_of_the_profiler():
    called = []
    found = Cupti(PretendedTorch()).run(lambda: called.append(1))
    assert called == [1] and found.events == (Event("a", 0.0, 1.5),)


def test_the_drivers_clock():
    calls = []
    driver = SimpleNamespace(
        event=lambda: "event",
        call=lambda *arguments: calls.append(arguments),
        elapsed_us=lambda start, stop: 2.5,
    )
    clock = DriverClock(driver)
    mark = clock.mark()
    assert clock.elapsed_us(mark, mark) == 2.5
    clock.release(mark)
    assert calls == [("cuEventRecord", "event", None), ("cuEventDestroy_v2", "event")]


class Ticks:
    """A clock that moves on by one at each mark."""

    def __init__(self):
        self.now = 0.0
        self.held = set()

    def mark(self):
        self.now += 1.0
        self.held.add(self.now)
        return self.now

    def release(self, mark):
        self.held.remove(mark)

    def elapsed_us(self, start, stop):
        return stop - start


def test_the_virtual_machine_is_instrumented():
    machine = relax.VirtualMachine(tvm.compile(softmax(), "llvm"), tvm.cpu())
    clock = Ticks()
    source = VmEvents(machine, clock)
    tensor = tvm.runtime.tensor(np.ones((64, 128), "float32"))
    found = source.run(lambda: machine["main"](tensor))
    assert [(event.start_us, event.us) for event in found.events] == [(0.0, 1.0)]
    assert "softmax" in found.events[0].name
    assert len(source.run(lambda: machine["main"](tensor)).events) == 1
    assert not clock.held


@pytest.mark.skipif(tvm.cuda(0).exist, reason="this machine has a GPU")
class TestWithoutGpu:
    def test_a_script_of_any_size_is_counted_at_the_size_given(self, any_rows, capsys):
        arguments = ["profile", str(any_rows), "--target", "sm_90", "--json"]
        assert main([*arguments, "--shapes", "n=8"]) == 0
        few = json.loads(capsys.readouterr().out)
        assert main([*arguments, "--shapes", "n=16"]) == 0
        many = json.loads(capsys.readouterr().out)
        assert few["report"]["kernels"][0]["sizes"] == "n = 8"
        assert few["kernels"][0]["accesses"] < many["kernels"][0]["accesses"]
        assert main([*arguments, "--shapes", "n=8,16"]) == 2
        assert "a profile is of one size of n" in capsys.readouterr().err

    def test_the_executor_counts(self):
        profile = tvm_stitch.profile(softmax(), target=H200)
        (kernel,) = profile.kernels
        assert kernel.measured_us is None and not profile.measured
        # A load and a store of four floats for each thread; what it keeps is in registers.
        assert kernel.accesses >= 2 * 64 * 128 // 4
        assert kernel.switches > 0 and kernel.predicted_us > 0
        # It reads and writes every element once; a row is one warp's, which needs no barrier.
        assert kernel.global_bytes == kernel.bytes_min == 2 * 4 * 64 * 128
        assert kernel.barriers == 0
        # A softmax is five operators; TVM counts four operations of an element.
        assert kernel.operations == 4 * 64 * 128
        assert "Counted by the CPU executor, for H200; nothing is timed." in str(profile)
        assert str(kernel.accesses) in str(profile)

    def test_an_executable_cannot_be_counted(self):
        with pytest.raises(InputError, match="give profile the Relax module"):
            tvm_stitch.profile(tvm.compile(softmax(), "llvm"), [])

    def test_the_command(self, tmp_path, capsys):
        path = tmp_path / "model.json"
        path.write_text(tvm.ir.save_json(softmax()))
        trace, page = str(tmp_path / "trace.json"), str(tmp_path / "page.html")
        arguments = ["--target", "sm_90", "--json", "--trace", trace, "--html", page]
        assert main(["profile", str(path), *arguments]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["kernels"][0]["accesses"] > 0 and data["total_us"] is None
        assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        assert "<!doctype html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_wrong_use():
    with pytest.raises(InputError, match="calls must be at least 1"):
        tvm_stitch.profile(softmax(), calls=0)
    with pytest.raises(InputError, match="give them to profile"):
        tvm_stitch.profile(tvm.compile(softmax(), "llvm"))
