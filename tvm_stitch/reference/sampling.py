"""Random inputs for a Relax module that it can compute with.

Comes in: a module, a seed and sizes for its symbolic extents. Goes out: NumPy arrays in parameter
order. Knows which operators look things up and which want positive numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.ir import Call, IRModule

from tvm_stitch.errors import InputError
from tvm_stitch.reference.float64 import is_floating
from tvm_stitch.reference.inputs import function_of, tensor_type

DEFAULT_SIZE = 5
"""What `random_inputs` takes for a symbolic extent that its caller does not give."""


def random_inputs(
    mod: IRModule, seed: int = 0, sizes: Mapping[str, int] | None = None, entry: str = "main"
) -> list[np.ndarray]:
    """Inputs for a Relax module, the same for the same seed, in parameter order.

    Floating tensors are standard normal, and positive where the module takes a root or logarithm
    of them or their name says that they hold a variance. Integers are valid for whatever the
    module looks up with them: below the smallest extent that it indexes, or 0 and 1 where it
    indexes nothing; not 0 where it divides by them. Symbolic extents are taken from `sizes` by
    name, and are 5 otherwise.
    """
    function = function_of(mod, entry)
    extents = _Extents(function, sizes or {})
    bounds = _index_bounds(mod, extents)
    limit = min(bounds, default=2)
    positive = _positive(function)
    random = np.random.default_rng(seed)
    inputs = []
    for parameter in function.params:
        kind = tensor_type(parameter, entry)
        dtype, shape = str(kind.dtype.dtype), extents.of(kind)
        if is_floating(dtype):
            values = random.standard_normal(shape)
            values = np.abs(values) + 0.5 if parameter in positive else values
            inputs.append(values.astype(getattr(ml_dtypes, dtype, dtype)))
        else:
            low, high = 0, 2 if dtype == "bool" else limit
            if parameter in positive:
                low, high = min(1, limit - 1), limit if bounds else _DIVISORS
            inputs.append(random.integers(low, high, shape).astype(dtype))
    return inputs


def sizes_of(mod: IRModule, inputs: Sequence[np.ndarray], entry: str = "main") -> dict[str, int]:
    """The sizes of symbolic dimensions, by name, that inputs have."""
    shapes = [getattr(param.ty, "shape", None) for param in function_of(mod, entry).params]
    return {
        extent.name: int(size)
        for shape, given in zip(shapes, inputs, strict=False)
        for extent, size in zip(getattr(shape, "values", ()), given.shape, strict=False)
        if isinstance(extent, tirx.Var)
    }


class _Extents:
    """Numbers for the symbolic extents of a function."""

    def __init__(self, function: relax.Function, sizes: Mapping[str, int]):
        symbols = {symbol.name: symbol for symbol in relax.analysis.free_symbolic_vars(function)}
        symbols.update(
            {symbol.name: symbol for symbol in relax.analysis.defined_symbolic_vars(function)}
        )
        unknown = sorted(set(sizes) - set(symbols))
        if unknown:
            raise InputError(
                f"no symbolic extent is called {unknown[0]!r}; the module has "
                f"{sorted(symbols) or 'none'}"
            )
        wrong = {name: size for name, size in sizes.items() if size < 1}
        if wrong:
            raise InputError(f"sizes must be at least 1, got {wrong}")
        self._sizes = sizes

    def size(self, extent: Any) -> int:
        """The number that an extent comes to."""

        def number(symbol: tirx.Var) -> tirx.IntImm:
            return tirx.IntImm(str(symbol.ty.dtype), self._sizes.get(symbol.name, DEFAULT_SIZE))

        value = tvm_ffi.structural_map(extent, (tirx.Var, number))
        return int(tvm.sym.Analyzer().simplify(value))

    def of(self, kind: relax.TensorType) -> tuple[int, ...]:
        """The numbers that a shape comes to."""
        return tuple(self.size(extent) for extent in kind.shape.values)


_LOOKUPS = {
    "relax.take",
    "relax.gather_elements",
    "relax.gather_nd",
    "relax.index_tensor",
    "relax.index_put",
    "relax.scatter_elements",
    "relax.scatter_nd",
    "relax.nn.nll_loss",
}


def _index_bounds(mod: IRModule, extents: _Extents) -> list[int]:
    """For every operator that looks something up by an integer, how far it may reach."""
    bounds: list[int] = []

    def visit(expr: ir.Expr) -> None:
        name = _operator(expr)
        if name == "relax.one_hot":
            bounds.append(int(expr.attrs.depth))
        elif name in _LOOKUPS and isinstance(expr.args[0].ty.shape, relax.ShapeExpr):
            shape = extents.of(expr.args[0].ty)
            axis = getattr(expr.attrs, "axis", None)
            if name == "relax.nn.nll_loss":
                axis = min(1, len(shape) - 1)
            bounds.append(min(shape, default=1) if axis is None else shape[int(axis)])

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return bounds


_WANT_POSITIVE = {"relax.sqrt", "relax.rsqrt", "relax.log"}
_DIVIDE = {"relax.divide", "relax.floor_divide", "relax.mod", "relax.floor_mod"}
_DIVISORS = 5  # what integers that the module divides by stay below
_KEEP_POSITIVE = {"relax.add", "relax.multiply", "relax.divide", "relax.astype", "relax.reshape"}
_VARIANCE = re.compile(r"(^|[._])(var|variance|sq)($|[._\d])")


def _positive(function: relax.Function) -> set[relax.Var]:
    """The parameters that must be positive for a root, logarithm or quotient to be a number.

    Followed back through sums and products, as from the root in an Adam update to its moments.
    """
    made_by = _calls(function)
    pending: list[ir.Expr] = [
        argument for call in made_by.values() for argument in _positive_arguments(call)
    ]
    found = {parameter for parameter in function.params if _VARIANCE.search(parameter.name.lower())}
    seen: set[ir.Expr] = set()
    while pending:
        expr = pending.pop()
        if not isinstance(expr, relax.Var) or expr in seen:
            continue
        seen.add(expr)
        call = made_by.get(expr)
        if call is None:
            found.add(expr)
        elif call.op.name in _KEEP_POSITIVE and not _is_square(call):
            pending.extend(call.args)
    return found


def _calls(function: relax.Function) -> dict[relax.Var, Call]:
    """The operator call behind every variable that stands for one."""
    calls = {}

    def visit(expr: ir.Expr) -> None:
        if isinstance(expr, relax.SeqExpr):
            for block in expr.blocks:
                for binding in block.bindings:
                    if isinstance(binding, relax.VarBinding) and _operator(binding.value):
                        calls[binding.var] = binding.value

    relax.analysis.post_order_visit(function, visit)
    return calls


def _positive_arguments(call: Call) -> list[ir.Expr]:
    if call.op.name in _WANT_POSITIVE:
        return [call.args[0]]
    if call.op.name in _DIVIDE and not is_floating(str(call.args[1].ty.dtype)):
        return [call.args[1]]
    return [call.args[4]] if call.op.name == "relax.nn.batch_norm" else []


def _is_square(call: Call) -> bool:
    return len(call.args) == 2 and call.args[0].same_as(call.args[1])


def _operator(expr: ir.Expr) -> str:
    """The name of the operator that an expression calls, or nothing."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, ir.Op) else ""
