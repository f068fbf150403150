"""A lowered module becomes an executable of the virtual machine.

In: what a pipeline has made of a Relax module. Out: what `tvm.compile` makes of it, but that the
kernels are compiled by all cores, while LLVM compiles the host's code, and that a Store may know
them. Follows tvm.relax.build and tvm.tirx.build of the one TVM that this package works with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import vm_build
from tvm.tirx.build import codegen_build, split_host_device_mods

from tvm_stitch import timing
from tvm_stitch.cache.store import Store
from tvm_stitch.executable import cuda, shared_object
from tvm_stitch.executable.units import units
from tvm_stitch.kernel.codegen.prim_func import NO_ALIAS_ATTRIBUTE
from tvm_stitch.kernel.library_product.build import LIBRARY_ATTRIBUTE
from tvm_stitch.library import addons as shim_addons
from tvm_stitch.library import shim


class Executable(relax.VMExecutable):
    """One whose exported library needs nothing of this package, also where it calls libraries."""

    def __init__(self, mod: Any, calls_libraries: bool) -> None:
        super().__init__(mod)
        self._calls_libraries = calls_libraries

    def export_library(self, file_name: Any, *, addons: Any = None, **options: Any) -> Any:
        """What TVM's does, with the shim linked in where it is called."""
        added = [*(addons or ()), *(shim_addons() if self._calls_libraries else ())]
        return super().export_library(file_name, addons=added, **options)


def linked(
    mod: tvm.IRModule, target: tvm.target.Target, store: Store | None, to_export: bool = True
) -> Executable:
    """The executable of a lowered module.

    One that is not `to_export` may come from the store as it was compiled, without its source.
    """
    attributes = dict(mod.attrs or {})
    if attributes.get("external_mods"):  # other code generators' libraries: TVM puts them in place
        return Executable(relax.build(mod, target, relax_pipeline=None).mod, calls_libraries(mod))
    builder = relax.ExecBuilder()
    tir = vm_build._filter_tir(vm_build._vmcodegen(builder, mod))
    library = None if tir is None else _library(tir, target, store, to_export)
    constants = dict(attributes.get("const_name_to_constant", {}))
    found = vm_build._ffi_api.VMLink(builder, target, library, [], constants)
    return Executable(found, calls_libraries(mod))


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


def _library(
    tir: tvm.IRModule, target: tvm.target.Target, store: Store | None, to_export: bool
) -> Any:
    """Host code that imports the kernels."""

    def compile_(hear: Callable[[Any], None]) -> Any:
        with timing.stage(timing.LOWERING):
            host, host_mod, devices = _lowered(tir, target)
        with timing.stage(timing.COMPILING):
            return _compiled(host_mod, host, devices, store, hear)

    if to_export or store is None or not _splits(target):
        return compile_(lambda _host: None)
    made_of = [str(target), *cuda.depends_on()]
    return shared_object.loaded(tir, made_of, compile_, store)


def _lowered(
    tir: tvm.IRModule, target: tvm.target.Target
) -> tuple[tvm.target.Target, tvm.IRModule, dict[tvm.target.Target, tvm.IRModule]]:
    """The host's target and code, and the kernels by theirs."""
    host = target.host or tvm.target.Target("llvm" if tvm.runtime.enabled("llvm") else "c")
    bound = tvm.tirx.transform.BindTarget(target.with_host(host))(tir)
    pipeline, finish_host, finish_device = tvm.tirx.get_default_tir_pipeline(target)
    host_mod, device_mods = split_host_device_mods(pipeline(bound))
    shared = _sharing(tir)
    devices = {
        each: _without_restrict(finish_device()(found), shared)
        for each, found in device_mods.items()
    }
    return host, finish_host()(host_mod), devices


def _sharing(tir: tvm.IRModule) -> set[str]:
    """The functions whose tensors may be in the same memory, as they say."""
    return {
        str(function.attrs.get("global_symbol", var.name_hint))
        for var, function in tir.functions_items()
        if function.attrs and not function.attrs.get(NO_ALIAS_ATTRIBUTE, True)
    }


def _without_restrict(mod: tvm.IRModule, shared: set[str]) -> tvm.IRModule:
    """The kernels of these functions without the promise that TVM makes of every kernel."""
    if not shared:
        return mod
    mod = mod.clone()
    for var, kernel in mod.functions_items():
        if var.name_hint.rpartition("_kernel")[0] in shared:
            mod.update_func(var, kernel.with_attr(NO_ALIAS_ATTRIBUTE, False))
    return mod


def _compiled(
    host_mod: tvm.IRModule,
    host: tvm.target.Target,
    devices: Mapping[tvm.target.Target, tvm.IRModule],
    store: Store | None,
    hear: Callable[[Any], None],
) -> Any:
    """Host code that imports the kernels; `hear` receives it without them, while they compile."""
    cores = len(os.sched_getaffinity(0))
    scope = tvm.target.Target.current(allow_none=True) or nullcontext()
    config = dict(tvm.transform.PassContext.current().config)

    def built(mod: tvm.IRModule, target: tvm.target.Target) -> Any:
        # A thread has neither the target in scope nor the settings of the one that started it.
        with scope, tvm.transform.PassContext(opt_level=3, config=config), cuda.compiling(store):
            return codegen_build(mod, target)

    def built_host() -> Any:
        found = built(host_mod, host)
        hear(found)
        return found

    with ThreadPoolExecutor(cores + 1) as pool:  # one for the host's code, which waits for nobody
        host_code = pool.submit(built_host)
        waiting: list[Future[Any]] = []
        for target, mod in devices.items():
            code = partial(built, target=target)
            parts = units(mod, code, cores) if _splits(target) else [mod]
            waiting += [pool.submit(code, part) for part in parts]
        for number, _ in enumerate(as_completed(waiting)):
            timing.step(timing.COMPILING, number + 1, len(waiting))
        library = host_code.result()
        for each in waiting:
            library.import_module(each.result())
    return library


def _splits(target: tvm.target.Target) -> bool:
    return target.kind.name == "cuda" and cuda.compiles()
