"""A CUDA driver and compiler that are none: modules of machine code come about without a GPU.

TVM hands CUDA source to whoever creates modules of it; the driver's part has it compiled. Here, the
compiler is a function of the test, and the module holds nothing that could run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import tvm
import tvm_ffi

from tvm_stitch.executable import cuda


@contextmanager
def compiled_by(compiler: Callable[[str], bytes]) -> Iterator[list[bytes]]:
    """CUDA is compiled by a function; the list receives what modules are made of."""
    loaded: list[bytes] = []

    def create(code, form, functions, sources):
        if (binary := bytes(tvm.get_global_func(cuda.CALLBACK)(bytes(code).decode()))) != b"\0":
            loaded.append(binary)
        return tvm.get_global_func("runtime.CSourceModuleCreate")("", "c", [*functions], [])

    version = mock.patch.object(cuda, "_version", lambda *_: "1.0")
    with version, mock.patch.object(cuda, "_TVM", compiler):
        tvm.register_global_func(cuda.CREATE, create, override=True)
        try:
            yield loaded
        finally:
            tvm_ffi.registry.remove_global_func(cuda.CREATE)
