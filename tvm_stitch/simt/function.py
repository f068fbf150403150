"""Everything a user may hand in (source, module, PrimFunc), brought to a launch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from tvm_stitch.cache.objects import compiler
from tvm_stitch.errors import CompilerMissing, InputError
from tvm_stitch.simt.hazards import Hazard
from tvm_stitch.simt.launch import NO_LAUNCH, STACK_BYTES, Kernel, Launch, Run, compile_many, load
from tvm_stitch.simt.lowering import HostProgram, Scope, cuda_source, lower

Arrays = Mapping[str, object] | Sequence[object]


class Function:
    """A thread-bound PrimFunc as a Python function on NumPy arrays.

    It is lowered and compiled once; every call evaluates its launch parameters for the shapes of
    the arrays. Outputs are written in place. The returned Run holds all kernels it launched.
    """

    def __init__(
        self, function: tirx.PrimFunc, target: Any = None, check: bool = True, name: str = "main"
    ) -> None:
        self._program: HostProgram = lower(function, target, name)
        kernels = list(self._program.kernel_parameters())
        compiled = compile_many([(self._program.cuda, k) for k in kernels], check=check)
        self._kernels: dict[str, Kernel] = dict(zip(kernels, compiled, strict=True))

    @property
    def name(self) -> str:
        """The function's global symbol."""
        return self._program.name

    @property
    def source(self) -> str:
        """The CUDA source TVM generated."""
        return self._program.cuda

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the arguments, in the order of a call."""
        return tuple(p.name for p in self._program.parameters)

    def __call__(self, *arguments: object, seed: int = 0, stack_bytes: int = STACK_BYTES) -> Run:
        """Runs it: `f(x, y)` or `f([x, y])` in the PrimFunc's order, or `f({"x": x, "y": y})`."""
        values = [as_array(value) for value in self._ordered(arguments)]
        scope = Scope(dict(zip(self._program.parameters, values, strict=True)))
        runs = []
        for call in self._program.calls(scope):
            if call.is_empty(scope):
                runs.append(_refused(call.kernel))
                continue
            # In order: TVM gives names of its own to what is no identifier in C, or taken.
            given = [scope.argument(argument) for argument in call.arguments]
            runs.append(
                self._kernels[call.kernel].launch(given, call.launch(scope), seed, stack_bytes)
            )
        return _joined(runs, self.name)

    def _ordered(self, arguments: tuple[object, ...]) -> Sequence[object]:
        given: Any = arguments
        if len(arguments) == 1 and isinstance(arguments[0], (list, tuple, Mapping)):
            given = arguments[0]
        names = self.parameters
        if isinstance(given, Mapping):
            missing = [name for name in names if name not in given]
            unknown = [name for name in given if name not in names]
            if missing or unknown:
                raise InputError(
                    f"{self.name} takes {', '.join(names)}; "
                    f"missing: {missing or 'none'}, unknown: {unknown or 'none'}"
                )
            return [given[name] for name in names]
        if len(given) != len(names):
            raise InputError(
                f"{self.name} takes {len(names)} arguments ({', '.join(names)}), not {len(given)}"
            )
        return list(given)


def run(
    module_or_source: Any,
    kernel: str | None = None,
    arrays: Arrays = (),
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    shared_bytes: int = 0,
    cooperative: bool | None = None,
    cluster: int | Sequence[int] | None = None,
    seed: int = 0,
    check: bool = True,
    stack_bytes: int = STACK_BYTES,
) -> Run:
    """Runs one CUDA kernel on the CPU; outputs are written in place in the given NumPy arrays.

    `module_or_source` is CUDA source text, a runtime module or executable that holds CUDA source
    (pass `kernel` if there are several, and `grid` and `block`), or a thread-bound PrimFunc or
    IRModule, whose launch parameters are derived. `arrays` go by parameter name or in order: for
    a PrimFunc its own order, otherwise the kernel's. `seed` draws the order in which blocks and
    threads run; 0 is the natural one. `check=False` is faster and finds less (see `load`).
    """
    if isinstance(module_or_source, (tirx.PrimFunc, tvm.IRModule)):
        if grid is not None or block is not None:
            raise InputError("the launch of a PrimFunc follows from it; leave out grid and block")
        function = Function(_primfunc(module_or_source, kernel), check=check)
        return function(arrays, seed=seed, stack_bytes=stack_bytes)
    text = module_or_source
    if not isinstance(text, str):
        text = cuda_source(module_or_source)
    if grid is None or block is None:
        raise InputError("CUDA source does not say how it is launched; pass grid and block")
    launch = Launch.of(grid, block, shared_bytes, cooperative, cluster)
    return load(text, kernel, check).launch(arrays, launch, seed, stack_bytes)


def available() -> str | None:
    """None if kernels can run here, otherwise what is missing."""
    try:
        compiler()
    except CompilerMissing as error:
        return str(error)
    return None


def as_array(value: object) -> object:
    """NumPy arrays and numbers as they are; CPU tensors as views of their memory."""
    if isinstance(value, (np.ndarray, int, float, np.number, np.bool_)):
        return value
    if isinstance(value, tvm.runtime.Tensor):
        return _tensor_view(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)  # type: ignore[arg-type]
    raise InputError(f"cannot use a {type(value).__name__} as an argument; pass a NumPy array")


def _tensor_view(tensor: Any) -> np.ndarray:
    """A TVM tensor's memory; bfloat16, which NumPy's DLPack refuses, as its bits."""
    if tensor.device.dlpack_device_type() != 1:
        raise InputError(f"the CPU executor needs arrays in CPU memory, not on {tensor.device}")
    dtype = np.dtype({"bfloat16": "uint16"}.get(str(tensor.dtype), str(tensor.dtype)))
    shape = tuple(int(extent) for extent in tensor.shape)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    memory = (ctypes.c_uint8 * size).from_address(tensor.data_ptr())
    return np.frombuffer(memoryview(memory), dtype).reshape(shape)


def _primfunc(module: Any, name: str | None) -> tirx.PrimFunc:
    if isinstance(module, tirx.PrimFunc):
        return module
    found = {gv.name_hint: f for gv, f in module.functions.items() if isinstance(f, tirx.PrimFunc)}
    if name is None and len(found) != 1:
        raise InputError(f"the module has {len(found)} PrimFuncs, name one of: {list(found)}")
    chosen = name or next(iter(found))
    if chosen not in found:
        raise InputError(f"no PrimFunc {chosen!r} in the module; it has: {', '.join(found)}")
    function = found[chosen]
    if "global_symbol" not in (function.attrs or {}):
        function = function.with_attr("global_symbol", chosen)
    return function


def _refused(kernel: str) -> Run:
    """A launch that is an error on a GPU, where a host function should have made none."""
    message = f"{kernel} is launched with a grid of no blocks, which CUDA refuses"
    hazard = Hazard("refused launch", "", -1, -1, 0, "", message)
    return Run(kernel, NO_LAUNCH, (hazard,), 0, 0, 0.0)


def _joined(runs: list[Run], name: str) -> Run:
    if len(runs) == 1:
        return runs[0]
    return Run(
        ", ".join(r.kernel for r in runs) or f"no kernel of {name}",
        runs[0].launch if runs else NO_LAUNCH,
        tuple(h for r in runs for h in r.hazards),
        sum(r.switches for r in runs),
        sum(r.instructions for r in runs),
        sum(r.seconds for r in runs),
        sum(r.global_bytes for r in runs),
        sum(r.barriers for r in runs),
    )
