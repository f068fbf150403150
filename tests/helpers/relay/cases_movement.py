"""Cases of operators that move, index, sort and create."""

import itertools

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


# Indexing


def _take(r: Random) -> Case:
    x = r.floats(r.shape(1, 3))
    axis = r.axis(x.ndim)
    mode = r.pick("clip", "wrap", "fast")
    n = x.shape[axis]
    indices = r.ints(r.shape(0, 2), 0, n - 1) if mode == "fast" else r.ints(r.shape(0, 2), -5, 9)
    numpy_mode = "clip" if mode == "fast" else mode
    want = np.take(x, indices, axis, mode=numpy_mode)
    return case(f'take(%x, %i, axis={axis}, mode="{mode}")', want, x=x, i=indices)


def _take_flat(r: Random) -> Case:
    x, indices = r.floats((3, 4)), r.ints((2, 2), 0, 11, "int64")
    return case("take(%x, %i)", x.reshape(-1)[indices], x=x, i=indices)


def _take_batched(r: Random) -> Case:
    x, indices = r.floats((2, 5, 3)), r.ints((2, 4), 0, 4)
    want = np.stack([x[b][indices[b]] for b in range(2)])
    return case("take(%x, %i, batch_dims=1, axis=1)", want, x=x, i=indices)


def _gather(r: Random) -> Case:
    x = r.floats((3, 4, 5))
    axis = r.axis(3)
    shape = list(x.shape)
    shape[axis] = r.int(1, 6)
    indices = r.ints(tuple(shape), 0, x.shape[axis] - 1)
    want = np.take_along_axis(x, indices.astype("int64"), axis)
    return case(f"gather(%x, %i, axis={axis})", want, x=x, i=indices)


def _gather_nd(r: Random) -> Case:
    x, indices = r.floats((3, 4, 5)), np.stack([r.ints((6,), 0, 2), r.ints((6,), 0, 3)])
    return case("gather_nd(%x, %i)", x[indices[0], indices[1]], x=x, i=indices)


def _gather_nd_batched(r: Random) -> Case:
    x, indices = r.floats((2, 4, 5)), r.ints((1, 2), 0, 3)
    want = np.stack([x[b, indices[0, b]] for b in range(2)])
    return case("gather_nd(%x, %i, batch_dims=1)", want, x=x, i=indices)


def _adv_index(r: Random) -> Case:
    x, i, j = r.floats((3, 4, 5)), r.ints((2, 1), 0, 2), r.ints((6,), 0, 3)
    return case("%0 = (%x, %i, %j);\n  adv_index(%0)", x[i, j], x=x, i=i, j=j)


def _embedding(r: Random) -> Case:
    table, i = r.floats((6, 3)), r.ints((2, 4), 0, 5)
    return case("nn.embedding(%t, %i)", table[i], t=table, i=i)


def _one_hot(r: Random) -> Case:
    i, depth, axis = r.ints((2, 3), -1, 5), r.int(2, 5), r.pick(-1, 0, 1, 2)
    want = np.where(np.arange(depth) == i[..., None], 2.0, -1.0).astype("float32")
    want = np.moveaxis(want, -1, axis)
    body = f'one_hot(%i, 2f, -1f, depth={depth}, axis={axis}, dtype="float32")'
    return case(body, want, i=i)


def _sequence_mask(r: Random) -> Case:
    axis = r.int(0, 1)
    x, n = r.floats((4, 5, 2)), r.ints((5 if axis == 0 else 4,), 0, 4)
    steps = np.arange(x.shape[axis])
    keep = steps[:, None] < n if axis == 0 else steps < n[:, None]
    want = np.where(keep[..., None], x, np.float32(-1))
    return case(f"sequence_mask(%x, %n, mask_value=-1f, axis={axis})", want, x=x, n=n)


def _unravel_index(r: Random) -> Case:
    i = r.ints((5,), 0, 23)
    body = "%0 = (2, 3, 4);\n  %1 = stack(%0);\n  unravel_index(%i, %1)"
    return case(body, np.stack(np.unravel_index(i, (2, 3, 4))).astype("int32"), i=i)


def _searchsorted(r: Random) -> Case:
    x, v, right = np.sort(r.floats((7,))), r.floats((2, 3)), r.flag()
    want = np.searchsorted(x, v, "right" if right else "left").astype("int64")
    return case(f'searchsorted(%x, %v, right={right}, dtype="int64")', want, x=x, v=v)


def _scatter(name: str) -> Generator:
    def generate(r: Random) -> Case:
        x, axis = r.floats((3, 4)), r.int(-2, 1)
        shape = [3, 4]
        shape[axis] = r.int(1, 3)
        indices = np.stack(
            [r.rng.permutation(x.shape[axis])[: shape[axis]] for _ in range(shape[1 - axis % 2])]
        ).astype("int32")
        indices = indices if axis % 2 else indices.T
        updates = r.floats(indices.shape)
        how = {"scatter": "update", "scatter_add": "add"}.get(name) or r.pick(
            "update", "add", "mul", "min", "max"
        )
        function = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
        want = x.copy()
        for place in itertools.product(*map(range, indices.shape)):
            at = list(place)
            at[axis] = indices[place]
            new = updates[place]
            want[tuple(at)] = new if how == "update" else function[how](want[tuple(at)], new)
        more = f', reduction="{how}"' if name == "scatter_elements" else ""
        indices = np.ascontiguousarray(indices)
        body = f"{name}(%x, %i, %u, axis={axis}{more})"
        return case(body, want, x=x, i=indices, u=updates)

    return generate


def _scatter_nd(r: Random) -> Case:
    x, u = r.floats((4, 5)), r.floats((3, 5))
    i = r.rng.permutation(4)[:3].astype("int32")[None]
    mode, want = r.pick("update", "add"), x.copy()
    want[i[0]] = u if mode == "update" else want[i[0]] + u
    return case(f'scatter_nd(%x, %i, %u, mode="{mode}")', want, x=x, i=i, u=u)


def _matrix_set_diag(r: Random) -> Case:
    x, d = r.floats((2, 3, 4)), r.floats((2, 3))
    want = x.copy()
    want[:, range(3), range(3)] = d
    return case("matrix_set_diag(%x, %d)", want, x=x, d=d)


def _sparse_to_dense(r: Random) -> Case:
    i, v = np.array([[0, 1], [2, 3]], "int32"), r.floats((2,))
    want = np.full((3, 4), 0.5, "float32")
    want[i[:, 0], i[:, 1]] = v
    return case("sparse_to_dense(%i, %v, 0.5f, output_shape=[3, 4])", want, i=i, v=v)


# Order


def _distinct(r: Random, shape) -> np.ndarray:
    return r.rng.permutation(int(np.prod(shape))).reshape(shape).astype("float32")


def _sort(r: Random) -> Case:
    x, up = _distinct(r, r.shape(1, 3)), r.flag()
    axis = r.axis(x.ndim)
    want = np.sort(x, axis) if up else -np.sort(-x, axis)
    return case(f"sort(%x, axis={axis}, is_ascend={up})", want, x=x)


def _argsort(r: Random) -> Case:
    x, up = _distinct(r, r.shape(1, 3)), r.flag()
    axis, dtype = r.axis(x.ndim), r.pick("int32", "int64", "float32")
    want = np.argsort(x if up else -x, axis).astype(dtype)
    return case(f'argsort(%x, axis={axis}, is_ascend={up}, dtype="{dtype}")', want, x=x)


def _topk(r: Random) -> Case:
    x, up = _distinct(r, (3, 6)), r.flag()
    axis, ret = r.axis(2), r.pick("both", "values", "indices")
    k = r.int(0, x.shape[axis])
    count = k or x.shape[axis]
    order = np.argsort(x if up else -x, axis).take(range(count), axis)
    values, indices = np.take_along_axis(x, order, axis), order.astype("int64")
    want = {"both": [values, indices], "values": [values], "indices": [indices]}[ret]
    attrs = f'k={k}, axis={axis}, ret_type="{ret}", is_ascend={up}, dtype="int64"'
    return case(f"topk(%x, {attrs})", *want, x=x)


def _scan(name: str) -> Generator:
    def generate(r: Random) -> Case:
        x, exclusive = r.floats(r.shape(1, 3), 0.5, 1.5), r.flag()
        axis = r.pick(None, r.axis(x.ndim))
        flat = x.reshape(-1) if axis is None else x
        at = 0 if axis is None else axis
        want = getattr(np, name)(flat, axis=at)
        if exclusive:
            first = np.full_like(want.take([0], at), 0 if name == "cumsum" else 1)
            want = np.concatenate([first, want.take(range(want.shape[at] - 1), at)], at)
        body = f'{name}(%x, axis={axis}, dtype="float32", exclusive={exclusive})'
        return case(body, want, x=x)

    return generate


def _trilu(r: Random) -> Case:
    x, k, upper = r.floats((2, 4, 5)), r.int(-2, 2), r.flag()
    want = np.triu(x, k) if upper else np.tril(x, k)
    return case(f"trilu(%x, {k}, upper={upper})", want, x=x)


def _invert_permutation(r: Random) -> Case:
    x = r.rng.permutation(6).astype("int32")
    return case("invert_permutation(%x)", np.argsort(x).astype("int32"), x=x)


def _einsum(r: Random) -> Case:
    a, b = r.floats((2, 3, 4)), r.floats((2, 4, 5))
    body = '%0 = (%a, %b);\n  einsum(%0, equation="bij,bjk->bik")'
    return case(body, a @ b, a=a, b=b)


# Fourier transforms


def _dft(r: Random) -> Case:
    a, b, inverse = r.floats((2, 3, 6)), r.floats((2, 3, 6)), r.flag()
    value = a.astype("float64") + 1j * b
    want = np.fft.ifft(value) if inverse else np.fft.fft(value)
    body = f"dft(%a, %b, inverse={inverse})"
    return case(body, want.real.astype("float32"), want.imag.astype("float32"), a=a, b=b)


def _stft(r: Random) -> Case:
    x, w = r.floats((2, 20)), r.floats((8,), 0.5, 1)
    normalized, onesided = r.flag(), r.flag()
    frames = np.stack([x[:, i * 3 : i * 3 + 8] for i in range(5)], 1) * w
    spectrum = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
    spectrum = spectrum.transpose(0, 2, 1) / (8**0.5 if normalized else 1)
    want = np.stack([spectrum.real, spectrum.imag], -1).astype("float32")
    attrs = f"n_fft=8, hop_length=3, win_length=8, normalized={normalized}, onesided={onesided}"
    return case(f"stft(%x, %w, {attrs})", want, x=x, w=w)


# Creation


def _full(r: Random) -> Case:
    shape = r.shape(1, 3)
    v = r.floats(())
    body = f'full(%v, shape={list(shape)}, dtype="float32")'
    return case(body, np.full(shape, v), v=v)


def _full_like(r: Random) -> Case:
    x, v = r.floats(), r.floats(())
    return case("full_like(%x, %v)", np.full_like(x, v), x=x, v=v)


def _filled(name: str) -> Generator:
    def generate(r: Random) -> Case:
        shape, dtype = r.shape(1, 3), r.pick("float32", "int32", "int64", "bool")
        want = getattr(np, name)(shape, dtype)
        x = r.floats((1,))
        return case(f'{name}(shape={list(shape)}, dtype="{dtype}")', want, x=x)

    return generate


def _filled_like(name: str) -> Generator:
    def generate(r: Random) -> Case:
        x = r.pick(r.floats(), r.ints())
        return case(f"{name}(%x)", getattr(np, name)(x), x=x)

    return generate


def _arange(r: Random) -> Case:
    start, step, count = r.int(-5, 5), r.pick(-2, -1, 1, 2, 3), r.int(1, 6)
    stop, x = start + step * count, r.floats((1,))
    if r.flag():
        body = f'arange({start}, {stop}, {step}, start=0, stop=0, step=0, dtype="int32")'
        return case(body, np.arange(start, stop, step, "int32"), x=x)
    body = f'arange({start}f, {stop}f, {step}f, dtype="float32")'
    return case(body, np.arange(start, stop, step, "float32"), x=x)


def _meshgrid(r: Random) -> Case:
    a, b, indexing = r.floats((3,)), r.floats((4,)), r.pick("ij", "xy")
    body = f'%0 = (%a, %b);\n  meshgrid(%0, indexing="{indexing}")'
    return case(body, *np.meshgrid(a, b, indexing=indexing), a=a, b=b)


# The dyn dialect: constants, or what follows from shapes, in the place of attributes


def _vector(*numbers: int) -> str:
    """Graph bindings of a constant int64 vector, named %9."""
    return f"%8 = ({', '.join(f'{n}i64' for n in numbers)},);\n  %9 = stack(%8);\n  "


def _dyn_reshape(r: Random) -> Case:
    x = r.floats((4, 6))
    body = (
        '%0 = shape_of(%x, dtype="int64");\n'
        "  %1 = take(%0, 0i64);\n  %2 = expand_dims(%1, axis=0);\n"
        "  %3 = strided_slice(%0, begin=[1], end=[2], strides=[1]);\n"
        "  %4 = divide(%3, 2i64);\n  %5 = (%2, %4, %7);\n"
    )
    body = body.replace("  %5", "  %6 = (2i64,);\n  %7 = stack(%6);\n  %5")
    body += "  %9 = concatenate(%5);\n  dyn.reshape(%x, %9)"
    return case(body, x.reshape(4, 3, 2), x=x)


def _dyn_tile(r: Random) -> Case:
    x = r.floats((2, 3))
    return case(_vector(2, 1) + "dyn.tile(%x, %9)", np.tile(x, (2, 1)), x=x)


def _dyn_broadcast_to(r: Random) -> Case:
    x = r.floats((1, 3))
    return case(_vector(2, 3) + "dyn.broadcast_to(%x, %9)", np.broadcast_to(x, (2, 3)), x=x)


def _dyn_full(r: Random) -> Case:
    v = r.floats(())
    body = _vector(2, 3) + 'dyn.full(%v, %9, dtype="float32")'
    return case(body, np.full((2, 3), v), v=v)


def _dyn_filled(name: str) -> Generator:
    def generate(r: Random) -> Case:
        body = _vector(2, 3) + f'dyn.{name}(%9, dtype="float32")'
        return case(body, getattr(np, name)((2, 3), "float32"), x=r.floats((1,)))

    return generate


def _dyn_one_hot(r: Random) -> Case:
    i = r.ints((3,), 0, 3)
    body = 'dyn.one_hot(%i, 1f, 0f, 4, axis=-1, dtype="float32")'
    return case(body, np.eye(4, dtype="float32")[i], i=i)


def _dyn_expand_dims(r: Random) -> Case:
    x = r.floats((2, 3))
    return case("dyn.expand_dims(%x, 1i64, num_newaxis=1)", x[:, None], x=x)


def _dyn_squeeze(r: Random) -> Case:
    x = r.floats((2, 1, 3))
    return case(_vector(1) + "dyn.squeeze(%x, %9)", x[:, 0], x=x)


def _dyn_topk(r: Random) -> Case:
    x = _distinct(r, (3, 5))
    order = np.argsort(-x, 1)[:, :2]
    want = np.take_along_axis(x, order, 1), order.astype("int32")
    return case('dyn.topk(%x, 2i64, axis=1, dtype="int32")', *want, x=x)


def _dyn_strided_slice(r: Random) -> Case:
    x = r.floats((4, 5))
    body = (
        "%0 = (1i64, 0i64);\n  %1 = stack(%0);\n  %2 = (4i64, 5i64);\n  %3 = stack(%2);\n"
        "  %4 = (2i64, 1i64);\n  %5 = stack(%4);\n  dyn.strided_slice(%x, %1, %3, %5)"
    )
    return case(body, x[1:4:2], x=x)


def _dyn_pad(r: Random) -> Case:
    x = r.floats((2, 3))
    body = (
        "%0 = (1i64, 0i64);\n  %1 = stack(%0);\n  %2 = (0i64, 2i64);\n  %3 = stack(%2);\n"
        "  %4 = (%1, %3);\n  %5 = stack(%4);\n  dyn.nn.pad(%x, %5, 0.5f)"
    )
    return case(body, np.pad(x, [(1, 0), (0, 2)], constant_values=np.float32(0.5)), x=x)


def _dyn_upsampling(r: Random) -> Case:
    x = r.floats((1, 2, 3, 4))
    return case("dyn.nn.upsampling(%x, 2f, 3f)", x.repeat(2, 2).repeat(3, 3), x=x)


def _dyn_upsampling3d(r: Random) -> Case:
    x = r.floats((1, 1, 2, 3, 2))
    want = x.repeat(2, 2).repeat(1, 3).repeat(2, 4)
    mode = 'coordinate_transformation_mode="asymmetric"'
    return case(f"dyn.nn.upsampling3d(%x, 2f, 1f, 2f, {mode})", want, x=x)


def _dyn_resize2d(r: Random) -> Case:
    x = r.floats((1, 2, 3, 4))
    attrs = 'method="nearest_neighbor", coordinate_transformation_mode="asymmetric"'
    body = _vector(6, 8) + f'dyn.image.resize2d(%x, %9, {attrs}, rounding_method="floor")'
    return case(body, x.repeat(2, 2).repeat(2, 3), x=x)


def _dyn_sparse_to_dense(r: Random) -> Case:
    i, v = np.array([1, 3], "int32"), r.floats((2,))
    want = np.zeros((5,), "float32")
    want[i] = v
    return case(_vector(5) + "dyn.sparse_to_dense(%i, %v, 0f, %9)", want, i=i, v=v)


GENERATORS: dict[str, list[Generator]] = {
    "adv_index": [_adv_index],
    "arange": [_arange],
    "argsort": [_argsort],
    "broadcast_to": [_broadcast_to],
    "broadcast_to_like": [_broadcast_to_like],
    "concatenate": [_concatenate],
    "contrib_reverse_reshape": [_contrib_reverse_reshape],
    "cumprod": [_scan("cumprod")],
    "cumsum": [_scan("cumsum")],
    "dft": [_dft],
    "einsum": [_einsum],
    "expand_dims": [_expand_dims],
    "full": [_full],
    "full_like": [_full_like],
    "gather": [_gather],
    "gather_nd": [_gather_nd, _gather_nd_batched],
    "invert_permutation": [_invert_permutation],
    "layout_transform": [_layout_transform],
    "matrix_set_diag": [_matrix_set_diag],
    "meshgrid": [_meshgrid],
    "ndarray_size": [_ndarray_size],
    "nn.embedding": [_embedding],
    "one_hot": [_one_hot],
    "ones": [_filled("ones")],
    "ones_like": [_filled_like("ones_like")],
    "repeat": [_repeat],
    "reshape": [_reshape],
    "reshape_like": [_reshape_like],
    "reverse": [_reverse],
    "reverse_sequence": [_reverse_sequence],
    "scatter": [_scatter("scatter")],
    "scatter_add": [_scatter("scatter_add")],
    "scatter_elements": [_scatter("scatter_elements")],
    "scatter_nd": [_scatter_nd],
    "searchsorted": [_searchsorted],
    "sequence_mask": [_sequence_mask],
    "shape_of": [_shape_of],
    "slice_like": [_slice_like],
    "sliding_window": [_sliding_window],
    "sort": [_sort],
    "sparse_to_dense": [_sparse_to_dense],
    "split": [_split],
    "squeeze": [_squeeze],
    "stack": [_stack],
    "stft": [_stft],
    "strided_set": [_strided_set],
    "strided_slice": [
        _strided_slice,
        _strided_slice_axes,
        _strided_slice_size,
        _strided_slice_backwards,
    ],
    "take": [_take, _take_flat, _take_batched],
    "tile": [_tile],
    "topk": [_topk],
    "transpose": [_transpose],
    "trilu": [_trilu],
    "unravel_index": [_unravel_index],
    "zeros": [_filled("zeros")],
    "zeros_like": [_filled_like("zeros_like")],
    "dyn.broadcast_to": [_dyn_broadcast_to],
    "dyn.expand_dims": [_dyn_expand_dims],
    "dyn.full": [_dyn_full],
    "dyn.image.resize2d": [_dyn_resize2d],
    "dyn.nn.pad": [_dyn_pad],
    "dyn.nn.upsampling": [_dyn_upsampling],
    "dyn.nn.upsampling3d": [_dyn_upsampling3d],
    "dyn.one_hot": [_dyn_one_hot],
    "dyn.ones": [_dyn_filled("ones")],
    "dyn.reshape": [_dyn_reshape],
    "dyn.sparse_to_dense": [_dyn_sparse_to_dense],
    "dyn.squeeze": [_dyn_squeeze],
    "dyn.strided_slice": [_dyn_strided_slice],
    "dyn.tile": [_dyn_tile],
    "dyn.topk": [_dyn_topk],
    "dyn.zeros": [_dyn_filled("zeros")],
}
