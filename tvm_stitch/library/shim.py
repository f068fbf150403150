"""The functions that modules call, `tvm_stitch.library.*`: native/ compiled once, kept, and loaded.

In: the sources beside this file. Out: registered global functions. Until a compiled module first
calls one, nothing is opened; where that cannot be done, the call says why. While g++ is at it, a
pipeline plans as if it could be done, asks `failure` in the end, and plans anew if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm_ffi import libinfo

from tvm_stitch.cache.objects import Refusal, built, compiled_apart, has_compiler
from tvm_stitch.errors import StitchError
from tvm_stitch.library.locate import CUBLASLT, CUDNN, Library, find

PREFIX = "tvm_stitch.library."
# What the shim exports for modules, and the libraries behind it with what tells it their files.
FUNCTIONS = ("matmul", "convolution", "attention")
OPENS: dict[str, Library] = {"use_cublaslt": CUBLASLT, "use_cudnn": CUDNN}

_EXPORTED = "tvm_stitch_{}"  # the name of its symbol
_KIND = "library"
_NATIVE = Path(__file__).parent / "native"
_is_assumed: ContextVar[bool] = ContextVar("is_assumed", default=False)
_told: ContextVar[Mapping[str, str | None] | None] = ContextVar("told", default=None)
_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden")


class ShimMissing(StitchError):
    """The shim could not be compiled or loaded; the message says why."""


def build() -> Path:
    """The shim's shared object: linked if it is not kept. Raises ShimMissing."""
    ffi = Path(libinfo.find_libtvm_ffi())

    def arguments(_scratch: Path, name: str) -> list[str]:
        found = [str(build_object()), f"-L{ffi.parent}", "-ltvm_ffi", "-ldl"]
        return [*found, f"-Wl,-soname,{name}"]

    return _kept("libstitch-{}.so", ("-shared",), arguments)


def build_object() -> Path:
    """The same as an object file, to be linked into libraries that modules are exported to."""
    sources = sorted(_NATIVE.glob("*.cc"))
    includes = (libinfo.find_include_path(), libinfo.find_dlpack_include_path())

    def arguments(scratch: Path, _name: str) -> list[str]:
        searched = [argument for path in includes for argument in ("-isystem", path)]
        return list(map(str, compiled_apart(sources, scratch, [*_FLAGS, *searched])))

    return _kept("stitch-{}.o", ("-r", "-nostdlib"), arguments)


def _kept(name: str, flags: tuple[str, ...], arguments: Callable[[Path, str], list[str]]) -> Path:
    texts = "".join(f"{file.name}\n{file.read_text()}" for file in sorted(_NATIVE.iterdir()))
    key = "\n".join((metadata.version("apache-tvm-ffi"), *_FLAGS, texts))
    try:
        return built(f"{_KIND}/{name}", key, flags, arguments)
    except Refusal as refusal:
        raise ShimMissing(
            "the C++ compiler refused the shim:\n  " + "\n  ".join(refusal.lines())
        ) from None


@lru_cache(maxsize=1)
def load() -> Any:
    """The shim as a module of TVM's FFI, its functions registered; once a process."""
    try:
        module = tvm_ffi.load_module(str(_begun().result()))
    except (OSError, RuntimeError) as error:
        raise ShimMissing(f"the shim cannot be loaded: {error}") from error
    for name in FUNCTIONS:
        found = module[_EXPORTED.format(name)]
        tvm_ffi.register_global_func(PREFIX + name, found, override=True)
    use_found(module)
    return module


def function(name: str) -> Callable[..., None]:
    """One of the functions that modules call."""
    found: Callable[..., None] = load()[_EXPORTED.format(name)]
    return found


def use_found(module: Any) -> None:
    """Tell the shim which files it shall open, as the environment now says."""
    for name, library in OPENS.items():
        module[_EXPORTED.format(name)](str(find(library) or ""))


@lru_cache(maxsize=1)
def _begun() -> Future[Path]:
    """The shim's shared object, made by a thread; once a process."""
    pool = ThreadPoolExecutor(1, "tvm-stitch-shim")
    future = pool.submit(build)
    pool.shutdown(wait=False)
    return future


def begin() -> None:
    """Start the compiler, for somebody who will ask; waits for nothing and says nothing."""
    if any(find(library) for library in OPENS.values()) and has_compiler():
        _begun()


@contextmanager
def assumed() -> Iterator[None]:
    """Meanwhile libraries count as usable before the shim is compiled: `failure` tells in the end.

    The compiler works beside whatever is done here.
    """
    token = _is_assumed.set(True)
    try:
        yield
    finally:
        _is_assumed.reset(token)


@contextmanager
def told(found: Mapping[str, str | None]) -> Iterator[None]:
    """Meanwhile `unusable` says what `reasons` were in another process."""
    token = _told.set(found)
    try:
        yield
    finally:
        _told.reset(token)


def unusable(library: Library) -> str | None:
    """Why modules cannot call a library on this machine; None if they can."""
    if (found := _told.get()) is not None:
        return found[library.title]
    if find(library) is None:
        return library.missing
    if _is_assumed.get() and has_compiler() and not _begun().done():
        return None
    return failure()


def reasons() -> dict[str, str | None]:
    """What `unusable` says of each library, by its title: what other processes are `told`."""
    return {library.title: unusable(library) for library in OPENS.values()}


def failure() -> str | None:
    """Why there is no shim; None if there is. Waits for the compiler."""
    try:
        load()
    except StitchError as error:
        return str(error)
    return None


def register() -> None:
    """Let modules that were compiled elsewhere find the functions: the first call loads the shim.

    What loads the shim before a module is called has no Python in the way of its calls.
    """
    for name in FUNCTIONS:
        if tvm_ffi.get_global_func(PREFIX + name, allow_missing=True) is None:
            tvm_ffi.register_global_func(PREFIX + name, _loading(name))


def _loading(name: str) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        function(name)(*arguments)

    return call
