"""Graphs generated from a seed, so that the cost model sees more than the bench's own cases.

In: nothing but the seed. Out: Relax modules by name, static shapes, 64 KB to 512 MB of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

SEED = 20261121
COUNT = 200
SMALLEST, LARGEST = 64 * 2**10, 512 * 2**20
DTYPES = ("float32", "float16", "bfloat16")
ITEM = {"float32": 4, "float16": 2, "bfloat16": 2}

Var = Any
Emit = Callable[[Any], Var]


@dataclass
class Draft:
    """A graph that is being drawn: what varies, and its parameters so far."""

    rng: np.random.Generator
    dtype: str = "float32"
    params: list[Var] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dtype = str(self.rng.choice(DTYPES, p=(0.5, 0.25, 0.25)))

    def input(self, *shape: int) -> Var:
        """One more parameter."""
        name = f"p{len(self.params)}"
        self.params.append(relax.Var(name, relax.TensorType(shape, self.dtype)))
        return self.params[-1]

    def pick(self, *values: int) -> int:
        """One of some numbers."""
        return int(self.rng.choice(values))

    def elements(self, tensors: int, most: int = LARGEST) -> int:
        """How many elements each of so many tensors has, all sizes being equally likely."""
        low, high = math.log(SMALLEST), math.log(most)
        return int(math.exp(self.rng.uniform(low, high)) / tensors / ITEM[self.dtype])

    def rows_of(self, columns: int, tensors: int) -> int:
        """Rows that go with a row length."""
        return max(1, self.elements(tensors) // columns)

    def columns(self) -> int:
        """A row length; some are not multiples of a vector."""
        exponent = float(self.rng.uniform(5, 14))
        columns = 2 ** int(exponent) if self.rng.random() < 0.5 else int(2**exponent)
        return columns if self.rng.random() < 0.2 else max(8, columns // 8 * 8)


def chain(draft: Draft, emit: Emit, x: Var, steps: int, special: float) -> Var:
    """So many operators after another, a share of them special functions."""
    for _ in range(steps):
        if draft.rng.random() < special:
            make = SPECIAL[draft.pick(*range(len(SPECIAL)))]
            x = emit(make(x))
        else:
            constant = relax.const(float(draft.rng.uniform(0.5, 1.5)), draft.dtype)
            x = emit(PLAIN[draft.pick(*range(len(PLAIN)))](x, constant))
    return x


SPECIAL = (
    op.exp, op.tanh, op.sigmoid, op.erf, op.log, op.sin, lambda x: op.sqrt(op.abs(x)),
    lambda x: op.divide(relax.const(1.0, x.ty.dtype), x),
)  # fmt: skip
PLAIN = (op.add, op.multiply, op.maximum, op.subtract)


def elementwise(draft: Draft, emit: Emit) -> list[Var]:
    """Several tensors in, one or two out."""
    inputs, outputs = draft.pick(1, 1, 2, 3, 4), draft.pick(1, 1, 2)
    size = max(1024, draft.elements(inputs + outputs))
    columns = min(size, draft.pick(64, 1000, 4096))
    shape = (size // columns, columns)
    x = emit(op.negative(draft.input(*shape)))
    for _ in range(inputs - 1):
        x = emit(op.add(x, draft.input(*shape)))
    if draft.rng.random() < 0.4:
        x = emit(op.multiply(x, draft.input(columns)))
    # Without special functions, long chains are what limits a kernel least.
    special = float(draft.rng.choice((0.0, 0.3, 0.8)))
    results = []
    for _ in range(outputs):
        x = chain(draft, emit, x, draft.pick(1, 3, 8, 16, 24), special)
        results.append(x)
    return results


def reduction(draft: Draft, emit: Emit) -> list[Var]:
    """A row becomes one or two numbers."""
    inputs, columns = draft.pick(1, 1, 2), draft.columns()
    rows = draft.rows_of(columns, inputs)
    x = draft.input(rows, columns)
    if inputs == 2:
        x = emit(op.multiply(x, draft.input(rows, columns)))
    x = chain(draft, emit, x, draft.pick(0, 1, 4), 0.3)
    results = [emit((op.sum, op.max)[draft.pick(0, 1)](x, axis=-1))]
    if draft.rng.random() < 0.3:
        results.append(emit(op.sum(emit(op.multiply(x, x)), axis=-1)))
    return results


def softmax(draft: Draft, emit: Emit) -> list[Var]:
    """Softmax, perhaps of masked scores, perhaps scaled by a second tensor."""
    columns, inputs = draft.columns(), draft.pick(1, 2)
    rows = draft.rows_of(columns, inputs + 1)
    x = draft.input(rows, columns)
    if inputs == 2:
        x = emit(op.add(x, draft.input(rows, columns)))
    kind = op.nn.log_softmax if draft.rng.random() < 0.3 else op.nn.softmax
    x = emit(kind(x, -1))
    return [chain(draft, emit, x, draft.pick(0, 0, 2), 0.3)]


def norm(draft: Draft, emit: Emit) -> list[Var]:
    """Layer or RMS norm with weights, often of a sum that is an output too."""
    columns, residual = draft.columns(), draft.rng.random() < 0.5
    rows = draft.rows_of(columns, 4 if residual else 2)
    x = draft.input(rows, columns)
    results = []
    if residual:
        x = emit(op.add(x, draft.input(rows, columns)))
        results.append(x)
    if draft.rng.random() < 0.5:
        x = emit(op.nn.rms_norm(x, draft.input(columns), [-1]))
    else:
        x = emit(op.nn.layer_norm(x, draft.input(columns), draft.input(columns), [-1]))
    return [*results, chain(draft, emit, x, draft.pick(0, 0, 2), 0.7)]


def phases(draft: Draft, emit: Emit) -> list[Var]:
    """Several reductions, each of what the one before scaled."""
    columns = draft.columns()
    rows = draft.rows_of(columns, 2)
    x = draft.input(rows, columns)
    for _ in range(draft.pick(2, 3, 4)):
        total = emit(op.sum(emit(op.multiply(x, x)), axis=-1, keepdims=True))
        x = emit(op.multiply(x, emit(op.rsqrt(total))))
        x = chain(draft, emit, x, draft.pick(0, 1, 5), 0.5)
    return [x]


def backward(draft: Draft, emit: Emit) -> list[Var]:
    """What the gradient of a softmax or norm looks like: a row sum of a product, three tensors."""
    columns = draft.columns()
    rows = draft.rows_of(columns, 3)
    y, dy = draft.input(rows, columns), draft.input(rows, columns)
    product = emit(op.multiply(y, dy))
    total = emit(op.sum(product, axis=-1, keepdims=True))
    return [emit(op.subtract(product, emit(op.multiply(y, total))))]


def long_rows(draft: Draft, emit: Emit) -> list[Var]:
    """Few rows, too long for a block."""
    columns = draft.pick(16384, 30000, 65536, 100000, 131072, 262144, 524288)
    rows = max(1, min(draft.pick(1, 2, 8, 32, 64, 200, 1000), draft.elements(2) // columns))
    x = draft.input(rows, columns)
    kind = draft.pick(0, 1, 2)
    if kind == 0:
        return [emit(op.nn.softmax(x, -1))]
    if kind == 1:
        return [emit(op.nn.rms_norm(x, draft.input(columns), [-1]))]
    return [emit(op.sum(chain(draft, emit, x, 2, 0.3), axis=-1))]


def batch_norm(draft: Draft, emit: Emit) -> list[Var]:
    """A channel's pixels lie in pieces, one for each image."""
    images, channels = draft.pick(2, 8, 32), draft.pick(32, 64, 256)
    side = draft.pick(14, 28, 56, 112)
    while images > 1 and images * channels * side * side * 2 * ITEM[draft.dtype] > LARGEST:
        images //= 2
    x = draft.input(images, channels, side * side)
    mean = emit(op.mean(x, axis=[0, 2], keepdims=True))
    centred = emit(op.subtract(x, mean))
    variance = emit(op.mean(emit(op.multiply(centred, centred)), axis=[0, 2], keepdims=True))
    return [emit(op.multiply(centred, emit(op.rsqrt(variance))))]


def pack(draft: Draft, emit: Emit) -> list[Var]:
    """Unrelated short computations, as in an optimizer's step."""
    results = []
    for _ in range(draft.pick(2, 4, 8, 24)):
        size = min(draft.elements(3, 32 * 2**20), draft.pick(1024, 65536, 1 << 20))
        columns = draft.pick(64, 256)
        weight, gradient = (draft.input(max(1, size // columns), columns) for _ in range(2))
        scaled = emit(op.multiply(gradient, relax.const(0.01, draft.dtype)))
        results.append(emit(op.subtract(weight, scaled)))
    return results


def columns_sum(draft: Draft, emit: Emit) -> list[Var]:
    """A reduction over the first axis, which TVM's default way takes."""
    columns = draft.columns()
    x = draft.input(draft.rows_of(columns, 1), columns)
    return [emit(op.sum(chain(draft, emit, x, 1, 0.0), axis=0))]


FAMILIES = (
    (elementwise, 44), (reduction, 32), (softmax, 28), (norm, 32), (phases, 14), (backward, 10),
    (long_rows, 16), (batch_norm, 6), (pack, 12), (columns_sum, 6),
)  # fmt: skip


def names() -> list[str]:
    """The generated groups: "softmax-3" is the fourth of its family."""
    return [f"{family.__name__}-{n}" for family, count in FAMILIES for n in range(count)]


def generate(name: str) -> tvm.IRModule:
    """The graph of a name: always the same."""
    family, number = name.rsplit("-", 1)
    position = [each.__name__ for each, _ in FAMILIES].index(family)
    draft = Draft(np.random.default_rng((SEED, position, int(number))))
    builder = relax.BlockBuilder()
    with builder.function("main"):
        with builder.dataflow():
            results = FAMILIES[position][0](draft, builder.emit)
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output, params=draft.params)
    return builder.get()
