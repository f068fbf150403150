"""Operators that move elements without computing: reshapes, slices, joins, copies."""

from __future__ import annotations

from tvm import relax, topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import layout as layouts
from tvm_stitch.frontend.relay.call import (
    Dim,
    Expr,
    OpCall,
    OperatorFunction,
    axis_of,
    dims,
    rank,
    same_dim,
)

_op = relax.op


# Shapes


def product(extents: list[Dim]) -> Dim:
    """How many elements a shape has."""
    count: Dim = 1
    for extent in extents:
        count = count * extent
    return count


def new_shape(old: list[Dim], codes: list[Dim], allow_zero: bool = False) -> list[Dim]:
    """What Relay's codes for reshape mean.

    0 keeps an extent, -1 is inferred, -2 keeps all that are left, -3 joins the next two, -4 splits
    the next into the following two codes, one of which may be -1.
    """
    shape: list[Dim] = []
    source, inferred = 0, None
    codes = list(codes)

    def taken(count: int) -> list[Dim]:
        nonlocal source
        if source + count > len(old):
            raise RelayError(f"newshape {codes} asks for more extents than {old} has")
        source += count
        return old[source - count : source]

    position = 0
    while position < len(codes):
        code = codes[position]
        position += 1
        if not isinstance(code, int) or code > 0 or (code == 0 and allow_zero):
            shape.append(code)
            source += 1
        elif code == 0:
            shape += taken(1)
        elif code == -1:
            if inferred is not None:
                raise RelayError(f"newshape {codes} has two extents to infer")
            inferred = len(shape)
            shape.append(1)
            source += 1
        elif code == -2:
            shape += taken(len(old) - source)
        elif code == -3:
            first, second = taken(2)
            shape.append(first * second)
        elif code == -4:
            (whole,) = taken(1)
            shape += _split(whole, codes[position : position + 2])
            position += 2
        else:
            raise RelayError(f"newshape {codes} has an unknown code {code}")
    if inferred is not None:
        shape[inferred] = _infer(old, shape, codes)
    return shape


def _split(whole: Dim, parts: list[Dim]) -> list[Dim]:
    if len(parts) != 2 or parts == [-1, -1]:
        raise RelayError("code -4 of newshape needs two extents, one of which may be -1")
    left, right = parts
    return [whole // right if left == -1 else left, whole // left if right == -1 else right]


def _infer(old: list[Dim], shape: list[Dim], codes: list[Dim]) -> Dim:
    """The extent that makes the element counts equal."""
    have, rest = product(old), product(shape)
    if isinstance(have, int) and isinstance(rest, int):
        if rest == 0 or have % rest:
            raise RelayError(f"newshape {codes} does not divide the {have} elements of {old}")
        return have // rest
    # Cancel what both sides have, so that no division by a symbol is left over.
    have_left, rest_left = list(old), [e for e in shape if not (isinstance(e, int) and e == 1)]
    for extent in list(rest_left):
        for other in have_left:
            if same_dim(extent, other):
                rest_left.remove(extent)
                have_left.remove(other)
                break
    return product(have_left) // product(rest_left) if rest_left else product(have_left)


def _reshape(call: OpCall) -> Expr:
    call.expect(1, 2)
    attrs = call.attrs
    codes = attrs.integers("newshape")
    if codes is None:
        codes = call.known_integers(1, "the new shape")
    if attrs.flag("reverse"):
        return _reversed_reshape(call, codes)
    return _op.reshape(call[0], new_shape(dims(call[0]), codes, attrs.flag("allowzero")))


def _reversed_reshape(call: OpCall, codes: list[Dim]) -> Expr:
    shape = new_shape(dims(call[0])[::-1], codes[::-1])
    return _op.reshape(call[0], shape[::-1])


def _contrib_reverse_reshape(call: OpCall) -> Expr:
    call.expect(1)
    call.attrs.ignore("reverse", "allowzero")
    return _reversed_reshape(call, call.attrs.integers("newshape", []))


def _reshape_like(call: OpCall) -> Expr:
    call.expect(2)
    ours, theirs, attrs = dims(call[0]), dims(call[1]), call.attrs

    def span(side: str, shape: list[Dim]) -> tuple[int, int]:
        begin, end = attrs.integer(f"{side}_begin", 0), attrs.integer(f"{side}_end")
        begin = begin + len(shape) if begin < 0 else begin
        end = len(shape) if end is None else end + len(shape) if end < 0 else end
        return begin, end

    (begin, end), (their_begin, their_end) = span("lhs", ours), span("rhs", theirs)
    shape = ours[:begin] + theirs[their_begin:their_end] + ours[end:]
    return _op.reshape(call[0], shape)


def _transpose(call: OpCall) -> Expr:
    call.expect(1)
    ndim = rank(call[0])
    axes = call.attrs.integers("axes") or list(range(ndim))[::-1]
    return _op.permute_dims(call[0], [axis_of(axis, ndim) for axis in axes])


def _squeeze(call: OpCall) -> Expr:
    call.expect(1)
    axes = call.attrs.integers("axis")
    return squeeze(call, axes)


def squeeze(call: OpCall, axes: list[int] | None) -> Expr:
    """Without the given axes of extent one, or without all of them."""
    shape = dims(call[0])
    if axes is None:
        axes = [i for i, extent in enumerate(shape) if same_dim(extent, 1)]
    axes = [axis_of(axis, len(shape)) for axis in axes]
    for axis in axes:
        if isinstance(shape[axis], int) and shape[axis] != 1:
            raise RelayError(f"axis {axis} of shape {shape} has not extent one")
    return _op.reshape(call[0], [e for i, e in enumerate(shape) if i not in axes])


def expand_dims(call: OpCall, axis: int) -> Expr:
    """With ``num_newaxis`` axes of extent one put in."""
    count = call.attrs.integer("num_newaxis", 1)
    shape = dims(call[0])
    axis = axis_of(axis, len(shape) + 1)
    return _op.reshape(call[0], shape[:axis] + [1] * count + shape[axis:])


def _expand_dims(call: OpCall) -> Expr:
    call.expect(1)
    return expand_dims(call, call.attrs.integer("axis", 0))


def _broadcast_to(call: OpCall) -> Expr:
    call.attrs.ignore("dtype")
    shape = call.attrs.integers("shape")
    if shape is None:
        shape = call.known_integers(1, "the shape to broadcast to")
    return _op.broadcast_to(call[0], shape)


def _broadcast_to_like(call: OpCall) -> Expr:
    call.expect(2)
    return _op.broadcast_to(call[0], dims(call[1]))


def _layout_transform(call: OpCall) -> Expr:
    call.expect(1)
    source, target = call.attrs.text("src_layout"), call.attrs.text("dst_layout")
    if not source or not target:
        raise RelayError("attributes src_layout and dst_layout are needed")
    return layouts.rearrange(call, call[0], source, target)


# Joins and splits


def _concatenate(call: OpCall) -> Expr:
    call.expect(1)
    parts = call.fields()
    if not parts:
        raise RelayError("there is nothing to concatenate")
    return _op.concat(parts, axis_of(call.attrs.integer("axis", 0), rank(parts[0])))


def _stack(call: OpCall) -> Expr:
    call.expect(1)
    parts = call.fields()
    if not parts:
        raise RelayError("there is nothing to stack")
    axis = axis_of(call.attrs.integer("axis", 0), rank(parts[0]) + 1)
    shape = dims(parts[0])
    shape.insert(axis, 1)
    return _op.concat([call.emit(_op.reshape(part, shape)) for part in parts], axis)


def _split_operator(call: OpCall) -> Expr:
    call.expect(1)
    shape = dims(call[0])
    axis = axis_of(call.attrs.integer("axis", 0), len(shape))
    sections = call.attrs.get("indices_or_sections")
    if isinstance(sections, int) and not isinstance(sections, bool):
        if sections < 1 or (isinstance(shape[axis], int) and shape[axis] % sections):
            raise RelayError(f"axis {axis} of shape {shape} does not split into {sections}")
        if sections == 1:
            return relax.Tuple([call[0]])
        return _op.split(call[0], sections, axis)
    indices = call.attrs.integers("indices_or_sections")
    if indices is None:
        raise RelayError("attribute indices_or_sections is needed")
    return _op.split(call[0], indices, axis) if indices else relax.Tuple([call[0]])


def _tile(call: OpCall) -> Expr:
    call.attrs.ignore("reps")
    reps = call.attrs.integers("reps")
    if reps is None:
        reps = call.known_integers(1, "the repetitions")
    return _op.tile(call[0], reps)


def _repeat(call: OpCall) -> Expr:
    call.expect(1)
    axis = call.attrs.integer("axis", 0)
    return _op.repeat(call[0], call.attrs.integer("repeats"), axis_of(axis, rank(call[0])))


def _reverse(call: OpCall) -> Expr:
    call.expect(1)
    return _op.flip(call[0], axis_of(call.attrs.integer("axis", 0), rank(call[0])))


def _reverse_sequence(call: OpCall) -> Expr:
    call.expect(2)
    seq, batch = call.attrs.integer("seq_axis", 1), call.attrs.integer("batch_axis", 0)
    return call.te(lambda a, n: topi.reverse_sequence(a, n, seq, batch), call[0], call[1])


def _shape_of(call: OpCall) -> Expr:
    call.expect(1)
    name = call.attrs.text("dtype", "int32")
    shape = dims(call[0])
    if all(isinstance(extent, int) for extent in shape):
        return call.emit(call.constant(shape, name))
    tensor = call.emit(_op.shape_to_tensor(call.emit(relax.ShapeExpr(shape))))
    # Its rank is known to us; Relax needs to be told.
    typed = call.builder.match_cast(tensor, relax.TensorType([len(shape)], "int64"))
    return call.cast(typed, name)


def _ndarray_size(call: OpCall) -> Expr:
    call.expect(1)
    name = call.attrs.text("dtype", "int32")
    count = product(dims(call[0]))
    if isinstance(count, int):
        return call.emit(call.constant(count, name))
    raise RelayError("the size of a tensor with symbolic extents is not read")


OPERATORS: dict[str, OperatorFunction] = {
    "broadcast_to": _broadcast_to,
    "broadcast_to_like": _broadcast_to_like,
    "concatenate": _concatenate,
    "contrib_reverse_reshape": _contrib_reverse_reshape,
    "expand_dims": _expand_dims,
    "layout_transform": _layout_transform,
    "ndarray_size": _ndarray_size,
    "repeat": _repeat,
    "reshape": _reshape,
    "reshape_like": _reshape_like,
    "reverse": _reverse,
    "reverse_sequence": _reverse_sequence,
    "shape_of": _shape_of,
    "split": _split_operator,
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "transpose": _transpose,
}
