"""Is what stitching makes of a model right? Answered without a GPU.

In: a Relax module. The module is compiled for the GPU; all of its kernels, stitched ones and those
that went TVM's default way, run on the CPU executor from their CUDA source, in several thread
orders. What the executor cannot run goes through TVM's LLVM target, and the result names it. Every
output is compared, element by element, with a float64 evaluation of the module as it was before
stitching; how far an element may be off follows from its dtype and from what rounding alone can do
to it there (reference/agreement says how exactly).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx

from tvm_stitch.build import dispatch_passes, stitch_passes
from tvm_stitch.errors import InputError
from tvm_stitch.executable.on_cpu import SCANS, NotRun, Runner, calls
from tvm_stitch.json_data import listed
from tvm_stitch.kernel.build import is_emitted
from tvm_stitch.options import Options
from tvm_stitch.reference import random_inputs, reference
from tvm_stitch.reference.agreement import Judged, judge, typical
from tvm_stitch.reference.float64 import is_floating
from tvm_stitch.reference.rounding import RoundedAtRandom
from tvm_stitch.stages.stage import dtype_of
from tvm_stitch.target import full_target

RUNS = 8  # that round at random, at a time
MOST_RUNS = 64
# From so many steps on, which take a second a run, there are fewer.
MANY_STEPS, FEW_RUNS = 1 << 24, 3
_HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class OutputError:
    """The error of one output at the element where it takes most of what it may, of all orders."""

    name: str
    dtype: str
    error: float
    tolerance: float  # how large it may be at this element
    at: tuple[int, ...] = ()  # the element
    wrong: int = 0  # elements whose error is larger than it may be there

    @property
    def ok(self) -> bool:
        """Whether rounding can explain every element. Not a number is never ok."""
        return not self.wrong and self.error <= self.tolerance


@dataclass(frozen=True)
class Verification:
    """What was found; `str()` is a table."""

    errors: tuple[OutputError, ...]
    hazards: tuple[Any, ...]  # simt.Hazard
    kernels: tuple[str, ...]  # stitched kernels, each as often as it ran in one order
    orders: int
    default: tuple[str, ...] = ()  # the same of kernels that went TVM's default way
    not_run: tuple[NotRun, ...] = ()  # what the executor did not run: LLVM did

    @property
    def ok(self) -> bool:
        """Whether every output is right and no kernel did anything hazardous."""
        return not self.hazards and all(error.ok for error in self.errors)

    def __str__(self) -> str:
        of_tvm = f" and {len(self.default)} of TVM's" if self.default else ""
        lines = [f"{len(self.kernels)} stitched kernel runs{of_tvm} in {self.orders} thread orders"]
        lines += [f"not as CUDA, but by LLVM: {kernel}" for kernel in self.not_run]
        lines += [f"{'output':12} {'dtype':9} {'error':>9} {'allowed':>9}  at"]
        for item in self.errors:
            verdict = "" if item.ok else f"  WRONG, {item.wrong} elements"
            row = f"{item.name:12} {item.dtype:9} {item.error:9.1e} {item.tolerance:9.1e}"
            lines.append(f"{row}  {list(item.at)}{verdict}")
        lines += [f"hazard: {hazard}" for hazard in self.hazards]
        return "\n".join([*lines, "ok" if self.ok else "NOT OK"])

    def to_json(self) -> dict[str, Any]:
        """All of it, as what json.dump writes; JSON has no infinity, which becomes None."""
        return {
            "ok": self.ok,
            "orders": self.orders,
            "kernels": list(self.kernels),
            "default": list(self.default),
            "errors": [listed({**_finite(asdict(e)), "ok": e.ok}) for e in self.errors],
            "hazards": [str(hazard) for hazard in self.hazards],
            "not_run": [asdict(each) for each in self.not_run],
        }


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
    stitched = stitched_for_cpu(mod, cuda, options)
    fast_math = options is not None and options.fast_math
    return compare(mod, stitched, cuda, arrays, expected, orders, seed, fast_math)


def stitched_for_cpu(
    mod: tvm.IRModule, target: tvm.target.Target, options: Options | None = None
) -> tvm.IRModule:
    """The stitched module, as the GPU gets it but for the schedules of what is not stitched.

    Scans are left to LLVM: TVM's kernels for them count on warps in lockstep, which the executor
    does not have.
    """
    dispatch = [] if calls(mod, SCANS) else dispatch_passes(target)
    passes = [*dispatch, *stitch_passes(target, options, default_schedules=False)]
    with target:
        return tvm.transform.Sequential(passes)(mod)


def compare(
    mod: tvm.IRModule,
    stitched: tvm.IRModule,
    target: tvm.target.Target,
    arrays: Sequence[np.ndarray],
    expected: list[np.ndarray],
    orders: int,
    seed: int = 0,
    fast_math: bool = False,
) -> Verification:
    """Run what became of a module in several thread orders; `expected` are its outputs, exact."""
    runner = Runner(stitched, target, _sizes(mod, arrays))
    runs = [runner.run(arrays, 0 if order == 0 else seed + order) for order in range(orders)]
    judges = _Judges(mod, stitched, arrays, seed, fast_math)
    dtypes = _output_dtypes(mod)
    errors = []
    for number, (got, want) in enumerate(zip(zip(*runs, strict=True), expected, strict=True)):
        dtype = dtypes[number] if number < len(dtypes) else want.dtype.name
        found = [judges.error(number, dtype, each, want) for each in _different(got)]
        errors.append(max(found, key=_severity))
    ran = runner.ran[: len(runner.ran) // orders]
    emitted = {var.name_hint for var, f in stitched.functions_items() if _is_stitched(f)}
    return Verification(
        tuple(errors),
        tuple(dict.fromkeys(runner.hazards)),
        tuple(name for name in ran if name in emitted),
        orders,
        tuple(name for name in ran if name not in emitted),
        runner.not_run,
    )


def _is_stitched(function: Any) -> bool:
    return isinstance(function, tirx.PrimFunc) and is_emitted(function)


def _different(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """One of those that are the same bit for bit."""
    return list({array.tobytes(): array for array in arrays}.values())


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    """Numbers that JSON has; None for the others."""
    is_finite = {k: not isinstance(v, float) or math.isfinite(v) for k, v in fields.items()}
    return {name: value if is_finite[name] else None for name, value in fields.items()}


class _Judges:
    """Says of each output how wrong it is; asks what rounding can do only where it has to."""

    def __init__(
        self,
        mod: tvm.IRModule,
        stitched: tvm.IRModule,
        arrays: Sequence[np.ndarray],
        seed: int,
        fast_math: bool,
    ) -> None:
        self._mod, self._arrays, self._seed = mod, arrays, seed
        self._fast_math = fast_math
        # TVM's kernels of halves add them up as halves.
        self._sums = (False, True) if _adds_halves(stitched) else (False,)
        self._machines: dict[bool, RoundedAtRandom] = {}
        self._runs: dict[tuple[bool, int], list[np.ndarray]] = {}

    def error(self, number: int, dtype: str, got: np.ndarray, want: np.ndarray) -> OutputError:
        """The error of an output, whose exact value is `want`."""
        if dtype == "bfloat16":
            got = got.view(ml_dtypes.bfloat16)
        if got.shape != want.shape:
            return OutputError(f"{number}", dtype, float("inf"), 0.0, (), want.size)
        if not got.size:
            return OutputError(f"{number}", dtype, 0.0, 0.0)
        flat, exact = got.reshape(-1), want.reshape(-1)
        found = self._explained(judge(flat, exact, [], dtype), number, dtype, flat, exact)
        worst = found.worst
        return OutputError(
            f"{number}", dtype, float(found.error[worst]), float(found.allowed[worst]),
            tuple(int(index) for index in np.unravel_index(worst, got.shape)),
            int(found.wrong.sum()),
        )  # fmt: skip

    def _explained(
        self, found: Judged, number: int, dtype: str, got: np.ndarray, exact: np.ndarray
    ) -> Judged:
        """What is wrong judged again with runs that rounded, and with more while that helps."""
        for narrow in self._sums:
            runs: list[np.ndarray] = []
            while len(runs) < MOST_RUNS and found.wrong.any():
                wrong = np.flatnonzero(found.wrong)
                first, more = len(runs), self._at_a_time(narrow)
                runs += [self._run(narrow, n)[number] for n in range(first, first + more)]
                near = [run.reshape(-1)[wrong] for run in runs]
                again = judge(got[wrong], exact[wrong], near, dtype, typical(exact))
                error, allowed = found.error.copy(), found.allowed.copy()
                error[wrong], allowed[wrong] = again.error, again.allowed
                found = Judged(error, allowed)
                if first and again.wrong.all():
                    break
        return found

    def _machine(self, narrow: bool) -> RoundedAtRandom:
        if narrow not in self._machines:
            self._machines[narrow] = RoundedAtRandom(self._mod, narrow, self._fast_math)
        return self._machines[narrow]

    def _at_a_time(self, narrow: bool) -> int:
        return RUNS if self._machine(narrow).steps < MANY_STEPS else FEW_RUNS

    def _run(self, narrow: bool, number: int) -> list[np.ndarray]:
        if (narrow, number) not in self._runs:
            seed = self._seed * MOST_RUNS + number
            self._runs[narrow, number] = self._machine(narrow).run(self._arrays, seed)
        return self._runs[narrow, number]


def _adds_halves(mod: tvm.IRModule) -> bool:
    """Whether a kernel that is not stitched may sum in half precision."""
    found: list[bool] = []

    def visit(block: Any) -> None:
        if block.init is not None:
            found.extend(dtype_of(region.source) in _HALVES for region in block.writes)

    for function in mod.functions.values():
        if isinstance(function, tirx.PrimFunc) and not is_emitted(function):
            tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return any(found)


def _sizes(mod: tvm.IRModule, arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """What the symbolic dimensions of main's parameters are."""
    found = {}
    for param, array in zip(mod["main"].params, arrays, strict=True):
        shape = getattr(param.ty, "shape", None)
        extents = shape.values if isinstance(shape, relax.ShapeExpr) else []
        for extent, size in zip(extents, np.shape(array), strict=False):
            if isinstance(extent, tirx.Var):
                found[extent.name] = int(size)
    return found


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


def _output_dtypes(mod: tvm.IRModule) -> list[str]:
    pending, found = [mod["main"].ret_ty], []
    while pending:
        ty = pending.pop(0)
        if isinstance(ty, relax.TupleType):
            pending = [*ty.fields, *pending]
        else:
            found.append(str(getattr(ty, "dtype", "int64")))  # shapes are integers
    return found


def _severity(item: OutputError) -> tuple[int, float]:
    share = item.error / item.tolerance if item.tolerance else item.error
    return item.wrong, float("inf") if np.isnan(share) else share
