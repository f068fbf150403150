"""A library that stands in for cuBLASLt where there is no GPU: compiled once, then pointed at."""

import ctypes
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tvm_stitch.cache.objects import compiler
from tvm_stitch.library import locate, shim

HERE = Path(__file__).parent
NATIVE = Path(shim.__file__).parent / "native"
# Of each library: what it is compiled from, and what it counts.
CUBLASLT = (
    "cublaslt_stand_in.c", ("-x", "c"),
    ("created", "chosen", "multiplied", "epilogue", "reduction", "workspace", "stream",
     "alignment", "algorithm"),
)  # fmt: skip
CUDNN = (
    "cudnn_stand_in.cc", ("-std=c++17", f"-I{NATIVE}"),
    ("created", "planned", "executed", "packs", "stream", "engine", "operations", "alignment"),
)  # fmt: skip
STAND_INS = {locate.CUBLASLT: CUBLASLT, locate.CUDNN: CUDNN}


@lru_cache(maxsize=1)
def folder() -> Path:
    """Where the stand-ins are, under the libraries' names."""
    made = Path(mkdtemp(prefix="stand-in-"))
    for library, (source, flags, _) in STAND_INS.items():
        plain = ["-O2", "-shared", "-fPIC", "-ffp-contract=off"]
        output = ["-o", str(made / library.files[0]), "-lm"]
        subprocess.run([compiler(), *flags, *plain, str(HERE / source), *output], check=True)
    return made


@contextmanager
def stand_in(
    monkeypatch: pytest.MonkeyPatch, library: locate.Library = locate.CUBLASLT
) -> Iterator["Seen"]:
    """The shim calls the stand-ins; says what that of a library saw."""
    with monkeypatch.context() as patched:
        patched.setenv(locate.FOLDER, str(folder()))
        shim.use_found(shim.load())
        yield Seen(library)
    shim.use_found(shim.load())


@lru_cache(maxsize=1)
def driver() -> ctypes.CDLL:
    """A driver whose clock is the stand-ins', from now on this process's unless it has another."""
    path = folder() / "driver.so"
    flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(path)]
    subprocess.run([compiler(), "-x", "c", str(HERE / "cuda_stand_in.c"), *flags], check=True)
    return ctypes.CDLL(str(path))


def made_by_threads(count: Callable[[], object], run: Callable[[], object]) -> bool:
    """Whether each of many threads makes what is counted, one after the other.

    The system ends a thread some time after it was joined: one of several comes later.
    """
    for _ in range(100):
        before = count()
        other = threading.Thread(target=run)
        other.start()
        other.join()
        if count() == before:
            return False
        time.sleep(0.01)
    return True


class Seen:
    """What a stand-in was asked, since it was loaded."""

    def __init__(self, library: locate.Library) -> None:
        self._fields = STAND_INS[library][2]
        self._library = ctypes.CDLL(str(folder() / library.files[0]))
        self._library.stand_in_seen.restype = ctypes.c_int64

    def __getattr__(self, name: str) -> int:
        return self._library.stand_in_seen(self._fields.index(name))
