"""Random graphs of element-wise operators, reductions, broadcasts, views, slices and casts.

Every value is a Relax expression together with what NumPy makes of it, so a case checks itself.
Values are kept near one, for errors that are relative to the largest to mean something.

`python tests/random_graphs.py --count 300` checks as many graphs of 20 to 200 operators, more than
tests have time for; a seed that fails is printed with what went wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op
from zoo import Array, Case, Graph, softmax64

FLOATS = ("float32", "float16", "bfloat16")
# A value that has all but cancelled out, as the mean of x and -x, is nothing but rounding.
CANCELLED = 1e-6


@dataclass(frozen=True)
class Value:
    """A tensor: how to build it in Relax, and its float64 value."""

    build: Callable[[Any], Any]  # a memo of built values -> the Relax variable
    array: Array


class _Writer:
    """Grows a graph by one random operator after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph(seed)
        self.dtype = str(self.rng.choice(FLOATS, p=(0.6, 0.2, 0.2)))
        rows, columns = (int(n) for n in self.rng.choice((1, 2, 3, 5, 8, 16, 33, 40), 2))
        self.shape = (rows, columns) if self.rng.random() < 0.5 else (2, rows, columns)
        self.steps: list[tuple[Callable, tuple[int, ...]]] = []  # operator, operands
        self.arrays: list[Array] = []

    def inputs(self) -> None:
        for number in range(int(self.rng.integers(1, 4))):
            shape = list(self.shape)
            if number:
                kept = self.rng.random(len(shape)) < 0.6
                shape = [extent if keep else 1 for extent, keep in zip(shape, kept, strict=True)]
            self.arrays.append(self.graph.input(f"x{number}", tuple(shape), self.dtype))

    def pick(self) -> int:
        """A value, the later ones more often."""
        late = len(self.arrays) - 1 - int(self.rng.geometric(0.4)) + 1
        return max(0, min(late, len(self.arrays) - 1))

    def add(self, build: Callable, array: Array, *operands: int) -> None:
        if 0 < np.abs(array).max() < CANCELLED:
            return
        self.steps.append((build, operands))
        self.arrays.append(array)


def random_case(seed: int, operators: int = 12) -> Case:
    """The case of a seed: always the same."""
    writer = _Writer(seed)
    writer.inputs()
    inputs = len(writer.arrays)
    while len(writer.steps) < operators:
        choice = writer.rng.choice(len(OPERATORS), p=WEIGHTS)
        OPERATORS[choice][0](writer)
    used = {operand for _, operands in writer.steps for operand in operands}
    ends = [n for n in range(inputs, len(writer.arrays)) if n not in used]
    ends += [
        n for n in range(inputs, len(writer.arrays)) if n in used and writer.rng.random() < 0.1
    ]

    def build(emit: Callable, *params: Any) -> tuple:
        values = list(params)
        for make, operands in writer.steps:
            values.append(make(emit, *(values[operand] for operand in operands)))
        return tuple(values[end] for end in ends)

    return writer.graph.case(build, tuple(writer.arrays[end] for end in ends))


def _unary(writer: _Writer) -> None:
    names = ("tanh", "sigmoid", "negative", "abs", "exp", "sqrt")
    name = str(writer.rng.choice(names))
    operand = writer.pick()
    x = writer.arrays[operand]
    if name == "exp":  # of what is at most 0
        writer.add(
            lambda emit, x: emit(op.exp(emit(op.negative(emit(op.abs(x)))))),
            np.exp(-np.abs(x)), operand,
        )  # fmt: skip
    elif name == "sqrt":
        writer.add(lambda emit, x: emit(op.sqrt(emit(op.abs(x)))), np.sqrt(np.abs(x)), operand)
    else:
        numpy = {"tanh": np.tanh, "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
                 "negative": np.negative, "abs": np.abs}[name]  # fmt: skip
        writer.add(lambda emit, x: emit(getattr(op, name)(x)), numpy(x), operand)


def _binary(writer: _Writer) -> None:
    name = str(writer.rng.choice(("add", "subtract", "multiply", "maximum", "minimum")))
    left, right = writer.pick(), int(writer.rng.integers(len(writer.arrays)))
    x, y = writer.arrays[left], writer.arrays[right]
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return
    if np.prod(shape, dtype="int64") > 20_000:
        return
    writer.add(
        lambda emit, x, y: emit(getattr(op, name)(x, y)), getattr(np, name)(x, y), left, right
    )


def _reduction(writer: _Writer) -> None:
    operand = writer.pick()
    x = writer.arrays[operand]
    if not x.ndim:
        return
    name = str(writer.rng.choice(("sum", "max", "min", "mean")))
    first = int(writer.rng.integers(x.ndim)) if writer.rng.random() < 0.3 else x.ndim - 1
    axes = list(range(first, x.ndim))
    if writer.rng.random() < 0.15:
        axes = [int(writer.rng.integers(x.ndim))]
    keepdims = bool(writer.rng.random() < 0.7)
    array = getattr(np, name)(x, axis=tuple(axes), keepdims=keepdims)
    if name == "sum":  # keep the values small
        count = float(np.prod([x.shape[axis] for axis in axes]))
        scale = 2.0 ** -round(np.log2(count))
        dtype = writer.dtype

        def scaled(emit: Callable, x: Any) -> Any:
            small = emit(op.multiply(x, relax.const(scale, dtype)))
            return emit(op.sum(small, axis=axes, keepdims=keepdims))

        writer.add(scaled, array * scale, operand)
        return
    writer.add(
        lambda emit, x: emit(getattr(op, name)(x, axis=axes, keepdims=keepdims)), array, operand
    )


def _softmax(writer: _Writer) -> None:
    operand = writer.pick()
    x = writer.arrays[operand]
    if x.ndim:
        writer.add(lambda emit, x: emit(op.nn.softmax(x, -1)), softmax64(x), operand)


def _reshape(writer: _Writer) -> None:
    operand = writer.pick()
    x = writer.arrays[operand]
    extents = list(x.shape)
    if len(extents) > 1 and writer.rng.random() < 0.5:
        at = int(writer.rng.integers(len(extents) - 1))
        extents[at : at + 2] = [extents[at] * extents[at + 1]]
    elif extents:
        at = int(writer.rng.integers(len(extents)))
        factors = [n for n in range(1, extents[at] + 1) if extents[at] % n == 0]
        factor = int(writer.rng.choice(factors))
        extents[at : at + 1] = [extents[at] // factor, factor]
    shape = tuple(extents)
    if len(shape) <= 4:
        writer.add(lambda emit, x: emit(op.reshape(x, shape)), x.reshape(shape), operand)


def _transpose(writer: _Writer) -> None:
    operand = writer.pick()
    x = writer.arrays[operand]
    order = [int(axis) for axis in writer.rng.permutation(x.ndim)]
    if x.ndim > 1:
        writer.add(lambda emit, x: emit(op.permute_dims(x, order)), x.transpose(order), operand)


def _slice(writer: _Writer) -> None:
    operand = writer.pick()
    x = writer.arrays[operand]
    if not x.ndim:
        return
    axis = int(writer.rng.integers(x.ndim))
    first = int(writer.rng.integers(x.shape[axis]))
    last = int(writer.rng.integers(first, x.shape[axis])) + 1
    window = tuple(slice(first, last) if a == axis else slice(None) for a in range(x.ndim))
    writer.add(
        lambda emit, x: emit(op.strided_slice(x, [axis], [first], [last])), x[window], operand
    )


def _concat(writer: _Writer) -> None:
    operand = writer.pick()
    x = writer.arrays[operand]
    same = [n for n, other in enumerate(writer.arrays) if other.shape == x.shape]
    other = int(writer.rng.choice(same))
    if not x.ndim:
        return
    axis = int(writer.rng.integers(x.ndim))
    if x.size * 2 <= 20_000:
        writer.add(
            lambda emit, x, y: emit(op.concat([x, y], axis)),
            np.concatenate([x, writer.arrays[other]], axis), operand, other,
        )  # fmt: skip


def _select(writer: _Writer) -> None:
    """Elements of one value where it is above another's, else their difference."""
    left, right = writer.pick(), int(writer.rng.integers(len(writer.arrays)))
    x, y = writer.arrays[left], writer.arrays[right]
    if x.shape != y.shape:
        return
    # Rounding may turn a comparison: both branches are the same where the values are.
    writer.add(
        lambda emit, x, y: emit(op.where(emit(op.greater(x, y)), x, y)),
        np.where(x > y, x, y), left, right,
    )  # fmt: skip


def _through_float32(writer: _Writer) -> None:
    operand = writer.pick()
    dtype = writer.dtype

    def build(emit: Callable, x: Any) -> Any:
        wide = emit(op.tanh(emit(op.astype(x, "float32"))))
        return emit(op.astype(wide, dtype))

    writer.add(build, np.tanh(writer.arrays[operand]), operand)


OPERATORS = [
    (_unary, 5), (_binary, 6), (_reduction, 4), (_softmax, 1), (_reshape, 2), (_transpose, 1),
    (_slice, 1), (_concat, 1), (_select, 1), (_through_float32, 1),
]  # fmt: skip
WEIGHTS = np.array([weight for _, weight in OPERATORS]) / sum(weight for _, weight in OPERATORS)


def operators_of(seed: int) -> int:
    """20 to 200 operators, small graphs more often: a large one takes minutes."""
    return int(20 * 10 ** (np.random.default_rng(seed).random() ** 2))


def main() -> int:
    """Check seeds one by one; 1 if any is wrong."""
    from check import check, plan_of

    parser = argparse.ArgumentParser(description="random graphs on the CPU, against float64")
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--count", type=int, default=300, help="how many seeds")
    parser.add_argument("--orders", type=int, default=1, help="thread orders of each kernel")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.first, options.first + options.count):
        count, start = operators_of(seed), time.monotonic()
        case = random_case(seed, count)
        try:
            found = check(case, kernels=None, orders=options.orders)
            unexplained = [f.op for f in plan_of(case.module).fallbacks if not f.reason]
            assert not unexplained, f"left to TVM without a reason: {unexplained}"
            verdict = f"right, {len(found.kernels)} kernels"
        except Exception as error:
            failed += 1
            verdict = f"WRONG: {type(error).__name__}: {error}"
        seconds = time.monotonic() - start
        print(f"seed {seed}, {count} operators, {seconds:.0f} s: {verdict}", flush=True)
    print(f"{options.count - failed} of {options.count} right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
