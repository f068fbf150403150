"""A library that stands in for cuBLASLt where there is no GPU: compiled once, then pointed at."""

import ctypes
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tvm_stitch.cache.objects import compiler
from tvm_stitch.library import locate, shim

SOURCE = Path(__file__).parent / "cublaslt_stand_in.c"
FIELDS = (
    "created", "chosen", "multiplied", "epilogue", "reduction", "workspace", "stream", "alignment",
)  # fmt: skip


@lru_cache(maxsize=1)
def folder() -> Path:
    """Where the stand-in is, under cuBLASLt's name."""
    made = Path(mkdtemp(prefix="stand-in-"))
    library = str(made / locate.CUBLASLT.files[0])
    flags = ["-x", "c", "-O2", "-shared", "-fPIC", "-ffp-contract=off", str(SOURCE)]
    subprocess.run([compiler(), *flags, "-o", library, "-lm"], check=True)
    return made


@contextmanager
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator["Seen"]:
    """The shim calls the stand-in; says what the stand-in saw."""
    with monkeypatch.context() as patched:
        patched.setenv(locate.FOLDER, str(folder()))
        shim.use_found(shim.load())
        yield Seen()
    shim.use_found(shim.load())


class Seen:
    """What the stand-in was asked, since it was loaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(folder() / locate.CUBLASLT.files[0]))
        self._library.stand_in_seen.restype = ctypes.c_int64

    def __getattr__(self, name: str) -> int:
        return self._library.stand_in_seen(FIELDS.index(name))
