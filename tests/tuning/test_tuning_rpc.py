"""Tuning through TVM's RPC: a tracker and two servers on loopback, one of which is killed."""

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from check import H200
from tuning_runs import softmax_model

import tvm_stitch
from tvm_stitch import simt
from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.measuring import rpc
from tvm_stitch.tuning.measuring.jobs import Job
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.measuring.measure import ACCESSES
from tvm_stitch.tuning.measuring.worker_process import ServerLost
from tvm_stitch.tuning.store import Store

missing = [name for name in ("tornado", "cloudpickle") if importlib.util.find_spec(name) is None]
needs_rpc = pytest.mark.skipif(bool(missing), reason=f"TVM's RPC needs {missing}")
MODEL = softmax_model(16, 512)
START_SECONDS = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def started(*arguments) -> subprocess.Popen:
    """A process with a process group of its own."""
    command = [sys.executable, "-m", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, start_new_session=True, text=True, **pipes)


def kill(process: subprocess.Popen) -> None:
    """With all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.fixture(scope="module")
def tracker():
    """Its address, as host:port."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    process = started(
        "tvm.exec.rpc_tracker", "--host", "127.0.0.1", "--port", str(port),
        "--port-end", str(port + 1),
    )  # fmt: skip
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield address
    kill(process)


@pytest.fixture
def servers(tracker):
    """Two servers that count on the CPU executor."""
    arguments = ("--serve", tracker, "--key", "cpu", "--runner", "simt")
    found = [started("tvm_stitch", "tune", *arguments) for _ in range(2)]
    for process in found:
        assert "serving cpu" in process.stdout.readline()
    yield found
    for process in found:
        kill(process)


@pytest.mark.slow
@needs_rpc
@pytest.mark.skipif(simt.available() is not None, reason="no C++ compiler")
def test_one_of_two_servers_is_killed_in_the_middle(tracker, servers, tmp_path):
    path = tmp_path / "records.jsonl"

    def kill_one(_state):
        if servers[0].poll() is None:
            kill(servers[0])

    tuning = tvm_stitch.tune(
        MODEL, H200, path, trials=16, runner="rpc", tracker=tracker, key="cpu", progress=kill_one
    )
    assert servers[0].poll() is not None and servers[1].poll() is None
    (kernel,) = tuning.kernels
    assert (kernel.trials, kernel.failed, kernel.unit) == (16, 0, ACCESSES)
    assert kernel.gain >= 1
    # The same search on this machine finds the same: counts do not depend on who counts.
    here = tmp_path / "here.jsonl"
    tvm_stitch.tune(MODEL, H200, here, trials=16, runner="simt", jobs=2)
    costs = [[record.cost for record in Store(each).read().records] for each in (path, here)]
    assert costs[0] == costs[1]


@pytest.mark.slow
@needs_rpc
def test_without_a_server_there_is_an_end_to_waiting(tracker, tmp_path, monkeypatch):
    monkeypatch.setattr(rpc, "WAIT_SECONDS", 0.5)
    with pytest.raises(StitchError, match=r"no server with the key 'tpu'.*--serve .* --key tpu"):
        tvm_stitch.tune(MODEL, H200, tmp_path / "r.jsonl", runner="rpc", tracker=tracker, key="tpu")


# How work is spread, without sockets


class Played:
    """A server that is lost after so many jobs."""

    def __init__(self, jobs):
        self.left, self.prepared = jobs, ""

    def do(self, number):
        if self.left == 0:
            raise ServerLost("a server was lost")
        self.left -= 1
        return [Outcome(float(number))]


def jobs(count):
    return [Job(1, lambda server, number=number: server.do(number)) for number in range(count)]


def test_what_a_lost_server_was_doing_is_done_by_another():
    spread = rpc._Spread(jobs(10))
    assert spread.work(Played(3)) is False
    assert not spread.is_done
    assert spread.work(Played(100)) is True
    assert [outcome.cost for outcome in spread.outcomes()] == [float(n) for n in range(10)]


def test_a_schedule_that_loses_every_server_is_given_up():
    def deadly(server):
        raise ServerLost("a server was lost")

    spread = rpc._Spread([Job(2, deadly), *jobs(1)])
    while not spread.is_done:
        spread.work(Played(100))
    assert spread.outcomes() == [
        *2 * [Outcome(None, "a server was lost, 3 times over this schedule")],
        Outcome(0.0),
    ]
