"""Parts of a graph that other processes lower come out as they do here."""

import os

import forked
import pytest
import tvm_ffi
from check import H200
from tvm.relax import op
from zoo import graph

from tvm_stitch import Options
from tvm_stitch.build import without_folding
from tvm_stitch.dynamo.lowering import ahead as room
from tvm_stitch.dynamo.lowering.ahead import Ahead
from tvm_stitch.dynamo.lowering.lowering import Lowering
from tvm_stitch.processes import modules
from tvm_stitch.processes.forks import Forks

OFF = Options(cache="off")


def chain(length):
    def build(emit, x):
        for _ in range(length):
            x = emit(op.nn.softmax(emit(op.exp(x))))
        return x

    return graph("float32", [(64, 128)], build, lambda *_: ()).module


PARTS = {"small": chain(1), "large": chain(3), "middle": chain(2)}


@pytest.fixture(scope="module")
def forks():
    with forked.two_jobs() as patched:
        patched.setattr(room, "LEAST_OF_PART", 1)
        found = forked.ready()
        patched.setattr(room, "FORKS", found)
        yield found
        found.end()


@pytest.fixture
def asked(forks, monkeypatch):
    """What others were asked for."""
    return forked.heard(monkeypatch)


def parts(options=OFF, database=None, over=()):
    how = Lowering.of(H200, options, database, over)
    return how, {name: (module, how) for name, module in PARTS.items()}


def test_parts_come_out_the_same(asked):
    how, wanted = parts(over=[(0, 0)])
    with without_folding():
        ahead = Ahead()
        ahead.ask({name: wanted[name] for name in ("small", "middle")})
        ahead.ask(wanted)  # what has been asked for is not asked for again
        assert len(asked) == 3 and all(map(ahead.is_asked, PARTS))
        for name, module in PARTS.items():
            assert tvm_ffi.structural_equal(ahead.lowered(name), how(module)), name
        assert not any(map(ahead.is_asked, PARTS))
        assert ahead.lowered("small") is None  # an answer is given once


@pytest.mark.parametrize(
    "why", ["not ready", "dead", "wrong", "weights", "dumped", "timed", "cut short"]
)
def test_what_others_do_not_lower_is_lowered_here(forks, asked, monkeypatch, tmp_path, why):
    options = OFF
    if why == "not ready":
        monkeypatch.setattr(room, "FORKS", Forks())
    elif why == "dead":
        os.kill(forked.pid_of(forks), 9)
    elif why == "wrong":
        monkeypatch.setattr(room, "lowered_there", forked.wrong)
    elif why == "weights":
        monkeypatch.setattr(modules, "MOST_CONSTANTS", -1)
    elif why == "dumped":
        options = Options(cache="off", dump=tmp_path)
    elif why == "timed":
        options = Options(cache="off", measure=True)
    else:
        options = Options(cache="off", time_limit_s=0.001)
    _, wanted = parts(options)
    ahead = Ahead()
    ahead.ask(wanted)
    assert [ahead.lowered(name) for name in PARTS] == [None] * 3
    forks.begin()
    forked.wait_for(forks)


def test_modules_that_call_libraries_which_are_not_there_are_lowered_here(asked, monkeypatch):
    """While g++ works it counts as done: whether it is, is seen in the end."""
    monkeypatch.setattr(room, "calls_libraries", lambda _module: True)
    monkeypatch.setattr(room.shim, "failure", lambda: "no compiler")
    _, wanted = parts()
    ahead = Ahead()
    ahead.ask(wanted)
    assert [ahead.lowered(name) for name in PARTS] == [None] * 3
    assert len(asked) == 3
