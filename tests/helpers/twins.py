"""Graphs whose extents may be symbols or numbers: each with its static twin, made by the same code.

`TWINS` has those that serving models meet: views that join batch and length, caches that grow,
norms of images of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import op

from tvm_stitch import Options

Extent = Any  # a symbol, an expression of symbols, or a number
Build = Callable[..., Any]


@dataclass(frozen=True)
class Twin:
    """A graph of some extents; `sizes` are what the symbols may be, the first for the static twin.

    Shapes that only hold expressions of symbols tell nobody the symbols: another input does.
    """

    shapes: Callable[..., list[tuple]]  # of the inputs, by the extents
    build: Build  # of emit, the extents by name, and the inputs
    sizes: tuple[dict[str, int], ...]
    bounds: dict[str, int] = field(default_factory=dict)  # tir_var_upper_bound of the symbols
    likely: dict[str, int] = field(default_factory=dict)  # what the planner is told
    indices: tuple[int, ...] = ()  # inputs of integers
    dtype: str = "float32"  # of the others

    @property
    def symbolic(self) -> tvm.IRModule:
        """The module of any extents."""
        return self.module({name: tirx.Var(name, "int64") for name in self.sizes[0]})

    @property
    def options(self) -> Options:
        """What the symbolic module is planned with."""
        return Options(extents={name: (size,) for name, size in self.likely.items()})

    @property
    def static(self) -> tvm.IRModule:
        """The module of the first sizes."""
        return self.module(self.sizes[0])

    def module(self, extents: Mapping[str, Extent]) -> tvm.IRModule:
        """The module of these extents."""
        shapes = [*self.shapes(**extents), tuple(extents.values())]
        params = [
            relax.Var(f"p{number}", relax.TensorType(shape, self._dtype(number)))
            for number, shape in enumerate(shapes)
        ]
        builder = relax.BlockBuilder()
        with builder.function("main", params):
            with builder.dataflow():
                results = self.build(builder.emit, extents, *params[:-1])
                wrapped = relax.Tuple(list(results)) if isinstance(results, tuple) else results
                output = builder.emit_output(wrapped)
            builder.emit_func_output(output)
        found = builder.get()
        main = found["main"].with_attr("tir_var_upper_bound", self.bounds)
        return tvm.IRModule({"main": main}) if self.bounds else found

    def _dtype(self, number: int) -> str:
        return "int32" if number in self.indices else self.dtype


def _softmax_of_view(emit, of, x):
    return emit(op.nn.softmax(emit(op.reshape(x, (of["b"] * of["s"], 64)))))


def _softmax_of_exp(emit, of, x):
    return emit(op.nn.softmax(emit(op.exp(x))))


def _norm_of_view(emit, of, x, w, b):
    flat = emit(op.reshape(x, (of["b"] * of["s"], 768)))
    return emit(op.nn.layer_norm(flat, w, b, axes=[-1]))


def _group_norm(emit, of, x, w, b):
    return emit(op.nn.group_norm(x, w, b, num_groups=8, channel_axis=1, axes=[2, 3]))


def _softmax_of_concat(emit, of, x, y):
    return emit(op.nn.softmax(emit(op.concat([x, y], axis=1))))


def _layer_norm_backward(emit, of, x, g, w, mean, rstd):
    """Gradients of the input, the weight and the bias, from what the forward pass has kept."""
    hat = emit(op.multiply(emit(op.subtract(x, mean)), rstd))
    gw = emit(op.multiply(g, w))
    a = emit(op.mean(gw, axis=[-1], keepdims=True))
    b = emit(op.mean(emit(op.multiply(gw, hat)), axis=[-1], keepdims=True))
    inner = emit(op.subtract(emit(op.subtract(gw, a)), emit(op.multiply(hat, b))))
    dx = emit(op.multiply(inner, rstd))
    dw = emit(op.sum(emit(op.multiply(g, hat)), axis=[0]))
    return dx, dw, emit(op.sum(g, axis=[0]))


def _batch_norm_training(emit, of, x, w, b, mean, var):
    whole = emit(op.nn.batch_norm(x, w, b, mean, var, axis=1, training=True))
    return tuple(emit(relax.TupleGetItem(whole, index)) for index in range(3))


def _normalised(emit, of, x):
    return emit(op.divide(x, emit(op.sqrt(emit(op.sum(emit(op.multiply(x, x))))))))


def _clipped(emit, of, x, y):
    """Gradients over the norm of all of them."""
    squares = [emit(op.sum(emit(op.multiply(each, each)))) for each in (x, y)]
    norm = emit(op.sqrt(emit(op.add(*squares))))
    return tuple(emit(op.divide(each, norm)) for each in (x, y))


def _channels_of_groups(emit, of, x, w):
    """A group norm as PyTorch writes it out: rows are groups, weights belong to channels."""
    grouped = emit(op.reshape(x, (2, 4, 3, of["h"] * 8)))
    mean = emit(op.mean(grouped, axis=[2, 3], keepdims=True))
    scale = emit(op.reshape(emit(op.multiply(mean, w)), (2, 12, 1, 1)))
    return emit(op.multiply(x, scale))


def _cached_step(emit, of, q, past_k, past_v, k, v):
    """One new token against what a cache holds: concat, scores, masked softmax, values."""
    keys = emit(op.concat([past_k, k], axis=2))
    values = emit(op.concat([past_v, v], axis=2))
    scores = emit(op.matmul(q, emit(op.permute_dims(keys, [0, 1, 3, 2]))))
    weights = emit(op.nn.softmax(emit(op.multiply(scores, relax.const(0.125, "float32")))))
    return emit(op.matmul(weights, values)), keys, values


def _masked_cache(emit, of, past, new, mask):
    """The masked softmax of a cache's scores and a new one."""
    scores = emit(op.concat([past, new], axis=2))
    return emit(op.nn.softmax(emit(op.add(scores, mask))))


def _flattened_tokens(emit, of, x, r, w):
    h = emit(
        op.add(
            emit(op.reshape(x, (of["b"] * of["s"], 256))),
            emit(op.reshape(r, (of["b"] * of["s"], 256))),
        )
    )
    return h, emit(op.nn.rms_norm(h, w, axes=[-1], epsilon=1e-5))


def _packed(emit, of, x, seq, pos, lengths):
    """Softmax of rows that are masked beyond the length of the sequence each belongs to."""
    own = emit(op.reshape(emit(op.take(lengths, seq, axis=0)), (of["t"], 1)))
    inside = emit(op.less(emit(op.reshape(pos, (1, of["m"]))), own))
    hidden = emit(op.where(inside, x, relax.const(-1e30, "float32")))
    return emit(op.nn.softmax(hidden))


def _projected(emit, of, x, w):
    """Tokens in the order of batch and length, counted as length by batch, times a weight."""
    flat = emit(op.reshape(x, (of["s"] * of["b"], 64)))
    return emit(op.matmul(flat, emit(op.permute_dims(w))))


def _between_projections(emit, of, x, residual, w, weight, v):
    """What a layer of a decoder does between its attention and its feed-forward part."""
    whole = (of["b"], of["s"], 64)
    h = emit(op.add(emit(op.reshape(_projected(emit, of, x, w), whole)), residual))
    normed = emit(op.nn.rms_norm(h, weight, axes=[-1], epsilon=1e-5))
    return h, _projected(emit, of, normed, v)


def _heads(emit, of, x, w):
    split = emit(op.reshape(_projected(emit, of, x, w), (of["b"], of["s"], 4, 16)))
    return emit(op.permute_dims(split, [0, 2, 1, 3]))


def _attention(emit, of, q, k, v):
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    weights = emit(op.nn.softmax(emit(op.multiply(scores, relax.const(0.25, "float32")))))
    return emit(op.matmul(weights, v))


def _masked_twice(emit, of, x, y):
    """Two layers' masked softmax, the mask made of positions once, with a product between them."""
    below = emit(op.triu(emit(op.full((of["n"], of["n"]), relax.const(-1e4, "float32"))), 1))
    first = emit(op.nn.softmax(emit(op.add(x, below))))
    return emit(op.nn.softmax(emit(op.add(emit(op.matmul(first, y)), below))))


def _viewed_product(emit, of, x, w):
    """A product that no stitched kernel takes, between views of it."""
    flat = emit(op.reshape(x, (of["s"] * of["b"], 300)))
    return emit(op.reshape(emit(op.matmul(flat, w)), (of["b"], of["s"], 300)))


def _halves(emit, x, y):
    """A product of halves that tensor cores sum up in float32."""
    return emit(op.astype(emit(op.matmul(x, y, "float32")), "float16"))


def _linear(emit, of, x, w, b, residual):
    return emit(op.add(emit(op.add(_halves(emit, x, w), b)), residual))


def _rectified(emit, of, x, y):
    return emit(op.nn.relu(_halves(emit, x, y)))


def _scores(emit, of, q, k):
    return _halves(emit, q, emit(op.permute_dims(k, [0, 1, 3, 2])))


def _extremes(emit, of, x):
    """The largest along the middle axis, and where it stands."""
    return emit(op.max(x, [1])), emit(op.argmax(x, 1))


BY_TWO = ({"b": 3, "s": 7}, {"b": 1, "s": 1}, {"b": 5, "s": 33})

TWINS: dict[str, Twin] = {
    "softmax of a view": Twin(lambda b, s: [(b, s, 64)], _softmax_of_view, BY_TWO),
    "rows of a product": Twin(lambda b, s: [(b * s, 300)], _softmax_of_exp, BY_TWO),
    "rows of two symbols": Twin(lambda b, s: [(b, s, 300)], _softmax_of_exp, BY_TWO),
    "layer norm of a view": Twin(lambda b, s: [(b, s, 768), (768,), (768,)], _norm_of_view, BY_TWO),
    "group norm": Twin(
        lambda h, w: [(1, 32, h, w), (32,), (32,)],
        _group_norm,
        ({"h": 7, "w": 9}, {"h": 1, "w": 1}, {"h": 16, "w": 33}, {"h": 70, "w": 80}),
    ),
    "softmax of a concat": Twin(
        lambda n, m: [(4, n), (4, m)],
        _softmax_of_concat,
        ({"n": 33, "m": 7}, {"n": 1, "m": 1}, {"n": 1000, "m": 31}),
    ),
    "layer norm backward": Twin(
        lambda n, d: [(n, d), (n, d), (d,), (n, 1), (n, 1)],
        _layer_norm_backward,
        (
            {"n": 33, "d": 100},
            {"n": 1, "d": 1},
            {"n": 140, "d": 1025},
            {"n": 3, "d": 1024},
            {"n": 2, "d": 4096},
            {"n": 133, "d": 4097},
            {"n": 1, "d": 20001},
        ),
    ),
    "sums over rows": Twin(
        lambda n, d: [(n, d), (n, d)],
        lambda emit, of, x, y: emit(op.sum(emit(op.multiply(x, y)), axis=[0])),
        ({"n": 33, "d": 25}, {"n": 1, "d": 1}, {"n": 300, "d": 1025}, {"n": 2, "d": 9001}),
    ),
    "layer norm backward, bounded": Twin(
        lambda n, d: [(n, d), (n, d), (d,), (n, 1), (n, 1)],
        _layer_norm_backward,
        ({"n": 33, "d": 100}, {"n": 1, "d": 1}, {"n": 140, "d": 1025}, {"n": 9, "d": 3000}),
        bounds={"d": 3000},
    ),
    "sums over rows, bounded": Twin(
        lambda n, d: [(n, 4 * d), (n, 4 * d)],
        lambda emit, of, x, y: emit(op.sum(emit(op.multiply(x, y)), axis=[0])),
        ({"n": 33, "d": 25}, {"n": 1, "d": 1}, {"n": 300, "d": 500}),
        bounds={"d": 500},
    ),
    "layer norm backward, rows": Twin(
        lambda n: [(n, 256), (n, 256), (256,), (n, 1), (n, 1)],
        _layer_norm_backward,
        ({"n": 33}, {"n": 1}, {"n": 140}),
    ),
    "batch norm in training": Twin(
        lambda h, w: [(4, 3, h, w), (3,), (3,), (3,), (3,)],
        _batch_norm_training,
        ({"h": 7, "w": 9}, {"h": 1, "w": 1}, {"h": 16, "w": 33}, {"h": 70, "w": 80}),
    ),
    "normalised": Twin(lambda n: [(n, 512)], _normalised, ({"n": 300}, {"n": 1}, {"n": 7})),
    "gradients over their norm": Twin(
        lambda n, m: [(n, 512), (m, 2, 128)],
        _clipped,
        ({"n": 300, "m": 7}, {"n": 1, "m": 1}, {"n": 33, "m": 500}),
    ),
    "channels of groups": Twin(
        lambda h: [(2, 12, h, 8), (1, 4, 3, 1)],
        _channels_of_groups,
        ({"h": 9}, {"h": 1}, {"h": 300}),
    ),
    "step with a cache": Twin(
        lambda n: [(2, 4, 1, 64), (2, 4, n, 64), (2, 4, n, 64), (2, 4, 1, 64), (2, 4, 1, 64)],
        _cached_step,
        ({"n": 33}, {"n": 1}, {"n": 100}),
    ),
    "masked softmax of a cache": Twin(
        lambda b, n: [(b, 4, n), (b, 4, 1), (b, 1, n + 1)],
        _masked_cache,
        ({"b": 3, "n": 33}, {"b": 1, "n": 1}, {"b": 2, "n": 1023}),
    ),
    "flattened tokens": Twin(
        lambda b, s: [(b, s, 256), (b, s, 256), (256,)], _flattened_tokens, BY_TWO
    ),
    "packed sequences": Twin(
        lambda t, m, k: [(t, m), (t,), (m,), (k,)],
        _packed,
        ({"t": 9, "m": 33, "k": 3}, {"t": 1, "m": 1, "k": 1}, {"t": 40, "m": 100, "k": 5}),
        indices=(1, 2, 3),
    ),
    "between projections": Twin(
        lambda b, s: [(b, s, 64), (b, s, 64), (64, 64), (64,), (128, 64)],
        _between_projections,
        BY_TWO,
    ),
    "heads of a projection": Twin(lambda b, s: [(b, s, 64), (64, 64)], _heads, BY_TWO),
    "attention of any batch": Twin(
        lambda b: [(b, 4, 16, 16)] * 3, _attention, ({"b": 3}, {"b": 1}, {"b": 70})
    ),
    "attention of any queries": Twin(
        lambda b, s: [(b, 4, s, 16), (b, 4, 32, 16), (b, 4, 32, 16)],
        _attention,
        ({"b": 3, "s": 7}, {"b": 1, "s": 1}, {"b": 2, "s": 130}),
    ),
    "a mask for two layers": Twin(
        lambda n: [(2, n, n), (2, n, n)],
        _masked_twice,
        ({"n": 100}, {"n": 1}, {"n": 33}),
    ),
    "views of a product": Twin(lambda b, s: [(b, s, 300), (300, 300)], _viewed_product, BY_TWO),
    "linear": Twin(
        lambda n: [(n, 72), (72, 264), (264,), (n, 264)],
        _linear,
        ({"n": 129}, {"n": 1}, {"n": 17}, {"n": 127}, {"n": 128}, {"n": 1000}),
        dtype="float16",
    ),
    "linear of tokens": Twin(
        lambda b, s: [(b, s, 72), (72, 264), (264,), (b, s, 264)],
        _linear,
        ({"b": 3, "s": 43}, {"b": 1, "s": 1}, {"b": 5, "s": 33}),
        dtype="float16",
    ),
    "products of any batch": Twin(
        lambda b, n: [(b, n, 72), (b, 72, 136)],
        _rectified,
        ({"b": 3, "n": 43}, {"b": 1, "n": 1}, {"b": 2, "n": 130}),
        dtype="float16",
    ),
    "scores of any length": Twin(
        lambda b, s, t: [(b, 2, s, 64), (b, 2, t, 64)],
        _scores,
        ({"b": 2, "s": 43, "t": 50}, {"b": 1, "s": 1, "t": 1}, {"b": 1, "s": 130, "t": 129}),
        dtype="float16",
    ),
    "values of any length": Twin(
        lambda b, s, t: [(b, 2, s, t), (b, 2, t, 64)],
        _rectified,
        ({"b": 2, "s": 43, "t": 50}, {"b": 1, "s": 1, "t": 1}, {"b": 1, "s": 130, "t": 129}),
        dtype="float16",
    ),
    "sum of two": Twin(
        lambda n, m: [(n + m, 64)],
        lambda emit, of, x: emit(op.nn.softmax(emit(op.exp(x)))),
        ({"n": 3, "m": 7}, {"n": 1, "m": 1}, {"n": 50, "m": 33}),
    ),
    "twice": Twin(
        lambda n: [(2 * n, 64)],
        lambda emit, of, x: emit(op.nn.softmax(emit(op.exp(x)))),
        ({"n": 3}, {"n": 1}, {"n": 50}),
    ),
    "a quarter": Twin(
        lambda n: [(n // 4, 4, 64), (n,)],
        lambda emit, of, x, y: emit(op.nn.softmax(emit(op.reshape(x, (of["n"] // 4, 256))))),
        ({"n": 12}, {"n": 4}, {"n": 200}),
    ),
    "running sum of any rows": Twin(
        lambda b, s: [(b, s, 100)],
        lambda emit, of, x: emit(op.cumsum(emit(op.exp(x)), axis=-1)),
        BY_TWO,
    ),
    "extremes over the middle": Twin(
        lambda b, s: [(b, s, 96)],
        _extremes,
        ({"b": 3, "s": 70}, {"b": 1, "s": 1}, {"b": 2, "s": 513}, {"b": 5, "s": 33}),
        dtype="float16",
    ),
    "position in all": Twin(
        lambda n, m: [(n, m, 12)],
        lambda emit, of, x: emit(op.argmin(x)),
        ({"n": 3, "m": 7}, {"n": 1, "m": 1}, {"n": 50, "m": 33}),
    ),
    "columns of a product": Twin(
        lambda n, m: [(4, n, m)],
        lambda emit, of, x: emit(op.nn.softmax(emit(op.reshape(x, (4, of["n"] * of["m"]))))),
        ({"n": 3, "m": 7}, {"n": 1, "m": 1}, {"n": 50, "m": 33}),
    ),
}
