"""A layer of a Transformer, as PyTorch's export writes it, has no kernel that only moves data."""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from check import primfuncs
from decompose_helpers import compiled, emitted, error
from tvm import relax
from tvm.relax import op
from zoo import gelu64, norm64, softmax64

from tvm_stitch.graph.front.decompose import Decompose
from tvm_stitch.kernel.attention.build import ATTENTION_ATTRIBUTE
from tvm_stitch.stages.op_pattern import Pattern, classify
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import dtype_of

DTYPE = "float16"


@dataclass(frozen=True)
class Layer:
    """Attention, a residual and a norm; two projections, GELU between, a residual and a norm."""

    batch: int
    length: int
    heads: int
    size: int

    @property
    def width(self) -> int:
        return self.heads * self.size

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Tokens, mask, the norms' weights, and weight and bias of all linear layers."""
        square, up = (self.width, self.width), (4 * self.width, self.width)
        linears = [*[square] * 4, up, up[::-1]]
        weights = [shape for weight in linears for shape in (weight, weight[:1])]
        tokens, mask = (self.batch, self.length, self.width), (self.batch, 1, 1, self.length)
        return [tokens, mask, *[(self.width,)] * 4, *weights]

    def linear(self, emit, x, w, b):
        """nn.Linear over flat tokens, by a transposed weight."""
        x = emit(op.reshape(x, (self.batch * self.length, x.ty.shape[-1])))
        y = emit(op.matmul(x, emit(op.permute_dims(w)), "float32"))
        y = emit(op.add(b, emit(op.astype(y, DTYPE))))
        return emit(op.reshape(y, (self.batch, self.length, w.ty.shape[0])))

    def by_head(self, emit, x):
        split = emit(op.reshape(x, (self.batch, self.length, self.heads, self.size)))
        return emit(op.permute_dims(split, [0, 2, 1, 3]))

    def batched(self, emit, x, y):
        """A product by heads: both operands are broadcast, the heads made part of the batch."""
        shapes = [list(each.ty.shape.values) for each in (x, y)]
        flat = [
            emit(op.reshape(emit(op.broadcast_to(each, shape)), (-1, *shape[2:])))
            for each, shape in zip((x, y), shapes, strict=True)
        ]
        rounded = emit(op.astype(emit(op.matmul(*flat, "float32")), DTYPE))
        return emit(op.reshape(rounded, (self.batch, self.heads, shapes[0][2], shapes[1][3])))

    def build(self, emit, x, mask, *weights):
        norms, linears = weights[:4], weights[4:]

        def projected(value, number):
            return self.linear(emit, value, *linears[2 * number : 2 * number + 2])

        q, k, v = (self.by_head(emit, projected(x, number)) for number in range(3))
        scores = self.batched(emit, q, emit(op.permute_dims(k, [0, 1, 3, 2])))
        scores = emit(op.divide(scores, relax.const(math.sqrt(self.size), DTYPE)))
        mixed = self.batched(emit, emit(op.nn.softmax(emit(op.add(scores, mask)))), v)
        joined = emit(op.reshape(emit(op.permute_dims(mixed, [0, 2, 1, 3])), x.ty.shape))
        x = emit(op.nn.layer_norm(emit(op.add(x, projected(joined, 3))), *norms[:2], axes=-1))
        y = projected(emit(op.nn.gelu(projected(x, 4))), 5)
        return emit(op.nn.layer_norm(emit(op.add(x, y)), *norms[2:], axes=-1))

    def expected(self, x, mask, *weights):
        norms, linears = weights[:4], weights[4:]

        def projected(value, number):
            w, b = linears[2 * number : 2 * number + 2]
            return value @ w.T + b

        split = self.batch, self.length, self.heads, self.size
        q, k, v = (projected(x, n).reshape(split).transpose(0, 2, 1, 3) for n in range(3))
        mixed = softmax64(q @ k.swapaxes(2, 3) / math.sqrt(self.size) + mask) @ v
        joined = mixed.transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm64(x + projected(joined, 3)) * norms[0] + norms[1]
        y = projected(gelu64(projected(x, 4)), 5)
        return norm64(x + y) * norms[2] + norms[3]


@pytest.mark.parametrize("length, products", [(128, 4), (512, 7)])
def test_a_layer_is_products_attention_and_two_norms(length, products):
    """Three projections share a function, where they are small, as do both norms: residuals end
    products' kernels. Attention is one kernel, or two products and a softmax where it is too long
    for that. Nothing is transposed in memory.
    """
    layer = Layer(batch=32, length=length, heads=12, size=64)
    module = emitted(layer.build, layer.shapes, DTYPE)
    functions = primfuncs(module, before="StitchSchedule").values()
    planned = [function for function in functions if ATTENTION_ATTRIBUTE not in function.attrs]
    kinds = Counter(classify(read_stages(function)) for function in planned)
    del kinds[Pattern.RESHAPE]
    is_one = products == 4
    assert len(functions) - len(planned) == is_one
    assert kinds == {Pattern.PRODUCT: products, Pattern.ROW_REDUCTION: 1 if is_one else 2}


def test_a_layer_is_right():
    layer = Layer(batch=2, length=7, heads=3, size=8)
    random = np.random.default_rng(0)
    arrays = [
        (random.standard_normal(shape) / math.sqrt(shape[-1] if len(shape) == 2 else 1)).astype(
            DTYPE
        )
        for shape in layer.shapes
    ]
    written = Decompose()(emitted(layer.build, layer.shapes, DTYPE))
    (got,) = compiled(written)(arrays)
    assert error(got, layer.expected(*(array.astype("float64") for array in arrays))) < 4e-3


def test_each_of_two_products_rounds_its_own_result():
    """What follows both cannot end either's kernel: it needs another shape."""
    rows, depth, columns = 2048, 4096, 11008

    def build(emit, x, w, u, mask):
        first, second = (
            emit(op.astype(emit(op.matmul(x, weight, "float32")), DTYPE)) for weight in (w, u)
        )
        gate = emit(op.nn.silu(emit(op.reshape(first, (2, rows // 2, columns)))))
        value = emit(op.reshape(second, (2, rows // 2, columns)))
        return emit(op.multiply(emit(op.multiply(gate, mask)), value))

    shapes = [(rows, depth), (depth, columns), (depth, columns), (2, rows // 2, 1)]
    functions = primfuncs(emitted(build, shapes, DTYPE), before="StitchSchedule").values()
    products = [f for f in functions if classify(read_stages(f)) is Pattern.PRODUCT]
    assert [dtype_of(f.params[-1]) for f in products] == [DTYPE, DTYPE]
