"""Measuring without a GPU: traces, timings, and the steps of a worker with a stand-in meter."""

import contextlib
import json
import threading

import pytest

torch = pytest.importorskip("torch")

from bench.case import Array, Case, Workload, as_list  # noqa: E402
from bench.measure import (  # noqa: E402
    DeviceEvent,
    MeasureError,
    Timing,
    cut,
    device_events,
    summarise,
    turns,
)
from bench.systems import Gpu, Prepared  # noqa: E402
from bench.worker import CaseRun, in_one_line  # noqa: E402

# ---- measuring -------------------------------------------------------------------------------


def test_every_system_has_its_turn_in_every_place():
    assert turns(["a", "b", "c"], 3) == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def trace(*named):
    """A Chrome trace in which these ran one after the other, given in no order."""
    kinds = {"Memset": "gpu_memset", "Memcpy": "gpu_memcpy"}
    events = [
        {"cat": kinds.get(name, "kernel"), "name": name, "ts": 100.5 + i, "dur": us}
        for i, (name, us) in enumerate(named)
    ]
    return {"traceEvents": [*reversed(events), {"cat": "cuda_runtime", "name": "x", "ts": 1}]}


def test_a_trace_is_cut_at_the_markers_and_loses_the_flushes():
    flush, mark = ("Memset", 60.0), ("mark", 1.0)
    found = device_events(
        trace(flush, mark, ("k", 3.0), ("Memcpy", 2.0), flush, mark, flush, mark, ("k", 4.0))
    )
    calls = cut(found, "mark", 3)
    assert [[e.name for e in call] for call in calls] == [["k", "Memcpy"], [], ["k"]]
    with pytest.raises(MeasureError, match="3 of 4 calls"):
        cut(found, "mark", 4)


def test_a_timing_is_the_median_over_calls_of_the_sum_over_kernels():
    def call(us):
        return [DeviceEvent("k", True, us), DeviceEvent("k", True, 1.0),
                DeviceEvent("copy", False, 2.0)]  # fmt: skip

    timing = summarise([call(us) for us in (10.0, 30.0, 20.0)])
    assert (timing.us, timing.kernels, timing.copies) == (23.0, 2, 1)
    assert timing.us_q1 <= timing.us <= timing.us_q3
    assert timing.parts == [["k", 2, 21.0], ["copy", 1, 2.0]]
    with pytest.raises(MeasureError, match="no kernel"):
        summarise([[], []])


# ---- the worker's steps ----------------------------------------------------------------------


class Instrument:
    """Gives every call a time and makes it, so that what calls do has its effect."""

    def gpu_times(self, calls):
        for call in calls.values():
            call()
        return {name: Timing(5.0, 4.0, 6.0, 1, 0, [["k", 1, 5.0]]) for name in calls}

    def wall_us(self, calls, expected_us):
        return {name: 9.0 for name in calls}

    def graph_us(self, call, on_stream):
        with on_stream():
            call()
        return 7.0

    def copy(self, size):
        return lambda: None


class Fake:
    """A system that runs the function and spoils its result."""

    optional = False

    def __init__(self, name, spoil=lambda out: out, capture=contextlib.nullcontext):
        self.name, self.spoil, self.capture = name, spoil, capture

    def supports(self, workload):
        return "not for me" if self.name == "skips" else None

    def prepare(self, workload, inputs, gpu):
        if self.name == "broken":
            raise RuntimeError("Traceback\n  deep\nCompileError: no such thing")
        return Prepared(
            call=lambda: self.spoil(workload.function(*inputs)),
            outputs=as_list,
            wait=lambda result: None,
            compile_s=0.5,
            capture=self.capture,
        )


def double(rows):
    return Workload(lambda x: x * 2, lambda x: x * 2, (Array((rows, 4)),))


CASE = Case("double", "twice x", "test", double, {"rows": 8}, {"rows": 2})


def run_case(*systems, graphs=True):
    sent = []
    CaseRun(CASE, list(systems), Instrument(), Gpu(), sent.append, "cpu").run(graphs)
    rows = {m["row"]["system"]: m["row"] for m in sent if m["event"] == "row"}
    info = next((m["info"] for m in sent if m["event"] == "case"), None)
    return rows, info


def test_a_right_result_gets_its_times_and_the_case_its_bytes():
    rows, info = run_case(Fake("good"))
    good = rows["good"]
    assert good["status"] == "ok"
    assert (good["us"], good["wall_us"], good["graph_us"]) == (5.0, 9.0, 7.0)
    assert good["error"] < 1e-6
    assert info["bytes"] == 2 * 8 * 4 * 4
    assert info["copy_us"] == 5.0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda out: out + 0.01,
        lambda out: out * float("nan"),
        lambda out: out[:-1],
        lambda out: (out, out),
    ],
    ids=["off", "nan", "shape", "count"],
)
def test_a_wrong_result_never_counts_as_a_time(spoil):
    rows, _ = run_case(Fake("bad", spoil), Fake("good"))
    assert rows["bad"]["status"] == "wrong"
    assert rows["bad"]["us"] is None
    assert "allowed" in rows["bad"]["detail"]
    assert rows["good"]["status"] == "ok"
    json.dumps(rows, allow_nan=False)


def test_what_does_not_compile_is_a_row_and_the_others_go_on():
    rows, _ = run_case(Fake("broken"), Fake("skips"), Fake("good"))
    assert rows["broken"]["status"] == "failed"
    assert rows["broken"]["detail"] == "RuntimeError: CompileError: no such thing"
    assert rows["skips"]["status"] == "skipped"
    assert rows["good"]["status"] == "ok"


def test_a_graph_that_cannot_be_captured_keeps_the_other_times():
    def fails():
        raise RuntimeError("capture error")

    rows, _ = run_case(Fake("good", capture=fails), Fake("never", capture=None))
    assert rows["good"]["status"] == "ok"
    assert rows["good"]["graph_us"] is None
    assert "capture error" in rows["good"]["detail"]
    assert rows["never"]["graph_us"] is None


def test_a_message_becomes_one_line():
    assert in_one_line(ValueError("first\nsecond")) == "ValueError: first"
    assert len(in_one_line(ValueError("x" * 5000))) <= 300


def test_what_compiles_together_is_measured_alone(tmp_path):
    path, alone = str(tmp_path / "gpu"), threading.Event()
    one, other = (Gpu(path, together=True) for _ in range(2))

    def measure():
        with one.held(), one.alone():
            alone.set()

    with other.held():
        thread = threading.Thread(target=measure)
        with one.held():  # both at once
            pass
        thread.start()
        assert not alone.wait(0.2)
    thread.join(10)
    assert alone.is_set()


def test_one_compiles_at_a_time_unless_asked(tmp_path):
    path, second = str(tmp_path / "gpu"), threading.Event()

    def compile_():
        with Gpu(path).held():
            second.set()

    with Gpu(path).held():
        thread = threading.Thread(target=compile_)
        thread.start()
        assert not second.wait(0.2)
    thread.join(10)
    assert second.is_set()
