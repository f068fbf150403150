"""A float64 module made executable on the CPU, accurate to the last bits of every operator.

Comes in: a Relax module in float64. Goes out: an executable for TVM's virtual machine. Knows the
operators that TVM's own legalisations refuse in float64 or compute with fewer digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from operator import mul
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, s_tir, te, tirx, topi
from tvm.ir import Call, IRModule, Op

from tvm_stitch.checked_index import on_host

# The inputs are small: optimising costs three times more than it saves.
_CPU = tvm.target.Target({"kind": "llvm", "opt-level": 0})


def compiled(mod: IRModule) -> Any:
    """An executable for the CPU in which every operator is accurate to the last bits."""
    legal = relax.transform.LegalizeOps(_LEGALISATIONS)(mod)
    made = _with_sums_of_nothing(without_traps(tvm_ffi.structural_map(legal, (Call, _by_libm))))
    # Temporaries may be as large as they like, and for nested Let this takes time without bound.
    with tvm.transform.PassContext(disabled_pass=["s_tir.CompactBufferAllocation"]):
        return tvm.compile(made, _CPU)


def _with_sums_of_nothing(mod: IRModule) -> IRModule:
    """The module with sums over symbolic extents set to 0 before their loops, which may be empty.

    TVM does so at their first turn.
    """
    changed = mod.clone()
    for var, function in mod.functions_items():
        if isinstance(function, tirx.PrimFunc) and (sums := _symbolic_sums(function)):
            schedule = s_tir.Schedule(function)
            for name, reduced in sums:
                block = schedule.get_sblock(name)
                loops = schedule.get_loops(block)
                with suppress(s_tir.ScheduleError):  # TVM's own, which are no plain nests
                    # A block in a block, as of adaptive pools, has what it reduces within.
                    if reduced < len(loops):
                        schedule.decompose_reduction(block, loops[reduced])
            changed.update_func(var, schedule.mod["main"].with_attrs(function.attrs))
    return changed


def _symbolic_sums(function: tirx.PrimFunc) -> list[tuple[str, int]]:
    """Blocks that reduce over extents known at run time, and the first such axis of each."""
    found: list[tuple[str, int]] = []

    def visit(block: s_tir.SBlock) -> None:
        reduced = [
            number
            for number, axis in enumerate(block.iter_vars)
            if axis.iter_type == tirx.IterVar.CommReduce
        ]
        extents = [block.iter_vars[number].dom.extent for number in reduced]
        if block.init is not None and None in map(_constant, extents):
            found.append((block.name_hint, reduced[0]))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return found


def without_traps(mod: IRModule) -> IRModule:
    """The module with divisions of integers by data, and with indices, that the CPU survives."""
    divisions = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
    return on_host(tvm_ffi.structural_map(mod, (divisions, _without_trap)))


def _without_trap(division: Any) -> Any:
    """A division of integers by data, which may be 0, as CUDA does it: without killing the process.

    Of what is divided by 0 all bits are set, and the rest is the dividend. The least integer by -1,
    of which processors make as much fuss, is itself.
    """
    dividend, divisor = division.a, division.b
    kind = tvm_ffi.dtype(str(division.ty.dtype))
    if not str(kind).startswith(("int", "uint")) or not _is_data(divisor):
        return division
    whole = isinstance(division, (tirx.FloorDiv, tirx.Div))
    zero, one = tirx.const(0, str(kind)), tirx.const(1, str(kind))
    by_zero, negative = divisor == zero, divisor == zero - one
    special = tirx.any(by_zero, negative)
    plain = type(division)(dividend, tirx.Select(special, one, divisor))
    by_one = tirx.Select(negative, zero - dividend if whole else zero, plain)
    return tirx.Select(by_zero, zero - one if whole else dividend, by_one)


def _is_data(value: Any) -> bool:
    """Whether a value is read from a tensor."""
    loads: list[Any] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, loads.append))
    return bool(loads)


def _by_libm(call: Call) -> Any:
    """TVM's LLVM backend cancels digits in tanh and atanh near 0 and in exp10, and has no fmod."""
    name = getattr(call.op, "name", "")
    if name in ("tirx.tanh", "tirx.atanh", "tirx.fmod") and _float64_scalar(call):
        return tirx.call_pure_extern("float64", name.removeprefix("tirx."), *call.args)
    if name == "tirx.exp10" and _float64_scalar(call):
        return tirx.pow(tirx.FloatImm("float64", 10.0), call.args[0])
    return call


def _float64_scalar(call: Call) -> bool:
    return str(getattr(call.ty, "dtype", "")) == "float64"


def _legal_layer_norm(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    def compute(x: Any, gamma: Any, beta: Any) -> Any:
        axes = [int(axis) % len(x.shape) for axis in call.attrs.axes]
        return _affine(_standardized(x, axes, call), gamma, beta, axes, call)

    return builder.call_te(compute, *call.args, primfunc_name_hint="layer_norm")


def _legal_rms_norm(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    def compute(x: Any, gamma: Any) -> Any:
        axes = [int(axis) % len(x.shape) for axis in call.attrs.axes]
        squares = topi.sum(topi.multiply(x, x), axis=axes, keepdims=True)
        mean = topi.divide(squares, _count(x, axes))
        normal = topi.divide(x, topi.sqrt(topi.add(mean, float(call.attrs.epsilon))))
        return topi.multiply(normal, _along(gamma, normal, axes))

    return builder.call_te(compute, *call.args, primfunc_name_hint="rms_norm")


def _legal_instance_norm(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    def compute(x: Any, gamma: Any, beta: Any) -> Any:
        rank = len(x.shape)
        axes = [int(axis) % rank for axis in call.attrs.axes]
        channel = int(call.attrs.channel_axis) % rank
        return _affine(_standardized(x, axes, call), gamma, beta, [channel], call)

    return builder.call_te(compute, *call.args, primfunc_name_hint="instance_norm")


def _legal_group_norm(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    def compute(x: Any, gamma: Any, beta: Any) -> Any:
        shape, groups = list(x.shape), int(call.attrs.num_groups)
        channel = int(call.attrs.channel_axis) % len(shape)
        split = [*shape[:channel], groups, shape[channel] // groups, *shape[channel + 1 :]]
        others = [int(axis) % len(shape) for axis in call.attrs.axes]
        axes = [channel + 1, *(axis + (axis > channel) for axis in others)]
        normal = _standardized(topi.reshape(x, split), axes, call)
        return _affine(topi.reshape(normal, shape), gamma, beta, [channel], call)

    return builder.call_te(compute, *call.args, primfunc_name_hint="group_norm")


def _legal_multiply_add(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    return builder.call_te(lambda a, b, c: topi.add(topi.multiply(a, b), c), *call.args)


def _legal_full(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    shape, fill = call.args
    shape = shape if isinstance(shape, relax.ShapeExpr) else shape.ty.shape
    if not isinstance(shape, relax.ShapeExpr) or not isinstance(fill, ir.GenericConst):
        return _usual(builder, call)
    number = tirx.const(fill.value.numpy().item(), str(call.ty.dtype))
    return builder.call_te(topi.full, shape.values, str(call.ty.dtype), number)


def _legal_moment(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    if not _is_empty(call.args[0]):
        return _usual(builder, call)
    dtype = str(call.ty.dtype)
    return relax.op.full(call.ty.shape, relax.const(float("nan"), dtype), dtype)


def _legal_scatter(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    return call.args[0] if any(map(_is_empty, call.args[1:3])) else _usual(builder, call)


def _is_empty(tensor: ir.Expr) -> bool:
    shape = tensor.ty.shape
    return isinstance(shape, relax.ShapeExpr) and 0 in map(_constant, shape.values)


def _legal_position(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    """argmax or argmin by one element after the other: the first, or the first not-a-number.

    TVM's own answers -1 where a row holds nothing but infinities.
    """
    largest = call.op.name == "relax.argmax"

    def later(kept: Sequence[Any], new: Sequence[Any]) -> tuple[Any, ...]:
        beyond = new[1] > kept[1] if largest else new[1] < kept[1]
        if str(kept[1].ty.dtype).startswith("float"):  # LLVM has x != x false of any x
            new_is_nan, kept_is_nan = (tirx.isnan(each[1]) for each in (new, kept))
            beyond = tirx.all(tirx.any(beyond, new_is_nan), tirx.Not(kept_is_nan))
        return tuple(tirx.Select(beyond, n, k) for n, k in zip(new, kept, strict=True))

    def start(_index: str, dtype: str) -> tuple[Any, Any]:
        if dtype.startswith("float"):
            return tirx.const(0, "int64"), tirx.const(float("-inf" if largest else "inf"), dtype)
        ends = tirx.min_value, tirx.max_value
        return tirx.const(0, "int64"), ends[not largest](dtype)

    reducer = te.comm_reducer(later, start, name="position")

    def compute(x: Any) -> Any:
        axis = call.attrs.axis
        if axis is None:
            axis, x = 0, topi.reshape(x, [reduce(mul, x.shape, tirx.const(1, "int64"))])
        axis = int(axis) % len(x.shape)
        way = te.reduce_axis((0, x.shape[axis]))
        kept = [extent for number, extent in enumerate(x.shape) if number != axis]

        def pair(*rest: Any) -> Any:
            return reducer((way.var.astype("int64"), x(*rest[:axis], way, *rest[axis:])), axis=way)

        found, _value = te.compute(kept, pair, name="pair")
        return topi.cast(topi.reshape(found, call.ty.shape.values), str(call.ty.dtype))

    return builder.call_te(compute, *call.args, primfunc_name_hint="position")


def _usual(builder: relax.BlockBuilder, call: Call) -> ir.Expr:
    """As TVM does it."""
    return Op.get(call.op.name).get_attr("FLegalize")(builder, call)


# TVM's own refuse float64, compute in float32 all the same, or do not exist.
_COMPOUND: dict[str, Callable] = {
    "relax.nn.rms_norm": _legal_rms_norm,
    "relax.nn.layer_norm": _legal_layer_norm,
    "relax.nn.instance_norm": _legal_instance_norm,
    "relax.nn.group_norm": _legal_group_norm,
    "relax.ewise_fma": _legal_multiply_add,
}
_LEGALISATIONS: dict[str, Callable] = {
    **_COMPOUND,
    # TVM's own fail on infinities, and divide by the number of elements where it is 0.
    "relax.full": _legal_full,
    "relax.full_like": _legal_full,
    "relax.mean": _legal_moment,
    "relax.variance": _legal_moment,
    "relax.std": _legal_moment,
    "relax.scatter_nd": _legal_scatter,
    "relax.argmax": _legal_position,
    "relax.argmin": _legal_position,
}


class _Wide:
    """A builder whose tensor expressions compute in float32 what has a narrower dtype."""

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self._builder = builder

    def call_te(self, compute: Callable, *args: Any, **settings: Any) -> ir.Expr:
        """As BlockBuilder.call_te; the result has the dtype of the first argument."""

        def wide(*tensors: Any) -> Any:
            result = compute(*(topi.cast(tensor, "float32") for tensor in tensors))
            return topi.cast(result, tensors[0].dtype)

        narrow = str(args[0].ty.dtype) in ("float16", "bfloat16")
        return self._builder.call_te(wide if narrow else compute, *args, **settings)


IN_FLOAT32 = _LEGALISATIONS | {
    name: lambda builder, call, legal=legal: legal(_Wide(builder), call)
    for name, legal in _COMPOUND.items()
}
"""The same for a module in its own dtypes, some of which TVM's legalisations refuse as well."""


def _count(x: Any, axes: Sequence[int]) -> Any:
    """Elements of some axes together."""
    count = 1
    for axis in axes:
        count = count * x.shape[axis]
    return 1 if _constant(count) == 0 else count  # of nothing, which is divided nowhere


def _constant(extent: Any) -> int | None:
    return int(extent) if isinstance(extent, (int, tirx.IntImm)) else None


def _standardized(x: Any, axes: Sequence[int], call: Call) -> Any:
    count = _count(x, axes)
    mean = topi.divide(topi.sum(x, axis=list(axes), keepdims=True), count)
    centred = topi.subtract(x, mean)
    squares = topi.sum(topi.multiply(centred, centred), axis=list(axes), keepdims=True)
    deviation = topi.sqrt(topi.add(topi.divide(squares, count), float(call.attrs.epsilon)))
    return topi.divide(centred, deviation)


def _along(parameter: Any, normal: Any, axes: Sequence[int]) -> Any:
    """A parameter whose extents are those of these axes, in this order, to broadcast."""
    order = sorted(range(len(axes)), key=lambda position: axes[position])
    rising = topi.transpose(parameter, order) if len(axes) > 1 else parameter
    shape = [extent if axis in axes else 1 for axis, extent in enumerate(normal.shape)]
    return topi.reshape(rising, shape)


def _affine(normal: Any, gamma: Any, beta: Any, axes: Sequence[int], call: Call) -> Any:
    """normal * gamma + beta."""
    if call.attrs.scale:
        normal = topi.multiply(normal, _along(gamma, normal, axes))
    if call.attrs.center:
        normal = topi.add(normal, _along(beta, normal, axes))
    return normal
