"""Graphs with small matrix products: attention, recurrent cells, projections."""

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op
from zoo import Case, graph, norm64, softmax64


def sigmoid64(x):
    return 1 / (1 + np.exp(-x))


def attention(dtype: str, batch: int, heads: int, length: int, size: int, keys: int = 0) -> Case:
    """softmax(q k^T / 4) v, by heads."""

    def build(emit, q, k, v):
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
        scaled = emit(op.multiply(scores, relax.const(0.25, dtype)))
        return emit(op.matmul(emit(op.nn.softmax(scaled)), v))

    def expected(q, k, v):
        return softmax64(q @ k.swapaxes(-1, -2) * 0.25) @ v

    other = (batch, heads, keys or length, size)
    return graph(dtype, [(batch, heads, length, size), other, other], build, expected)


def heads_of_a_layer(dtype: str, batch: int, length: int, heads: int, size: int) -> Case:
    """Attention between projections: heads lie beside each other, as the projections have them."""

    def build(emit, q, k, v):
        q, k, v = (emit(op.permute_dims(each, [0, 2, 1, 3])) for each in (q, k, v))
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
        weighted = emit(op.matmul(emit(op.nn.softmax(scores)), v))
        joined = emit(op.permute_dims(weighted, [0, 2, 1, 3]))
        return emit(op.reshape(joined, (batch, length, heads * size)))

    def expected(q, k, v):
        q, k, v = (each.swapaxes(1, 2) for each in (q, k, v))
        weighted = softmax64(q @ k.swapaxes(-1, -2)) @ v
        return weighted.swapaxes(1, 2).reshape(batch, length, heads * size)

    return graph(dtype, [(batch, length, heads, size)] * 3, build, expected)


def pooled_history(dtype: str, batch: int, length: int, size: int) -> Case:
    """DIEN's attention: the history weighted by how much of it concerns one item."""

    def build(emit, item, history, mask):
        query = emit(op.expand_dims(item, 2))
        scores = emit(op.squeeze(emit(op.matmul(history, query)), [2]))
        weights = emit(op.nn.softmax(emit(op.add(scores, mask))))
        pooled = emit(op.matmul(emit(op.expand_dims(weights, 1)), history))
        return emit(op.squeeze(pooled, [1]))

    def expected(item, history, mask):
        weights = softmax64((history @ item[:, :, None])[:, :, 0] + mask)
        return (weights[:, None, :] @ history)[:, 0, :]

    shapes = [(batch, size), (batch, length, size), (batch, length)]
    return graph(dtype, shapes, build, expected)


def lstm_cell(dtype: str, batch: int, inputs: int, hidden: int) -> Case:
    """Both products, the gates, and the new states."""

    def build(emit, x, h, c, w, u, b):
        gates = emit(op.add(emit(op.matmul(x, w)), emit(op.matmul(h, u))))
        parts = emit(op.split(emit(op.add(gates, b)), 4, 1))
        i, f, g, o = (emit(relax.TupleGetItem(parts, n)) for n in range(4))
        i, f, o = (emit(op.sigmoid(gate)) for gate in (i, f, o))
        new = emit(op.multiply(i, emit(op.tanh(g))))
        cell = emit(op.add(emit(op.multiply(f, c)), new))
        return emit(op.multiply(o, emit(op.tanh(cell)))), cell

    def expected(x, h, c, w, u, b):
        i, f, g, o = np.split(x @ w + h @ u + b, 4, axis=1)
        cell = sigmoid64(f) * c + sigmoid64(i) * np.tanh(g)
        return sigmoid64(o) * np.tanh(cell), cell

    state = (batch, hidden)
    weights = [(inputs, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,)]
    return graph(dtype, [(batch, inputs), state, state, *weights], build, expected)


def projection(dtype: str, rows: int, inputs: int, outputs: int, transposed: bool = False) -> Case:
    """Layer norm, a product with weights, bias, a residual where shapes allow, layer norm."""

    def build(emit, x, w, b, g):
        one, zero = (emit(op.full((inputs,), relax.const(v, dtype), dtype)) for v in (1, 0))
        x = emit(op.nn.layer_norm(x, one, zero, axes=-1))
        w = emit(op.permute_dims(w)) if transposed else w
        y = emit(op.add(emit(op.matmul(x, w)), b))
        return emit(op.nn.layer_norm(y, g, b, axes=-1))

    def expected(x, w, b, g):
        return norm64(norm64(x) @ (w.T if transposed else w) + b) * g + b

    weight = (outputs, inputs) if transposed else (inputs, outputs)
    return graph(dtype, [(rows, inputs), weight, (outputs,), (outputs,)], build, expected)


def norm_and_product(residual) -> tvm.IRModule:
    """A norm whose result a product multiplies, a `residual` of it and its input, a norm."""

    def body(emit, x, w, scale, shift):
        h = emit(op.nn.layer_norm(x, scale, shift, axes=[-1]))
        found = emit(op.add(emit(op.matmul(h, w)), shift))
        return emit(op.nn.layer_norm(emit(op.add(found, residual(h, x))), scale, shift, axes=[-1]))

    builder = relax.BlockBuilder()
    shapes = {"x": (1024, 768), "w": (768, 768), "scale": (768,), "shift": (768,)}
    params = [relax.Var(name, relax.TensorType(s, "float16")) for name, s in shapes.items()]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(body(builder.emit, *params))
        builder.emit_func_output(out)
    return builder.get()
