"""The functions of a lowered module as libraries, which are made at the same time.

In: TIR. Out: libraries of the functions, and the names by which a Store has them. Other processes
lower and compile them where there are some: in one, threads that lower wait for each other, and
for what else is done with Python. What they do not make is made here. Must not know who calls the
functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import tvm

from tvm_stitch import timing
from tvm_stitch.cache.objects import has_compiler
from tvm_stitch.cache.store import Store
from tvm_stitch.executable import cuda, shared_object
from tvm_stitch.executable.compiler import compiler_of, is_split
from tvm_stitch.executable.nvrtc_worker import compiled
from tvm_stitch.executable.units import balanced
from tvm_stitch.kernel.build import is_emitted
from tvm_stitch.processes.forks import FORKS
from tvm_stitch.processes.modules import module_of
from tvm_stitch.processes.pass_settings import PassSettings
from tvm_stitch.processes.pickled import jobs

# Characters of TVM's JSON that a library has at least, if there are as many: of CUDA it is a sixth.
LEAST = 300_000

Wait = Callable[[], Any]


@dataclass(frozen=True)
class Libraries:
    """Libraries that may still be being compiled, and the names that a Store will have them by."""

    wait: Callable[[], list[Any]]
    names: tuple[str, ...] | None = None


NONE = Libraries(list, ())


@dataclass(frozen=True)
class Work:
    """A library that another process makes."""

    name: str
    texts: tuple[str, ...]
    target: str  # TVM's JSON
    settings: PassSettings
    store: Store
    depends_on: tuple[str, ...]


def whole(tir: tvm.IRModule, target: tvm.target.Target, store: Store | None) -> Libraries:
    """One of all functions, which can be exported: compiled when it is asked for."""
    parts = [tir]
    is_kept = can_be_kept(target, store)
    if store is not None and is_kept:  # it has the kernels of libraries that were made
        parts = [group.module for group in _Making.now(target, store).groups(tir)]
    with timing.stage(timing.LOWERING):
        compile_ = compiler_of(parts, target, store, splits=not is_kept)
    return Libraries(lambda: [_waited(partial(compile_, lambda _host: None))])


def can_be_kept(target: tvm.target.Target, store: Store | None) -> bool:
    """Whether libraries for a target are kept."""
    return store is not None and (is_split(target) or target.kind.name == "llvm")


def begun(tir: tvm.IRModule, target: tvm.target.Target, store: Store | None) -> Libraries:
    """Begin to make the libraries of a module, but for those that the store has."""
    if store is None or not can_be_kept(target, store):
        (made,) = _in_threads([whole(tir, target, store).wait])
        return Libraries(lambda: _waited(made.result))
    with target:
        making = _Making.now(target, store)
        groups = making.groups(tir)
        waits = {group.name: making.found(group) or making.by_others(group) for group in groups}
        here = [group for group in groups if waits[group.name] is None]
        lowered = (making.here(group.name, group.module, len(here) > 1) for group in here)
        for group, made in zip(here, _in_threads(lowered), strict=True):
            waits[group.name] = made.result
    return Libraries(lambda: [_waited(wait) for wait in waits.values() if wait], tuple(waits))


def load_compiler(library: str) -> None:
    """Where other processes begin: NVRTC's library, which takes time when it first compiles."""
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    from cuda.bindings import nvrtc

    compiled(nvrtc, b"__global__ void nothing() {}", b"nothing.cu", [], [], [])


def made_there(work: Work) -> bool:
    """In another process: whether the store has the library by now."""
    functions: dict[Any, Any] = {}
    for text in work.texts:
        functions |= dict(module_of(text).functions)
    target = module_of(work.target)
    with work.settings.context(), target:
        making = _Making.now(target, work.store)
        if making.depends_on != work.depends_on:
            return False
        making.here(work.name, tvm.IRModule(functions))()
    return work.store.file(work.name) is not None


@dataclass(frozen=True)
class _Group:
    """Functions that become a library: modules of them that know nothing of each other."""

    name: str
    modules: tuple[tvm.IRModule, ...]
    texts: tuple[str, ...]

    @property
    def module(self) -> tvm.IRModule:
        """All functions."""
        return tvm.IRModule({v: f for each in self.modules for v, f in each.functions_items()})


@dataclass(frozen=True)
class _Making:
    """How libraries are made: what they depend on beside their functions, and where they are kept.

    settings: of passes; None if others shall not have them.
    """

    target: tvm.target.Target
    store: Store
    depends_on: tuple[str, ...]
    settings: PassSettings | None

    @staticmethod
    def now(target: tvm.target.Target, store: Store) -> _Making:
        """With the settings of now, the target in scope."""
        depends_on = (str(target), *(cuda.depends_on() if is_split(target) else ()))
        return _Making(target, store, depends_on, PassSettings.now())

    def groups(self, tir: tvm.IRModule) -> list[_Group]:
        """The functions of a module; what is no kernel of ours may call each other."""
        modules = [tvm.IRModule({v: f}) for v, f in tir.functions_items() if is_emitted(f)]
        others = {v: f for v, f in tir.functions_items() if not is_emitted(f)}
        if others:
            modules.append(tvm.IRModule(others))
        texts = list(map(tvm.ir.save_json, modules))
        lengths = list(map(len, texts))
        found = []
        for places in balanced(lengths, min(jobs(), sum(lengths) // LEAST)):
            text = tuple(texts[place] for place in places)
            name = shared_object.name_of(text, self.depends_on)
            found.append(_Group(name, tuple(modules[place] for place in places), text))
        return found

    def found(self, group: _Group) -> Wait | None:
        """A library that the store has."""
        kept = shared_object.kept(group.name, self.store)
        return None if kept is None else lambda: kept

    def by_others(self, group: _Group) -> Wait | None:
        """Have another process make a library; None if there is none for it."""
        if self.settings is None or self._target_for_others is None:
            return None
        target, settings = self._target_for_others, self.settings
        work = Work(group.name, group.texts, target, settings, self.store, self.depends_on)
        asked = FORKS.ask(made_there, work, can_wait=True)

        def wait() -> Any:
            kept = shared_object.kept(group.name, self.store) if FORKS.answer(asked) else None
            return self._after_all(group) if kept is None else kept

        return wait

    @cached_property
    def _target_for_others(self) -> str | None:
        """The target as text, if there are other processes, which could keep what they make."""
        if not FORKS.is_ready or not has_compiler():
            return None
        if library := cuda.library():
            FORKS.once(load_compiler, library)
        return tvm.ir.save_json(self.target)

    def here(self, name: str, module: tvm.IRModule, beside: bool = False) -> Wait:
        """Lower a library's functions, for who compiles them, beside others or not."""
        with timing.stage(timing.LOWERING):
            compile_ = compiler_of([module], self.target, self.store, beside=beside)
        return partial(shared_object.made, name, compile_, self.store)

    def _after_all(self, group: _Group) -> Any:
        """What others have not made, with the settings of then."""
        assert self.settings is not None
        with self.settings.context(), self.target:
            return self.here(group.name, group.module)()


def _waited(wait: Wait) -> Any:
    with timing.stage(timing.COMPILING):
        return wait()


def _in_threads(work: Iterable[Wait]) -> list[Future[Any]]:
    """Things to do, each begun as soon as it is there."""
    pool = ThreadPoolExecutor(jobs(), "tvm-stitch-compile")
    begun = [pool.submit(each) for each in work]
    pool.shutdown(wait=False)
    return begun
