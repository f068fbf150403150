"""A process that compiles CUDA for another, program after program; run as a script.

In: the path of NVRTC's library, and then programs, pickled, on its standard input. Out: on its
standard output that it is ready, and the machine code of each, or None where NVRTC refuses it.
Imports nothing of this package, nor TVM: it is there in a moment.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import sys
from typing import Any, BinaryIO


def serve(read: BinaryIO, write: BinaryIO) -> None:
    """Compile until there is nobody to ask."""
    library = pickle.load(read)
    if library:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    from cuda.bindings import nvrtc

    _answer(True, write)
    while True:
        try:
            program = pickle.load(read)
        except EOFError:
            return
        _answer(compiled(nvrtc, *program), write)


def _answer(what: object, write: BinaryIO) -> None:
    pickle.dump(what, write)
    write.flush()


def compiled(
    nvrtc: Any, source: bytes, name: bytes, texts: Any, names: Any, options: list[bytes]
) -> bytes | None:
    """The machine code of a program; None where NVRTC refuses it."""
    result, program = nvrtc.nvrtcCreateProgram(source, name, len(names), texts, names)
    if int(result):
        return None
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    code = None
    if not int(result):
        _result, size = nvrtc.nvrtcGetCUBINSize(program)
        found = bytearray(size)
        nvrtc.nvrtcGetCUBIN(program, found)
        code = bytes(found)
    nvrtc.nvrtcDestroyProgram(program)
    return code


if __name__ == "__main__":
    del sys.path[0]  # this folder, in which modules are called as others elsewhere
    # What a compiler prints shall not be read as its results.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, results)
