"""Cases of image, detection and quantised operators."""

import math

import numpy as np

from relay.case import Case, Generator, Random, case
from relay.cases_elementwise import fixed
from relay.cases_windows import conv, conv_transpose, to_layout

# Resizing


def _source(i, n, size, mode):
    """Where output pixel i comes from, in input pixels."""
    if mode == "align_corners":
        return i * (n - 1) / (size - 1) if size > 1 else 0.0
    if mode == "asymmetric":
        return i * n / size
    return (i + 0.5) * n / size - 0.5


def _linear(x, axis, size, mode):
    n = x.shape[axis]
    rows = []
    for i in range(size):
        at = _source(i, n, size, mode)
        low = math.floor(at)
        part = at - low
        first, second = (min(max(j, 0), n - 1) for j in (low, low + 1))
        rows.append(x.take(first, axis) * (1 - part) + x.take(second, axis) * part)
    return np.stack(rows, axis)


def _nearest(x, axis, size, mode, rounding):
    n = x.shape[axis]
    function = {"floor": math.floor, "ceil": math.ceil, "round": lambda v: math.floor(v + 0.5)}
    indices = [function[rounding](_source(i, n, size, mode) + 1e-5) for i in range(size)]
    return x.take(np.clip(indices, 0, n - 1), axis)


def _resize(count: int) -> Generator:
    def generate(r: Random) -> Case:
        layout = "NC" + "DHW"[3 - count :]
        x = r.floats((1, 2, *(r.int(2, 5) for _ in range(count))))
        size = [r.int(2, 8) for _ in range(count)]
        mode = r.pick("half_pixel", "align_corners", "asymmetric")
        method, rounding = r.pick("linear", "nearest_neighbor"), "floor"
        want = x.astype("float64")
        for axis in range(count):
            if method == "linear":
                want = _linear(want, axis + 2, size[axis], mode)
            else:
                mode = "asymmetric"
                want = _nearest(want, axis + 2, size[axis], mode, rounding)
        data = r.pick(layout, "N" + layout[2:] + "C")
        attrs = f'size={size}, roi=None, layout="{data}", method="{method}"'
        attrs += f', coordinate_transformation_mode="{mode}", rounding_method="{rounding}"'
        x, want = to_layout(x, layout, data), to_layout(want.astype("float32"), layout, data)
        return case(f"image.resize{count}d(%x, {attrs})", want, x=x)

    return generate


def _resize_old(r: Random) -> Case:
    x = r.floats((1, 2, 3, 4))
    want = _linear(_linear(x, 2, 6, "half_pixel"), 3, 8, "half_pixel").astype("float32")
    return case('image.resize(%x, size=[6, 8], method="bilinear")', want, x=x)


def _crop_and_resize(r: Random) -> Case:
    """Boxes are in parts of the image's height and width."""
    x = r.floats((2, 5, 6, 3))
    boxes = np.array([[0, 0, 1, 1], [0.25, 0.2, 0.75, 0.8]], "float32")
    which = np.array([1, 0], "int32")
    want = np.zeros((2, 3, 4, 3))
    for b, (y1, x1, y2, x2) in enumerate(boxes.astype("float64")):
        for i in range(3):
            for j in range(4):
                y, z = y1 * 4 + i * (y2 - y1) * 4 / 2, x1 * 5 + j * (x2 - x1) * 5 / 3
                want[b, i, j] = _bilinear(x[which[b]].transpose(2, 0, 1), y, z)
    body = 'image.crop_and_resize(%x, %b, %i, crop_size=[3, 4], layout="NHWC")'
    return case(body, want.astype("float32"), x=x, b=boxes, i=which, tolerance=1e-4)


def _bilinear(image, y, x, zero_outside=False):
    """One point of a (C, H, W) image."""
    low_y, low_x = math.floor(y), math.floor(x)
    total = np.zeros(image.shape[0])
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (i or 1) * abs(1 - i - (y - low_y)) * abs(1 - j - (x - low_x))
        at_y, at_x = low_y + i, low_x + j
        inside = 0 <= at_y < image.shape[1] and 0 <= at_x < image.shape[2]
        if inside or not zero_outside:
            at_y = min(max(at_y, 0), image.shape[1] - 1)
            at_x = min(max(at_x, 0), image.shape[2] - 1)
            total += weight * image[:, at_y, at_x]
    return total


def _affine_grid(r: Random) -> Case:
    x = r.floats((2, 2, 3))
    ys, xs = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 4), indexing="ij")
    points = np.stack([xs, ys, np.ones_like(xs)]).reshape(3, -1)
    want = (x.astype("float64") @ points).reshape(2, 2, 3, 4).astype("float32")
    return case("image.affine_grid(%x, target_shape=[3, 4])", want, x=x)


def _grid_sample(r: Random) -> Case:
    x, grid = r.floats((2, 3, 4, 5)), r.floats((2, 2, 3, 3), -1.2, 1.2)
    want = np.zeros((2, 3, 3, 3))
    for b in range(2):
        for i in range(3):
            for j in range(3):
                at_x, at_y = (grid[b, 0, i, j] + 1) * 2, (grid[b, 1, i, j] + 1) * 1.5
                want[b, :, i, j] = _bilinear(x[b], float(at_y), float(at_x), True)
    body = 'image.grid_sample(%x, %g, method="bilinear")'
    return case(body, want.astype("float32"), x=x, g=grid, tolerance=1e-4)


# Detection


def _multibox_prior(r: Random) -> Case:
    x = r.floats((1, 3, 2, 4))
    want = np.zeros((1, 2 * 4 * 3, 4))
    row = 0
    for i in range(2):
        for j in range(4):
            cx, cy = (j + 0.5) / 4, (i + 0.5) / 2
            for size, ratio in ((0.5, 1.0), (0.25, 1.0), (0.5, 4.0)):
                w, h = size * 2 / 4 * math.sqrt(ratio) / 2, size / math.sqrt(ratio) / 2
                want[0, row] = cx - w, cy - h, cx + w, cy + h
                row += 1
    body = "vision.multibox_prior(%x, sizes=[0.5f, 0.25f], ratios=[1f, 4f])"
    return case(body, want.astype("float32"), x=x)


def _get_valid_counts(r: Random) -> Case:
    x = r.floats((2, 5, 6), 0.1, 1)
    count, boxes, indices = [], np.full_like(x, -1), np.full((2, 5), -1, "int32")
    for b in range(2):
        good = [i for i in range(5) if x[b, i, 1] > 0.5]
        count.append(len(good))
        boxes[b, : len(good)], indices[b, : len(good)] = x[b, good], good
    body = "vision.get_valid_counts(%x, 0.5f, id_index=0, score_index=1)"
    return case(body, np.array(count, "int32"), boxes, indices, x=x)


def _non_max_suppression(r: Random) -> Case:
    """Two boxes that overlap, one apart: the weaker of the two goes."""
    x = np.array([[[0, 0.8, 0, 0, 2, 2], [0, 0.9, 0, 0, 2, 2.1], [0, 0.7, 5, 5, 6, 6]]], "float32")
    want = np.array([[[0, 0.9, 0, 0, 2, 2.1], [0, 0.7, 5, 5, 6, 6], [-1] * 6]], "float32")
    body = "vision.non_max_suppression(%x, %n, %i, -1, 0.5f, force_suppress=True, top_k=-1"
    body += ", return_indices=False, invalid_to_bottom=True)"
    n, i = np.array([3], "int32"), np.arange(3, dtype="int32")[None]
    return case(body, want, x=x, n=n, i=i)


def _roi_align(r: Random) -> Case:
    x, rois = r.floats((2, 3, 6, 6)), np.array([[0, 1, 1, 5, 5], [1, 0, 0, 4, 2]], "float32")
    want = np.zeros((2, 3, 2, 2))
    for n, (b, x1, y1, x2, y2) in enumerate(rois.astype("float64")):
        h, w = max(y2 - y1, 1) / 2, max(x2 - x1, 1) / 2
        for i in range(2):
            for j in range(2):
                for p in range(2):
                    for q in range(2):
                        y, z = y1 + i * h + (p + 0.5) * h / 2, x1 + j * w + (q + 0.5) * w / 2
                        want[n, :, i, j] += _bilinear(x[int(b)], y, z) / 4
    body = "vision.roi_align(%x, %r, pooled_size=[2, 2], spatial_scale=1f, sample_ratio=2)"
    return case(body, want.astype("float32"), x=x, r=rois, tolerance=1e-4)


def _roi_pool(r: Random) -> Case:
    x, rois = r.floats((1, 2, 6, 6)), np.array([[0, 1, 1, 4, 4]], "float32")
    want = x[:, :, 1:5, 1:5].reshape(1, 2, 2, 2, 2, 2).max((3, 5))
    return case("vision.roi_pool(%x, %r, pooled_size=[2, 2], spatial_scale=1f)", want, x=x, r=rois)


# Quantised operators


def _split_factor(factor: float) -> tuple[int, int]:
    significand, exponent = math.frexp(factor)
    return math.floor(significand * 2**31 + 0.5), exponent


def _requantize_reference(value, factor: float, zero: int, low: int, high: int, dtype: str):
    scaled = value if factor == 1.0 else fixed(value, *_split_factor(factor))
    return np.clip(scaled.astype("int64") + zero, low, high).astype(dtype)


def _f(value: float) -> str:
    return f"{value!r}f"


def _qnn_quantize(r: Random) -> Case:
    x, zero, dtype = r.floats((3, 4), -3, 3), r.int(-5, 5), r.pick("int8", "uint8")
    low, high = (-128, 127) if dtype == "int8" else (0, 255)
    scaled = x / np.float32(0.25)
    rounded = np.trunc(scaled + np.copysign(0.5, scaled)).astype("int32")
    want = np.clip(rounded + zero, low, high).astype(dtype)
    return case(f'qnn.quantize(%x, 0.25f, {zero}, out_dtype="{dtype}", axis=1)', want, x=x)


def _qnn_quantize_by_channel(r: Random) -> Case:
    x, s, z = r.floats((2, 3, 4)), np.array([0.5, 0.25, 0.125], "float32"), r.ints((3,), -5, 5)
    scaled = x / s[:, None]
    want = np.clip(np.trunc(scaled + np.copysign(0.5, scaled)) + z[:, None], -128, 127)
    body = 'qnn.quantize(%x, %s, %z, out_dtype="int8", axis=1)'
    return case(body, want.astype("int8"), x=x, s=s, z=z)


def _qnn_dequantize(r: Random) -> Case:
    x, zero = r.ints((3, 4), -128, 127, "int8"), r.int(-5, 5)
    want = (x.astype("float32") - zero) * np.float32(0.125)
    return case(f"qnn.dequantize(%x, 0.125f, {zero}, axis=1)", want, x=x)


def _qnn_requantize(r: Random) -> Case:
    x, zero_in, zero_out = r.ints((3, 4), -3000, 3000), r.int(-9, 9), r.int(-9, 9)
    scale_in, scale_out = r.pick(0.5, 0.3, 0.7), r.pick(0.5, 4.0, 9.0)
    factor = float(np.float32(scale_in)) / float(np.float32(scale_out))
    want = _requantize_reference(x - zero_in, factor, zero_out, -128, 127, "int8")
    if scale_in == scale_out:
        want = np.clip(x - zero_in + zero_out, -128, 127).astype("int8")
    parameters = f"{_f(scale_in)}, {zero_in}, {_f(scale_out)}, {zero_out}"
    return case(f'qnn.requantize(%x, {parameters}, axis=1, out_dtype="int8")', want, x=x)


def _qnn_requantize_nearest(r: Random) -> Case:
    """Halves go away from zero; with UPWARD, -3 / 2 would be -1."""
    x = np.array([-5, -3, -1, 1, 3, 5], "int32")
    want = np.array([-3, -2, -1, 1, 2, 3], "int8")
    attrs = 'axis=0, rounding="TONEAREST", out_dtype="int8"'
    return case(f"qnn.requantize(%x, 0.5f, 0, 1f, 0, {attrs})", want, x=x)


def _qnn_requantize_by_channel(r: Random) -> Case:
    x = r.ints((2, 3, 4), -2000, 2000)
    scales = [0.5, 0.25, 0.125]
    want = np.stack(
        [
            _requantize_reference(x[:, c], s / 4.0, 3, -128, 127, "int8")
            for c, s in enumerate(scales)
        ],
        1,
    )
    body = (
        "%0 = (0.5f, 0.25f, 0.125f);\n  %1 = stack(%0);\n"
        '  qnn.requantize(%x, %1, 0, 4f, 3, axis=1, out_dtype="int8")'
    )
    # A stack of literals is folded like a constant of the metadata section.
    return case(body, want, x=x)


def _qnn_sum(name: str) -> Generator:
    def generate(r: Random) -> Case:
        a, b = r.ints((3, 4), 0, 255, "uint8"), r.ints((3, 4), 0, 255, "uint8")
        za, zb, zo = r.int(0, 9), r.int(0, 9), r.int(0, 9)
        sides = []
        for value, scale, zero in ((a, 0.5, za), (b, 0.25, zb)):
            moved = value.astype("int32") - zero
            sides.append(fixed(moved, *_split_factor(scale / 1.0)) + zo)
        sign = 1 if name == "qnn.add" else -1
        want = np.clip(sides[0] + sign * sides[1] - sign * zo, 0, 255).astype("uint8")
        body = f"{name}(%a, %b, 0.5f, {za}, 0.25f, {zb}, 1f, {zo})"
        return case(body, want, a=a, b=b)

    return generate


def _qnn_mul(r: Random) -> Case:
    a, b = r.ints((3, 4), -128, 127, "int8"), r.ints((3, 4), -128, 127, "int8")
    za, zb, zo = r.int(-5, 5), r.int(-5, 5), r.int(-5, 5)
    product = (a.astype("int32") - za) * (b.astype("int32") - zb)
    want = _requantize_reference(product, 0.5 * 0.25 / 8.0, zo, -128, 127, "int8")
    return case(f"qnn.mul(%a, %b, 0.5f, {za}, 0.25f, {zb}, 8f, {zo})", want, a=a, b=b)


def _qnn_concatenate(r: Random) -> Case:
    a, b = r.ints((2, 3), 0, 255, "uint8"), r.ints((2, 2), 0, 255, "uint8")
    second = _requantize_reference(b.astype("int32") - 2, 0.5, 1, 0, 255, "uint8")
    body = (
        "%0 = (%a, %b);\n  %1 = (1f, 0.5f);\n  %2 = (1, 2);\n"
        "  qnn.concatenate(%0, %1, %2, 1f, 1, axis=1)"
    )
    return case(body, np.concatenate([a, second], 1), a=a, b=b)


def _qnn_conv2d(r: Random) -> Case:
    x, w = r.ints((1, 2, 5, 5), 0, 255, "uint8"), r.ints((3, 2, 3, 3), -128, 127, "int8")
    zx, zw = r.int(0, 9), r.int(-5, 5)
    want = conv(x.astype("int32") - zx, w.astype("int32") - zw, (1, 1), [(1, 1)] * 2, (1, 1), 1)
    attrs = 'padding=[1, 1, 1, 1], channels=3, kernel_size=[3, 3], out_dtype="int32"'
    return case(f"qnn.conv2d(%x, %w, {zx}, {zw}, 0.5f, 0.25f, {attrs})", want, x=x, w=w)


def _qnn_conv2d_transpose(r: Random) -> Case:
    x, w = r.ints((1, 2, 3, 3), 0, 255, "uint8"), r.ints((2, 3, 2, 2), -128, 127, "int8")
    zx, zw = r.int(0, 9), r.int(-5, 5)
    want = conv_transpose(
        x.astype("int32") - zx, w.astype("int32") - zw, (2, 2), [(0, 0)] * 2, (0, 0), 1
    )
    attrs = 'strides=[2, 2], channels=3, kernel_size=[2, 2], out_dtype="int32"'
    body = f"qnn.conv2d_transpose(%x, %w, {zx}, {zw}, 0.5f, 0.25f, {attrs})"
    return case(body, want, x=x, w=w)


def _qnn_dense(r: Random) -> Case:
    x, w = r.ints((2, 5), 0, 255, "uint8"), r.ints((3, 5), -128, 127, "int8")
    zx, zw = r.int(0, 9), r.int(-5, 5)
    want = (x.astype("int32") - zx) @ (w.astype("int32") - zw).T
    body = f'qnn.dense(%x, %w, {zx}, {zw}, 0.5f, 0.25f, units=3, out_dtype="int32")'
    return case(body, want, x=x, w=w)


def _qnn_batch_matmul(r: Random) -> Case:
    a, b = r.ints((2, 3, 4), -128, 127, "int8"), r.ints((2, 5, 4), -128, 127, "int8")
    za, zb = r.int(-5, 5), r.int(-5, 5)
    want = (a.astype("int32") - za) @ (b.astype("int32") - zb).swapaxes(1, 2)
    body = f'qnn.batch_matmul(%a, %b, {za}, {zb}, 0.5f, 0.25f, out_dtype="int32")'
    return case(body, want, a=a, b=b)


def _qnn_leaky_relu(r: Random) -> Case:
    x, zero = r.ints((3, 4), -128, 127, "int8"), r.int(-5, 5)
    wide = x.astype("int32")
    multiplier = _split_factor(0.25)
    low = fixed(wide, *multiplier) - fixed(np.int32(zero), *multiplier) + zero
    want = np.clip(np.where(wide < zero, low, wide), -128, 127).astype("int8")
    return case(f"qnn.leaky_relu(%x, 0.5f, {zero}, 0.5f, {zero}, alpha=0.25f)", want, x=x)


_FUNCTIONS = {
    "abs": np.abs,
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "log": np.log,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


def _qnn_function(name: str) -> Generator:
    def generate(r: Random) -> Case:
        positive = name in ("log", "rsqrt", "sqrt")
        x = r.ints((4, 5), 5 if positive else -100, 100, "int8")
        real = (x.astype("float32") - 2) * np.float32(0.03)
        exact = _FUNCTIONS[name](real.astype("float64")) / 0.05 + 1
        want = np.clip(np.round(exact), -128, 127).astype("int8")
        return case(f"qnn.{name}(%x, 0.03f, 2, 0.05f, 1)", want, x=x)

    return generate


GENERATORS: dict[str, list[Generator]] = {
    "image.affine_grid": [_affine_grid],
    "image.crop_and_resize": [_crop_and_resize],
    "image.grid_sample": [_grid_sample],
    "image.resize": [_resize_old],
    "image.resize1d": [_resize(1)],
    "image.resize2d": [_resize(2)],
    "image.resize3d": [_resize(3)],
    "vision.get_valid_counts": [_get_valid_counts],
    "vision.multibox_prior": [_multibox_prior],
    "vision.non_max_suppression": [_non_max_suppression],
    "vision.roi_align": [_roi_align],
    "vision.roi_pool": [_roi_pool],
    "qnn.add": [_qnn_sum("qnn.add")],
    "qnn.batch_matmul": [_qnn_batch_matmul],
    "qnn.concatenate": [_qnn_concatenate],
    "qnn.conv2d": [_qnn_conv2d],
    "qnn.conv2d_transpose": [_qnn_conv2d_transpose],
    "qnn.dense": [_qnn_dense],
    "qnn.dequantize": [_qnn_dequantize],
    "qnn.leaky_relu": [_qnn_leaky_relu],
    "qnn.mul": [_qnn_mul],
    "qnn.quantize": [_qnn_quantize, _qnn_quantize_by_channel],
    "qnn.requantize": [_qnn_requantize, _qnn_requantize_nearest, _qnn_requantize_by_channel],
    "qnn.subtract": [_qnn_sum("qnn.subtract")],
    **{f"qnn.{name}": [_qnn_function(name)] for name in _FUNCTIONS},
}
