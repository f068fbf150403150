"""Cases of neural-network operators: products, activations, norms, losses, rearrangements."""

import numpy as np

from relay.case import Case, Generator, Random, case

# Products


def _dense(r: Random) -> Case:
    x = r.floats((*r.shape(1, 2), r.int(1, 6)))
    w = r.floats((r.int(1, 5), x.shape[-1]))
    units = r.pick("None", str(w.shape[0]))
    return case(f"nn.dense(%x, %w, units={units})", x @ w.T, x=x, w=w)


def _dense_integers(r: Random) -> Case:
    x, w = r.ints((3, 7), -128, 127, "int8"), r.ints((4, 7), -128, 127, "int8")
    want = x.astype("int32") @ w.astype("int32").T
    return case('nn.dense(%x, %w, units=4, out_dtype="int32")', want, x=x, w=w)


def _dense_pack(r: Random) -> Case:
    x, w = r.floats((2, 6)), r.floats((8, 6))
    packed = np.ascontiguousarray(w.reshape(2, 4, 6).transpose(0, 2, 1))
    body = 'nn.contrib_dense_pack(%x, %w, units=8, weight_layout="NC4n")'
    return case(body, x @ w.T, x=x, w=packed)


def _matmul(r: Random) -> Case:
    m, k, n, ta, tb = r.int(1, 5), r.int(1, 5), r.int(1, 5), r.flag(), r.flag()
    a, b = r.floats((k, m) if ta else (m, k)), r.floats((n, k) if tb else (k, n))
    want = (a.T if ta else a) @ (b.T if tb else b)
    return case(f"nn.matmul(%a, %b, transpose_a={ta}, transpose_b={tb})", want, a=a, b=b)


def _batch_matmul(r: Random) -> Case:
    m, k, n, ta, tb = r.int(1, 4), r.int(1, 4), r.int(1, 4), r.flag(), r.flag()
    batch = r.int(1, 3)
    a = r.floats((batch, k, m) if ta else (batch, m, k))
    b = r.floats((r.pick(1, batch), *((n, k) if tb else (k, n))))
    want = (a.swapaxes(1, 2) if ta else a) @ (b.swapaxes(1, 2) if tb else b)
    attrs = f"transpose_a={ta}" + ("" if tb else ", transpose_b=False")
    return case(f"nn.batch_matmul(%a, %b, {attrs})", want, a=a, b=b)


# Activations


def _along(vector: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    shape = [1] * ndim
    shape[axis] = vector.size
    return vector.reshape(shape)


def _bias_add(r: Random) -> Case:
    x = r.floats(r.shape(2, 4))
    axis = r.axis(x.ndim)
    b = r.floats((x.shape[axis],))
    return case(f"nn.bias_add(%x, %b, axis={axis})", x + _along(b, axis, x.ndim), x=x, b=b)


def _relu(r: Random) -> Case:
    x = r.pick(r.floats(), r.ints())
    return case("nn.relu(%x)", np.maximum(x, 0), x=x)


def _leaky_relu(r: Random) -> Case:
    x = r.floats()
    return case("nn.leaky_relu(%x, alpha=0.125f)", np.where(x > 0, x, x * x.dtype.type(0.125)), x=x)


def _leaky_relu_default(r: Random) -> Case:
    x = r.floats()
    return case("nn.leaky_relu(%x)", np.where(x > 0, x, x * x.dtype.type(0.25)), x=x)


def _prelu(r: Random) -> Case:
    x = r.floats(r.shape(2, 4))
    axis = r.axis(x.ndim)
    slope = r.floats((x.shape[axis],))
    want = np.where(x > 0, x, x * _along(slope, axis, x.ndim))
    return case(f"nn.prelu(%x, %a, axis={axis})", want, x=x, a=slope)


def _softmax(name: str) -> Generator:
    def generate(r: Random) -> Case:
        x = r.floats(r.shape(1, 4), -5, 5)
        axis = r.axis(x.ndim)
        shifted = x - x.max(axis, keepdims=True)
        total = np.exp(shifted).sum(axis, keepdims=True)
        want = shifted - np.log(total) if name == "nn.log_softmax" else np.exp(shifted) / total
        return case(f"{name}(%x, axis={axis})", want, x=x)

    return generate


def _dropout(r: Random) -> Case:
    x = r.floats()
    return case("nn.dropout(%x, rate=0.3f)", x, np.ones_like(x), x=x)


# Norms


def _batch_norm(r: Random) -> Case:
    x = r.floats(r.shape(2, 4))
    axis, scale, center = r.axis(x.ndim), r.flag(), r.flag()
    n = x.shape[axis]
    gamma, beta, mean = r.floats((n,)), r.floats((n,)), r.floats((n,))
    var = r.floats((n,), 0.5, 2)
    g, b, m, v = (_along(t, axis, x.ndim) for t in (gamma, beta, mean, var))
    want = (x - m) / np.sqrt(v + 1e-3) * (g if scale else 1) + (b if center else 0)
    attrs = f"axis={axis}, epsilon=0.001f, scale={scale}, center={center}"
    body = f"nn.batch_norm(%x, %g, %b, %m, %v, {attrs})"
    inputs = dict(g=gamma, b=beta, m=mean, v=var)
    return case(body, want.astype("float32"), mean, var, x=x, **inputs)


def _standardized(x, axes, epsilon=1e-5):
    wide = x.astype("float64")
    mean, var = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    return (wide - mean) / np.sqrt(var + epsilon)


def _norm(name: str) -> Generator:
    def generate(r: Random) -> Case:
        x = r.floats((r.int(1, 3), 4, r.int(2, 4), r.int(2, 4)))
        x = (x + r.pick(0, 100)).astype("float32")
        axis, scale, center = r.axis(4), r.flag(), r.flag()
        if name == "nn.layer_norm":
            want, more = _standardized(x, axis), ""
        else:
            axis, more = 1, ""
            want = _standardized(x, (2, 3))
        if name == "nn.group_norm":
            more = ", num_groups=2"
            want = _standardized(x.reshape(x.shape[0], 2, -1), 2).reshape(x.shape)
        gamma, beta = r.floats((x.shape[axis],)), r.floats((x.shape[axis],))
        want = want * (_along(gamma, axis, 4) if scale else 1)
        want = want + (_along(beta, axis, 4) if center else 0)
        attrs = f"axis={axis}, scale={scale}, center={center}{more}"
        body = f"{name}(%x, %g, %b, {attrs})"
        # A mean of 100 costs the variance two digits.
        return case(body, want.astype("float32"), x=x, g=gamma, b=beta, tolerance=1e-4)

    return generate


def _l2_normalize(r: Random) -> Case:
    x = r.floats(r.shape(1, 4))
    axis = r.axis(x.ndim)
    want = x / np.sqrt(np.maximum((x * x).sum(axis, keepdims=True), np.float32(1e-3)))
    return case(f"nn.l2_normalize(%x, eps=0.001f, axis=[{axis}])", want, x=x)


def _lrn(r: Random) -> Case:
    x, size = r.floats((2, 6, 3, 3)), r.pick(1, 3, 5)
    square, total = np.pad(x * x, [(0, 0), (size // 2, size // 2), (0, 0), (0, 0)]), 0.0
    for i in range(size):
        total = total + square[:, i : i + 6]
    want = x / (2.0 + 0.5 * total / size) ** 0.75
    attrs = f"size={size}, axis=1, bias=2f, alpha=0.5f, beta=0.75f"
    return case(f"nn.lrn(%x, {attrs})", want.astype("float32"), x=x)


# Losses


def _cross_entropy(r: Random) -> Case:
    x, y = r.floats((3, 4), 0.1, 1), r.floats((3, 4), 0, 1)
    want = -(y * np.log(x)).sum() / 3
    return case("nn.cross_entropy(%x, %y)", np.float32(want), x=x, y=y)


def _cross_entropy_with_logits(r: Random) -> Case:
    x, y = r.floats((3, 4)), r.floats((3, 4), 0, 1)
    want = -(x * y).sum() / 3
    return case("nn.cross_entropy_with_logits(%x, %y)", np.float32(want), x=x, y=y)


def _nll_loss(r: Random) -> Case:
    x, t, w = r.floats((5, 4)), r.ints((5,), 0, 3), r.floats((4,), 0.5, 2)
    reduction = r.pick("mean", "sum", "none")
    each = -x[np.arange(5), t] * w[t]
    want = {"mean": each.sum() / w[t].sum(), "sum": each.sum(), "none": each}[reduction]
    body = f'nn.nll_loss(%x, %t, %w, reduction="{reduction}", ignore_index=-100)'
    return case(body, np.asarray(want, "float32"), x=x, t=t, w=w)


# Rearranging


def _widths(r: Random, ndim: int, most: int = 3) -> list[list[int]]:
    return [[r.int(0, most), r.int(0, most)] for _ in range(ndim)]


def _pad(r: Random) -> Case:
    x = r.floats(r.shape(1, 4))
    widths = _widths(r, x.ndim)
    want = np.pad(x, widths, constant_values=np.float32(0.5))
    return case(f"nn.pad(%x, 0.5f, pad_width={widths})", want, x=x)


def _pad_with_input(r: Random) -> Case:
    x, v = r.ints((3, 4)), r.ints((), 1, 9)
    want = np.pad(x, [(1, 0), (0, 2)], constant_values=v)
    return case("nn.pad(%x, %v, pad_width=[[1, 0], [0, 2]])", want, x=x, v=v)


def _pad_modes(r: Random) -> Case:
    x, mode = r.floats((1, 2, r.int(3, 5), r.int(3, 5))), r.pick("edge", "reflect")
    widths = [[0, 0], [0, 0], *_widths(r, 2, 2)]
    want = np.pad(x, widths, mode=mode)
    return case(f'nn.pad(%x, 0f, pad_width={widths}, pad_mode="{mode}")', want, x=x)


def _mirror_pad(r: Random) -> Case:
    x, mode = r.floats((r.int(3, 5), r.int(3, 5))), r.pick("SYMMETRIC", "REFLECT")
    widths = _widths(r, 2, 2)
    want = np.pad(x, widths, mode=mode.lower())
    return case(f'nn.mirror_pad(%x, mode="{mode}", pad_width={widths})', want, x=x)


def _depth_to_space(r: Random) -> Case:
    n, s, c, h, w, mode = 2, 2, r.int(1, 3), r.int(1, 3), r.int(1, 3), r.pick("DCR", "CDR")
    x = r.floats((n, c * s * s, h, w))
    if mode == "DCR":
        y = x.reshape(n, s, s, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c, s, s, h, w).transpose(0, 1, 4, 2, 5, 3)
    want = y.reshape(n, c, h * s, w * s)
    return case(f'nn.depth_to_space(%x, block_size=2, mode="{mode}")', want, x=x)


def _space_to_depth(r: Random) -> Case:
    n, s, c, h, w = 2, 2, r.int(1, 3), r.int(1, 3), r.int(1, 3)
    x = r.floats((n, h * s, w * s, c))
    y = x.reshape(n, h, s, w, s, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h, w, s * s * c)
    return case('nn.space_to_depth(%x, block_size=2, layout="NHWC")', y, x=x)


def _space_to_batch_nd(r: Random) -> Case:
    x = r.floats((2, 3, 4, 2))
    padded = np.pad(x, [(0, 0), (1, 0), (0, 2), (0, 0)])
    y = padded.reshape(2, 2, 2, 3, 2, 2).transpose(2, 4, 0, 1, 3, 5).reshape(8, 2, 3, 2)
    body = "nn.space_to_batch_nd(%x, block_shape=[2, 2], paddings=[[1, 0], [0, 2]])"
    return case(body, y, x=x)


def _batch_to_space_nd(r: Random) -> Case:
    x = r.floats((8, 2, 3, 2))
    y = x.reshape(2, 2, 2, 2, 3, 2).transpose(2, 3, 0, 4, 1, 5).reshape(2, 4, 6, 2)
    body = "nn.batch_to_space_nd(%x, block_shape=[2, 2], crops=[[1, 0], [0, 2]])"
    return case(body, y[:, 1:, :4], x=x)


def _dilate(r: Random) -> Case:
    x, strides = r.floats((3, 4)), [r.int(1, 3), r.int(1, 3)]
    want = np.full([(n - 1) * s + 1 for n, s in zip(x.shape, strides, strict=True)], 0.5, "float32")
    want[:: strides[0], :: strides[1]] = x
    return case(f"nn.dilate(%x, strides={strides}, dilation_value=0.5f)", want, x=x)


def _batch_flatten(r: Random) -> Case:
    x = r.floats(r.shape(2, 4))
    return case("nn.batch_flatten(%x)", x.reshape(x.shape[0], -1), x=x)


def _fifo_buffer(r: Random) -> Case:
    axis, fresh = r.int(0, 1), r.int(1, 3)
    shape = [4, 5]
    buffer = r.floats(shape)
    shape[axis] = fresh
    x = r.floats(shape)
    want = np.concatenate([buffer, x], axis).take(range(fresh, fresh + buffer.shape[axis]), axis)
    return case(f"nn.fifo_buffer(%x, %b, axis={axis})", want, x=x, b=buffer)


GENERATORS: dict[str, list[Generator]] = {
    "nn.batch_flatten": [_batch_flatten],
    "nn.batch_matmul": [_batch_matmul],
    "nn.batch_norm": [_batch_norm],
    "nn.batch_to_space_nd": [_batch_to_space_nd],
    "nn.bias_add": [_bias_add],
    "nn.contrib_dense_pack": [_dense_pack],
    "nn.cross_entropy": [_cross_entropy],
    "nn.cross_entropy_with_logits": [_cross_entropy_with_logits],
    "nn.dense": [_dense, _dense_integers],
    "nn.depth_to_space": [_depth_to_space],
    "nn.dilate": [_dilate],
    "nn.dropout": [_dropout],
    "nn.fast_softmax": [_softmax("nn.fast_softmax")],
    "nn.fifo_buffer": [_fifo_buffer],
    "nn.group_norm": [_norm("nn.group_norm")],
    "nn.instance_norm": [_norm("nn.instance_norm")],
    "nn.l2_normalize": [_l2_normalize],
    "nn.layer_norm": [_norm("nn.layer_norm")],
    "nn.leaky_relu": [_leaky_relu, _leaky_relu_default],
    "nn.log_softmax": [_softmax("nn.log_softmax")],
    "nn.lrn": [_lrn],
    "nn.matmul": [_matmul],
    "nn.mirror_pad": [_mirror_pad],
    "nn.nll_loss": [_nll_loss],
    "nn.pad": [_pad, _pad_with_input, _pad_modes],
    "nn.prelu": [_prelu],
    "nn.relu": [_relu],
    "nn.softmax": [_softmax("nn.softmax")],
    "nn.space_to_batch_nd": [_space_to_batch_nd],
    "nn.space_to_depth": [_space_to_depth],
}
