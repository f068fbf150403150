"""Matrix products with what a library ends them with: scale, residual, bias, activation."""

import numpy as np
from tvm import relax
from tvm.relax import op
from zoo import Case, graph


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "": (lambda emit, y: y, lambda y: y),
    "ReLU": (lambda emit, y: emit(op.nn.relu(y)), lambda y: np.maximum(y, 0)),
    "GELU": (lambda emit, y: emit(op.nn.gelu_tanh(y)), gelu),
}


def product(
    dtype: str, rows: int, depth: int, columns: int, ending: str = "", batch: int = 0,
    transposed: bool = False,
) -> Case:  # fmt: skip
    """A product that ends with what is named: "scale residual bias GELU"."""
    parts = ending.split()
    activation = next((part for part in parts if part in ACTIVATIONS), "")
    act, act64 = ACTIVATIONS[activation]

    def build(emit, x, w, b, r):
        y = emit(op.matmul(x, emit(op.permute_dims(w, axes)) if transposed else w))
        y = emit(op.multiply(y, relax.const(0.125, dtype))) if "scale" in parts else y
        y = emit(op.add(y, r)) if "residual" in parts else y
        y = emit(op.add(y, b)) if "bias" in parts else y
        return act(emit, y)

    def expected(x, w, b, r):
        y = x @ (w.swapaxes(-1, -2) if transposed else w)
        y = y * 0.125 if "scale" in parts else y
        y = y + r if "residual" in parts else y
        return act64(y + b if "bias" in parts else y)

    lead = (batch,) if batch else ()
    axes = [*range(len(lead)), len(lead) + 1, len(lead)]
    weight = (*lead, columns, depth) if transposed else (*lead, depth, columns)
    shapes = [(*lead, rows, depth), weight, (columns,), (*lead, rows, columns)]
    return graph(dtype, shapes, build, expected)
