"""Graphs that reduce over their rows: column sums, norms over the batch, gradients, embeddings."""

from collections.abc import Callable

import numpy as np
import tvm
from check import H200, TOGETHER, stitched
from tvm import relax
from tvm.relax import op
from zoo import Case, Graph, graph, graph_of, norm64

from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import choose
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.stages.stage import Refused


def column_sums(dtype: str, rows: int, columns: int) -> Case:
    """A sum over the rows and nothing else."""
    shapes = [(rows, columns)]
    return graph(dtype, shapes, lambda emit, x: emit(op.sum(x, axis=0)), lambda x: x.sum(axis=0))


def norm_backward(dtype: str, rows: tuple[int, ...], columns: int) -> Case:
    """Layer norm's gradients by its input, its weight and its bias."""
    last, others = len(rows), list(range(len(rows)))

    def build(emit, x, g, w):
        if dtype != "float32":
            x, g, w = (emit(op.astype(value, "float32")) for value in (x, g, w))
        centred = emit(op.subtract(x, emit(op.mean(x, last, keepdims=True))))
        variance = emit(op.mean(emit(op.multiply(centred, centred)), last, keepdims=True))
        epsilon = op.add(variance, tvm.relax.const(1e-5, "float32"))
        scale = emit(op.rsqrt(emit(epsilon)))
        normal = emit(op.multiply(centred, scale))
        gw = emit(op.multiply(g, w))
        first = emit(op.mean(gw, last, keepdims=True))
        second = emit(op.mean(emit(op.multiply(gw, normal)), last, keepdims=True))
        inner = emit(op.subtract(emit(op.subtract(gw, first)), emit(op.multiply(normal, second))))
        dx = emit(op.multiply(inner, scale))
        dw = emit(op.sum(emit(op.multiply(g, normal)), others))
        db = emit(op.sum(g, others))
        return tuple(emit(op.astype(value, dtype)) for value in (dx, dw, db))

    def expected(x, g, w):
        normal = norm64(x)
        scale = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + np.float64(np.float32(1e-5)))
        gw = g * w
        second = (gw * normal).mean(axis=-1, keepdims=True)
        dx = (gw - gw.mean(axis=-1, keepdims=True) - normal * second) * scale
        over = tuple(others)
        return dx, (g * normal).sum(axis=over), g.sum(axis=over)

    return graph(dtype, [(*rows, columns), (*rows, columns), (columns,)], build, expected)


def shape_of(batch, extent: int, columns: int) -> tuple:
    """A matrix, or a batch of them."""
    return (extent, columns) if batch == 1 else (batch, extent, columns)


def standardised(dtype: str, batch, extent: int, columns: int) -> Case:
    """Columns less their mean, by their deviation, scaled and with a bias by column."""

    def build(emit, x, w, b):
        if dtype != "float32":
            x, w, b = (emit(op.astype(value, "float32")) for value in (x, w, b))
        centred = emit(op.subtract(x, emit(op.mean(x, -2, keepdims=True))))
        variance = emit(op.mean(emit(op.multiply(centred, centred)), -2, keepdims=True))
        scale = emit(op.rsqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))
        normal = emit(op.multiply(emit(op.multiply(centred, scale)), w))
        return emit(op.astype(emit(op.add(normal, b)), dtype))

    def expected(x, w, b):
        return norm64(x, axis=-2) * w + b

    shape = shape_of(batch, extent, columns)
    return graph(dtype, [shape, (columns,), (columns,)], build, expected)


def batch_norm(dtype: str, shape: tuple[int, ...]) -> Case:
    """Batch norm with the statistics of this batch, then ReLU; the channels come last."""
    over = list(range(len(shape) - 1))

    def build(emit, x, w):
        if dtype != "float32":
            x, w = (emit(op.astype(value, "float32")) for value in (x, w))
        centred = emit(op.subtract(x, emit(op.mean(x, over, keepdims=True))))
        variance = emit(op.mean(emit(op.multiply(centred, centred)), over, keepdims=True))
        scale = emit(op.rsqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))
        normal = emit(op.multiply(emit(op.multiply(centred, scale)), w))
        return emit(op.astype(emit(op.nn.relu(normal)), dtype))

    def expected(x, w):
        centred = x - x.mean(axis=tuple(over), keepdims=True)
        variance = (centred * centred).mean(axis=tuple(over), keepdims=True)
        return np.maximum(centred / np.sqrt(variance + np.float64(np.float32(1e-5))) * w, 0)

    return graph(dtype, [shape, shape[-1:]], build, expected)


def group_norm(dtype: str, batch: int, places: int, groups: int, each: int) -> Case:
    """Group norm, the channels last: a group is a comb through memory."""

    def build(emit, x):
        h = emit(op.reshape(x, (batch, places, groups, each)))
        if dtype != "float32":
            h = emit(op.astype(h, "float32"))
        centred = emit(op.subtract(h, emit(op.mean(h, [1, 3], keepdims=True))))
        variance = emit(op.mean(emit(op.multiply(centred, centred)), [1, 3], keepdims=True))
        scale = emit(op.rsqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))
        normal = emit(op.reshape(emit(op.multiply(centred, scale)), (batch, places, groups * each)))
        return emit(op.astype(normal, dtype))

    def expected(x):
        h = x.reshape(batch, places, groups, each)
        centred = h - h.mean(axis=(1, 3), keepdims=True)
        variance = (centred * centred).mean(axis=(1, 3), keepdims=True)
        return (centred / np.sqrt(variance + np.float64(np.float32(1e-5)))).reshape(x.shape)

    return graph(dtype, [(batch, places, groups * each)], build, expected)


def softmax_over_rows(shape: tuple[int, ...], axis: int = 0) -> Case:
    """Softmax over an axis that is not the last."""

    def build(emit, x):
        moved = emit(op.exp(emit(op.subtract(x, emit(op.max(x, axis=axis, keepdims=True))))))
        return emit(op.divide(moved, emit(op.sum(moved, axis=axis, keepdims=True))))

    def expected(x):
        moved = np.exp(x - x.max(axis=axis, keepdims=True))
        return moved / moved.sum(axis=axis, keepdims=True)

    return graph("float32", [shape], build, expected)


def divided_by_their_norm(*shapes: tuple[int, ...]) -> Case:
    """Tensors divided by their common norm, which is returned too."""

    def build(emit, *tensors):
        total = relax.const(0.0, "float32")
        for tensor in tensors:
            own = emit(op.sum(emit(op.multiply(tensor, tensor))))
            total = emit(op.add(total, own))
        norm = emit(op.sqrt(total))
        return (norm, *(emit(op.divide(tensor, norm)) for tensor in tensors))

    def expected(*tensors):
        norm = np.sqrt(sum((tensor * tensor).sum() for tensor in tensors))
        return (norm, *(tensor / norm for tensor in tensors))

    return graph("float32", list(shapes), build, expected)


def programs_of(case: Case):
    """The Programs of the one function that a case becomes, and the chosen Schedule."""
    module = stitched(case.module, options=TOGETHER, before="StitchSchedule")
    functions = [f for _, f in module.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    (function,) = functions
    programs = read_programs(function)
    assert not isinstance(programs, Refused), programs
    schedule = choose(programs, device_of(H200))
    assert isinstance(schedule, Schedule)
    return programs, schedule


def indices_of(rows: int, count: int, used: int | None = None) -> np.ndarray:
    """Rows that updates go to, of all or of the first `used` ones."""
    return np.random.default_rng(1).integers(0, used or rows, (count, 1)).astype("int64")


def _step_of(table: tuple[int, ...], dtype: str) -> Callable:
    def build(emit, at, dy, weights, momenta):
        zeros = emit(op.zeros(relax.ShapeExpr(table), dtype))
        sums = emit(op.scatter_nd(zeros, at, dy, "add"))
        decay = emit(op.multiply(weights, relax.const(0.125, dtype)))
        moved = emit(op.multiply(momenta, relax.const(0.5, dtype)))
        moved = emit(op.add(moved, emit(op.add(sums, decay))))
        scaled = emit(op.multiply(moved, relax.const(0.25, dtype)))
        return emit(op.subtract(weights, scaled)), moved

    return build


def embedding_step_module(table: tuple[int, ...], count: int) -> tvm.IRModule:
    """The module of `embedding_step` alone, for sizes of which values would fill the memory."""
    made = Graph()
    types = [((count, 1), "int64"), ((count, *table[1:]), "float32"), *[(table, "float32")] * 2]
    made.params = [
        relax.Var(f"p{number}", relax.TensorType(shape, dtype))
        for number, (shape, dtype) in enumerate(types)
    ]
    return made.case(_step_of(table, "float32"), ()).module


def embedding_step(
    table: tuple[int, ...], count: int, used: int | None = None, dtype: str = "float32"
) -> Case:
    """A step of SGD with momentum and weight decay of an embedding: weights and momenta."""
    indices = indices_of(table[0], count, used)

    def expected(at, dy, weights, momenta):
        sums = np.zeros(table)
        np.add.at(sums, at[:, 0].astype(int), dy)
        moved = momenta * 0.5 + sums + weights * 0.125
        return weights - moved * 0.25, moved

    own = [(table, dtype, None)] * 2
    return graph_of(
        [(indices.shape, "int64", indices), ((count, *table[1:]), dtype, None), *own],
        _step_of(table, dtype),
        expected,
    )


def shares_of_groups(dtype: str, rows: int, columns: int, group: int) -> Case:
    """Rows by what their sum is of a group's, as in a group norm's gradient; and sums of both."""

    def build(emit, x, y):
        x, y = (emit(op.astype(each, "float32")) for each in (x, y))
        products = emit(op.sum(emit(op.multiply(x, y)), axis=1))
        sums = emit(op.reshape(emit(op.sum(x, axis=1)), (rows // group, group)))
        whole = emit(op.sum(emit(op.abs(sums)), axis=1, keepdims=True))
        share = emit(op.reshape(emit(op.divide(sums, whole)), (rows, 1)))
        moved = emit(op.add(emit(op.multiply(x, share)), y))
        parts = emit(op.sum(emit(op.reshape(products, (rows // group, group))), axis=0))
        return emit(op.astype(moved, dtype)), parts

    def expected(x, y):
        sums = x.sum(1).reshape(-1, group)
        share = sums / np.abs(sums).sum(1, keepdims=True)
        return x * share.reshape(-1, 1) + y, (x * y).sum(1).reshape(-1, group).sum(0)

    return graph(dtype, [(rows, columns)] * 2, build, expected)
