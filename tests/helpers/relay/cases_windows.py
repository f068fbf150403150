"""Cases of convolutions and of pooling."""

import itertools

import numpy as np

from relay.case import Case, Generator, Random, case

# Convolutions

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def conv(x, w, strides, padding, dilation, groups):
    """A convolution of (N, C, ...) data with (O, I, ...) weights; padding is (before, after)."""
    count = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    kernel = w.shape[2:]
    size = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], kernel, dilation, strides, strict=True)
    ]
    per = w.shape[0] // groups
    out = np.zeros((x.shape[0], w.shape[0], *size), np.result_type(x, w))
    for taps in itertools.product(*map(range, kernel)):
        window = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(taps, dilation, size, strides, strict=True)
        )
        piece = x[(slice(None), slice(None), *window)]
        for g in range(groups):
            part = piece[:, g * w.shape[1] : (g + 1) * w.shape[1]]
            weights = w[(slice(g * per, (g + 1) * per), slice(None), *taps)]
            out[:, g * per : (g + 1) * per] += np.einsum("ni...,oi->no...", part, weights)
    assert out.ndim == count + 2
    return out


def to_layout(array, source, target):
    return np.ascontiguousarray(array.transpose([source.index(axis) for axis in target]))


def _conv_arguments(r: Random, count: int, dtype="float32"):
    groups = r.pick(1, 1, 2)
    c, o = groups * r.int(1, 3), groups * r.int(1, 3)
    make = r.floats if dtype == "float32" else lambda s: r.ints(s, -128, 127, dtype)
    x = make((r.int(1, 2), c, *(r.int(4, 6) for _ in range(count))))
    w = make((o, c // groups, *(r.int(1, 3) for _ in range(count))))
    strides = [r.int(1, 2) for _ in range(count)]
    dilation = [r.int(1, 2) if k < 3 else 1 for k in w.shape[2:]]
    padding = [(r.int(0, 2), r.int(0, 2)) for _ in range(count)]
    flat = [p[0] for p in padding] + [p[1] for p in padding]
    attrs = f"strides={strides}, padding={flat}, dilation={dilation}, groups={groups}"
    attrs += f", channels={o}, kernel_size={list(w.shape[2:])}"
    return x, w, (strides, padding, dilation, groups), attrs


def _conv(count: int) -> Generator:
    spatial = _SPATIAL[count]

    def generate(r: Random) -> Case:
        x, w, arguments, attrs = _conv_arguments(r, count)
        want = conv(x, w, *arguments)
        data = r.pick("NC" + spatial, "N" + spatial + "C")
        kernel = r.pick("OI" + spatial, spatial + "IO")
        out = r.pick(data, "NC" + spatial)
        attrs += f', data_layout="{data}", kernel_layout="{kernel}", out_layout="{out}"'
        x, w = to_layout(x, "NC" + spatial, data), to_layout(w, "OI" + spatial, kernel)
        want = to_layout(want, "NC" + spatial, out)
        return case(f"nn.conv{count}d(%x, %w, {attrs})", want, x=x, w=w)

    return generate


def _conv_integers(r: Random) -> Case:
    x, w, arguments, attrs = _conv_arguments(r, 2, "int8")
    want = conv(x.astype("int32"), w.astype("int32"), *arguments)
    return case(f'nn.conv2d(%x, %w, {attrs}, out_dtype="int32")', want, x=x, w=w)


def _conv_defaults(r: Random) -> Case:
    x, w = r.floats((1, 2, 5, 5)), r.floats((3, 2, 3, 3))
    return case("nn.conv2d(%x, %w)", conv(x, w, (1, 1), [(0, 0)] * 2, (1, 1), 1), x=x, w=w)


def _conv_depthwise(r: Random) -> Case:
    """TensorFlow's weights: height, width, channel, multiplier."""
    x, w = r.floats((1, 5, 5, 3)), r.floats((3, 3, 3, 2))
    plain = w.transpose(2, 3, 0, 1).reshape(6, 1, 3, 3)
    want = conv(x.transpose(0, 3, 1, 2), plain, (1, 1), [(1, 1)] * 2, (1, 1), 3)
    attrs = 'padding=[1, 1, 1, 1], groups=3, channels=6, kernel_size=[3, 3], data_layout="NHWC"'
    body = f'nn.conv2d(%x, %w, {attrs}, kernel_layout="HWOI")'
    return case(body, np.ascontiguousarray(want.transpose(0, 2, 3, 1)), x=x, w=w)


def _conv_packed(r: Random) -> Case:
    """Data and weights in blocks of four channels."""
    x, w = r.floats((1, 8, 5, 5)), r.floats((4, 8, 3, 3))
    want = conv(x, w, (1, 1), [(0, 0)] * 2, (1, 1), 1)
    packed = np.ascontiguousarray(x.reshape(1, 2, 4, 5, 5).transpose(0, 1, 3, 4, 2))
    result = np.ascontiguousarray(want.reshape(1, 1, 4, 3, 3).transpose(0, 1, 3, 4, 2))
    body = 'nn.conv2d(%x, %w, channels=4, kernel_size=[3, 3], data_layout="NCHW4c")'
    return case(body, result, x=packed, w=w)


def _conv_blocked(r: Random) -> Case:
    """What Relay's layout pass made of conv2d for CPUs: data and weights in blocks."""
    x, w = r.floats((1, 8, 5, 5)), r.floats((8, 8, 3, 3))
    want = conv(x, w, (1, 1), [(1, 1)] * 2, (1, 1), 1)
    x = np.ascontiguousarray(x.reshape(1, 2, 4, 5, 5).transpose(0, 1, 3, 4, 2))
    w = w.reshape(2, 4, 2, 4, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    want = np.ascontiguousarray(want.reshape(1, 2, 4, 5, 5).transpose(0, 1, 3, 4, 2))
    attrs = 'padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3], data_layout="NCHW4c"'
    attrs += ', kernel_layout="OIHW4i4o", out_layout="NCHW4c"'
    body = f"nn.contrib_conv2d_NCHWc(%x, %w, {attrs})"
    return case(body, want, x=x, w=np.ascontiguousarray(w))


def _depthwise_blocked(r: Random) -> Case:
    x, w = r.floats((1, 8, 5, 5)), r.floats((8, 1, 3, 3))
    want = conv(x, w, (1, 1), [(1, 1)] * 2, (1, 1), 8)
    x = np.ascontiguousarray(x.reshape(1, 2, 4, 5, 5).transpose(0, 1, 3, 4, 2))
    w = w.reshape(2, 4, 1, 1, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    want = np.ascontiguousarray(want.reshape(1, 2, 4, 5, 5).transpose(0, 1, 3, 4, 2))
    attrs = 'padding=[1, 1, 1, 1], groups=8, channels=8, kernel_size=[3, 3], out_layout="NCHW4c"'
    attrs += ', data_layout="NCHW4c", kernel_layout="OIHW1i4o"'
    body = f"nn.contrib_depthwise_conv2d_NCHWc(%x, %w, {attrs})"
    return case(body, want, x=x, w=np.ascontiguousarray(w))


def conv_transpose(x, w, strides, padding, extra, groups):
    """The transpose of a convolution of (N, C, ...) data with (I, O, ...) weights."""
    kernel, per_in, per_out = w.shape[2:], w.shape[0] // groups, w.shape[1]
    full = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
    grown = [n + e for n, e in zip(full, extra, strict=True)]
    out = np.zeros((x.shape[0], per_out * groups, *grown), np.result_type(x, w))
    for taps in itertools.product(*map(range, kernel)):
        window = tuple(
            slice(t, t + (n - 1) * s + 1, s)
            for t, n, s in zip(taps, x.shape[2:], strides, strict=True)
        )
        for g in range(groups):
            part = x[:, g * per_in : (g + 1) * per_in]
            weights = w[(slice(g * per_in, (g + 1) * per_in), slice(None), *taps)]
            where = (slice(None), slice(g * per_out, (g + 1) * per_out), *window)
            out[where] += np.einsum("ni...,io->no...", part, weights)
    crop = tuple(slice(b, n - a) for (b, a), n in zip(padding, grown, strict=True))
    return np.ascontiguousarray(out[(slice(None), slice(None), *crop)])


def _conv_transpose(count: int) -> Generator:
    spatial = _SPATIAL[count]

    def generate(r: Random) -> Case:
        groups = r.pick(1, 1, 2)
        x = r.floats((r.int(1, 2), groups * r.int(1, 2), *(r.int(3, 4) for _ in range(count))))
        w = r.floats((x.shape[1], r.int(1, 3), *(r.int(2, 3) for _ in range(count))))
        strides = [r.int(1, 2) for _ in range(count)]
        padding = [(r.int(0, 1), r.int(0, 1)) for _ in range(count)]
        extra = [r.int(0, s - 1) for s in strides]
        want = conv_transpose(x, w, strides, padding, extra, groups)
        flat = [p[0] for p in padding] + [p[1] for p in padding]
        data = r.pick("NC" + spatial, "N" + spatial + "C")
        attrs = f"strides={strides}, padding={flat}, output_padding={extra}, groups={groups}"
        attrs += f", channels={want.shape[1]}, kernel_size={list(w.shape[2:])}"
        body = f'nn.conv{count}d_transpose(%x, %w, {attrs}, data_layout="{data}")'
        x, want = to_layout(x, "NC" + spatial, data), to_layout(want, "NC" + spatial, data)
        return case(body, want, x=x, w=w)

    return generate


def _deformable_conv2d(r: Random) -> Case:
    """With offsets of zero it is a convolution; whole offsets move the window."""
    x, w = r.floats((1, 2, 5, 5)), r.floats((3, 2, 3, 3))
    offset = np.zeros((1, 18, 3, 3), "float32")
    want = conv(x, w, (1, 1), [(0, 0)] * 2, (1, 1), 1)
    body = "nn.deformable_conv2d(%x, %o, %w, kernel_size=[3, 3], channels=3)"
    return case(body, want, x=x, o=offset, w=w)


def _correlation(r: Random) -> Case:
    a, b = r.floats((1, 3, 4, 4)), r.floats((1, 3, 4, 4))
    padded = np.pad(b, [(0, 0), (0, 0), (1, 1), (1, 1)])
    want = np.stack(
        [(a * padded[:, :, i : i + 4, j : j + 4]).mean(1) for i in range(3) for j in range(3)], 1
    )
    attrs = "kernel_size=1, max_displacement=1, stride1=1, stride2=1, padding=[1, 1]"
    return case(f"nn.correlation(%a, %b, {attrs})", want, a=a, b=b)


def _dilation2d(r: Random) -> Case:
    x, w = r.floats((1, 2, 5, 5)), r.floats((2, 3, 3))
    want = np.full((1, 2, 3, 3), -np.inf, "float32")
    for i, j in itertools.product(range(3), range(3)):
        want = np.maximum(want, x[:, :, i : i + 3, j : j + 3] + w[None, :, i, j, None, None])
    return case("image.dilation2d(%x, %w)", want, x=x, w=w)


# Pooling


def pool(x, kind, size, strides, padding, dilation, ceil, include):
    """Pooling of (N, C, ...) data, as Relay defined its padding and rounding."""
    count = len(size)
    out = []
    for n, k, s, (b, a), d in zip(x.shape[2:], size, strides, padding, dilation, strict=True):
        span = n + b + a - (k - 1) * d - 1
        out.append((-(-span // s) if ceil else span // s) + 1)
    result = np.zeros((*x.shape[:2], *out), "float64")
    for place in itertools.product(*map(range, out)):
        taps, inside = [], 0
        for tap in itertools.product(*map(range, size)):
            at = [
                p * s + t * d - pad[0]
                for p, s, t, d, pad in zip(place, strides, tap, dilation, padding, strict=True)
            ]
            reach = all(i < n + pad[1] for i, n, pad in zip(at, x.shape[2:], padding, strict=True))
            if all(0 <= i < n for i, n in zip(at, x.shape[2:], strict=True)):
                taps.append(x[(slice(None), slice(None), *at)])
            inside += reach
        values = np.stack(taps, -1).astype("float64")
        where = (slice(None), slice(None), *place)
        if kind == "max":
            result[where] = values.max(-1)
        else:
            divisor = inside if include else len(taps)
            result[where] = values.sum(-1) / divisor
    assert result.ndim == count + 2
    return result.astype(x.dtype)


def _windowed(kind: str, count: int) -> Generator:
    spatial = _SPATIAL[count]

    def generate(r: Random) -> Case:
        x = r.floats((r.int(1, 2), r.int(1, 3), *(r.int(5, 7) for _ in range(count))))
        size = [r.int(2, 3) for _ in range(count)]
        strides = [r.int(1, 2) for _ in range(count)]
        padding = [(r.int(0, 1), r.int(0, 1)) for _ in range(count)]
        ceil, include = r.flag() and count < 3, kind == "avg" and r.flag()
        dilation = [r.pick(1, 2) if kind == "max" else 1 for _ in range(count)]
        if ceil:
            # Windows that would begin beyond the data are another matter.
            padding = [(0, 0)] * count
            dilation = [1] * count
        want = pool(x, kind, size, strides, padding, dilation, ceil, include)
        flat = [p[0] for p in padding] + [p[1] for p in padding]
        layout = r.pick("NC" + spatial, "N" + spatial + "C")
        attrs = f"pool_size={size}, strides={strides}, padding={flat}, dilation={dilation}"
        attrs += f', ceil_mode={ceil}, layout="{layout}"'
        attrs += f", count_include_pad={include}" if kind == "avg" else ""
        x, want = to_layout(x, "NC" + spatial, layout), to_layout(want, "NC" + spatial, layout)
        return case(f"nn.{kind}_pool{count}d(%x, {attrs})", want, x=x)

    return generate


def _global(kind: str, count: int) -> Generator:
    def generate(r: Random) -> Case:
        x = r.floats((2, 3, *(r.int(1, 5) for _ in range(count))))
        axes = tuple(range(2, 2 + count))
        want = (x.mean if kind == "avg" else x.max)(axes, keepdims=True)
        return case(f"nn.global_{kind}_pool{count}d(%x)", want, x=x)

    return generate


def _adaptive(kind: str, count: int, name: str = "") -> Generator:
    def generate(r: Random) -> Case:
        x = r.floats((2, 3, *(r.int(3, 6) for _ in range(count))))
        size = [r.int(1, n) for n in x.shape[2:]]
        want = np.zeros((2, 3, *size), "float32")
        for place in itertools.product(*map(range, size)):
            window = tuple(
                slice(p * n // k, -(-(p + 1) * n // k))
                for p, n, k in zip(place, x.shape[2:], size, strict=True)
            )
            piece = x[(slice(None), slice(None), *window)].reshape(2, 3, -1)
            want[(slice(None), slice(None), *place)] = (
                piece.mean(-1) if kind == "avg" else piece.max(-1)
            )
        operator = name or f"nn.adaptive_{kind}_pool{count}d"
        return case(f"{operator}(%x, output_size={size})", want, x=x)

    return generate


def _upsampling(r: Random) -> Case:
    x, h, w = r.floats((1, 2, 3, 4)), r.int(1, 3), r.int(1, 3)
    want = x.repeat(h, 2).repeat(w, 3)
    return case(f"nn.upsampling(%x, scale_h={h}f, scale_w={w}f)", want, x=x)


def _upsampling3d(r: Random) -> Case:
    x, d, h, w = r.floats((1, 2, 2, 3, 4)), r.int(1, 2), r.int(1, 2), r.int(1, 2)
    want = x.repeat(d, 2).repeat(h, 3).repeat(w, 4)
    attrs = f'scale_d={d}f, scale_h={h}f, scale_w={w}f, coordinate_transformation_mode="asymmetric"'
    return case(f"nn.upsampling3d(%x, {attrs})", want, x=x)


_KINDS = list(itertools.product(("max", "avg"), (1, 2, 3)))


GENERATORS: dict[str, list[Generator]] = {
    "image.dilation2d": [_dilation2d],
    "nn.contrib_conv2d_NCHWc": [_conv_blocked],
    "nn.contrib_depthwise_conv2d_NCHWc": [_depthwise_blocked],
    "nn.conv1d": [_conv(1)],
    "nn.conv1d_transpose": [_conv_transpose(1)],
    "nn.conv2d": [_conv(2), _conv_integers, _conv_defaults, _conv_depthwise, _conv_packed],
    "nn.conv2d_transpose": [_conv_transpose(2)],
    "nn.conv3d": [_conv(3)],
    "nn.conv3d_transpose": [_conv_transpose(3)],
    "nn.correlation": [_correlation],
    "nn.deformable_conv2d": [_deformable_conv2d],
    "nn.upsampling": [_upsampling],
    "nn.upsampling3d": [_upsampling3d],
    **{f"nn.{kind}_pool{n}d": [_windowed(kind, n)] for kind, n in _KINDS},
    **{f"nn.global_{kind}_pool{n}d": [_global(kind, n)] for kind, n in _KINDS},
    **{f"nn.adaptive_{kind}_pool{n}d": [_adaptive(kind, n)] for kind, n in _KINDS},
    "contrib.adaptive_avg_pool2d": [_adaptive("avg", 2, "contrib.adaptive_avg_pool2d")],
    "contrib.adaptive_max_pool2d": [_adaptive("max", 2, "contrib.adaptive_max_pool2d")],
}
