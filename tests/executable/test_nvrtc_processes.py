"""NVRTC in processes of its own; here a module of Python stands in for it."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pytest

from tvm_stitch.executable import cuda
from tvm_stitch.executable.nvrtc_processes import Processes
from tvm_stitch.workarounds import nvrtc_calls
from tvm_stitch.workarounds.nvrtc_calls import Program, program_of

STAND_IN = """
import os, time
class nvrtcResult: NVRTC_SUCCESS = 0
def nvrtcCreateProgram(source, name, count, texts, names):
    return 0, [source, names]
def nvrtcCompileProgram(program, count, options):
    print("what a compiler has to say")
    if b"dies" in program[0]: os._exit(3)
    if b"slow" in program[0]: time.sleep(0.3)
    program.append(b"%d of %s with %s, %s" % (
        os.getpid(), program[0], b" ".join(program[1] or ()), b" ".join(options)))
    return (6 if b"wrong" in program[0] else 0,)
def nvrtcGetCUBINSize(program): return 0, len(program[2])
def nvrtcGetCUBIN(program, into): into[:] = program[2]; return (0,)
def nvrtcDestroyProgram(program): return (0,)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A module in NVRTC's place, here and in processes."""
    package = tmp_path / "cuda" / "bindings"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "nvrtc.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in _modules():
        monkeypatch.delitem(sys.modules, name)
    nvrtc = import_module("cuda.bindings.nvrtc")
    nvrtc_calls.is_seen.__wrapped__()
    monkeypatch.setattr(nvrtc_calls, "is_seen", lambda: True)
    yield nvrtc
    for name in _modules():  # nobody after this test finds the stand-in
        del sys.modules[name]


def _modules():
    return [name for name in sys.modules if name.split(".")[0] == "cuda"]


def program(source):
    return Program(source, b"name", [b"text"], [b"header"], [b"-a", b"-b"])


def alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def pid_of(code):
    return int(code.split()[0])


def test_programs_are_compiled_elsewhere_one_after_the_other(stand_in):
    processes = Processes()
    with processes.used():
        codes = [processes.compiled(program(source), "") for source in (b"one", b"two")]
    assert [code.split(b" ", 1)[1] for code in codes] == [
        b"of one with header, -a -b",
        b"of two with header, -a -b",
    ]
    (pid,) = set(map(pid_of, codes))
    assert pid != os.getpid() and not alive(pid)


def test_or_side_by_side_as_cores_allow(stand_in, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1, 2})
    processes = Processes()
    with processes.used(), ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(lambda n: processes.compiled(program(b"slow %d" % n), ""), range(6)))
    assert [code.split()[3] for code in codes] == [b"%d" % n for n in range(6)]
    assert 1 < len(set(map(pid_of, codes))) <= 3


def test_they_end_with_the_last_that_uses_them(stand_in):
    processes = Processes()
    with processes.used():
        with processes.used():
            pid = pid_of(processes.compiled(program(b"one"), ""))
        assert alive(pid)
        assert pid_of(processes.compiled(program(b"two"), "")) == pid
    assert not alive(pid)


@pytest.mark.parametrize("source", [b"wrong", b"dies"])
def test_what_fails_is_asked_here(stand_in, source):
    processes = Processes()
    with processes.used():
        assert processes.compiled(program(source), "") is None
        assert processes.compiled(program(b"right"), "") is not None


def test_where_none_can_be_started_nobody_tries_again(stand_in, monkeypatch):
    processes, tried = Processes(), []
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with processes.used():
        assert processes.compiled(program(b"one"), "") is None
        monkeypatch.setattr("subprocess.Popen", lambda *_given, **_named: tried.append(1))
        assert processes.compiled(program(b"two"), "") is None
    assert not tried


def test_a_library_that_is_none_starts_none(stand_in):
    assert Processes().compiled(program(b"one"), "/no/such/library.so") is None


def tvms(nvrtc):
    """In place of TVM's function."""

    def compile(code):
        _result, made = nvrtc.nvrtcCreateProgram(code.encode(), b"name", 0, None, None)
        (result,) = nvrtc.nvrtcCompileProgram(made, 1, [b"-o"])
        if result:
            raise RuntimeError("NVRTC has something against it")
        return b"compiled here"

    return compile


def test_what_tvm_would_ask_is_seen(stand_in):
    assert program_of(tvms(stand_in), "code") == Program(b"code", b"name", [], [], [b"-o"])
    assert program_of(lambda code: b"by nvcc", "code") is None


def test_kernels_are_compiled_by_them(stand_in, monkeypatch):
    monkeypatch.setattr(cuda, "_TVM", tvms(stand_in))
    processes = Processes()
    with processes.used(), cuda.compiling(None, processes):
        assert cuda.compiled("code").split(b" ", 1)[1].startswith(b"of code with cuda/std")
        with pytest.raises(RuntimeError, match="something against it"):
            cuda.compiled("wrong")
    with cuda.compiling(None):
        assert cuda.compiled("code") == b"compiled here"


def test_nvcc_is_asked_once(stand_in, monkeypatch):
    """It is a process by itself."""
    asked = []
    monkeypatch.setattr(cuda, "_TVM", lambda code: asked.append(code) or b"by nvcc")
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvcc")
    processes = Processes()
    with processes.used(), cuda.compiling(None, processes):
        assert cuda.compiled("code") == b"by nvcc"
    assert asked == ["code"]
