"""The graphs that the tests stitch: each a Relax module, its inputs and its NumPy reference.

The reference is written on its own, in float64, from the inputs as the kernel sees them (rounded to
their dtype). `ZOO` maps a name to a function of the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """One graph with inputs; `arrays` hold exactly what the dtype can represent."""

    module: tvm.IRModule
    arrays: tuple[Array, ...]
    expected: tuple[Array, ...]


def rounded(array: Array, dtype: str) -> Array:
    """The array as the dtype holds it, in float64."""
    if dtype == "bfloat16":
        bits = np.asarray(array, "float32").view("uint32")
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return bits.view("float32").astype("float64")
    return np.asarray(array).astype(dtype).astype("float64")


class Graph:
    """Builds a module from one Python function over Relax variables."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.params: list[relax.Var] = []
        self.arrays: list[Array] = []

    def input(self, name: str, shape: tuple, dtype: str, values: Array | None = None) -> Array:
        """A parameter with random values; symbolic dimensions are (name, value) pairs."""
        sizes = [extent[1] if isinstance(extent, tuple) else extent for extent in shape]
        extents = [extent[0] if isinstance(extent, tuple) else extent for extent in shape]
        if values is None:
            values = self.rng.standard_normal(sizes)
        values = rounded(values, dtype) if dtype.startswith(("float", "bfloat")) else values
        self.params.append(relax.Var(name, relax.TensorType(extents, dtype)))
        self.arrays.append(values)
        return values

    def case(self, build: Callable, expected: tuple[Array, ...] | Array) -> Case:
        """Finish: `build` gets a BlockBuilder and the parameters, returns the output(s)."""
        builder = relax.BlockBuilder()
        with builder.function("main", self.params):
            with builder.dataflow():
                results = build(builder.emit, *self.params)
                wrapped = relax.Tuple(list(results)) if isinstance(results, tuple) else results
                output = builder.emit_output(wrapped)
            builder.emit_func_output(output)
        outputs = expected if isinstance(expected, tuple) else (expected,)
        return Case(builder.get(), tuple(self.arrays), outputs)


def graph(dtype: str, shapes: list[tuple], build: Callable, expected: Callable) -> Case:
    """A case of inputs of one dtype with random values; `expected` is the NumPy of `build`."""
    return graph_of([(shape, dtype, None) for shape in shapes], build, expected)


def graph_of(inputs: list[tuple], build: Callable, expected: Callable) -> Case:
    """A case of inputs (shape, dtype, values); values of None are random."""
    g = Graph()
    arrays = [
        g.input(f"p{number}", shape, dtype, values)
        for number, (shape, dtype, values) in enumerate(inputs)
    ]
    return g.case(build, expected(*arrays))


def te_module(make: Callable, *params: relax.Var) -> tvm.IRModule:
    """A module of one TE function of its parameters."""
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(make, *params))
        builder.emit_func_output(output)
    return builder.get()


def softmax64(x: Array, axis: int = -1) -> Array:
    exps = np.exp(x - x.max(axis, keepdims=True))
    return exps / exps.sum(axis, keepdims=True)


def norm64(x: Array, epsilon: float = 1e-5, axis: int | tuple[int, ...] = -1) -> Array:
    centred = x - x.mean(axis, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis, keepdims=True) + epsilon)


def gelu64(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(dtype: str, rows=6, columns: int = 1000) -> Case:
    g = Graph()
    x = g.input("x", (rows, columns), dtype)
    return g.case(lambda emit, x: emit(op.nn.softmax(x, -1)), softmax64(x))


def layer_norm(dtype: str, rows=6, columns: int = 1000) -> Case:
    g = Graph()
    x = g.input("x", (rows, columns), dtype)
    w, b = g.input("w", (columns,), dtype), g.input("b", (columns,), dtype)
    return g.case(
        lambda emit, x, w, b: emit(op.nn.layer_norm(x, w, b, axes=[-1])), norm64(x) * w + b
    )


def scale_mask_softmax(dtype: str, batch=2, heads=3, length: int = 40) -> Case:
    g = Graph()
    x = g.input("x", (batch, heads, length, length), dtype)
    mask = g.input("mask", (batch, 1, 1, length), dtype)

    def build(emit, x, mask):
        scaled = emit(op.multiply(x, relax.const(0.125, dtype)))
        return emit(op.nn.softmax(emit(op.add(scaled, mask)), -1))

    return g.case(build, softmax64(x / 8 + mask))


def log_softmax(dtype: str, rows: int = 6, columns: int = 1000) -> Case:
    g = Graph()
    x = g.input("x", (rows, columns), dtype)
    expected = x - x.max(-1, keepdims=True)
    expected = expected - np.log(np.exp(expected).sum(-1, keepdims=True))
    return g.case(lambda emit, x: emit(op.nn.log_softmax(x, -1)), expected)


def bias_residual_layer_norm(dtype: str, rows: int = 6, columns: int = 768) -> Case:
    g = Graph()
    x, r = g.input("x", (rows, columns), dtype), g.input("r", (rows, columns), dtype)
    bias = g.input("bias", (columns,), dtype)
    w, b = g.input("w", (columns,), dtype), g.input("b", (columns,), dtype)

    def build(emit, x, r, bias, w, b):
        h = emit(op.add(emit(op.add(x, bias)), r))
        return emit(op.nn.layer_norm(h, w, b, axes=[-1]))

    return g.case(build, norm64(x + bias + r) * w + b)


def residual_rms_norm(dtype: str, rows: int = 6, columns: int = 1024) -> Case:
    g = Graph()
    x, r = g.input("x", (rows, columns), dtype), g.input("r", (rows, columns), dtype)
    w = g.input("w", (columns,), dtype)

    def build(emit, x, r, w):
        h = emit(op.add(x, r))
        return h, emit(op.nn.rms_norm(h, w, axes=[-1], epsilon=1e-5))

    h = x + r
    return g.case(build, (h, h / np.sqrt((h**2).mean(-1, keepdims=True) + 1e-5) * w))


def norm_gelu_softmax(dtype: str, rows=6, columns: int = 1024) -> Case:
    """Residual, layer norm, GELU, softmax and row maximum; three outputs."""
    g = Graph()
    x, r = g.input("x", (rows, columns), dtype), g.input("r", (rows, columns), dtype)
    w, b = g.input("w", (columns,), dtype), g.input("b", (columns,), dtype)

    def build(emit, x, r, w, b):
        h = emit(op.add(x, r))
        a = emit(op.nn.gelu(emit(op.nn.layer_norm(h, w, b, axes=[-1]))))
        s = emit(op.nn.softmax(a, -1))
        return emit(op.add(s, h)), h, emit(op.max(a, axis=-1))

    h = x + r
    a = gelu64(norm64(h) * w + b)
    return g.case(build, (softmax64(a) + h, h, a.max(-1)))


def group_norm_silu(dtype: str, batch=8, channels=320, height=16, width: int = 16) -> Case:
    g = Graph()
    x = g.input("x", (batch, channels, height, width), dtype)
    w, b = g.input("w", (channels,), dtype), g.input("b", (channels,), dtype)

    def build(emit, x, w, b):
        if dtype == "bfloat16":  # Relax has no group norm for it
            x, w, b = (emit(op.astype(value, "float32")) for value in (x, w, b))
        n = emit(op.nn.group_norm(x, w, b, num_groups=32, channel_axis=1, axes=[2, 3]))
        y = emit(op.nn.silu(n))
        return emit(op.astype(y, dtype)) if dtype == "bfloat16" else y

    n = norm64(x.reshape(batch, 32, -1)).reshape(x.shape)
    n = n * w[:, None, None] + b[:, None, None]
    return g.case(build, n / (1 + np.exp(-n)))


def image_statistics(dtype: str, batch=3, channels=5, height=9, width: int = 33) -> Case:
    """Mean, variance and standard deviation over the last two axes of a 4-D tensor."""
    g = Graph()
    x = g.input("x", (batch, channels, height, width), dtype)

    def build(emit, x):
        mean = emit(op.mean(x, axis=[2, 3]))
        return mean, emit(op.variance(x, axis=[2, 3])), emit(op.std(x, axis=[2, 3], keepdims=True))

    axes = (2, 3)
    return g.case(build, (x.mean(axes), x.var(axes), x.std(axes, keepdims=True)))


def causal_scores(dtype: str, heads: int = 3, length: int = 40) -> Case:
    """Attention scores with a causal mask made by arange and compare."""
    g = Graph()
    x = g.input("x", (1, heads, length, length), dtype)

    def build(emit, x):
        columns = emit(op.arange(0, length, 1, "int64"))
        rows = emit(op.reshape(emit(op.arange(0, length, 1, "int64")), (length, 1)))
        future = emit(op.greater(columns, rows))
        scores = emit(op.multiply(x, relax.const(0.25, dtype)))
        hidden = emit(op.full_like(scores, relax.const(-10000.0, dtype)))
        return emit(op.nn.softmax(emit(op.where(future, hidden, scores)), -1))

    future = np.triu(np.ones((length, length), bool), 1)
    return g.case(build, softmax64(np.where(future, -10000.0, x / 4)))


def chain(dtype: str, rows: int = 7, columns: int = 33, links: int = 40) -> Case:
    """Forty element-wise operators with broadcasts; the values stay near one."""
    g = Graph()
    x = g.input("x", (3, rows, columns), dtype)
    along, down = g.input("a", (columns,), dtype), g.input("d", (3, rows, 1), dtype)

    def build(emit, x, a, d):
        value = x
        for link in range(links // 4):
            value = emit(op.add(value, a if link % 2 else d))
            value = emit(op.tanh(value))
            value = emit(op.multiply(value, value))
            value = emit(op.maximum(value, relax.const(0.25, dtype)))
        return value

    value = x
    for link in range(links // 4):
        value = np.maximum(np.tanh(value + (along if link % 2 else down)) ** 2, 0.25)
    return g.case(build, value)


def transposed(shape: tuple, axes: tuple[int, ...], dtype: str = "float32") -> Case:
    """x with its axes in another order, doubled."""

    def build(emit, x):
        return emit(op.add(*2 * [emit(op.permute_dims(x, axes))]))

    return graph(dtype, [shape], build, lambda x: 2 * np.transpose(x, axes))


GROUP = 8


def grouped(x: Array, group: int = GROUP) -> Array:
    return x.reshape(-1, x.shape[-1] // group, group)


def row_and_group_statistics(dtype: str, rows=33, columns: int = 136) -> Case:
    """Mean squares of rows and maxima of groups, of one rectified tensor.

    Rows may be a symbol, or one and the size to run it at.
    """
    shape = ((rows, 3), columns) if isinstance(rows, tirx.Var) else (rows, columns)
    rows = rows[0] if isinstance(rows, tuple) else rows

    def build(emit, x):
        y = emit(op.nn.relu(x))
        groups = emit(op.reshape(y, (rows, columns // GROUP, GROUP)))
        return emit(op.mean(emit(op.multiply(y, y)), axis=1)), emit(op.max(groups, axis=2))

    def expected(x):
        y = np.maximum(x, 0)
        return (y * y).mean(1), grouped(y).max(2)

    return graph(dtype, [shape], build, expected)


ZOO: dict[str, Callable[[str], Case]] = {
    "scale + mask + softmax": scale_mask_softmax,
    "log-softmax": log_softmax,
    "bias + residual + layer norm": bias_residual_layer_norm,
    "residual + RMS norm": residual_rms_norm,
    "residual + layer norm + GELU + softmax + row maximum": norm_gelu_softmax,
    "group norm + SiLU": group_norm_silu,
    "group norm + SiLU, long rows": lambda dtype: group_norm_silu(dtype, 1, 320, 64, 64),
    "mean, variance and deviation": image_statistics,
    "causal attention scores": causal_scores,
    "chain of 40": chain,
}
