"""A CUDA driver and compiler that are none: modules of machine code come about without a GPU.

TVM hands CUDA source to whoever creates modules of it; the driver's part has it compiled. Here, the
compiler is a function of the test, and the module holds nothing that could run.
`MemoryDriver` does on the CPU's memory what a driver does on a GPU's.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import tvm
import tvm_ffi

from tvm_stitch.executable import cuda


@contextmanager
def compiled_by(compiler: Callable[[str], bytes]) -> Iterator[list[bytes]]:
    """CUDA is compiled by a function, here; the list receives what modules are made of."""
    loaded: list[bytes] = []

    def create(code, form, functions, sources):
        if (binary := bytes(tvm.get_global_func(cuda.CALLBACK)(bytes(code).decode()))) != b"\0":
            loaded.append(binary)
        return tvm.get_global_func("runtime.CSourceModuleCreate")("", "c", [*functions], [])

    version = mock.patch.object(cuda, "_version", lambda *_: "1.0")
    nobody_else = mock.patch.object(cuda, "program_of", lambda *_: None)
    in_order = mock.patch.object(cuda.load_order, "early", lambda *_: [])  # whatever it returns
    with version, nobody_else, in_order, mock.patch.object(cuda, "_TVM", compiler):
        tvm.register_global_func(cuda.CREATE, create, override=True)
        try:
            yield loaded
        finally:
            tvm_ffi.registry.remove_global_func(cuda.CREATE)


class MemoryDriver:
    """The driver's functions on the CPU's memory; an event is a time."""

    def __init__(self):
        self.flushed = 0

    def event(self):
        return []

    def elapsed_us(self, start, stop):
        return (stop[-1] - start[-1]) * 1e6

    def call(self, name, *arguments):
        values = [getattr(argument, "value", argument) for argument in arguments]
        if name == "cuMemsetD8_v2":
            ctypes.memset(*values)
        elif name == "cuMemsetD32Async":
            self.flushed += values[2] * 4
        elif name == "cuEventRecord":
            arguments[0].append(time.perf_counter())
        else:
            assert name in ("cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2")
            ctypes.memmove(*values)
