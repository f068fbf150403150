"""A stitched module on the CPU, its kernels from the CUDA source that would run on the GPU.

In: a module after the stitching passes, and arrays. Out: its outputs, in any thread order, with
what the executor saw. Kernels that went the default way are scheduled as TVM's pipeline does, and
run in the executor like the stitched ones. What the executor cannot run goes through TVM's LLVM
target, and is named. Must not judge what comes out.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from tvm_stitch import simt
from tvm_stitch.build import DefaultSchedules, lowering_context
from tvm_stitch.errors import InputError, SimtError, last_line
from tvm_stitch.kernel.build import is_emitted, is_library_call
from tvm_stitch.library import by_numpy, shim
from tvm_stitch.library.attention import NAME as ATTENTION
from tvm_stitch.library.attention import decoded as decoded_attention
from tvm_stitch.library.convolution import NAME as CONVOLUTION
from tvm_stitch.library.convolution import decoded
from tvm_stitch.library.numpy_attention import attend
from tvm_stitch.library.numpy_convolution import convolved
from tvm_stitch.reference.exact import without_traps
from tvm_stitch.reference.work import steps

# Steps of a kernel's innermost loops that the executor is given; a second takes some 10 million.
MOST_STEPS = 1 << 26
# What TVM's dispatch for GPUs makes kernels of, all of it or nothing.
SCANS = ("relax.cumsum", "relax.cumprod")
SORTS = ("relax.sort", "relax.argsort", "relax.topk")
IN_LOCKSTEP = "the module has scans, whose kernels count on warps in lockstep"
CALL_TIR = "relax.call_tir"
ON_CPU = "tvm_stitch.executable.on_cpu."  # begins the names of packed functions
BY_NUMPY = f"{ON_CPU}library."
CALL_PACKED = "relax.call_dps_packed"
BY_LIBRARY = "a library has it; NumPy stands in"
_names = itertools.count()


@dataclass(frozen=True)
class NotRun:
    """A kernel that went through LLVM instead of the executor, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class Runner:
    """The module as a VM executable whose kernels call the CPU executor.

    `sizes` are what symbolic dimensions will be, by name, as far as they are known: for the work
    that a kernel makes.
    """

    def __init__(
        self, mod: tvm.IRModule, target: tvm.target.Target, sizes: Mapping[str, int] | None = None
    ) -> None:
        self.hazards: list[Any] = []
        self.runs: list[tuple[str, simt.Run]] = []  # of kernels, in the order of their launches
        self.seed = 0
        self._not_run = dict.fromkeys(calls(mod, (*SCANS, *SORTS)), IN_LOCKSTEP)
        found = dict.fromkeys(filter(None, map(_library_call, _calls(mod))))
        self._not_run.update(dict.fromkeys(found, BY_LIBRARY))
        mod = relax.transform.RewriteDataflowReshape()(mod)  # what is a view launches nothing
        mod = relax.transform.DeadCodeElimination()(mod)  # nor is it compiled
        self._functions = self._loaded(mod, target, sizes or {})
        rest = without_traps(_redirected(_by_numpy(mod), self._register()))
        self._machine = relax.VirtualMachine(tvm.compile(rest, "llvm"), tvm.cpu())

    @property
    def not_run(self) -> tuple[NotRun, ...]:
        """What the executor did not run."""
        return tuple(NotRun(name, reason) for name, reason in self._not_run.items())

    @property
    def ran(self) -> list[str]:
        """Kernels in the order of their launches."""
        return [name for name, _ in self.runs]

    def call(self, *arguments: Any) -> Any:
        """What main returns, as the virtual machine has it, in the natural thread order."""
        return self._machine["main"](*arguments)

    def run(self, arrays: Sequence[Any], seed: int) -> list[np.ndarray]:
        """All outputs, for one thread order."""
        self.seed = seed
        result = self._machine["main"](*map(tensor_of, arrays))
        return [
            array_of(leaf).copy() if hasattr(leaf, "data_ptr") else np.array(leaf)
            for leaf in leaves(result)
        ]

    def _loaded(
        self, mod: tvm.IRModule, target: tvm.target.Target, sizes: Mapping[str, int]
    ) -> dict[tvm.ir.GlobalVar, simt.Function]:
        """The kernels that the executor runs, by the global variables of their functions."""
        scheduled = DefaultSchedules(target)(mod.clone())  # it changes what it is given
        found = {}
        for var in _called(mod):
            if is_library_call(mod[var]):
                self._not_run[var.name_hint] = BY_LIBRARY
                continue
            own = is_emitted(mod[var])
            refused = None if own else _too_much(mod[var], sizes)
            try:
                if refused is None:
                    with lowering_context():
                        # Hazards of TVM's kernels and the user's are not ours.
                        kernel = scheduled[var.name_hint]
                        found[var] = simt.Function(kernel, target, check=own, name=var.name_hint)
            except (SimtError, InputError) as error:
                if own or is_threaded(mod[var]):  # LLVM could not run it either
                    raise
                refused = last_line(error)
            if refused is not None:
                self._not_run[var.name_hint] = refused
        return found

    def _register(self) -> dict[tvm.ir.GlobalVar, str]:
        """A packed function for every kernel, by its global variable."""
        registered = {}
        for var, function in self._functions.items():
            name = f"{ON_CPU}{next(_names)}.{var.name_hint}"
            tvm.register_global_func(name, partial(self._call, var.name_hint, function))
            registered[var] = name
        return registered

    def _call(self, name: str, function: simt.Function, *given: Any) -> None:
        """What the virtual machine calls for a kernel."""
        # Symbolic dimensions that no tensor's shape gives come as numbers.
        arguments = [value if isinstance(value, int) else array_of(value) for value in given]
        run = function(_apart(arguments), seed=self.seed)
        self.hazards.extend(replace(hazard, kernel=name) for hazard in run.hazards)
        self.runs.append((name, run))


def _by_numpy(mod: tvm.IRModule) -> tvm.IRModule:
    """The module calling what stands in for libraries."""
    names = {
        f"{shim.PREFIX}{name}": tvm.ir.StringImm(f"{BY_NUMPY}{name}") for name in by_numpy.FUNCTIONS
    }
    found = mod.clone()
    for var, function in mod.functions_items():
        if isinstance(function, tirx.PrimFunc) and is_library_call(function):
            renamed = tvm_ffi.structural_map(
                function.body, (tvm.ir.StringImm, lambda text: names.get(text.value, text))
            )
            body = tirx.PrimFunc(function.params, renamed, function.ret_type, function.attrs)
            found.update_func(var, body)
    return found


def _on_arrays(function: Callable[..., None], *given: Any) -> None:
    """Call a function of arrays with tensors."""
    function(*(array_of(value) if hasattr(value, "data_ptr") else value for value in given))


def _apart(arguments: list[Any]) -> list[Any]:
    """Arguments in memory of their own: inputs may be views of each other, outputs come last."""
    apart: list[Any] = []
    for number, value in enumerate(arguments):
        later = (other for other in arguments[number + 1 :] if isinstance(other, np.ndarray))
        is_array = isinstance(value, np.ndarray)
        shared = is_array and any(np.may_share_memory(value, other) for other in later)
        apart.append(value.copy() if shared else value)
    return apart


def is_threaded(function: tirx.PrimFunc) -> bool:
    """Whether a function is written for GPU threads already."""
    found: list[bool] = []

    def visit(stmt: Any) -> None:
        binds = isinstance(stmt, tirx.AttrStmt) and stmt.attr_key == "thread_extent"
        loops = isinstance(stmt, tirx.For) and stmt.kind == tirx.ForKind.THREAD_BINDING
        found.extend([True] if binds or loops else [])

    tvm_ffi.structural_walk(function.body, (tirx.Stmt, visit))
    return bool(found)


def calls(mod: tvm.IRModule, operators: Sequence[str]) -> list[str]:
    """Those of some operators that the module calls."""
    found = dict.fromkeys(call.op.name for call in _calls(mod) if hasattr(call.op, "name"))
    return [name for name in operators if name in found]


def _called(mod: tvm.IRModule) -> list[tvm.ir.GlobalVar]:
    """The functions of kernels that the module calls."""
    kernels = (call for call in _calls(mod) if getattr(call.op, "name", "") == CALL_TIR)
    return list(dict.fromkeys(call.args[0] for call in kernels))


def _calls(mod: tvm.IRModule) -> list[tvm.ir.Call]:
    """All calls of the module's Relax functions."""
    found: list[tvm.ir.Call] = []

    def visit(expr: Any) -> None:
        if isinstance(expr, tvm.ir.Call):
            found.append(expr)

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return found


def _too_much(function: tirx.PrimFunc, sizes: Mapping[str, int]) -> str | None:
    """Why a kernel that is not scheduled would keep the executor too long, if it would."""
    work = 0 if is_threaded(function) else steps(function, sizes)
    if work <= MOST_STEPS:
        return None
    return f"its {work:.1e} steps are more than the {MOST_STEPS:.1e} that the executor is given"


def _redirected(mod: tvm.IRModule, names: dict[tvm.ir.GlobalVar, str]) -> tvm.IRModule:
    """Calls of kernels and of libraries become calls of packed functions for the CPU."""

    @relax.expr_functor.mutator
    class Redirect(relax.PyExprMutator):
        def visit_call_(self, call: tvm.ir.Call) -> Any:
            call = self.visit_expr_post_order(call)
            if getattr(call.op, "name", "") == CALL_TIR and call.args[0] in names:
                (ty,) = call.ty_args
                results = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
                return relax.op.call_dps_packed(names[call.args[0]], call.args[1], results)
            if (library := _library_call(call)) is not None:
                name = relax.ExternFunc(f"{BY_NUMPY}{library}")
                return tvm.ir.Call(call.op, [name, *call.args[1:]], call.attrs, call.ty_args)
            return call

    redirect = Redirect(mod)
    for var, function in mod.functions_items():
        if isinstance(function, relax.Function):
            redirect.builder_.update_func(var, redirect.visit_expr(function))
    changed = redirect.builder_.get()
    for var in names:
        del changed[var]
    return changed


def _library_call(call: tvm.ir.Call) -> str | None:
    """Which of cuDNN's functions a call is one of, if it is."""
    is_packed = getattr(call.op, "name", "") == CALL_PACKED
    return _OF_CUDNN.get(str(getattr(call.args[0], "global_symbol", ""))) if is_packed else None


_OF_CUDNN = {CONVOLUTION: "convolution", ATTENTION: "attention"}


@tvm.register_global_func(f"{BY_NUMPY}convolution", override=True)
def _convolution(*given: Any) -> None:
    """What cuDNN would compute, in its place."""
    *tensors, numbers, result, _workspace = given
    values = [_values(tensor) for tensor in tensors]
    found = convolved(decoded(numbers), values, array_of(result).shape)
    _values(result)[...] = found.astype(_values(result).dtype)


@tvm.register_global_func(f"{BY_NUMPY}attention", override=True)
def _attention(*given: Any) -> None:
    """The same for attention."""
    *tensors, numbers, result, _workspace = given
    attend(decoded_attention(numbers), [_values(tensor) for tensor in tensors], _values(result))


def _values(tensor: Any) -> np.ndarray:
    """The memory of a CPU tensor as numbers, whatever their type."""
    array = array_of(tensor)
    return array.view(ml_dtypes.bfloat16) if str(tensor.dtype) == "bfloat16" else array


def tensor_of(array: Any) -> Any:
    """A CPU tensor of what the user gave."""
    if str(getattr(array, "dtype", "")) == "bfloat16":
        tensor = tvm.runtime.empty(array.shape, "bfloat16")
        array_of(tensor)[...] = np.asarray(array).view("uint16")
        return tensor
    # NumPy makes contiguous arrays of at least one dimension.
    return tvm.runtime.tensor(np.ascontiguousarray(array).reshape(np.shape(array)))


def array_of(tensor: Any) -> np.ndarray:
    """The memory of a CPU tensor as an array; bfloat16 as its bits."""
    dtype = str(tensor.dtype)
    kind = np.dtype({"bfloat16": "uint16", "bool": "bool"}.get(dtype, dtype))
    shape = tuple(int(extent) for extent in tensor.shape)
    count = int(np.prod(shape, dtype="int64"))
    if not count:
        return np.empty(shape, kind)
    memory: Any = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(tensor.data_ptr())
    return np.frombuffer(memory, kind).reshape(shape)


for _name, _function in by_numpy.FUNCTIONS.items():
    tvm.register_global_func(f"{BY_NUMPY}{_name}", partial(_on_arrays, _function))


def leaves(result: Any) -> list[Any]:
    """The tensors, shapes and numbers of a result, which may be a tuple of tuples."""
    if hasattr(result, "data_ptr") or isinstance(result, (int, float, tvm.runtime.ShapeTuple)):
        return [result]
    return [leaf for part in result for leaf in leaves(part)]
