"""A lowered module becomes an executable of the virtual machine.

In: what a pipeline has made of a Relax module. Out: what `tvm.compile` makes of it, but that the
kernels are compiled by all cores, while LLVM compiles the host's code, and that a Store may know
them. Follows tvm.relax.build and tvm.tirx.build of the one TVM that this package works with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import vm_build

from tvm_stitch.cache.store import Store
from tvm_stitch.executable.kept import KeptExecutable, instructions_of
from tvm_stitch.executable.libraries import NONE, Libraries, begun, can_be_kept, whole
from tvm_stitch.kernel.library_product.build import LIBRARY_ATTRIBUTE
from tvm_stitch.library import addons as shim_addons
from tvm_stitch.library import shim
from tvm_stitch.processes.pass_settings import PassSettings

_is_to_be_exported: ContextVar[bool] = ContextVar("is_to_be_exported", default=False)


class Executable(relax.VMExecutable):
    """One whose exported library needs nothing of this package, also where it calls libraries.

    One that runs libraries of a Store makes what can be exported when it is asked for: `mod`.
    """

    def __init__(
        self, mod: Any, calls_libraries: bool, exportable: Callable[[], Any] | None = None
    ) -> None:
        self._exportable: Callable[[], Any] | None = None
        super().__init__(mod)
        self._calls_libraries = calls_libraries
        if exportable is not None:
            self._jitted_mod, self._exportable = mod, exportable

    @property
    def mod(self) -> Any:
        """The module, with its source and all that it calls."""
        if self._exportable is not None:
            self._mod, self._exportable = self._exportable(), None
        return self._mod

    @mod.setter
    def mod(self, mod: Any) -> None:
        self._mod = mod

    def export_library(self, file_name: Any, *, addons: Any = None, **options: Any) -> Any:
        """What TVM's does, with the shim linked in where it is called."""
        added = [*(addons or ()), *(shim_addons() if self._calls_libraries else ())]
        return super().export_library(file_name, addons=added, **options)


@dataclass(frozen=True)
class Linking:
    """An executable whose kernels may still be being compiled: a call waits for them.

    kept: what a later process links it from; None if it has to compile.
    """

    executable: Callable[[], relax.VMExecutable]
    kept: KeptExecutable | None = None

    def __call__(self) -> relax.VMExecutable:
        """The executable, once it is whole."""
        return self.executable()


@contextmanager
def to_be_exported() -> Iterator[None]:
    """What is linked within will be exported, and not run: it is compiled for that alone."""
    token = _is_to_be_exported.set(True)
    try:
        yield
    finally:
        _is_to_be_exported.reset(token)


def linked(mod: tvm.IRModule, target: tvm.target.Target, store: Store | None) -> Executable:
    """The executable of a lowered module: it runs what a store has, and can be exported."""
    settings = PassSettings.now()
    scope = tvm.target.Target.current(allow_none=True)
    # Libraries are made for the target in scope.
    runs_kept = settings is not None and scope is not None and can_be_kept(target, store)
    if settings is None or not runs_kept or _is_to_be_exported.get():
        return _linking(mod, target, whole, store)()

    def exportable() -> Any:
        with settings.context(), target:
            return _linking(mod, target, whole, store)().mod

    return Executable(_linking(mod, target, begun, store)().mod, calls_libraries(mod), exportable)


def linked_later(mod: tvm.IRModule, target: tvm.target.Target, store: Store | None) -> Linking:
    """Begins to compile a lowered module; what it returns waits for that, and links.

    The executable cannot be exported and has no source: kernels and hosts' code may come from the
    store as they were compiled.
    """
    return _linking(mod, target, begun, store, keeps=True)


def _linking(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    compile_: Callable[[tvm.IRModule, tvm.target.Target, Store | None], Libraries],
    store: Store | None,
    keeps: bool = False,
) -> Linking:
    attributes = dict(mod.attrs or {})
    if attributes.get("external_mods"):  # other code generators' libraries: TVM puts them in place
        found = Executable(relax.build(mod, target, relax_pipeline=None).mod, calls_libraries(mod))
        return Linking(lambda: found)
    builder = relax.ExecBuilder()
    tir = vm_build._filter_tir(vm_build._vmcodegen(builder, mod))
    libraries = NONE if tir is None else compile_(tir, target, store)
    constants = dict(attributes.get("const_name_to_constant", {}))

    def finish() -> Executable:
        first, *others = libraries.wait() or [None]
        found = vm_build._ffi_api.VMLink(builder, target, first, [], constants)
        for library in others:
            found.import_module(library)
        return Executable(found, calls_libraries(mod))

    kept = None
    if keeps and store is not None and libraries.names is not None and not constants:
        kept = KeptExecutable(instructions_of(builder.get()), libraries.names, calls_libraries(mod))
    return Linking(finish, kept)


def calls_libraries(mod: tvm.IRModule) -> bool:
    """Whether a lowered module calls functions of the shim, from kernels' hosts or by itself."""
    called: list[relax.ExternFunc] = []
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            # Relax's own visitors go by types, which a module from the cache need not have.
            tvm_ffi.structural_walk(function, (relax.ExternFunc, called.append))
        elif function.attrs and LIBRARY_ATTRIBUTE in function.attrs:
            return True
    return any(each.global_symbol.startswith(shim.PREFIX) for each in called)
