"""A library of kernels and their hosts' code as a shared object, which a Store keeps.

In: TIR, and who compiles it. Out: the library, loaded. What is found in the store is neither
lowered nor compiled; what is not is linked once it is compiled, and LLVM has no code left to
generate when it is first called. Its modules cannot be exported, and have no source.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.runtime import _ffi_api

from tvm_stitch.cache.objects import linked
from tvm_stitch.cache.store import Store
from tvm_stitch.cache.versions import versions
from tvm_stitch.errors import StitchError

KIND = "libraries"
Compile = Callable[[Callable[[Any], None]], Any]
"""Compiles a library, and hands over its host's module, without the kernels, when it has that."""

# A shared object holds what its functions belong to: it is loaded once.
_LOADED: dict[Path, Any] = {}


def loaded(tir: tvm.IRModule, made_of: Sequence[str], compile_: Compile, store: Store) -> Any:
    """The library of some TIR, which depends on what `made_of` says as well."""
    settings = sorted(map(str, tvm.transform.PassContext.current().config.items()))
    text = tvm.ir.save_json(tir)
    key = json.dumps([versions(), platform.machine(), *made_of, settings, text])
    name = f"{KIND}/{hashlib.sha256(key.encode()).hexdigest()}.so"
    if store.path(name) not in _LOADED:
        found = store.file(name)
        if found is None:
            with store.lock(name):
                found = store.file(name)
                if found is None:
                    return _made(name, compile_, store)
        _LOADED[found] = tvm.runtime.load_module(str(found))
    return _LOADED[store.path(name)]


def _made(name: str, compile_: Compile, store: Store) -> Any:
    """The library as it is kept, or as it was compiled if it cannot be."""
    with tempfile.TemporaryDirectory() as scratch:
        host, kernels = Path(scratch, "host.o"), Path(scratch, "kernels.o")
        library = compile_(lambda module: module.write_to_file(str(host)))
        try:
            target = library.get_function("_get_target_string")()
            packed = _ffi_api.ModulePackImportsToLLVM(library, False, target, "")
            packed.write_to_file(str(kernels))
            with store.making(name) as made:
                linked([host, kernels], made)
        except (OSError, StitchError):  # no compiler, no room: it is all there in memory
            return library
    path = store.path(name)
    _LOADED[path] = tvm.runtime.load_module(str(path))
    return _LOADED[path]
