"""Norms and statistics over symbolic rows, as twins: most of them in rounds of a grid."""

from __future__ import annotations

from tvm import relax
from tvm.relax import op
from twins import Twin


def _centred(emit, x, axes):
    return emit(op.subtract(x, emit(op.mean(x, axis=axes, keepdims=True))))


def _standardised(axes):
    def build(emit, of, x):
        centred = _centred(emit, x, axes)
        squares = emit(op.multiply(centred, centred))
        variance = emit(op.mean(squares, axis=axes, keepdims=True))
        scale = emit(op.rsqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))
        return emit(op.multiply(centred, scale))

    return build


def _standardised_backward(axes):
    def build(emit, of, normal, dy):
        along = emit(op.mean(emit(op.multiply(dy, normal)), axis=axes, keepdims=True))
        return emit(op.subtract(_centred(emit, dy, axes), emit(op.multiply(normal, along))))

    return build


def _statistics(emit, of, x):
    centred = _centred(emit, x, [1, 2])
    variance = emit(op.mean(emit(op.multiply(centred, centred)), axis=[1, 2]))
    return emit(op.mean(x, axis=[1, 2])), emit(op.max(x, axis=[1, 2])), variance


def _slots(emit, of, x):
    """Softmax along rows, then divided by its column sums."""
    weights = emit(op.nn.softmax(x))
    return emit(op.divide(weights, emit(op.sum(weights, axis=[0], keepdims=True))))


def _sizes(names: str, *found: tuple[int, ...]) -> tuple[dict[str, int], ...]:
    return tuple(dict(zip(names, each, strict=True)) for each in found)


NORMS: dict[str, Twin] = {
    # In rounds, where rows fall into 66, 264, 16 and 132 segments: what these have grows from 8 on.
    "standardised columns": Twin(
        lambda n: [(n, 512)],
        _standardised([0]),
        ({"n": 33}, {"n": 1}, {"n": 527}, {"n": 528}, {"n": 529}, {"n": 1000}),
        likely={"n": 65536},
    ),
    "batch norm, channels last": Twin(
        lambda b, h, w: [(b, h, w, 96)],
        _standardised([0, 1, 2]),
        _sizes("bhw", (3, 7, 5), (1, 1, 1), (1, 1, 2113), (2, 7, 151), (11, 7, 47)),
        likely={"b": 64, "h": 56, "w": 56},
    ),
    "batch norm backward, channels last": Twin(
        lambda n: [(n, 256), (n, 256)],
        _standardised_backward([0]),
        ({"n": 33}, {"n": 1}, {"n": 1055}, {"n": 1056}, {"n": 1057}),
        likely={"n": 65536},
    ),
    "instance norm, channels last": Twin(
        lambda b, h, w: [(b, h, w, 64)],
        _standardised([1, 2]),
        _sizes("bhw", (3, 7, 5), (1, 1, 1), (2, 1, 127), (1, 8, 16), (2, 3, 43)),
        likely={"b": 16, "h": 256, "w": 256},
    ),
    # Chunks of rows of symbolic lengths have other kernels from 1024 and 36864 elements on.
    "instance norm of volumes": Twin(
        lambda c, d, h: [(2, c, d, h, 96)],
        _standardised([2, 3, 4]),
        _sizes("cdh", (3, 5, 7), (1, 1, 1), (2, 8, 1), (1, 3, 10), (1, 2, 43), (1, 2, 385)),
        likely={"c": 1, "d": 192, "h": 192},
    ),
    # These from 1024, 10240 and 16384 elements on.
    "instance norm of volumes, backward": Twin(
        lambda c, d, h: [(2, c, d, h, 96)] * 2,
        _standardised_backward([2, 3, 4]),
        _sizes("cdh", (3, 5, 7), (1, 1, 1), (1, 3, 10), (1, 2, 11), (1, 1, 107), (1, 2, 171)),
        likely={"c": 4, "d": 96, "h": 96},
    ),
    "total of a symbolic width": Twin(
        lambda n, d: [(n, d)],
        lambda emit, of, x: emit(
            op.divide(x, emit(op.sqrt(emit(op.sum(emit(op.multiply(x, x)))))))
        ),
        _sizes("nd", (33, 7), (1, 1), (7, 1025), (1, 16385), (300, 100)),
    ),
    "slots": Twin(
        lambda n: [(n, 256)],
        _slots,
        ({"n": 33}, {"n": 1}, {"n": 2111}, {"n": 2112}, {"n": 2113}),
        likely={"n": 16384},
    ),
    "softmax over rows": Twin(
        lambda n: [(n, 128)],
        lambda emit, of, x: emit(op.nn.softmax(x, axis=0)),
        ({"n": 33}, {"n": 1}, {"n": 2111}, {"n": 2112}, {"n": 2113}),
        likely={"n": 65536},
    ),
    "norm over channels": Twin(
        lambda b, c, h: [(b, c, h, 8)],
        _standardised([1]),
        _sizes("bch", (2, 7, 3), (1, 1, 1), (1, 1024, 5), (2, 1025, 1), (3, 31, 33)),
    ),
    "statistics of volumes": Twin(
        lambda b: [(b, 56, 56, 32)],
        _statistics,
        ({"b": 2}, {"b": 1}, {"b": 3}),
        likely={"b": 32},
    ),
}
