"""Libraries are compiled once and loaded from the store after that, where there can be one."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tvm_stitch.cache.store import CacheWarning, Store
from tvm_stitch.executable import shared_object


@I.ir_module
class Doubling:
    @T.prim_func
    def doubled(x: T.Buffer((7,), "float32"), y: T.Buffer((7,), "float32")):
        T.func_attr({"global_symbol": "doubled"})
        for i in range(7):
            y[i] = x[i] * T.float32(2)


class Compiler:
    """Compiles for the CPU, and counts."""

    def __init__(self):
        self.calls = 0

    def __call__(self, hear):
        self.calls += 1
        library = tvm.tirx.build(Doubling, target="llvm")
        hear(library)
        return library


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


@pytest.fixture(autouse=True)
def another_process(monkeypatch):
    """Nothing is loaded yet."""
    monkeypatch.setattr(shared_object, "_LOADED", {})


def loaded(compiler, store, *made_of):
    name = shared_object.name_of([tvm.ir.save_json(Doubling)], made_of)
    return shared_object.kept(name, store) or shared_object.made(name, compiler, store)


def doubles(library) -> bool:
    x = tvm.runtime.tensor(np.arange(7, dtype="float32"))
    y = tvm.runtime.tensor(np.zeros(7, dtype="float32"))
    library["doubled"](x, y)
    return bool((y.numpy() == 2 * x.numpy()).all())


def test_what_was_compiled_is_loaded_ever_after(store):
    compiler = Compiler()
    first, again = loaded(compiler, store), loaded(compiler, store)
    assert doubles(first)
    assert again.same_as(first)  # a second one would take the first one's place
    shared_object._LOADED.clear()
    assert doubles(loaded(compiler, store))
    assert compiler.calls == 1


def test_one_of_many_that_ask_at_once_compiles(store, monkeypatch):
    """Threads here, which know nothing of each other as processes do not."""
    begun, asked = threading.Event(), threading.Event()

    class Slow(Compiler):
        def __call__(self, hear):
            begun.set()
            assert asked.wait(30)
            return super().__call__(hear)

    lock = Store.lock

    def locked(self, name):
        if begun.is_set() and name.startswith(shared_object.KIND):
            asked.set()
        return lock(self, name)

    monkeypatch.setattr(Store, "lock", locked)
    slow, other = Slow(), Compiler()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(loaded, slow, store)
        assert begun.wait(30)
        second = pool.submit(loaded, other, store)
        assert doubles(first.result(60)) and doubles(second.result(60))
    assert (slow.calls, other.calls) == (1, 0)


def test_other_targets_and_settings_are_other_libraries(store):
    compiler = Compiler()
    loaded(compiler, store, "sm_90")
    loaded(compiler, store, "sm_80")
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        loaded(compiler, store, "sm_80")
    assert compiler.calls == 3


def test_a_damaged_file_is_made_anew(store):
    compiler = Compiler()
    loaded(compiler, store)
    (path,) = (store.folder / shared_object.KIND).glob("*.so")
    whole = path.read_bytes()
    path.unlink()  # this process has the file in its memory
    path.write_bytes(whole[:1000])
    shared_object._LOADED.clear()
    with pytest.warns(CacheWarning, match="damaged"):
        assert doubles(loaded(compiler, store))
    assert compiler.calls == 2


def test_without_a_linker_libraries_are_used_as_they_were_compiled(store, monkeypatch):
    monkeypatch.setenv("TVM_STITCH_CXX", "no-such-compiler")
    compiler = Compiler()
    assert doubles(loaded(compiler, store))
    assert doubles(loaded(compiler, store))
    assert compiler.calls == 2


def test_what_does_not_compile_leaves_nothing(store):
    def fails(_hear):
        raise ValueError("no code")

    with pytest.raises(ValueError, match="no code"):
        loaded(fails, store)
    assert doubles(loaded(Compiler(), store))
