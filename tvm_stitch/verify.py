"""Is what stitching makes of a model right? Answered without a GPU.

In: a Relax module. The module is stitched; its stitched kernels run on the CPU executor from their
CUDA source, in several thread orders, everything else through TVM's LLVM target; every output is
compared with a float64 evaluation of the module as it was before stitching.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from tvm_stitch import simt
from tvm_stitch.build import lowering_context, stitch_passes
from tvm_stitch.errors import InputError
from tvm_stitch.kernel.build import is_emitted
from tvm_stitch.options import Options
from tvm_stitch.reference import random_inputs, reference
from tvm_stitch.reference.float64 import is_floating
from tvm_stitch.target import full_target

# The largest error of an output, relative to its largest magnitude, that rounding may explain.
TOLERANCE = {"float64": 1e-5, "float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}
# Times the error of the unfused module in the same dtypes that is allowed where that is more.
UNFUSED_FACTOR = 4.0
_names = itertools.count()


@dataclass(frozen=True)
class OutputError:
    """The error of one output, the worst of all orders."""

    name: str
    dtype: str
    error: float  # relative to the output's largest magnitude
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether rounding can explain the error. Not a number is never ok."""
        return self.error <= self.tolerance


@dataclass(frozen=True)
class Verification:
    """What was found; `str()` is a table."""

    errors: tuple[OutputError, ...]
    hazards: tuple[Any, ...]  # simt.Hazard
    kernels: tuple[str, ...]  # stitched kernels, each as often as it ran in one order
    orders: int

    @property
    def ok(self) -> bool:
        """Whether every output is right and no kernel did anything hazardous."""
        return not self.hazards and all(error.ok for error in self.errors)

    def __str__(self) -> str:
        lines = [f"{len(self.kernels)} stitched kernel runs in {self.orders} thread orders"]
        lines += [f"{'output':12} {'dtype':9} {'error':>9} {'allowed':>9}"]
        for item in self.errors:
            verdict = "" if item.ok else "  WRONG"
            row = f"{item.name:12} {item.dtype:9} {item.error:9.1e} {item.tolerance:9.1e}"
            lines.append(row + verdict)
        lines += [f"hazard: {hazard}" for hazard in self.hazards]
        return "\n".join([*lines, "ok" if self.ok else "NOT OK"])


def verify(
    mod: tvm.IRModule,
    target: Any = "cuda",
    inputs: Sequence[Any] | None = None,
    seed: int = 0,
    orders: int = 3,
    options: Options | None = None,
) -> Verification:
    """Stitch a module, run it on the CPU executor and compare with float64.

    `inputs` are NumPy arrays in the order of main's parameters, random ones if left out; floating
    ones are rounded to the parameter's dtype. `orders` is the number of thread orders, the first
    of which is the natural one.
    """
    if orders < 1:
        raise InputError(f"orders must be at least 1, not {orders}")
    if not isinstance(mod, tvm.IRModule) or "main" not in {v.name_hint for v in mod.functions}:
        raise InputError("verify needs a Relax IRModule with a function main")
    cuda = full_target(target)
    arrays = random_inputs(mod, seed) if inputs is None else rounded(mod, inputs)
    expected = reference(mod, arrays)
    return compare(mod, stitched_for_cpu(mod, cuda, options), cuda, arrays, expected, orders, seed)


def stitched_for_cpu(
    mod: tvm.IRModule, target: tvm.target.Target, options: Options | None = None
) -> tvm.IRModule:
    """The stitched module; what is not stitched is left as TVM's LLVM target takes it."""
    # Operators that TVM writes for GPU threads by hand, such as sorts, get their CPU form.
    with tvm.target.Target("llvm"):
        for stitch_pass in stitch_passes(target, options, default_schedules=False):
            mod = stitch_pass(mod)
    return mod


def compare(
    mod: tvm.IRModule,
    stitched: tvm.IRModule,
    target: tvm.target.Target,
    arrays: Sequence[np.ndarray],
    expected: list[np.ndarray],
    orders: int,
    seed: int = 0,
) -> Verification:
    """Run what became of a module in several thread orders; `expected` are its outputs, exact."""
    runner = Runner(stitched, target)
    worst: list[OutputError] = []
    for order in range(orders):
        found = _compare(runner.run(arrays, 0 if order == 0 else seed + order), expected, mod)
        worst = [max(pair, key=_severity) for pair in zip(worst or found, found, strict=True)]
    if not all(error.ok for error in worst):
        worst = _against_unfused(worst, mod, arrays, expected)
    kernels = tuple(runner.ran[: len(runner.ran) // orders])
    return Verification(tuple(worst), tuple(dict.fromkeys(runner.hazards)), kernels, orders)


def _against_unfused(
    errors: list[OutputError],
    mod: tvm.IRModule,
    arrays: Sequence[np.ndarray],
    expected: list[np.ndarray],
) -> list[OutputError]:
    """Allow what the unfused module loses as well.

    Where large values cancel, as in the gradient of a key's bias, rounding alone exceeds any fixed
    share of what is left.
    """
    try:
        machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
        outputs = list(map(_array, _leaves(machine["main"](*map(_tensor, arrays)))))
    except Exception:  # what TVM's own pipeline refuses gives no figure to compare with
        return errors
    plain = _compare(outputs, expected, mod)
    return [
        replace(error, tolerance=max(error.tolerance, UNFUSED_FACTOR * unfused.error))
        for error, unfused in zip(errors, plain, strict=True)
    ]


class Runner:
    """The stitched module as a VM executable whose stitched kernels call the CPU executor."""

    def __init__(self, mod: tvm.IRModule, target: tvm.target.Target) -> None:
        self.hazards: list[Any] = []
        self.ran: list[str] = []
        self.seed = 0
        with lowering_context():
            self.functions = {
                # The user's own GPU kernels run there too; their hazards are not ours.
                var: simt.Function(function, target, check=is_emitted(function))
                for var, function in mod.functions_items()
                if isinstance(function, tirx.PrimFunc)
                and (is_emitted(function) or _is_threaded(function))
            }
        executable = tvm.compile(_redirected(mod, self._register()), "llvm")
        self.machine = relax.VirtualMachine(executable, tvm.cpu())

    def run(self, arrays: Sequence[Any], seed: int) -> list[np.ndarray]:
        """All outputs, for one thread order."""
        self.seed = seed
        result = self.machine["main"](*map(_tensor, arrays))
        return [_array(tensor).copy() for tensor in _leaves(result)]

    def _register(self) -> dict[tvm.ir.GlobalVar, str]:
        """A packed function for every stitched kernel, by its global variable."""
        registered = {}
        for var, function in self.functions.items():
            name = f"tvm_stitch.verify.{next(_names)}.{var.name_hint}"

            tvm.register_global_func(name, partial(self._call, var.name_hint, function))
            registered[var] = name
        return registered

    def _call(self, name: str, function: simt.Function, *given: Any) -> None:
        """What the virtual machine calls for a kernel."""
        # Symbolic dimensions that no tensor's shape gives come as numbers.
        arguments = [value if isinstance(value, int) else _array(value) for value in given]
        run = function(_apart(arguments), seed=self.seed)
        self.hazards.extend(run.hazards)
        self.ran.append(name)


def _apart(arguments: list[Any]) -> list[Any]:
    """Arguments in memory of their own: inputs may be views of each other, outputs come last."""
    apart: list[Any] = []
    for number, value in enumerate(arguments):
        later = (other for other in arguments[number + 1 :] if isinstance(other, np.ndarray))
        is_array = isinstance(value, np.ndarray)
        shared = is_array and any(np.may_share_memory(value, other) for other in later)
        apart.append(value.copy() if shared else value)
    return apart


def _is_threaded(function: tirx.PrimFunc) -> bool:
    """Whether a function is written for GPU threads already."""
    found: list[bool] = []

    def visit(stmt: Any) -> None:
        binds = isinstance(stmt, tirx.AttrStmt) and stmt.attr_key == "thread_extent"
        loops = isinstance(stmt, tirx.For) and stmt.kind == tirx.ForKind.THREAD_BINDING
        found.extend([True] if binds or loops else [])

    tvm_ffi.structural_walk(function.body, (tirx.Stmt, visit))
    return bool(found)


def _redirected(mod: tvm.IRModule, names: dict[tvm.ir.GlobalVar, str]) -> tvm.IRModule:
    """Calls of stitched kernels become calls of packed functions."""

    @relax.expr_functor.mutator
    class Redirect(relax.PyExprMutator):
        def visit_call_(self, call: tvm.ir.Call) -> Any:
            call = self.visit_expr_post_order(call)
            if getattr(call.op, "name", "") == "relax.call_tir" and call.args[0] in names:
                (ty,) = call.ty_args
                results = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
                return relax.op.call_dps_packed(names[call.args[0]], call.args[1], results)
            return call

    redirect = Redirect(mod)
    for var, function in mod.functions_items():
        if isinstance(function, relax.Function):
            redirect.builder_.update_func(var, redirect.visit_expr(function))
    changed = redirect.builder_.get()
    for var in names:
        del changed[var]
    return changed


def rounded(mod: tvm.IRModule, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Floating inputs as the kernels will see them; whatever else does not fit stays as it is."""
    params = mod["main"].params
    dtypes = [str(getattr(param.ty, "dtype", "")) for param in params]
    dtypes += [""] * (len(inputs) - len(params))
    arrays = []
    for dtype, given in zip(dtypes, inputs, strict=False):
        array = np.asarray(given)
        if dtype == "bfloat16" and array.dtype == np.uint16:
            array = array.view(ml_dtypes.bfloat16)
        floating = is_floating(dtype) and is_floating(array.dtype.name)
        arrays.append(array.astype(getattr(ml_dtypes, dtype, dtype)) if floating else array)
    return arrays


def _tensor(array: Any) -> Any:
    """A CPU tensor of what the user gave."""
    if str(getattr(array, "dtype", "")) == "bfloat16":
        tensor = tvm.runtime.empty(array.shape, "bfloat16")
        _array(tensor)[...] = np.asarray(array).view("uint16")
        return tensor
    # NumPy makes contiguous arrays of at least one dimension.
    return tvm.runtime.tensor(np.ascontiguousarray(array).reshape(np.shape(array)))


def _array(tensor: Any) -> np.ndarray:
    """The memory of a CPU tensor as an array; bfloat16 as its bits."""
    dtype = str(tensor.dtype)
    kind = np.dtype({"bfloat16": "uint16", "bool": "bool"}.get(dtype, dtype))
    shape = tuple(int(extent) for extent in tensor.shape)
    count = int(np.prod(shape, dtype="int64"))
    if not count:
        return np.empty(shape, kind)
    memory: Any = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(tensor.data_ptr())
    return np.frombuffer(memory, kind).reshape(shape)


def _leaves(result: Any) -> list[Any]:
    if hasattr(result, "data_ptr"):
        return [result]
    return [leaf for part in result for leaf in _leaves(part)]


def _output_dtypes(mod: tvm.IRModule) -> list[str]:
    pending, found = [mod["main"].ret_ty], []
    while pending:
        ty = pending.pop(0)
        if isinstance(ty, relax.TupleType):
            pending = [*ty.fields, *pending]
        else:
            found.append(str(ty.dtype))
    return found


def _compare(
    outputs: list[np.ndarray], expected: list[np.ndarray], mod: tvm.IRModule
) -> list[OutputError]:
    found = []
    dtypes = _output_dtypes(mod)
    for number, (got, want, dtype) in enumerate(zip(outputs, expected, dtypes, strict=True)):
        if dtype == "bfloat16":
            got = (got.astype("uint32") << 16).view("float32")
        error = _relative_error(got.astype("float64"), np.asarray(want, "float64"))
        found.append(OutputError(f"{number}", dtype, error, TOLERANCE.get(dtype, 0.0)))
    return found


def _relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """The largest error over the largest finite magnitude; infinities must agree."""
    if got.shape != want.shape:
        return float("inf")
    if not got.size:
        return 0.0
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return float("inf")
    scale = np.abs(want[finite]).max(initial=0.0) or 1.0
    return float(np.abs(got[finite] - want[finite]).max(initial=0.0) / scale)


def _severity(item: OutputError) -> float:
    return float("inf") if np.isnan(item.error) else item.error
