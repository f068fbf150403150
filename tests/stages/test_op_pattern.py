"""What kind of operator a PrimFunc is, seen from its TIR."""

from functools import partial

import pytest
from tvm import te, tirx, topi

from tvm_stitch.stages.op_pattern import Pattern, classify
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused


def pattern(*tensors) -> Pattern:
    stages = read_stages(te.create_prim_func(list(tensors)))
    return classify(()) if isinstance(stages, Refused) else classify(stages)


def tensor(*shape, dtype="float32"):
    return te.placeholder(shape, dtype, "x")


def of(compute, *shapes, dtype="float32"):
    """The pattern of a computation over tensors of these shapes."""
    tensors = [te.placeholder(shape, dtype, f"t{i}") for i, shape in enumerate(shapes)]
    return pattern(*tensors, compute(*tensors))


@pytest.mark.parametrize(
    "expected, compute, shapes",
    [
        (Pattern.ELEMENTWISE, topi.exp, [(4, 5)]),
        (Pattern.ELEMENTWISE, topi.add, [(4, 5), (4, 5)]),
        (Pattern.ELEMENTWISE, lambda x: topi.cast(x, "float16"), [(4, 5)]),
        (Pattern.ELEMENTWISE, topi.add, [(4, 1, 5), (4, 1, 5)]),
        (Pattern.BROADCAST, topi.add, [(4, 5), (5,)]),
        (Pattern.BROADCAST, topi.add, [(4, 1), (1, 5)]),
        (Pattern.BROADCAST, topi.add, [(4, 5), ()]),
        (Pattern.BROADCAST, lambda x: topi.broadcast_to(x, (3, 4, 5)), [(4, 5)]),
        (Pattern.RESHAPE, lambda x: topi.reshape(x, (5, 4)), [(4, 5)]),
        (Pattern.RESHAPE, lambda x: topi.reshape(x, (20,)), [(4, 5)]),
        (Pattern.RESHAPE, lambda x: topi.expand_dims(x, 1), [(4, 5)]),
        (Pattern.RESHAPE, lambda x: topi.squeeze(x, 1), [(4, 1, 5)]),
        (Pattern.INJECTIVE, topi.transpose, [(4, 5)]),
        (Pattern.INJECTIVE, lambda x: topi.strided_slice(x, [0, 1], [4, 3]), [(4, 5)]),
        (Pattern.INJECTIVE, lambda x, y: topi.concatenate([x, y], 1), [(4, 5), (4, 6)]),
        (Pattern.INJECTIVE, lambda x: topi.flip(x, 1), [(4, 5)]),
        (Pattern.INJECTIVE, lambda x: topi.nn.pad(x, (0, 1)), [(4, 5)]),
        (Pattern.ROW_REDUCTION, lambda x: topi.sum(x, axis=1), [(4, 5)]),
        (Pattern.ROW_REDUCTION, lambda x: topi.max(x, axis=[1, 2], keepdims=True), [(3, 4, 5)]),
        (Pattern.ROW_REDUCTION, topi.sum, [(4, 5)]),
        (Pattern.COLUMN_REDUCTION, lambda x: topi.sum(x, axis=0), [(4, 5)]),
        (Pattern.COLUMN_REDUCTION, lambda x: topi.sum(x, axis=1), [(3, 4, 5)]),
        (Pattern.COLUMN_REDUCTION, lambda x: topi.max(x, axis=[0, 2]), [(3, 4, 5)]),
        (Pattern.PRODUCT, topi.matmul, [(4, 5), (5, 6)]),
        (Pattern.PRODUCT, lambda x, y: topi.matmul(x, y, False, True), [(4, 5), (6, 5)]),
        (Pattern.PRODUCT, topi.nn.batch_matmul, [(2, 4, 5), (2, 6, 5)]),
        (Pattern.PRODUCT, lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 1, 1), [(1, 3, 8, 8), (4, 3, 3, 3)]),  # noqa: E501
    ],
)  # fmt: skip
def test_patterns(expected, compute, shapes):
    assert of(compute, *shapes) is expected


def test_a_matrix_and_a_vector_are_a_weighted_reduction():
    """The matrix is read once: a reduction of its rows or columns, whichever way it lies."""
    assert of(topi.matmul, (40, 50), (50, 1)) is Pattern.ROW_REDUCTION
    transposed = partial(topi.matmul, transp_b=True)
    assert of(transposed, (1, 50), (60, 50)) is Pattern.ROW_REDUCTION
    assert of(topi.matmul, (1, 50), (50, 60)) is Pattern.COLUMN_REDUCTION


def test_lookups_are_injective():
    table, index = tensor(100, 64), te.placeholder((10,), "int64", "index")
    assert pattern(table, index, topi.take(table, index, axis=0)) is Pattern.INJECTIVE


def test_the_most_bound_stage_decides():
    x = tensor(4, 5)
    assert pattern(x, topi.exp(topi.sum(x, axis=1))) is Pattern.ROW_REDUCTION
    assert pattern(x, topi.exp(topi.transpose(x))) is Pattern.INJECTIVE


def test_what_cannot_be_read_is_opaque():
    x = tensor(4, 5)
    assert pattern(x, topi.argmax(x, axis=1)) is Pattern.OPAQUE


def test_symbolic_rows():
    n = tirx.Var("n", "int64")
    assert of(topi.exp, (n, 5)) is Pattern.ELEMENTWISE
    assert of(topi.add, (n, 5), (5,)) is Pattern.BROADCAST
    assert of(lambda x: topi.sum(x, axis=1), (n, 5)) is Pattern.ROW_REDUCTION
    assert of(lambda x: topi.sum(x, axis=0), (n, 5)) is Pattern.COLUMN_REDUCTION
    assert of(topi.matmul, (n, 5), (5, 6)) is Pattern.PRODUCT


def test_symbolic_columns():
    m = tirx.Var("m", "int64")
    assert of(lambda x: topi.sum(x, axis=1), (4, m)) is Pattern.ROW_REDUCTION
    assert of(topi.add, (4, m), (m,)) is Pattern.BROADCAST
