"""Cases of operators that reshape, join and slice."""

import numpy as np

from relay.case import Case, Generator, Random, case

# Shapes


def _reshape(r: Random) -> Case:
    x = r.floats((2, 3, 4, 5))
    codes, want = r.pick(
        ([-1], (120,)),
        ([0, -1], (2, 60)),
        ([6, -1, 5], (6, 4, 5)),
        ([-2], (2, 3, 4, 5)),
        ([2, -2], (2, 3, 4, 5)),
        ([-3, -3], (6, 20)),
        ([0, -3, 0], (2, 12, 5)),
        ([-4, 1, 2, -2], (1, 2, 3, 4, 5)),
        ([0, 0, -4, -1, 2, 0], (2, 3, 2, 2, 5)),
        ([0, 12, -1], (2, 12, 5)),
        ([5, 4, 3, 2], (5, 4, 3, 2)),
    )
    return case(f"reshape(%x, newshape={codes})", x.reshape(want), x=x)


def _contrib_reverse_reshape(r: Random) -> Case:
    x = r.floats((10, 5, 4))
    codes, want = r.pick(([-1, 0], (50, 4)), ([-1, 5, 4], (10, 5, 4)), ([0, -3], (10, 20)))
    return case(f"contrib_reverse_reshape(%x, newshape={codes})", x.reshape(want), x=x)


def _reshape_like(r: Random) -> Case:
    x = r.floats((6, 4))
    if r.flag():
        return case("reshape_like(%x, %y)", x.reshape(2, 3, 4), x=x, y=r.floats((2, 3, 4)))
    y = r.floats((7, 2, 3, 9))
    body = "reshape_like(%x, %y, lhs_begin=0, lhs_end=1, rhs_begin=1, rhs_end=3)"
    return case(body, x.reshape(2, 3, 4), x=x, y=y)


def _transpose(r: Random) -> Case:
    x = r.floats(r.shape(1, 4))
    if r.flag():
        return case("transpose(%x, axes=None)", x.T, x=x)
    axes = [int(a) for a in r.rng.permutation(x.ndim)]
    return case(f"transpose(%x, axes={axes})", x.transpose(axes), x=x)


def _squeeze(r: Random) -> Case:
    x = r.floats((1, 3, 1, 2))
    axes, want = r.pick(([0], (3, 1, 2)), ([-2], (1, 3, 2)), ([0, 2], (3, 2)), (None, (3, 2)))
    return case(f"squeeze(%x, axis={axes})", x.reshape(want), x=x)


def _expand_dims(r: Random) -> Case:
    x, count = r.floats(r.shape(1, 3)), r.int(1, 2)
    axis = r.int(-x.ndim - 1, x.ndim)
    at = axis % (x.ndim + 1)
    want = x.reshape(*x.shape[:at], *[1] * count, *x.shape[at:])
    return case(f"expand_dims(%x, axis={axis}, num_newaxis={count})", want, x=x)


def _broadcast_to(r: Random) -> Case:
    x = r.floats((r.pick(1, 3), 1, 4))
    shape = [*r.pick([], [2]), 3, r.int(1, 4), 4]
    return case(f"broadcast_to(%x, shape={shape})", np.broadcast_to(x, shape), x=x)


def _broadcast_to_like(r: Random) -> Case:
    x, y = r.floats((3, 1)), r.floats((2, 3, 4))
    return case("broadcast_to_like(%x, %y)", np.broadcast_to(x, y.shape), x=x, y=y)


def _layout_transform(r: Random) -> Case:
    x = r.floats((1, 8, 2, 3))
    if r.flag():
        want = x.transpose(0, 2, 3, 1)
        return case('layout_transform(%x, src_layout="NCHW", dst_layout="NHWC")', want, x=x)
    want = x.reshape(1, 2, 4, 2, 3).transpose(0, 1, 3, 4, 2)
    return case('layout_transform(%x, src_layout="NCHW", dst_layout="NCHW4c")', want, x=x)


def _shape_of(r: Random) -> Case:
    x = r.floats(r.shape(1, 4))
    return case('shape_of(%x, dtype="int64")', np.array(x.shape, "int64"), x=x)


def _ndarray_size(r: Random) -> Case:
    x = r.floats(r.shape(1, 4))
    return case('ndarray_size(%x, dtype="int32")', np.int32(x.size), x=x)


# Joins


def _concatenate(r: Random) -> Case:
    shape = list(r.shape(1, 4))
    axis = r.axis(len(shape))
    parts = {}
    for name in "abc"[: r.int(1, 3)]:
        shape[axis] = r.int(1, 4)
        parts[name] = r.floats(tuple(shape))
    fields = ", ".join("%" + name for name in parts)
    want = np.concatenate(list(parts.values()), axis)
    return case(f"%0 = ({fields},);\n  concatenate(%0, axis={axis})", want, **parts)


def _stack(r: Random) -> Case:
    a, b = r.floats((2, 3)), r.floats((2, 3))
    axis = r.int(-3, 2)
    return case(f"%0 = (%a, %b);\n  stack(%0, axis={axis})", np.stack([a, b], axis), a=a, b=b)


def _split(r: Random) -> Case:
    x, axis = r.floats((4, 6)), r.int(-2, 1)
    n = x.shape[axis]
    how, at = r.pick((2, 2), ("[1, 3]", [1, 3]), ("[2]", [2]), (f"{n}", n), ("1", 1))
    body = f"split(%x, indices_or_sections={how}, axis={axis})"
    return case(body, *np.split(x, at, axis), x=x)


def _tile(r: Random) -> Case:
    x = r.floats(r.shape(1, 3))
    reps = [r.int(1, 3) for _ in range(r.int(1, 4))]
    return case(f"tile(%x, reps={reps})", np.tile(x, reps), x=x)


def _repeat(r: Random) -> Case:
    x, repeats = r.floats(r.shape(1, 4)), r.int(1, 3)
    axis = r.axis(x.ndim)
    return case(f"repeat(%x, repeats={repeats}, axis={axis})", x.repeat(repeats, axis), x=x)


def _reverse(r: Random) -> Case:
    x = r.floats(r.shape(1, 4))
    axis = r.axis(x.ndim)
    return case(f"reverse(%x, axis={axis})", np.flip(x, axis), x=x)


def _reverse_sequence(r: Random) -> Case:
    x, lengths = r.floats((4, 5)), r.ints((5,), 1, 4)
    want = x.copy()
    for j, n in enumerate(lengths):
        want[:n, j] = x[:n, j][::-1]
    return case("reverse_sequence(%x, %n, seq_axis=0, batch_axis=1)", want, x=x, n=lengths)


# Slices


def _strided_slice(r: Random) -> Case:
    x = r.floats((r.int(3, 7), r.int(3, 7)))
    begin, end, strides = [], [], []
    for n in x.shape:
        low, high = sorted((r.int(0, n - 1), r.int(0, n - 1)))
        stride = r.pick(1, 1, 2, 3)
        begin.append(low - (n if r.flag() else 0))
        end.append(r.pick(high + 1, high + 1 - n if high + 1 < n else n + 5))
        strides.append(stride)
    want = x[tuple(slice(*part) for part in zip(begin, end, strides, strict=True))]
    body = f"strided_slice(%x, begin={begin}, end={end}, strides={strides}, axes=None)"
    return case(body, want, x=x)


def _strided_slice_axes(r: Random) -> Case:
    x = r.floats((4, 5, 6))
    body = "strided_slice(%x, begin=[1, 2], end=[3, 5], strides=[1], axes=[0, -1])"
    return case(body, x[1:3, :, 2:5], x=x)


def _strided_slice_size(r: Random) -> Case:
    x = r.floats((4, 5))
    body = 'strided_slice(%x, begin=[1, 2], end=[2, -1], strides=[1, 1], slice_mode="size")'
    return case(body, x[1:3, 2:], x=x)


def _strided_slice_backwards(r: Random) -> Case:
    x = r.floats((5, 6))
    body = "strided_slice(%x, begin=[4, -1], end=[0, -7], strides=[-2, -1])"
    return case(body, x[4:0:-2, ::-1], x=x)


def _slice_like(r: Random) -> Case:
    x, y = r.floats((4, 5)), r.floats((r.int(1, 4), r.int(1, 5)))
    if r.flag():
        return case("slice_like(%x, %y)", x[: y.shape[0], : y.shape[1]], x=x, y=y)
    return case("slice_like(%x, %y, axes=[-1])", x[:, : y.shape[1]], x=x, y=y)


def _strided_set(r: Random) -> Case:
    x, v = r.floats((6, 5)), r.floats((2, 4))
    want = x.copy()
    want[1:5:2, 0:4] = v
    given = case("strided_set(%x, %v, %b, %e, %s)", want, x=x, v=v)
    given.body = (
        "%1 = (1i64, 0i64);\n  %2 = (5i64, 4i64);\n  %3 = (2i64, 1i64);\n"
        "  %4 = stack(%1);\n  %5 = stack(%2);\n  %6 = stack(%3);\n"
        "  strided_set(%x, %v, %4, %5, %6)"
    )
    return given


def _sliding_window(r: Random) -> Case:
    x = r.floats((2, 5, 6))
    want = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (1, 2))[:, ::1, ::2]
    body = "sliding_window(%x, axis=1, window_shape=[3, 2], strides=[1, 2])"
    return case(body, np.ascontiguousarray(want), x=x)


GENERATORS: dict[str, list[Generator]] = {
    "broadcast_to": [_broadcast_to],
    "broadcast_to_like": [_broadcast_to_like],
    "concatenate": [_concatenate],
    "contrib_reverse_reshape": [_contrib_reverse_reshape],
    "expand_dims": [_expand_dims],
    "layout_transform": [_layout_transform],
    "ndarray_size": [_ndarray_size],
    "repeat": [_repeat],
    "reshape": [_reshape],
    "reshape_like": [_reshape_like],
    "reverse": [_reverse],
    "reverse_sequence": [_reverse_sequence],
    "shape_of": [_shape_of],
    "slice_like": [_slice_like],
    "sliding_window": [_sliding_window],
    "split": [_split],
    "squeeze": [_squeeze],
    "stack": [_stack],
    "strided_set": [_strided_set],
    "strided_slice": [
        _strided_slice,
        _strided_slice_axes,
        _strided_slice_size,
        _strided_slice_backwards,
    ],
    "tile": [_tile],
    "transpose": [_transpose],
}
