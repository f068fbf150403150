"""The TIR of every kernel, and the CUDA that TVM makes of it.

In: a module of scheduled PrimFuncs, and the passes that make them as they are launched. Out: Code
by the names of the kernels, made on demand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import tvm
from tvm import tirx

from tvm_stitch.errors import last_line
from tvm_stitch.report.data import Code
from tvm_stitch.simt.lowering import cuda_source

_DEFINITION = re.compile(r'^extern "C" __global__ void .*?(\w+)\([^()]*\) \{$', re.MULTILINE)


@dataclass(frozen=True, eq=False)
class CodeOf:
    """What the functions of a module became; called, it says so by kernel."""

    mod: tvm.IRModule
    target: tvm.target.Target
    kernels: Mapping[str, Sequence[str]]  # by function
    launching: Sequence[tvm.transform.Pass]

    def __call__(self) -> Mapping[str, Code]:
        """The code of all kernels; made once."""
        return self._code

    @cached_property
    def _code(self) -> Mapping[str, Code]:
        launched = tvm.transform.Sequential(list(self.launching))(self.mod)
        functions = {name: launched[name] for name in self.kernels}
        named = {n: f.with_attr("global_symbol", n) for n, f in functions.items()}
        cuda = self._cuda(named)
        return {
            kernel: Code(function.script(), cuda.get(kernel, ""))
            for name, function in named.items()
            for kernel in self.kernels[name]
        }

    def _cuda(self, functions: Mapping[str, tirx.PrimFunc]) -> dict[str, str]:
        """The CUDA of each kernel: made together, or each by itself where TVM refuses one."""
        try:
            # The host half is not shown: C is what TVM writes soonest.
            return kernels_of_source(self._built(functions, "c"))
        except Exception:
            parts = [self._alone(name, function) for name, function in functions.items()]
            return {kernel: text for part in parts for kernel, text in part.items()}

    def _alone(self, name: str, function: tirx.PrimFunc) -> dict[str, str]:
        try:
            return kernels_of_source(self._built({name: function}, "llvm"))
        except Exception as error:  # the picture is as good without it
            text = f"// TVM does not build this kernel: {last_line(error)}"
            return dict.fromkeys(self.kernels[name], text)

    def _built(self, functions: Mapping[str, tirx.PrimFunc], host: str) -> str:
        with self.target:
            target = tvm.target.Target(self.target, host=host)
            return cuda_source(tvm.tirx.build(tvm.IRModule(dict(functions)), target))


def kernels_of_source(source: str) -> dict[str, str]:
    """A CUDA source by its kernels, without what stands before the first."""
    starts = [(found.start(), found.group(1)) for found in _DEFINITION.finditer(source)]
    ends = [start for start, _ in starts[1:]] + [len(source)]
    return {name: source[at:end].strip() for (at, name), end in zip(starts, ends, strict=True)}
