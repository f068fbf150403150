"""TIR becomes a library: host code that LLVM compiles, and kernels that are compiled meanwhile.

In: a module of TIR and a target. Out: who compiles it, in any thread. Follows tvm.tirx.build of the
one TVM that this package works with. Must not know who calls the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from functools import partial
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.build import codegen_build

from tvm_stitch import timing
from tvm_stitch.cache.store import Store
from tvm_stitch.executable import cuda
from tvm_stitch.executable.nvrtc_processes import PROCESSES, Processes
from tvm_stitch.executable.units import units
from tvm_stitch.graph.back.vm_calls.fewer_calls import CHECKED_ATTRIBUTE
from tvm_stitch.kernel.build import is_emitted
from tvm_stitch.kernel.codegen.prim_func import NO_ALIAS_ATTRIBUTE
from tvm_stitch.kernel.stitched import allocates_exactly
from tvm_stitch.processes.pickled import jobs
from tvm_stitch.workarounds.aligned_vectors import function_of, lowered

Compile = Callable[[Callable[[Any], None]], Any]
"""Compiles a library, and hands over its host's module, without the kernels, when it has that."""


def compiler_of(
    parts: Sequence[tvm.IRModule],
    target: tvm.target.Target,
    store: Store | None,
    splits: bool = False,
    beside: bool = False,
) -> Compile:
    """Lowers parts of a module now; what it returns compiles the kernels of each as one unit.

    Or, if it splits them, as many units as there are cores. Units that are compiled beside others,
    or beside what somebody else compiles, have processes of their own.
    """
    (host, *_), hosts, devices = zip(*(_lowered(part, target) for part in parts), strict=True)
    functions = {var: function for mod in hosts for var, function in mod.functions_items()}
    host_mod = tvm.IRModule(functions, attrs=hosts[0].attrs)
    kernels = [(each, mod) for found in devices for each, mod in found.items() if mod.functions]
    return _compiler(host, host_mod, kernels, store, splits, beside)


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
    devices: Sequence[tuple[tvm.target.Target, tvm.IRModule]],
    store: Store | None,
    splits: bool,
    beside: bool,
) -> Compile:
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
            parts = [
                (target, part)
                for target, mod in devices
                for part in (_units(target, mod, cores, built) if splits else [mod])
            ]
            processes = PROCESSES if beside or len(parts) > 1 else None
            waiting = [pool.submit(built, mod, target, processes) for target, mod in parts]
            for number, _ in enumerate(as_completed(waiting)):
                timing.step(timing.COMPILING, number + 1, len(waiting))
            library = host_code.result()
            for each in waiting:
                library.import_module(each.result())
        return library

    return compiled


def _units(
    target: tvm.target.Target, mod: tvm.IRModule, cores: int, build: Callable[..., Any]
) -> list[tvm.IRModule]:
    return units(mod, partial(build, target=target), cores) if is_split(target) else [mod]


def is_split(target: tvm.target.Target) -> bool:
    """Whether kernels for a target become machine code here, in several units."""
    return target.kind.name == "cuda" and cuda.compiles()
