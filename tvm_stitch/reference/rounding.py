"""What rounding can do to a module's outputs: the same in float64, with every rounding drawn.

Comes in: an unfused Relax module in its own dtypes. Goes out: outputs of runs in which the result
of every operation is rounded up or down at random to its dtype, and is infinite beyond its dtype's
largest number. What the dtype holds exactly stays exact. Where runs differ, the module's own
dtypes do not determine the digits, whoever computes it (this is known as stochastic arithmetic).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Call, IRModule

from tvm_stitch.reference.evaluate import flattened
from tvm_stitch.reference.exact import IN_FLOAT32, compiled
from tvm_stitch.reference.float64 import retyped
from tvm_stitch.reference.inputs import checked_inputs, function_of
from tvm_stitch.reference.work import steps

# Binary digits of a number, and the exponent from which on it is infinite. Float64 has a few more
# than this; the reference has no more either, and errs in the last ones itself.
FORMATS = {
    "float64": (50, 1024),
    "float32": (24, 128),
    "bfloat16": (8, 128),
    "float16": (11, 16),
}
FAST_MATH_ERROR = 6e-6
_APPROXIMATE = ("tirx.erf", "tirx.sigmoid")
_MARK = "tvm_stitch.rounded"
_PARTIAL = "tvm_stitch.partial_sum"
_DIGITS, _EXPONENTS = 53, 1024  # of float64, in which it all happens
_RANDOM_BITS = 31  # of lrand48, of which the first is the most random
_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Cast, tirx.FloatImm, Call)


class RoundedAtRandom:
    """A module whose runs differ by what rounding can do.

    `narrow_sums`: reductions round every partial sum to their own dtype, as TVM's kernels of halves
    do; else to float32, as stitched ones do. `fast_math`: erf and sigmoid are off as the formulas
    of Options.fast_math are.
    """

    def __init__(
        self,
        mod: IRModule,
        narrow_sums: bool = False,
        fast_math: bool = False,
        entry: str = "main",
    ) -> None:
        self._function, self._entry = function_of(mod, entry), entry
        with tvm.target.Target("llvm"):
            scanned = relax.backend.DispatchSortScan()(mod)
            legal = relax.transform.LegalizeOps(IN_FLOAT32)(scanned)
        self.steps = sum(steps(f) for f in legal.functions.values() if _is_prim(f))
        marked = _with_functions(legal, lambda function: _marked(function, narrow_sums))
        exact = _with_functions(retyped(marked), lambda function: _rounding(function, fast_math))
        self._machine = relax.VirtualMachine(compiled(exact), tvm.cpu())

    def run(self, inputs: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """The flattened outputs of one run, as those of `reference`."""
        values = checked_inputs(self._function, inputs, self._entry)
        # The generator is linear: seeds in a row would make runs that hardly differ.
        (mixed,) = np.random.SeedSequence(seed).generate_state(1)
        ctypes.CDLL(None).srand48(ctypes.c_long(int(mixed)))
        tensors = [tvm.runtime.tensor(value) for value in values]
        return list(flattened(self._machine[self._entry](*tensors)))


def _with_functions(mod: IRModule, change: Callable[[tirx.PrimFunc], tirx.PrimFunc]) -> IRModule:
    changed = mod.clone()
    for var, function in mod.functions_items():
        if _is_prim(function):
            changed.update_func(var, change(function))
    return changed


def _is_prim(function: Any) -> bool:
    return isinstance(function, tirx.PrimFunc)


def _marked(function: tirx.PrimFunc, narrow_sums: bool) -> tirx.PrimFunc:
    """The function with every result marked that its dtype rounds, for when all is float64."""

    def mark(value: Any) -> Any:
        dtype = _dtype(value)
        if dtype not in FORMATS or _is_exact(value):
            return value
        digits, exponent = FORMATS[dtype]
        return _mark(value, digits, exponent)

    def mark_sum(store: tirx.BufferStore) -> tirx.BufferStore:
        """A partial sum of a reduction is rounded to float32 at least, unless sums are narrow."""
        value = store.value
        if not _is_mark(value) or not _adds_to(value.args[1], store):
            return store
        digits, exponent = int(value.args[2]), int(value.args[3])
        if not narrow_sums:
            digits, exponent = max((digits, exponent), FORMATS["float32"])
        total = _mark(value.args[1], digits, exponent, _PARTIAL)
        return tirx.BufferStore(store.buffer, total, store.indices)

    return _with_body(function, [(_ARITHMETIC, mark), (tirx.BufferStore, mark_sum)])


def _rounding(function: tirx.PrimFunc, fast_math: bool) -> tirx.PrimFunc:
    """The function, in float64 by now, with its marks become what rounds."""

    def change(call: Call) -> Any:
        if _is_mark(call):
            return _rounded(call)
        approximate = fast_math and getattr(call.op, "name", "") in _APPROXIMATE
        return call + _noise() * FAST_MATH_ERROR if approximate else call

    return _with_body(function, [(Call, change)])


def _drawn() -> Any:
    """Random bits, other ones every time."""
    return tirx.Cast("int64", tirx.call_extern("int64", "lrand48"))


def _noise() -> Any:
    """A random number between -1 and 1."""
    return tirx.Cast("float64", _drawn()) * tirx.FloatImm("float64", 2.0**-30) - 1.0


def _with_body(function: tirx.PrimFunc, rules: list[tuple[Any, Callable]]) -> tirx.PrimFunc:
    body = tvm_ffi.structural_map(function.body, rules)
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs)


def _dtype(value: Any) -> str:
    return str(getattr(getattr(value, "ty", None), "dtype", ""))


def _is_exact(value: Any) -> bool:
    if isinstance(value, tirx.FloatImm):
        return value.value == 0 or not np.isfinite(value.value)
    return _is_mark(value)


def _mark(value: Any, digits: int, exponent: int, name: str = _MARK) -> Any:
    return tirx.call_pure_extern(_dtype(value), name, value, digits, exponent)


def _is_mark(value: Any) -> bool:
    name = value.args[0] if isinstance(value, Call) and len(value.args) == 4 else None
    return isinstance(name, tvm.ir.StringImm) and name.value in (_MARK, _PARTIAL)


def _adds_to(value: Any, store: tirx.BufferStore) -> bool:
    """Whether an expression is the sum of the stored element and something."""
    if not isinstance(value, tirx.Add):
        return False
    return any(
        isinstance(part, tvm.ir.TensorLoad) and part.source.same_as(store.buffer)
        for part in (value.a, value.b)
    )


def _rounded(mark: Call) -> Any:
    """A float64 as one of its two neighbours in the dtype, or as it is where the dtype has it."""
    value, digits, exponent = mark.args[1], int(mark.args[2]), int(mark.args[3])
    last = 1 << _DIGITS - digits  # the last place that the dtype has, among float64's bits
    if mark.args[0].value == _PARTIAL:
        result = _moved(value, last, digits // 4)
    else:
        # The value stands here once: formulas that are nested deeply would grow without bound.
        up = (_int64(0) - (_drawn() >> (_RANDOM_BITS - 1))) & _int64(last - 1)
        bits = tirx.reinterpret("int64", value) + up
        result = tirx.reinterpret("float64", bits & _int64(-last))
    if exponent == _EXPONENTS:
        return result
    scale = 2.0 ** (_EXPONENTS - exponent)
    return result * tirx.FloatImm("float64", scale) * tirx.FloatImm("float64", 1 / scale)


def _moved(value: Any, last: int, spare: int) -> Any:
    """A partial sum moved by up to a last place, unless it has many digits to spare.

    Of the same numbers in another order it would have more digits.
    """
    drawn = _drawn() << max(0, last.bit_length() - _RANDOM_BITS)
    moved = (drawn & _int64(2 * last - 1)) - _int64(last)
    bits = tirx.Var("bits", "int64")
    inexact = (bits & _int64((last << spare) - 1)) != _int64(0)
    kept = tirx.reinterpret("float64", bits + tirx.Select(inexact, moved, _int64(0)))
    return tirx.Let(bits, tirx.reinterpret("int64", value), kept)


def _int64(value: int) -> tirx.IntImm:
    return tirx.IntImm("int64", value)
