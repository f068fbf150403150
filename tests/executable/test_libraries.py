"""A module's functions become libraries at the same time, elsewhere or here, and each once."""

import os

import forked
import numpy as np
import pytest
import tvm
from check import H200
from driver import compiled_by
from tvm import relax
from zoo import graph, softmax

import tvm_stitch
from tvm_stitch.cache.store import Store
from tvm_stitch.executable import cuda, libraries, link, shared_object
from tvm_stitch.executable.libraries import begun
from tvm_stitch.kernel.build import is_emitted
from tvm_stitch.processes.forks import Forks
from tvm_stitch.target import full_target

LLVM = tvm.target.Target({"kind": "llvm", "num-cores": 2})
X = np.linspace(-2, 2, 4 * 31, dtype="float32").reshape(4, 31)


def three_kernels() -> tvm.IRModule:
    def build(emit, x):
        return emit(relax.op.sum(emit(relax.op.exp(emit(relax.op.sin(x)))), 1))

    module = graph("float32", [X.shape], build, lambda *_: ()).module
    with LLVM, tvm.transform.PassContext(disabled_pass=["FuseOps", "FuseTIR"]):
        return relax.get_default_pipeline(LLVM)(module)


@pytest.fixture(scope="module")
def lowered():
    return three_kernels()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    """Every function is large enough for a library, which no process has loaded yet."""
    monkeypatch.setattr(libraries, "LEAST", 1)
    monkeypatch.setattr(libraries, "jobs", lambda: 3)
    monkeypatch.setattr(libraries, "is_emitted", lambda function: True)
    monkeypatch.setattr(shared_object, "_LOADED", {})


@pytest.fixture(scope="module")
def server():
    with forked.two_jobs():
        found = forked.ready()
        yield found
        found.end()


@pytest.fixture
def forks(server, monkeypatch):
    """A server that is ready; its list says what it was asked."""
    monkeypatch.setattr(libraries, "FORKS", server)
    server.asked = forked.heard(monkeypatch)
    return server


@pytest.fixture
def here(monkeypatch):
    """How many libraries this process lowers."""
    lowered, compiler_of = [], libraries.compiler_of

    def counted(module, *rest, **named):
        lowered.append(module)
        return compiler_of(module, *rest, **named)

    monkeypatch.setattr(libraries, "compiler_of", counted)
    return lowered


def right(executable) -> bool:
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(X)).numpy()
    wanted = np.exp(np.sin(X.astype("float64"))).sum(1)
    return bool(np.allclose(found, wanted, rtol=1e-5))


def test_libraries_are_made_by_others_and_found_ever_after(lowered, store, forks, here):
    linking = link.linked_later(lowered, LLVM, store)
    assert right(linking()) and not here
    assert len(forks.asked) == len(linking.kept.libraries) == 3
    again = link.linked_later(lowered, LLVM, store)
    assert right(again()) and not here
    assert len(forks.asked) == 3 and again.kept == linking.kept
    shared_object._LOADED.clear()  # as in another process
    assert right(again.kept.linked(store))


def test_what_runs_from_the_store_can_be_exported(lowered, store, forks, here, tmp_path):
    with LLVM:
        executable = link.linked(lowered, LLVM, store)
    assert right(executable) and not here
    file = str(tmp_path / "exported.so")
    executable.export_library(file)
    assert len(here) == 1
    assert right(tvm.runtime.load_module(file))
    assert len(executable.mod.imports) == 1  # of one library, which is not made again
    assert len(here) == 1


def test_what_is_to_be_exported_is_compiled_for_that_alone(lowered, store, forks, here, tmp_path):
    with LLVM, link.to_be_exported():
        executable = link.linked(lowered, LLVM, store)
    executable.export_library(str(tmp_path / "exported.so"))
    assert right(tvm.runtime.load_module(str(tmp_path / "exported.so")))
    assert len(here) == 1 and not forks.asked


def test_what_others_leave_is_made_here(lowered, store, forks, here, monkeypatch):
    monkeypatch.setattr(libraries, "made_there", forked.wrong)
    assert right(link.linked_later(lowered, LLVM, store)())
    assert len(here) == len(forks.asked) == 3


def test_a_server_that_dies_leaves_all_to_this_process(lowered, store, forks, here):
    linking = link.linked_later(lowered, LLVM, store)
    os.kill(forked.pid_of(forks), 9)
    assert right(linking())
    forks.begin()
    forked.wait_for(forks)


def test_another_compiler_than_this_process_has_makes_nothing(lowered, store, forks, here):
    with LLVM:
        making = libraries._Making.now(LLVM, store)
        (group, *_) = making.groups(tvm.IRModule({v: f for v, f in _functions(lowered)}))
    text = tvm.ir.save_json(LLVM)
    work = libraries.Work(group.name, group.texts, text, making.settings, store, ("another",))
    assert not libraries.made_there(work) and not here


def test_nobody_is_asked_who_is_not_ready(lowered, store, here, monkeypatch):
    monkeypatch.setattr(libraries, "FORKS", Forks())
    assert right(link.linked_later(lowered, LLVM, store)())
    assert len(here) == 3
    link.linked_later(lowered, LLVM, store)()
    assert len(here) == 3


def test_without_a_linker_nobody_is_asked_for_what_cannot_be_kept(
    lowered, store, forks, here, monkeypatch
):
    monkeypatch.setenv("TVM_STITCH_CXX", "no-such-compiler")
    assert right(link.linked_later(lowered, LLVM, store)())
    assert len(here) == 3 and not forks.asked


def test_without_a_store_there_is_one_library(lowered, forks, here):
    linking = link.linked_later(lowered, LLVM, None)
    assert right(linking()) and linking.kept is None
    assert len(here) == 1 and not forks.asked


def test_one_that_is_gone_is_made_again_alone(lowered, store, forks, here):
    kept = link.linked_later(lowered, LLVM, store).kept
    link.linked_later(lowered, LLVM, store)()
    store.path(kept.libraries[1]).unlink()
    shared_object._LOADED.clear()
    assert kept.linked(store) is None
    forks.asked.clear()
    assert right(link.linked_later(lowered, LLVM, store)())
    assert [work.name for _, work in forks.asked] == [kept.libraries[1]]


def test_errors_reach_who_waits(lowered, store, monkeypatch):
    def fails(*_given, **_named):
        raise ValueError("no code")

    monkeypatch.setattr(libraries, "FORKS", Forks())
    monkeypatch.setattr(shared_object, "made", fails)
    linking = link.linked_later(lowered, LLVM, store)
    with pytest.raises(ValueError, match="no code"):
        linking()


@pytest.mark.skipif(
    tvm.get_global_func(cuda.CREATE, allow_missing=True) is not None, reason="has a CUDA driver"
)
def test_kernels_lie_apart_and_what_may_call_each_other_together(store, monkeypatch):
    monkeypatch.setattr(libraries, "is_emitted", is_emitted)
    modules = [softmax("float32", 8, columns).module for columns in (64, 1000)]
    target = full_target(H200)
    with compiled_by(lambda code: b"binary"), target:
        making = libraries._Making.now(target, store)
        functions = {}
        for number, module in enumerate(modules):
            for _, function in _functions(tvm_stitch.pipeline(target)(module)):
                functions[tvm.ir.GlobalVar(f"f{number}{len(functions)}")] = function
        kernels = [f for f in functions.values() if is_emitted(f)]
        groups = making.groups(tvm.IRModule(functions))
    assert len(kernels) == 2 and len(functions) > 3
    sizes = sorted(len(group.module.functions) for group in groups)
    assert sizes == [1, 1, len(functions) - 2]
    with compiled_by(lambda code: b"binary"), target:
        again = libraries._Making.now(target, store).groups(tvm.IRModule(functions))
    assert [group.name for group in again] == [group.name for group in groups]


def test_no_function_needs_no_library(store):
    assert begun(tvm.IRModule({}), LLVM, store).wait() == []


def _functions(module):
    return [
        (var, function)
        for var, function in module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    ]
