"""Measuring: a schedule that hangs or crashes loses only itself, a wrong one is found out."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
import tvm
from check import H200
from driver import MemoryDriver
from tuning_runs import DEVICE, chosen, column_sums, softmax_of, workload
from tvm import te, topi

from tvm_stitch import simt
from tvm_stitch.tuning.measuring import arrays, builder, gpu, measure
from tvm_stitch.tuning.measuring.builder import Builder
from tvm_stitch.tuning.measuring.handler import Handler
from tvm_stitch.tuning.measuring.jobs import Task
from tvm_stitch.tuning.measuring.library import Library, Outcome
from tvm_stitch.tuning.measuring.measure import LocalRunner, SimtRunner, locked_by
from tvm_stitch.tuning.measuring.worker_process import WorkerLost, WorkerProcess
from tvm_stitch.tuning.spaces.space import Space

# Processes


@pytest.fixture(scope="module")
def child():
    found = WorkerProcess()
    yield found
    found.close()


HELLO = {"do": "hello"}


@pytest.mark.slow
def test_a_child_answers_and_survives_mistakes(child):
    assert "package" in child.ask(HELLO, 60)
    assert "AttributeError" in child.ask({"do": "sing"}, 60)["error"]
    assert "AssertionError" in child.ask({"do": "count", "schedule": ""}, 60)["error"]
    assert "package" in child.ask(HELLO, 60)


@pytest.mark.slow
def test_a_child_that_crashes_is_replaced(child):
    child.ask(HELLO, 60)
    child.prepared = "something"
    os.kill(child._process.pid, signal.SIGSEGV)
    with pytest.raises(WorkerLost, match="signal 11"):
        child.ask(HELLO, 60)
    assert child.prepared == ""
    assert "package" in child.ask(HELLO, 60)


@pytest.mark.slow
def test_a_child_that_hangs_is_killed(child):
    child.ask(HELLO, 60)
    process = child._process
    os.kill(process.pid, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(WorkerLost, match="took longer than 1 s"):
        child.ask(HELLO, 1)
    assert time.monotonic() - started < 10
    assert process.poll() == -signal.SIGKILL


# The CPU executor

needs_executor = pytest.mark.skipif(simt.available() is not None, reason="no C++ compiler")


@needs_executor
def test_a_wrong_kernel_is_found_out(monkeypatch):
    """By its outputs: another function stands for a schedule that computes something else."""
    right, wrong = workload(*softmax_of(8, 64)), workload(*_other_softmax())
    handler = Handler()
    handler.answer(Task(right, H200, chosen(right)).message)
    count = {"do": "count", "schedule": chosen(right).to_json()}
    assert handler.answer(count)["cost"] > 0
    handler.function, handler.workload = wrong.function, wrong
    assert "output 0 differs from the default schedule's" in handler.answer(count)["error"]


def _other_softmax():
    x = te.placeholder((8, 64), "float32", "x")
    exps = topi.exp(topi.subtract(x, topi.max(x, axis=1, keepdims=True)))
    twice = topi.multiply(exps, te.compute(exps.shape, lambda *_: tvm.tirx.const(2.0, "float32")))
    return x, topi.divide(twice, topi.sum(exps, axis=1, keepdims=True))


@pytest.mark.slow
@needs_executor
def test_a_schedule_that_cannot_be_built_says_why():
    of = workload(*softmax_of(8, 64))
    runner = SimtRunner(H200, jobs=1)
    too_short = json.loads(chosen(of).to_json())
    too_short["parts"][0].update(threads=4096)
    wrong = type(chosen(of)).from_json(json.dumps(too_short))
    try:
        outcomes = runner.measure(of, [wrong, chosen(of)], chosen(of))
    finally:
        runner.close()
    assert "the kernel would be wrong" in outcomes[0].error
    assert outcomes[1].cost is not None


@pytest.mark.slow
def test_the_builder_compiles_libraries():
    of = workload(*softmax_of(8, 64))
    compiling, task = Builder(jobs=1), Task(of, H200, chosen(of))
    try:
        library = compiling.start(task, chosen(of))
        assert library.wait() == Outcome(None)
        with open(library.path, "rb") as file:
            assert file.read(4) == b"\x7fELF"
    finally:
        compiling.close()
    assert not os.path.exists(library.path)


# The GPU, played by this machine's memory


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setattr(gpu.tvm, "cuda", lambda number: tvm.cpu(number))
    monkeypatch.setattr(gpu, "Driver", MemoryDriver)
    monkeypatch.setattr(gpu, "FLUSH_BYTES", 1 << 10)
    monkeypatch.setattr("tvm_stitch.tuning.measuring.handler.device_of", lambda _: DEVICE)


def library_of(function, path):
    """A library for the CPU."""
    tvm.compile(tvm.IRModule({"main": function}), "llvm").export_library(str(path))
    return str(path)


@pytest.mark.slow
def test_times_and_outputs(on_cpu, tmp_path):
    right = te.create_prim_func(list(softmax_of(8, 64))).with_attr("global_symbol", "main")
    wrong = te.create_prim_func(list(_other_softmax())).with_attr("global_symbol", "main")
    device = gpu.Gpu(right, [1])
    device.set_reference(library_of(right, tmp_path / "right.so"), [])
    again = library_of(right, tmp_path / "again.so")
    assert device.run(again, [], best_us=None) > 0
    assert device.compare() == ""
    assert device._driver.flushed == gpu.LAUNCHES << 10
    device.run(again, [], best_us=1e-6)
    assert device._driver.flushed == (gpu.LAUNCHES + gpu.FEW_LAUNCHES) << 10
    device.run(library_of(wrong, tmp_path / "wrong.so"), [], None)
    assert "output 0 differs" in device.compare()
    costs = device.race([(again, []), (library_of(right, tmp_path / "right2.so"), [])])
    assert len(costs) == 2 and min(costs) > 0


def test_between_heats_arrays_move_with_what_they_hold(on_cpu, tmp_path, monkeypatch):
    function = te.create_prim_func(list(softmax_of(8, 64))).with_attr("global_symbol", "main")
    library = library_of(function, tmp_path / "right.so")
    device = gpu.Gpu(function, [1])
    device.set_reference(library, [])
    before, values = list(device._tensors), device._tensors[0].numpy()
    device.race([(library, [])])
    moved = zip(before, device._tensors, strict=True)
    assert all(old.data_ptr() != new.data_ptr() for old, new in moved)
    np.testing.assert_array_equal(device._tensors[0].numpy(), values)
    device.run(library, [], None)
    assert device.compare() == ""

    def full(*_):
        raise tvm.error.InternalError("out of memory")

    monkeypatch.setattr(gpu.tvm.runtime, "empty", full)
    kept = list(device._tensors)
    assert len(device.race([(library, [])])) == 1
    assert device._tensors == kept


def test_messages_of_a_measurement(on_cpu, tmp_path):
    """In the order in which jobs ask."""
    of, handler = workload(*softmax_of(8, 64)), Handler()
    library = library_of(of.function.with_attr("global_symbol", "main"), tmp_path / "right.so")
    runner = {"library": library, "schedule": chosen(of).to_json()}
    assert handler.answer(Task(of, H200, chosen(of)).message) == {}
    assert handler.answer({"do": "reference", "library": library}) == {}
    assert handler.answer({"do": "run", **runner, "best": None})["cost"] > 0
    assert handler.answer({"do": "compare"}) == {}
    costs = handler.answer({"do": "race", "runners": [runner, runner]})["costs"]
    assert len(costs) == 2 and min(costs) > 0


def test_the_device_repeats_what_was_drawn(on_cpu):
    function = te.create_prim_func(list(softmax_of(1025, 1024)))
    device = gpu.Gpu(function, [1])
    want = arrays.make_array(function, function.params[0])
    assert want.size > arrays.DRAWN
    np.testing.assert_array_equal(device._tensors[0].numpy(), want)


def test_an_output_that_is_not_written_is_found_out(on_cpu, tmp_path):
    function = te.create_prim_func(list(softmax_of(8, 64))).with_attr("global_symbol", "main")
    nothing = tvm.tirx.PrimFunc(function.params, tvm.tirx.Evaluate(0), function.ret_type)
    nothing = nothing.with_attr("global_symbol", "main").with_attr("s_tir", True)
    device = gpu.Gpu(function, [1])
    device.set_reference(library_of(function, tmp_path / "right.so"), [])
    empty = library_of(nothing, tmp_path / "nothing.so")
    device.run(empty, [], None)
    assert "differs from the default schedule's by inf" in device.compare()


def test_large_outputs_are_compared_in_pieces():
    size = 10 * gpu.COMPARED_BYTES + 4
    found = gpu.pieces(size)
    assert found[0][0] == 0 and sum(found[-1]) == size
    assert sum(length for _, length in found) == gpu.COMPARED_BYTES
    assert gpu.pieces(12) == [(0, 12)] and gpu.pieces(0) == []


@pytest.fixture
def local(monkeypatch):
    """A local runner whose processes are played by a function."""
    asked = []

    class Played:
        def __init__(self):
            self.prepared = ""

        def ask(self, message, timeout):
            asked.append(message["do"])
            return answers(message)

        def put(self, path):
            return path

        def close(self):
            pass

    def answers(message):
        if message["do"] == "run":
            threads = json.loads(message["schedule"])["parts"][0]["threads"]
            if threads == 64:
                raise WorkerLost("its process ended with signal 11: illegal memory access")
            return {"cost": float(threads)}
        if message["do"] == "race":
            if any('"threads": 64' in runner["schedule"] for runner in message["runners"]):
                raise WorkerLost("its process ended with signal 11: illegal memory access")
            return {"costs": [float(number) for number in range(1, 1 + len(message["runners"]))]}
        return {}

    for room in (measure, builder):
        monkeypatch.setattr(room, "WorkerProcess", Played)
    monkeypatch.setattr(measure.tvm, "cuda", lambda number: tvm.cpu(number))
    runner = LocalRunner(H200, jobs=2)
    yield runner, asked
    runner.close()


@pytest.mark.slow
def test_a_crash_on_the_gpu_loses_one_schedule(local):
    runner, asked = local
    of = workload(*softmax_of(512, 1024))
    space = [p.schedule for p in Space(of.programs, of.groups, of.device)]
    schedules = [s for s in space if s.parts[0].threads in (32, 64, 128)][:30]
    outcomes = runner.measure(of, schedules, chosen(of))
    for schedule, outcome in zip(schedules, outcomes, strict=True):
        threads = schedule.parts[0].threads
        assert outcome == (
            Outcome(None, "its process ended with signal 11: illegal memory access")
            if threads == 64
            else Outcome(float(threads))
        )
    assert asked.count("build") == len(schedules) + 1  # and the default schedule
    assert asked.count("reference") == 1  # a played process keeps what it knows


def test_a_default_schedule_that_fails_says_so(local, monkeypatch, tmp_path):
    runner, _ = local
    of = workload(*softmax_of(512, 1024))
    failing = partial(lambda *_: Library(str(tmp_path / "none"), lambda: Outcome(None, "no nvrtc")))
    monkeypatch.setattr(runner._builder, "start", failing)
    (outcome,) = runner.measure(of, [chosen(of)], chosen(of))
    assert outcome.error == "the default schedule failed: no nvrtc"


@pytest.mark.slow
def test_finalists_race(local):
    runner, asked = local
    of = workload(*softmax_of(512, 1024))
    schedules = [p.schedule for p in Space(of.programs, of.groups, of.device)][:3]
    outcomes = runner.measure(of, schedules, chosen(of), careful=True)
    assert outcomes == [Outcome(1.0), Outcome(2.0), Outcome(3.0)]
    assert asked.count("race") == 1 and "run" not in asked


@pytest.mark.slow
def test_a_finalist_that_crashes_loses_only_itself(local):
    runner, asked = local
    of = workload(*softmax_of(512, 1024))
    space = [p.schedule for p in Space(of.programs, of.groups, of.device)]
    by_threads = {schedule.parts[0].threads: schedule for schedule in space}
    schedules = [by_threads[threads] for threads in (32, 128, 64, 256)]
    outcomes = runner.measure(of, schedules, chosen(of), careful=True)
    crash = Outcome(None, "its process ended with signal 11: illegal memory access")
    assert outcomes == [Outcome(1.0), Outcome(2.0), crash, Outcome(2.0)]
    assert asked.count("race") == 4
    (first, second) = runner.measure(of, [by_threads[64], by_threads[32]], chosen(of), True)
    assert first == second == crash


@pytest.mark.slow
def test_one_process_at_a_time_has_the_gpu(tmp_path):
    """Also where the one that has it is killed."""
    lock = str(tmp_path / "lock")
    code = (
        "import sys, time; from tvm_stitch.tuning.measuring.measure import locked_by\n"
        f"with locked_by({lock!r})(): print('mine', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "mine\n"
    killer = threading.Timer(0.3, other.kill)
    started = time.monotonic()
    killer.start()
    with locked_by(lock)():
        assert time.monotonic() - started >= 0.3
    other.wait()
    other.stdout.close()


def test_the_middle_of_some_times():
    assert gpu.middle_mean([1.0, 9.0, 2.0, 3.0, 2.0, 3.0, 2.0, 100.0]) == 2.5
    assert gpu.middle_mean([4.0]) == 4.0


def test_what_warms_up_favours_nobody():
    """Every launch of a round is faster than the one before: all kernels are alike."""
    ticks = iter(range(10**6))
    times = gpu.interleaved([lambda: None] * 3, lambda _: 100.0 - next(ticks) % 3, rounds=12)
    assert times == [times[0]] * 3


def test_what_leads_by_its_cost_has_led_in_every_heat():
    heats = [[10.0, 8.0, 9.0], [20.0, 22.0, 19.0], [12.0, 9.0, 9.0]]
    # The second kernel leads by far where it leads, but not in the second heat.
    assert gpu.at_worst(heats) == [12.0, 12.0 * 1.1, 12.0 * 0.95]
    assert gpu.at_worst([[3.0]]) == [3.0]


# Arrays


def test_indices_stay_inside():
    table = te.placeholder((5, 8), "float32", "table")
    rows = te.placeholder((100,), "int32", "rows")
    taken = te.compute((100, 8), lambda i, j: table[rows[i], j])
    function = te.create_prim_func([table, rows, taken])
    found = arrays.make_array(function, function.params[1])
    assert found.dtype == "int32" and set(found) == set(range(5))


def test_arrays_repeat_what_was_drawn():
    function = te.create_prim_func(list(column_sums(1025, 1024)))
    found = arrays.make_array(function, function.params[0]).reshape(-1)
    again = found[arrays.DRAWN :]
    assert len(again) > 1000
    np.testing.assert_array_equal(found[: len(again)], again)
    assert (found > 0).all()


@pytest.mark.parametrize(
    ("got", "why"),
    (
        ([1.0, 2.0], ""),
        ([1.0 + 1e-5, 2.0], ""),
        ([1.1, 2.0], "output 0 differs"),
        ([np.nan, 2.0], "by inf"),
        ([np.inf, 2.0], "by inf"),
    ),
)
def test_disagreement(got, why):
    want = [np.array([1.0, 2.0], "float32"), np.array([3], "int32")]
    found = arrays.disagreement([np.array(got, "float32"), want[1]], want, ["float32", "int32"])
    assert why in found and bool(found) == bool(why)


def test_integers_must_be_equal():
    want, got = np.array([3, 4], "int32"), np.array([3, 5], "int32")
    assert "output 0" in arrays.disagreement([got], [want], ["int32"])


def test_outputs_that_cancel_are_judged_by_the_scale_of_the_others():
    want = [np.array([100.0], "float32"), np.array([1e-7], "float32")]
    got = [want[0], -want[1]]
    assert arrays.disagreement(got, want, ["float32", "float32"]) == ""
