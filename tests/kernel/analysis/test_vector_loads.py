"""Slices and concatenations are read in vectors, as wide as their alignment allows.

Tensors are just large enough for a thread to get more than one element.
"""

import re

import numpy as np
import pytest
from accesses import reads
from check import check, cuda_of, the_kernel
from tvm import relax
from tvm.relax import op
from twins import Twin
from twins_verified import verify
from zoo import Case, graph, graph_of, softmax64


def split(emit, x, axis=-1):
    halves = emit(op.split(x, 2, axis))
    return tuple(emit(relax.TupleGetItem(halves, half)) for half in (0, 1))


def rotary(dtype: str, size: int, rows: int = 100) -> Case:
    """Halves of a head rotated against each other."""
    heads = -(-600_000 // (rows * size)) // 4 * 4 + 4

    def build(emit, x, cos, sin):
        low, high = split(emit, x)
        c, s = (emit(op.expand_dims(angle, 1)) for angle in (cos, sin))
        first = emit(op.subtract(emit(op.multiply(low, c)), emit(op.multiply(high, s))))
        second = emit(op.add(emit(op.multiply(high, c)), emit(op.multiply(low, s))))
        return emit(op.concat([first, second], -1))

    def expected(x, cos, sin):
        low, high = np.split(x, 2, -1)
        c, s = cos[:, None], sin[:, None]
        return np.concatenate([low * c - high * s, high * c + low * s], -1)

    half = size // 2
    return graph(dtype, [(rows, heads, size), (rows, half), (rows, half)], build, expected)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_a_rotary_embedding_reads_nothing_but_vectors(dtype):
    case = rotary(dtype, 64)
    check(case, orders=2)
    assert reads(case.module) == {"p0": {16}, "p1": {16}, "p2": {16}}


@pytest.mark.parametrize("size, widest", [(72, 8), (36, 4), (34, 0)])
def test_halves_that_are_less_aligned_are_read_in_shorter_vectors(size, widest):
    """Halves of 36, 18 and 17 elements of 2 bytes."""
    case = rotary("float16", size)
    check(case, orders=2)
    assert reads(case.module) == {"p0": {16, widest}, "p1": {widest}, "p2": {widest}}


def test_a_concatenation_reads_only_what_it_takes():
    """Elements of the other tensor would lie outside of it."""
    case = graph(
        "float32",
        [(30, 50, 128), (30, 70, 128)],
        lambda emit, x, y: emit(op.tanh(emit(op.concat([x, y], 1)))),
        lambda x, y: np.tanh(np.concatenate([x, y], 1)),
    )
    check(case, orders=2)
    assert reads(case.module) == {"p0": {16}, "p1": {16}}


@pytest.mark.parametrize("steps", [3, 12, 40])
def test_rows_of_many_tensors_share_registers(steps):
    """As of a loop's steps: of the vectors of a row, one at most is loaded."""

    def build(emit, *tensors):
        rows = emit(op.reshape(emit(op.concat(list(tensors), -1)), (8, steps, 512)))
        return emit(op.nn.softmax(rows, -1))

    def expected(*tensors):
        return softmax64(np.stack(tensors, 1))

    case = graph("float32", [(8, 512)] * steps, build, expected)
    check(case, orders=2)
    assert reads(case.module) == {f"p{n}": {16} for n in range(steps)}
    assert len(re.findall(r"float \w+_vector_ptr\[", cuda_of(the_kernel(case.module)))) == 1


def test_rows_of_concatenated_slices():
    def build(emit, x, y):
        low, high = split(emit, x)
        return emit(op.nn.softmax(emit(op.concat([high, y, low], -1)), -1))

    def expected(x, y):
        low, high = np.split(x, 2, -1)
        return softmax64(np.concatenate([high, y, low], -1))

    case = graph("float32", [(9, 64), (9, 32)], build, expected)
    check(case, orders=2)
    assert reads(case.module) == {"p0": {16}, "p1": {16}}


def test_a_place_found_at_run_time():
    """A row of a table, joined with a row of another tensor."""

    def build(emit, table, x):
        row = emit(op.take(table, emit(op.astype(relax.const([2, 0, 1]), "int64")), axis=0))
        return emit(op.tanh(emit(op.concat([row, x], -1))))

    check(
        graph(
            "float32",
            [(4, 32), (3, 32)],
            build,
            lambda table, x: np.tanh(np.concatenate([table[[2, 0, 1]], x], -1)),
        ),
        kernels=None,
    )


def test_padding_reads_inside_only():
    case = graph(
        "float32",
        [(1300, 256)],
        lambda emit, x: emit(op.tanh(emit(op.nn.pad(x, [0, 0, 8, 24])))),
        lambda x: np.tanh(np.pad(x, ((0, 0), (8, 24)))),
    )
    check(case, orders=2)
    assert reads(case.module) == {"p0": {16}}


def test_wide_elements_beside_narrow_ones():
    """Eight bytes an element along rows that are read four elements at a time."""
    counts = np.arange(1, 129)

    def build(emit, x, n):
        return emit(op.nn.softmax(emit(op.multiply(x, emit(op.astype(n, "float32"))))))

    inputs = [((40, 128), "float32", None), ((128,), "int64", counts)]
    check(graph_of(inputs, build, lambda x, n: softmax64(x * n)))


def turned(batch, length) -> Twin:
    """A rotary embedding of heads that lie side by side, as transformers has it."""

    def build(emit, of, x, cos, sin):
        b, s = of["b"], of["s"]
        heads = emit(op.permute_dims(emit(op.reshape(x, (b, s, 4, 64))), [0, 2, 1, 3]))
        low, high = split(emit, heads)
        other = emit(op.concat([emit(op.negative(high)), low], -1))
        c, s = (emit(op.reshape(angle, (1, 1, s, 64))) for angle in (cos, sin))
        return emit(op.add(emit(op.multiply(heads, c)), emit(op.multiply(other, s))))

    return Twin(
        lambda b, s: [(b * s, 256), (1, s, 64), (1, s, 64)],
        build,
        ({"b": batch, "s": length}, {"b": 1, "s": 1}, {"b": 3, "s": 31}),
        dtype="bfloat16",
    )


@pytest.mark.slow
def test_heads_of_symbolic_length_are_read_in_vectors_as_well():
    """Where a vector is, one division tells for all of its lanes, without asking for signs."""
    twin = turned(2, 33)
    verify(twin, *twin.sizes)
    source = cuda_of(the_kernel(twin.symbolic))
    assert set(re.findall(r"\*\((\w+)\*\)\(p\d", source)) == {"uint4"}
    assert not re.search(r"\bp\d+_ptr\[", source) and "rmod" not in source
