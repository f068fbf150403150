"""The shim is compiled while a pipeline plans; if it cannot be, the plan is made without it."""

import threading

import pytest
from check import H200
from library_stand_in import stand_in
from products_with_endings import product

import tvm_stitch
from tvm_stitch.cache.objects import compiler
from tvm_stitch.executable.link import calls_libraries
from tvm_stitch.kernel.library_product import build as library_product
from tvm_stitch.library import locate, shim


@pytest.fixture
def slow(monkeypatch):
    """A compiler that is done when the module has been lowered, and not before."""
    monkeypatch.setattr(library_product, "library_us", lambda *_, **__: 0.0)
    monkeypatch.setenv("TVM_STITCH_CACHE", "off")
    lowered, real = threading.Event(), shim.build

    def built():
        assert lowered.wait(60), "the pipeline waits for the compiler"
        return real()

    def known(module):
        lowered.set()
        return calls_libraries(module)

    monkeypatch.setattr("tvm_stitch.build.calls_libraries", known)
    with stand_in(monkeypatch), monkeypatch.context() as patched:
        patched.setattr(shim, "build", built)
        forget()
        yield patched
        lowered.set()
        patched.undo()
        forget()


def forget():
    shim.load.cache_clear()
    shim._begun.cache_clear()


def lowered():
    return tvm_stitch.pipeline(H200)(product("float32", 64, 64, 64, "").module)


def test_the_compiler_works_beside_the_planner(slow):
    assert calls_libraries(lowered()) and shim._begun().done()


def test_what_was_planned_in_vain_is_planned_anew(slow):
    slow_build = shim.build

    def refused():
        slow_build()
        raise shim.ShimMissing("no such header")

    slow.setattr(shim, "build", refused)
    assert not calls_libraries(lowered())
    assert shim.unusable(locate.CUBLASLT) == "no such header"


def test_without_a_compiler_nothing_is_planned_in_vain(slow):
    slow.setattr(shim, "build", compiler)
    slow.setenv("TVM_STITCH_CXX", "no-such-compiler")
    with shim.assumed():
        assert "no-such-compiler" in shim.unusable(locate.CUBLASLT)


def test_who_asks_otherwise_waits_for_the_compiler(slow):
    slow.setattr(shim, "build", lambda: (_ for _ in ()).throw(shim.ShimMissing("no such header")))
    assert shim.unusable(locate.CUBLASLT) == "no such header"


def test_the_compiler_works_while_pytorch_traces(slow):
    torch = pytest.importorskip("torch")
    from tvm_stitch.dynamo import backend
    from tvm_stitch.dynamo.settings import EXECUTOR, Settings

    begun = []

    def traced(graph, _inputs, **_settings):
        begun.append(shim._begun.cache_info().currsize)
        return graph.forward

    slow.setattr(backend, "traced", traced)
    compiler_of_graphs = backend.GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    torch.compile(lambda x: x + 1, backend=compiler_of_graphs)(torch.ones(3))
    assert begun == [1]


def test_a_graph_is_split_before_the_compiler_is_done(slow):
    torch = pytest.importorskip("torch")
    from tvm_stitch.dynamo import backend
    from tvm_stitch.dynamo.settings import EXECUTOR, Settings

    ours = backend.GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    support = ours._support(torch.device("cpu"), backend.INFERENCE)
    assert torch.bfloat16 in support.libraries.products
    assert not shim._begun().done()
