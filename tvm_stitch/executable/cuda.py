"""CUDA source in, machine code out; by TVM's compilers, each source once.

TVM's code generator calls `tvm_callback_cuda_compile` for every module that it has written. Here it
finds the compiler below, which asks a Store first, where one is in use, and then TVM's own. What is
kept is named by all that goes into it: the source, the target, the compiler with its version and
the settings that TVM takes from the environment. A callback of the user's is left alone. Kernels
that wait for those in front of them are checked, whoever compiles them. Not checked is what others
compile when they load it: libraries exported where there is no CUDA driver hold source.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm
from tvm.support import nvcc

from tvm_stitch.cache.store import Store
from tvm_stitch.errors import StitchError
from tvm_stitch.executable import load_order
from tvm_stitch.executable.nvrtc_processes import Processes
from tvm_stitch.workarounds.light_headers import light_headers
from tvm_stitch.workarounds.nvrtc_calls import program_of

KIND = "kernels"
CALLBACK = "tvm_callback_cuda_compile"
# What creates a module of machine code; without a CUDA driver there is none, and source is kept.
CREATE = "ffi.Module.create.cuda"
_MODE = "TVM_CUDA_COMPILE_MODE"
_SETTINGS = ("TVM_CUDA_", "TVM_KERNEL_", "NVCC_")
# With these TVM leaves files of each compilation, which somebody wants to see.
_DUMPS = ("TVM_KERNEL_DUMP", "TVM_KERNEL_DEBUG")

_TVM = nvcc.tvm_callback_cuda_compile
_store: ContextVar[Store | None] = ContextVar("store", default=None)
_processes: ContextVar[Processes | None] = ContextVar("processes", default=None)
_sources: ContextVar[list[str] | None] = ContextVar("sources", default=None)


@contextmanager
def compiling(store: Store | None, processes: Processes | None = None) -> Iterator[None]:
    """What this thread compiles is kept in a store, and taken from there; by these processes."""
    tokens = _store.set(store), _processes.set(processes)
    try:
        yield
    finally:
        _store.reset(tokens[0])
        _processes.reset(tokens[1])


@contextmanager
def writing() -> Iterator[list[str]]:
    """What this thread generates is not compiled: the list receives the sources."""
    sources: list[str] = []
    token = _sources.set(sources)
    try:
        yield sources
    finally:
        _sources.reset(token)


def compiles() -> bool:
    """Whether modules become machine code here, by the compiler below."""
    return tvm.get_global_func(CREATE, allow_missing=True) is not None and checks()


def checks() -> bool:
    """Whether whatever becomes machine code in this process does so by the compiler below."""
    return bool(tvm.get_global_func(CALLBACK).same_as(_OURS))


def compiled(code: str) -> Any:
    """The machine code of a source, for the target in scope."""
    sources, store = _sources.get(), _store.get()
    if sources is not None:
        sources.append(code)
        return b"\0"
    if store is None or any(os.environ.get(name) for name in _DUMPS):
        return _in_order(code)
    return store.made(f"{KIND}/{_digest(code)}", lambda: bytes(_in_order(code)))


def _in_order(code: str) -> Any:
    """The machine code of a source, in which kernels that wait first load nothing before."""
    kernels = load_order.waiting(code)
    made = _machine_code(code)
    if not kernels or load_order.early(made, kernels) == []:
        return made
    # So too where nobody can tell: loads by pointers that are not restricted stay in order.
    made = _machine_code(code.replace("__restrict__", ""))
    if found := load_order.early(made, kernels):
        raise StitchError(
            f"the CUDA compiler has {', '.join(found)} access memory before it waits for the "
            "kernels in front; compile with Options(dependent_launch=False), or by another CUDA"
        )
    return made


def _machine_code(code: str) -> Any:
    processes = _processes.get()
    with light_headers(code) as is_light:
        found = None if processes is None else _by(processes, code)
        if found is not None:
            return found
        try:
            return _TVM(code)
        except RuntimeError:
            if not is_light:
                raise
    return _TVM(code)  # whatever is wrong, the headers are not


def _by(processes: Processes, code: str) -> bytes | None:
    """The same by another process; None if it has to be made here: nvcc is one by itself."""
    program = program_of(_TVM, code) if _mode() == "nvrtc" else None
    return None if program is None else processes.compiled(program, library())


def _mode() -> str:
    """Which of TVM's compilers is asked."""
    return os.environ.get(_MODE, "nvrtc").lower()


def depends_on() -> list[str]:
    """What machine code depends on beside its source: compiler, settings, and target in scope."""
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith(_SETTINGS))
    mode = _mode()
    target = tvm.target.Target.current(allow_none=True)
    version = _version(mode, os.environ.get("PATH", ""), os.environ.get("CUDA_PATH", ""))
    # Without a target in scope TVM compiles for this machine's GPU.
    arch = f"{target} {nvcc.get_target_compute_version(target)}"
    return [tvm.__version__, mode, version, arch, str(settings), load_order.VERSION]


def _digest(code: str) -> str:
    return hashlib.sha256(json.dumps([*depends_on(), code]).encode()).hexdigest()


@lru_cache
def _version(mode: str, _path: str, cuda_path: str) -> str:
    """The compiler's exact release; nothing where it is missing, which TVM will say."""
    if mode == "nvcc":
        found = shutil.which("nvcc")
        command = [found or "", "--version"]
        return subprocess.run(command, capture_output=True, text=True).stdout if found else ""
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        return ""
    release = nvrtc.nvrtcVersion()
    # Only the library's file says the whole of it.
    return f"{release} {library()} {cuda_path}"


def library() -> str:
    """NVRTC's own file; empty if this process has not loaded it."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    files = sorted({line.split(maxsplit=5)[5] for line in lines if "libnvrtc" in line})
    return next((file for file in files if "builtins" not in Path(file).name), "")


_OURS: Any = None
if tvm.get_global_func(CALLBACK).same_as(_TVM):
    tvm.register_global_func(CALLBACK, compiled, override=True)
    _OURS = tvm.get_global_func(CALLBACK)
