"""Matrix products: operands read where they lie, sums of halves in float32, what follows."""

import numpy as np
import pytest
import tvm
from decompose_helpers import EPSILON, compiled, emitted, error, numpy_dtype, operators
from tvm import relax
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R

from tvm_stitch.graph.front.decompose import Decompose

DTYPES = ["float32", "float16"]


def check(build, shapes, expected, left=(), dtype="float32", sizes=None, arrays=None):
    """Beside products in TIR these operators are left, and the numbers are those of float64."""
    mod = emitted(build, shapes, dtype)
    written = Decompose()(mod)
    assert written["main"].ret_ty == mod["main"].ret_ty
    names = [name.removeprefix("relax.") for name in operators(written)]
    assert sorted(name for name in names if name != "call_tir") == sorted(left)
    if arrays is None:
        random = np.random.default_rng(0)
        arrays = [random.standard_normal(shape) for shape in sizes or shapes]
    arrays = [array.astype(numpy_dtype(dtype)) for array in arrays]
    want = expected(*(array.astype("float64") for array in arrays))
    tolerance = 0.51 * EPSILON[dtype] + 2e-6
    for got, exact in zip(
        compiled(written)(arrays), want if isinstance(want, tuple) else (want,), strict=True
    ):
        assert error(got, exact) <= tolerance
    return written


def heads_of(emit, x, rows, heads, size):
    """(batch * rows, heads * size) to (batch, heads, rows, size), as PyTorch writes it."""
    batch = x.ty.shape[0] // rows
    split = emit(op.reshape(x, (batch, rows, heads, size)))
    return emit(op.permute_dims(split, [0, 2, 1, 3]))


def joined(emit, x):
    """(batch, heads, rows, size) to (batch * rows, heads * size)."""
    batch, heads, rows, size = x.ty.shape
    turned = emit(op.permute_dims(x, [0, 2, 1, 3]))
    return emit(op.reshape(turned, (batch * rows, heads * size)))


def joined64(x):
    return x.transpose(0, 2, 1, 3).reshape(len(x) * x.shape[2], -1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, inner, columns", [(7, 31, 33), (1, 9, 5), (5, 8, 2)])
def test_a_transposed_weight_is_read_in_place(rows, inner, columns, dtype):
    def build(emit, x, w):
        return emit(op.matmul(x, emit(op.permute_dims(w))))

    cast = ["astype"] if dtype == "float16" else []
    check(build, [(rows, inner), (columns, inner)], lambda x, w: x @ w.T, cast, dtype)


def test_a_gradient_reads_both_operands_transposed():
    def build(emit, x, dy):
        first, second = emit(op.permute_dims(x)), emit(op.permute_dims(dy))
        return emit(op.matmul(first, second))

    check(build, [(7, 5), (9, 7)], lambda x, dy: x.T @ dy.T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_heads_are_read_between_the_rows(dtype):
    """Heads made part of the batch, as PyTorch's export has it, are taken out of it again."""

    def build(emit, q, k):
        q, k = heads_of(emit, q, 7, 3, 5), heads_of(emit, k, 9, 3, 5)
        k = emit(op.permute_dims(k, [0, 1, 3, 2]))
        q = emit(op.reshape(emit(op.broadcast_to(q, (2, 3, 7, 5))), (6, 7, 5)))
        k = emit(op.reshape(emit(op.broadcast_to(k, (2, 3, 5, 9))), (6, 5, 9)))
        scores = emit(op.matmul(q, k, "float32"))
        scores = emit(op.reshape(emit(op.astype(scores, dtype)), (2, 3, 7, 9)))
        return emit(op.nn.relu(scores))

    def expected(q, k):
        q, k = (x.reshape(2, -1, 3, 5).transpose(0, 2, 1, 3) for x in (q, k))
        return np.maximum(q @ k.swapaxes(2, 3), 0)

    cast = ["astype"] if dtype == "float16" else []
    left = ["reshape", "reshape", *cast, "nn.relu"]
    check(build, [(14, 15), (18, 15)], expected, left, dtype)


@pytest.mark.parametrize("transposed", [False, True])
def test_halves_of_heads_that_lie_apart_are_summed_in_place(transposed):
    def build(emit, x, w):
        return emit(op.matmul(joined(emit, x), emit(op.permute_dims(w)) if transposed else w))

    def expected(x, w):
        return joined64(x) @ (w.T if transposed else w)

    weight = (9, 24) if transposed else (24, 9)
    check(build, [(2, 3, 7, 8), weight], expected, ["reshape", "astype"], "float16")


def test_weights_whose_taps_are_innermost_are_transposed_for_windows_of_channels():
    """Each of their elements would be a load of its own: 279 us for 16 products of 400 x 6144 x 48
    by the planner's figures, where the library takes 31."""

    def build(emit, x, w):
        by_tap = emit(op.permute_dims(emit(op.reshape(w, (5, 8, 4))), [0, 2, 1]))
        weights = emit(op.permute_dims(emit(op.reshape(by_tap, (5, 32)))))
        return emit(op.matmul(x, weights))

    def expected(x, w):
        return x @ w.reshape(5, 8, 4).transpose(0, 2, 1).reshape(5, 32).T

    left = ["reshape", "permute_dims", "reshape", "astype"]

    check(build, [(7, 32), (5, 32)], expected, left, "float16")


def test_rows_may_be_of_several_dimensions_in_memory():
    def build(emit, x, w):
        turned = emit(op.permute_dims(x, [1, 0, 2]))
        return emit(op.matmul(emit(op.reshape(turned, (14, 5))), w))

    def expected(x, w):
        return x.transpose(1, 0, 2).reshape(14, 5) @ w

    check(build, [(7, 2, 5), (5, 9)], expected, ["reshape"])


@pytest.mark.parametrize("width, dtype", [(7, "float16"), (8, "float16"), (7, "float32")])
def test_pixels_of_images_with_channels_first_are_copied_where_no_vectors_lie(width, dtype):
    """As rows of a product of halves: pieces of 49 of them would be loaded one by one."""
    is_copied = dtype == "float16" and width % 2

    def build(emit, x, w):
        turned = emit(op.permute_dims(x, [0, 2, 3, 1]))
        return emit(op.matmul(emit(op.reshape(turned, (2 * width * width, 16))), w))

    def expected(x, w):
        return x.transpose(0, 2, 3, 1).reshape(-1, 16) @ w

    cast = ["astype"] if dtype == "float16" else []
    left = ["permute_dims", "reshape", "matmul"] if is_copied else ["reshape", "reshape"]
    check(build, [(2, 16, width, width), (16, 9)], expected, [*left, *cast], dtype)


def test_batch_and_length_may_be_symbolic():
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")

    def build(emit, q, k):
        q, k = (emit(op.permute_dims(x, [0, 2, 1, 3])) for x in (q, k))
        q = emit(op.reshape(q, (3 * n, m, 5)))
        k = emit(op.reshape(emit(op.permute_dims(k, [0, 1, 3, 2])), (3 * n, 5, m)))
        return emit(op.reshape(emit(op.matmul(q, k)), (n, 3, m, m)))

    def expected(q, k):
        q, k = (x.transpose(0, 2, 1, 3) for x in (q, k))
        return q @ k.swapaxes(2, 3)

    check(build, [(n, m, 3, 5)] * 2, expected, sizes=[(2, 7, 3, 5)] * 2)


def test_keys_of_few_heads_are_not_repeated_in_memory():
    def build(emit, q, k):
        many = emit(op.broadcast_to(emit(op.expand_dims(k, 2)), (2, 3, 4, 9, 5)))
        k = emit(op.permute_dims(emit(op.reshape(many, (2, 12, 9, 5))), [0, 1, 3, 2]))
        return emit(op.matmul(q, k))

    def expected(q, k):
        return q @ np.repeat(k, 4, axis=1).swapaxes(2, 3)

    # The four that share keys are an axis of their own; queries and result are only seen otherwise.
    check(build, [(2, 12, 7, 5), (2, 3, 9, 5)], expected, ["reshape", "reshape"])


def test_what_others_need_transposed_is_transposed_for_them():
    def build(emit, x, w):
        turned = emit(op.permute_dims(w))
        return emit(op.matmul(x, turned)), turned

    written = check(build, [(7, 5), (9, 5)], lambda x, w: (x @ w.T, w.T.copy()), ["permute_dims"])
    main = written["main"]
    (call,) = (b.value for b in main.body.blocks[0].bindings if b.value.op.name == "relax.call_tir")
    assert [argument.same_as(p) for argument, p in zip(call.args[1], main.params, strict=True)] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    "build, shapes, expected",
    [
        pytest.param(
            lambda emit, x, y: emit(op.matmul(emit(op.permute_dims(x, [2, 0, 1])), y)),
            [(7, 5, 4), (4, 5, 9)],
            lambda x, y: x.transpose(2, 0, 1) @ y,
            id="a batch that is innermost in memory",
        ),
        pytest.param(
            lambda emit, x, y: emit(op.matmul(joined(emit, x), y)),
            [(2, 3, 7, 5), (15, 9)],
            lambda x, y: joined64(x) @ y,
            id="heads that are summed over in float32",
        ),
        pytest.param(
            lambda emit, x, _: emit(op.matmul(x, emit(op.permute_dims(x)))),
            [(7, 5), (1,)],
            lambda x, _: x @ x.T,
            id="one tensor with itself",
        ),
        pytest.param(
            lambda emit, x, y: emit(op.matmul(x, emit(op.broadcast_to(y, (5, 9))))),
            [(7, 5), (1, 9)],
            lambda x, y: x @ np.broadcast_to(y, (5, 9)),
            id="a contracted dimension that is repeated",
        ),
        pytest.param(
            lambda emit, x, y: emit(op.matmul(emit(op.permute_dims(x)), y)),
            [(1, 7), (1, 9)],
            lambda x, y: x.T @ y,
            id="nothing to sum",
        ),
        pytest.param(
            lambda emit, x, y: emit(op.matmul(emit(op.permute_dims(x)), y)),
            [(5, 7), (5,)],
            lambda x, y: x.T @ y,
            id="a vector",
        ),
    ],
)
def test_these_products_stay(build, shapes, expected):
    before = emitted(build, shapes)
    written = Decompose()(before)
    assert operators(written) == operators(before)
    check(build, shapes, expected, [n.removeprefix("relax.") for n in operators(before)])


def test_products_without_elements_stay():
    def build(emit, x, w):
        return emit(op.matmul(x, emit(op.permute_dims(w))))

    assert operators(Decompose()(emitted(build, [(7, 0), (9, 0)]))) == [
        "relax.permute_dims",
        "relax.matmul",
    ]


def test_views_without_elements_are_views():
    def build(emit, x):
        flat = emit(op.reshape(x, (2, 0, 1)))
        return emit(op.reshape(flat, (2, 0))), emit(op.exp(emit(op.reshape(flat, (2, 0, 1, 1)))))

    names = operators(Decompose()(emitted(build, [(2, 0)])))
    assert names == ["relax.reshape", "relax.reshape", "relax.reshape", "relax.exp"]


def test_a_constant_weight_is_transposed_by_the_compiler():
    weight = np.arange(45, dtype="float32").reshape(9, 5)

    def build(emit, x):
        return emit(op.matmul(x, emit(op.permute_dims(relax.const(weight)))))

    check(build, [(7, 5)], lambda x: x @ weight.T, ["permute_dims", "matmul"])


@pytest.mark.parametrize(
    "rows, dtype, left",
    [
        pytest.param(7, "float32", [], id="few rows"),
        pytest.param(8, "float32", ["permute_dims", "matmul"], id="many rows"),
        pytest.param(128, "float16", ["astype"], id="halves"),
    ],
)
def test_a_float32_weight_is_transposed_for_many_rows(rows, dtype, left):
    def build(emit, x, w):
        return emit(op.matmul(x, emit(op.permute_dims(w))))

    check(build, [(rows, 5), (9, 5)], lambda x, w: x @ w.T, left, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_halves_are_summed_in_float32(transposed, dtype):
    """A sum of 8192 positive numbers, of which a half's would miss most: they are too small."""

    def build(emit, x, w):
        return emit(op.matmul(x, emit(op.permute_dims(w)) if transposed else w))

    random = np.random.default_rng(0)
    arrays = [random.uniform(0.1, 0.5, shape) for shape in ((3, 8192), (8192, 2))]
    if transposed:
        arrays[1] = np.ascontiguousarray(arrays[1].T)
    left = ["astype"] if transposed else ["astype", "matmul"]
    check(
        build,
        [array.shape for array in arrays],
        lambda x, w: x @ (w.T if transposed else w),
        left,
        dtype,
        arrays=arrays,
    )


@pytest.mark.parametrize("dtype, wanted", [("float64", None), ("float16", "float64")])
def test_what_is_summed_in_float64_stays(dtype, wanted):
    def build(emit, x, w):
        return emit(op.matmul(x, emit(op.permute_dims(w)), wanted))

    names = operators(Decompose()(emitted(build, [(7, 5), (9, 5)], dtype)))
    assert names == ["relax.permute_dims", "relax.matmul"]


# What follows a product


def linear(emit, x, w, b, after):
    """A linear layer over tokens, as PyTorch's export writes it."""
    flat = emit(op.matmul(emit(op.reshape(x, (14, 5))), w, "float32"))
    added = emit(op.add(b, emit(op.astype(flat, "float16"))))
    return emit(op.reshape(after(emit(op.reshape(added, (2, 7, 9)))), (14, 9)))


def test_no_reshape_stands_between_a_product_and_what_follows():
    def build(emit, x, w, b):
        return linear(
            emit,
            x,
            w,
            b,
            lambda y: emit(op.nn.relu(emit(op.multiply(y, relax.const(2.0, "float16"))))),
        )

    def expected(x, w, b):
        return np.maximum(2 * (x.reshape(14, 5) @ w + b), 0)

    left = ["reshape", "matmul", "astype", "add", "multiply", "nn.relu"]
    mod = emitted(build, [(2, 7, 5), (5, 9), (9,)], "float16")
    assert [n.removeprefix("relax.") for n in operators(Decompose()(mod))] == left


@pytest.mark.parametrize(
    "bias, before",
    [
        pytest.param((9,), True, id="along the columns"),
        pytest.param((7, 9), False, id="by token, which the flat rows do not know"),
        pytest.param((2, 7, 9), False, id="another tensor"),
        pytest.param((3, 2, 7, 9), False, id="a larger tensor"),
    ],
)
def test_a_reshape_stays_where_its_shape_is_needed(bias, before):
    def build(emit, x, w, b):
        y = emit(op.reshape(emit(op.matmul(x, w)), (2, 7, 9)))
        return emit(op.add(b, y))

    def expected(x, w, b):
        return b + (x @ w).reshape(2, 7, 9)

    written = check(build, [(14, 5), (5, 9), bias], expected, ["matmul", "reshape", "add"])
    assert operators(written).index("relax.add") == (1 if before else 2)


def test_two_products_meet_before_their_reshapes():
    def build(emit, x, w, u):
        first, second = (
            emit(op.reshape(emit(op.matmul(x, weight)), (2, 7, 9))) for weight in (w, u)
        )
        return emit(op.multiply(emit(op.nn.relu(first)), second))

    def expected(x, w, u):
        return (np.maximum(x @ w, 0) * (x @ u)).reshape(2, 7, 9)

    left = ["matmul", "matmul", "nn.relu", "multiply", "reshape"]
    written = check(build, [(14, 5), (5, 9), (5, 9)], expected, left)
    assert operators(written)[-1] == "relax.reshape"


def test_values_of_another_block_are_left_to_it():
    """What a block keeps to itself cannot be read from the next one."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((5, 5), "float32"), w: R.Tensor((5, 5), "float32")):
            with R.dataflow():
                inner = R.exp(w)
                turned = R.permute_dims(inner)
                R.output(turned)
            y = R.tanh(x)
            with R.dataflow():
                z = R.matmul(y, turned)
                R.output(z)
            return z

    assert Decompose()(Module)["main"].same_as(Module["main"])
