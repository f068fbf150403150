"""A lowered module becomes an executable of the virtual machine.

In: what a pipeline has made of a Relax module. Out: what `tvm.compile` makes of it, but that the
kernels are compiled by all cores, while LLVM compiles the host's code, and that a Store may know
them. Follows tvm.relax.build and tvm.tirx.build of the one TVM that this package works with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import vm_build
from tvm.tirx.build import codegen_build

from tvm_stitch import timing
from tvm_stitch.cache.store import Store
from tvm_stitch.executable import cuda, shared_object
from tvm_stitch.executable.kept import KeptExecutable, instructions_of
from tvm_stitch.executable.nvrtc_processes import PROCESSES, Processes
from tvm_stitch.executable.units import units
from tvm_stitch.graph.back.vm_calls.fewer_calls import CHECKED_ATTRIBUTE
from tvm_stitch.kernel.build import is_emitted
from tvm_stitch.kernel.codegen.prim_func import NO_ALIAS_ATTRIBUTE
from tvm_stitch.kernel.library_product.build import LIBRARY_ATTRIBUTE
from tvm_stitch.kernel.stitched import allocates_exactly
from tvm_stitch.library import addons as shim_addons
from tvm_stitch.library import shim
from tvm_stitch.processes.pickled import jobs
from tvm_stitch.workarounds.aligned_vectors import function_of, lowered


class Executable(relax.VMExecutable):
    """One whose exported library needs nothing of this package, also where it calls libraries."""

    def __init__(self, mod: Any, calls_libraries: bool) -> None:
        super().__init__(mod)
        self._calls_libraries = calls_libraries

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


# A library when it is compiled, and the name that a Store has it by then.
_Compiling = tuple[Callable[[], Any], str | None]


def linked(mod: tvm.IRModule, target: tvm.target.Target, store: Store | None) -> Executable:
    """The executable of a lowered module."""
    return _linking(mod, target, _library, store)()


def linked_later(mod: tvm.IRModule, target: tvm.target.Target, store: Store | None) -> Linking:
    """Begins to compile a lowered module; what it returns waits for that, and links.

    The executable cannot be exported and has no source: kernels and hosts' code may come from the
    store as they were compiled.
    """
    return _linking(mod, target, _library_to_run, store)


def _linking(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    compile_: Callable[[tvm.IRModule, tvm.target.Target, Store | None], _Compiling],
    store: Store | None,
) -> Linking:
    attributes = dict(mod.attrs or {})
    if attributes.get("external_mods"):  # other code generators' libraries: TVM puts them in place
        whole = Executable(relax.build(mod, target, relax_pipeline=None).mod, calls_libraries(mod))
        return Linking(lambda: whole)
    builder = relax.ExecBuilder()
    tir = vm_build._filter_tir(vm_build._vmcodegen(builder, mod))
    library, name = (None, None) if tir is None else compile_(tir, target, store)
    constants = dict(attributes.get("const_name_to_constant", {}))

    def finish() -> Executable:
        found = None if library is None else library()
        found = vm_build._ffi_api.VMLink(builder, target, found, [], constants)
        return Executable(found, calls_libraries(mod))

    kept = None
    if store is not None and (library is None or name is not None) and not constants:
        kept = KeptExecutable(instructions_of(builder.get()), name, calls_libraries(mod))
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


def _library(tir: tvm.IRModule, target: tvm.target.Target, store: Store | None) -> _Compiling:
    """Compiles host code that imports the kernels, when it is asked."""
    with timing.stage(timing.LOWERING):
        compile_ = _compiler(*_lowered(tir, target), store)

    def library() -> Any:
        with timing.stage(timing.COMPILING):
            return compile_(lambda _host: None)

    return library, None


def _library_to_run(
    tir: tvm.IRModule, target: tvm.target.Target, store: Store | None
) -> _Compiling:
    """The same, compiled by a thread from now on, or found in the store."""
    name = None
    of_cuda = _splits(target)
    if store is not None and (of_cuda or target.kind.name == "llvm"):
        name = shared_object.name_of(tir, [str(target), *(cuda.depends_on() if of_cuda else ())])
        kept = shared_object.kept(name, store)
        if kept is not None:
            return lambda: kept, name
    with timing.stage(timing.LOWERING):
        compile_ = _compiler(*_lowered(tir, target), store)
    pool = ThreadPoolExecutor(1, "tvm-stitch-compile")
    if store is None or name is None:
        made = pool.submit(compile_, lambda _host: None)
    else:
        made = pool.submit(shared_object.made, name, compile_, store)
    pool.shutdown(wait=False)

    def library() -> Any:
        with timing.stage(timing.COMPILING):
            return made.result()

    return library, name


def _lowered(
    tir: tvm.IRModule, target: tvm.target.Target
) -> tuple[tvm.target.Target, tvm.IRModule, dict[tvm.target.Target, tvm.IRModule]]:
    """The host's target and code, and the kernels by theirs."""
    stitched = {_symbol(var, func) for var, func in tir.functions_items() if is_emitted(func)}
    exact = {_symbol(v, f) for v, f in tir.functions_items() if f.attrs and allocates_exactly(f)}
    checked = {_symbol(v, f) for v, f in tir.functions_items() if CHECKED_ATTRIBUTE in f.attrs}
    host, host_mod, devices = lowered(tir, target, stitched, exact, checked)
    shared = _sharing(tir)
    return host, host_mod, {each: _without_restrict(mod, shared) for each, mod in devices.items()}


def _sharing(tir: tvm.IRModule) -> set[str]:
    """The functions whose tensors may be in the same memory, as they say."""
    return {
        _symbol(var, function)
        for var, function in tir.functions_items()
        if function.attrs and not function.attrs.get(NO_ALIAS_ATTRIBUTE, True)
    }


def _symbol(var: tvm.ir.GlobalVar, function: tirx.PrimFunc) -> str:
    """The name of a function, by which its kernels are called as well."""
    return str((function.attrs or {}).get("global_symbol", var.name_hint))


def _without_restrict(mod: tvm.IRModule, shared: set[str]) -> tvm.IRModule:
    """The kernels of these functions without the promise that TVM makes of every kernel."""
    if not shared:
        return mod
    mod = mod.clone()
    for var, kernel in mod.functions_items():
        if function_of(var.name_hint) in shared:
            mod.update_func(var, kernel.with_attr(NO_ALIAS_ATTRIBUTE, False))
    return mod


def _compiler(
    host: tvm.target.Target,
    host_mod: tvm.IRModule,
    devices: Mapping[tvm.target.Target, tvm.IRModule],
    store: Store | None,
) -> Callable[[Callable[[Any], None]], Any]:
    """Compiles host code that imports the kernels, with the settings of now, in any thread.

    It hands over the host's code without them, while they are compiled.
    """
    cores = jobs()
    scope = tvm.target.Target.current(allow_none=True) or nullcontext()
    config = dict(tvm.transform.PassContext.current().config)

    def built(
        mod: tvm.IRModule, target: tvm.target.Target, processes: Processes | None = None
    ) -> Any:
        # A thread has neither the target in scope nor the settings of the one that started it.
        context = tvm.transform.PassContext(opt_level=3, config=config)
        with scope, context, cuda.compiling(store, processes):
            return codegen_build(mod, target)

    def compiled(hear: Callable[[Any], None]) -> Any:
        def built_host() -> Any:
            found = built(host_mod, host)
            hear(found)
            return found

        # One thread for the host's code, which never waits.
        with ThreadPoolExecutor(cores + 1) as pool, PROCESSES.used():
            host_code = pool.submit(built_host)
            waiting: list[Future[Any]] = []
            for target, mod in devices.items():
                code = partial(built, target=target)
                parts = units(mod, code, cores) if _splits(target) else [mod]
                processes = PROCESSES if len(parts) > 1 else None
                waiting += [pool.submit(code, part, processes=processes) for part in parts]
            for number, _ in enumerate(as_completed(waiting)):
                timing.step(timing.COMPILING, number + 1, len(waiting))
            library = host_code.result()
            for each in waiting:
                library.import_module(each.result())
        return library

    return compiled


def _splits(target: tvm.target.Target) -> bool:
    return target.kind.name == "cuda" and cuda.compiles()
