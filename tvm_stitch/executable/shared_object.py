"""A library of kernels and their hosts' code as a shared object, which a Store keeps.

In: functions as text, and who compiles them. Out: the library, loaded. What is kept is neither
lowered nor compiled again; what is not is linked once it is compiled, so that LLVM has no code left
to generate when it is first called. Its modules cannot be exported, and have no source.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.runtime import _ffi_api

from tvm_stitch.cache.objects import linked
from tvm_stitch.cache.store import Store
from tvm_stitch.cache.versions import pass_settings, versions
from tvm_stitch.errors import StitchError
from tvm_stitch.executable.compiler import Compile

KIND = "libraries"
# A shared object holds what its functions belong to: it is loaded once, whichever thread asks.
_LOADED: dict[Path, Any] = {}
_LOADING = threading.Lock()


def name_of(functions: Sequence[str], made_of: Sequence[str]) -> str:
    """What the library of functions is called, which depends on what `made_of` says as well."""
    key = json.dumps([versions(), platform.machine(), *made_of, pass_settings(), functions])
    return f"{KIND}/{hashlib.sha256(key.encode()).hexdigest()}.so"


def kept(name: str, store: Store) -> Any | None:
    """The library of that name; None if it is not kept."""
    path = store.path(name)
    with _LOADING:
        if path not in _LOADED and store.file(name) is not None:
            _LOADED[path] = tvm.runtime.load_module(str(path))
        return _LOADED.get(path)


def made(name: str, compile_: Compile, store: Store) -> Any:
    """A library, compiled and kept, by one of many; as it was compiled if it cannot be kept."""
    with store.lock(name):
        found = kept(name, store)
        return _compiled(name, compile_, store) if found is None else found


def _compiled(name: str, compile_: Compile, store: Store) -> Any:
    with tempfile.TemporaryDirectory() as scratch:
        host, kernels = Path(scratch, "host.o"), Path(scratch, "kernels.o")
        library = compile_(lambda module: module.write_to_file(str(host)))
        try:
            if library.imports:
                target = library.get_function("_get_target_string")()
                packed = _ffi_api.ModulePackImportsToLLVM(library, False, target, "")
                packed.write_to_file(str(kernels))
            with store.making(name) as file:
                linked([host, kernels] if library.imports else [host], file)
        except (OSError, StitchError):  # no compiler, no room: it is all there in memory
            return library
    return kept(name, store) or library
