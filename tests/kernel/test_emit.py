"""What one kernel can compute, each against NumPy, in several thread orders."""

import numpy as np
import pytest
from check import DTYPES, H200, check, cuda_of, program_of, the_kernel
from tvm import relax
from tvm.relax import op
from zoo import Graph, graph, graph_of, norm64, softmax64

from tvm_stitch import simt
from tvm_stitch.build import lowering_context
from tvm_stitch.kernel.ir.program import Where

REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


def softmax_of(build, expected, *shapes, dtype="float32"):
    """A case whose rows go through a softmax after `build`."""
    return graph(
        dtype,
        list(shapes),
        lambda emit, *args: emit(op.nn.softmax(build(emit, *args), -1)),
        lambda *arrays: softmax64(expected(*arrays)),
    )


# Reductions


@pytest.mark.spread(2)
@pytest.mark.parametrize("keepdims", (False, True))
@pytest.mark.parametrize("axes", ([3], [2, 3], [1, 2, 3], [0, 1, 2, 3]))
def test_trailing_axes(axes, keepdims):
    check(
        graph(
            "float32",
            [(3, 4, 5, 6)],
            lambda emit, x: emit(op.sum(x, axis=axes, keepdims=keepdims)),
            lambda x: x.sum(tuple(axes), keepdims=keepdims),
        )
    )


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", ("int8", "uint8", "int32", "int64"))
@pytest.mark.parametrize("name", REDUCTIONS)
def test_integer_reductions(name, dtype):
    low = 0 if dtype == "uint8" else -3
    values = np.random.default_rng(1).integers(low, 4, (9, 70)).astype(dtype)
    keep_dtype = {"dtype": dtype} if name in ("sum", "prod") else {}
    case = graph_of(
        [((9, 70), dtype, values)],
        lambda emit, x: emit(getattr(op, name)(x, axis=-1)),
        lambda x: REDUCTIONS[name](x, axis=-1, **keep_dtype),
    )
    check(case, orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_floating_reductions(name, dtype):
    values = np.random.default_rng(2).uniform(0.8, 1.25, (5, 140))
    check(
        graph_of(
            [((5, 140), dtype, values)],
            lambda emit, x: emit(getattr(op, name)(x, axis=-1)),
            lambda x: REDUCTIONS[name](x, axis=-1),
        ),
        orders=2,
    )


@pytest.mark.parametrize("columns", (7, 70, 3000))
def test_products_across_warps_and_blocks(columns):
    values = np.random.default_rng(3).uniform(0.98, 1.02, (3, columns))
    check(
        graph_of(
            [((3, columns), "float32", values)],
            lambda emit, x: emit(op.prod(x, axis=-1)),
            lambda x: x.prod(-1),
        )
    )


def test_all_elements_and_what_uses_the_result():
    def build(emit, x):
        length = emit(op.sqrt(emit(op.sum(emit(op.multiply(x, x))))))
        return emit(op.divide(x, length)), length

    def expected(x):
        length = np.sqrt((x * x).sum())
        return x / length, length

    check(graph("float32", [(64, 63)], build, expected))


def test_outputs_of_different_shapes():
    def build(emit, x):
        total = emit(op.sum(x, axis=[-1]))
        return total, emit(op.exp(x)), emit(op.max(x, axis=[-1], keepdims=True))

    check(
        graph(
            "float32",
            [(5, 6, 70)],
            build,
            lambda x: (x.sum(-1), np.exp(x), x.max(-1, keepdims=True)),
        )
    )


def test_outputs_of_different_dtypes():
    def build(emit, x):
        positive = emit(op.greater(x, relax.const(0.0)))
        count = emit(op.sum(emit(op.astype(positive, "int32")), axis=-1))
        return emit(op.astype(emit(op.nn.softmax(x)), "float16")), positive, count

    check(
        graph(
            "float32",
            [(9, 70)],
            build,
            lambda x: (softmax64(x), x > 0, (x > 0).sum(-1).astype("int32")),
        )
    )


def test_quantised_rows():
    """A scale for each row from its maximum, in 8 bits."""

    def build(emit, x):
        scale = emit(op.max(emit(op.abs(x)), axis=-1, keepdims=True))
        scale = emit(op.divide(scale, relax.const(128.0)))
        rounded = emit(op.round(emit(op.multiply(x, relax.const(16.0)))))
        return emit(op.astype(rounded, "int8")), scale

    values = np.random.default_rng(4).integers(-100, 100, (9, 70)) / 16
    check(
        graph_of(
            [((9, 70), "float32", values)],
            build,
            lambda x: ((x * 16).astype("int8"), np.abs(x).max(-1, keepdims=True) / 128),
        )
    )


# Broadcasts


def subtract(emit, x, y):
    return emit(op.subtract(x, y))


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "left, right",
    [
        ((60,), (50, 60)),
        ((50, 60), (60,)),
        ((50, 1), (50, 60)),
        ((50, 60), (50, 1)),
        ((4, 1, 60), (4, 5, 60)),
        ((1, 5, 60), (4, 5, 60)),
        ((50, 1), (1, 60)),
        ((), (7, 60)),
        ((1, 1), (7, 60)),
    ],
    ids=str,
)
def test_broadcasts(left, right):
    check(softmax_of(subtract, np.subtract, left, right))


def test_broadcasts_without_rows():
    check(
        graph(
            "float16",
            [(50, 1), (1, 60), (60,)],
            lambda emit, a, b, c: emit(op.multiply(emit(op.add(a, b)), c)),
            lambda a, b, c: (a + b) * c,
        )
    )


def test_a_small_output_of_a_broadcast_is_computed_again():
    def build(emit, a, b):
        small = emit(op.exp(a))
        return emit(op.add(small, b)), small

    check(
        graph("float32", [(50, 1), (1, 60)], build, lambda a, b: (np.exp(a) + b, np.exp(a))),
        kernels=2,
    )


def test_scalars():
    check(graph("float32", [(), ()], lambda emit, a, b: emit(op.add(a, b)), np.add))


# Other places of the row


def test_slice_of_the_row():
    check(
        softmax_of(
            lambda emit, x: emit(op.strided_slice(x, [1], [3], [40])),
            lambda x: x[:, 3:40],
            (60, 50),
        )
    )


def test_concatenated_rows():
    check(
        softmax_of(
            lambda emit, a, b: emit(op.concat([emit(op.exp(a)), b], 1)),
            lambda a, b: np.concatenate([np.exp(a), b], 1),
            (60, 50),
            (60, 30),
        )
    )


def test_padded_rows():
    check(
        softmax_of(
            lambda emit, x: emit(op.nn.pad(x, [0, 0, 3, 5])),
            lambda x: np.pad(x, ((0, 0), (3, 5))),
            (10, 64),
        )
    )


def test_halves_of_a_row_multiplied():
    """The gate of a SwiGLU."""

    def build(emit, x):
        halves = emit(op.split(x, 2, 1))
        first, second = (emit(relax.TupleGetItem(halves, half)) for half in (0, 1))
        return emit(op.multiply(emit(op.nn.silu(first)), second))

    check(
        graph(
            "float32",
            [(10, 64)],
            build,
            lambda x: x[:, :32] / (1 + np.exp(-x[:, :32])) * x[:, 32:],
        )
    )


def test_rotated_halves():
    """The rotation of a rotary embedding."""

    def build(emit, x):
        halves = emit(op.split(x, 2, -1))
        first, second = (emit(relax.TupleGetItem(halves, half)) for half in (0, 1))
        return emit(op.concat([emit(op.negative(second)), first], -1))

    check(
        graph(
            "float16",
            [(2, 5, 4, 64)],
            build,
            lambda x: np.concatenate([-x[..., 32:], x[..., :32]], -1),
        )
    )


def test_gathered_rows():
    """An embedding and the norm after it."""
    index = np.array([[1, 99, 0, 7, 7], [3, 98, 50, 2, 0]], "int32")
    case = graph_of(
        [((100, 64), "float32", None), ((2, 5), "int32", index), ((64,), "float32", None)],
        lambda emit, table, index, w: emit(
            op.nn.layer_norm(emit(op.take(table, index, axis=0)), w, w, axes=[-1])
        ),
        lambda table, index, w: norm64(table[index]) * w + w,
    )
    check(case)


def test_transpose_of_elements():
    check(
        graph(
            "float32",
            [(33, 70)],
            lambda emit, x: emit(op.tanh(emit(op.permute_dims(emit(op.exp(x)))))),
            lambda x: np.tanh(np.exp(x).T),
        )
    )


def test_masked_by_booleans():
    mask = np.random.default_rng(5).random((9, 70)) > 0.5
    case = graph_of(
        [((9, 70), "float32", None), ((9, 70), "bool", mask)],
        lambda emit, x, mask: emit(
            op.nn.softmax(emit(op.where(mask, x, relax.const(-1e4, "float32"))))
        ),
        lambda x, mask: softmax64(np.where(mask, x, -1e4)),
    )
    check(case)


def test_constants_of_the_model():
    bias = np.arange(70, dtype="float32") / 8
    check(
        softmax_of(lambda emit, x: emit(op.add(x, relax.const(bias))), lambda x: x + bias, (9, 70))
    )


def test_views_between_rows_and_elements():
    check(
        graph(
            "float32",
            [(10, 64)],
            lambda emit, x: emit(
                op.exp(emit(op.reshape(emit(op.nn.softmax(emit(op.negative(x)))), (40, 16))))
            ),
            lambda x: np.exp(softmax64(-x).reshape(40, 16)),
        )
    )


# Values that are not finite


def special_rows() -> np.ndarray:
    x = np.random.default_rng(6).standard_normal((5, 70)).astype("float32")
    x[0] = -np.inf
    x[1, 4] = -np.inf
    x[2, 6] = np.inf
    x[3, 8] = np.nan
    return x


def test_masked_columns_are_nothing_after_a_softmax():
    x = np.random.default_rng(7).standard_normal((9, 70))
    x[:, 30:] = -np.inf
    case = graph_of(
        [((9, 70), "float32", x)], lambda emit, x: emit(op.nn.softmax(x, -1)), softmax64
    )
    check(case)


def test_sums_pass_on_what_is_not_a_number():
    case = graph_of(
        [((5, 70), "float32", special_rows())],
        lambda emit, x: emit(op.sum(x, axis=-1)),
        lambda x: x.sum(-1),
    )
    check(case)


@pytest.mark.parametrize("name", ("max", "min"))
def test_extremes_as_cuda_takes_them(name):
    """As in TVM's own kernels: not-a-number is passed over, nothing is beyond the finite range."""
    g = Graph()
    g.input("x", (5, 70), "float32")
    case = g.case(lambda emit, x: emit(getattr(op, name)(x, axis=-1)), ())
    x, out = special_rows(), np.empty(5, "float32")
    with lowering_context():
        assert simt.Function(the_kernel(case.module), H200)(x, out).ok
    finite = np.finfo("float32")
    edge = finite.min if name == "max" else finite.max
    expected = getattr(np, f"nan{name}")(np.column_stack([x, np.full(5, edge)]), axis=-1)
    np.testing.assert_array_equal(out, expected.astype("float32"))


# Economy


def test_what_two_outputs_share_is_computed_once():
    def build(emit, x):
        costly = emit(op.exp(x))
        total = emit(op.sum(costly, axis=-1, keepdims=True))
        return emit(op.divide(costly, total)), emit(op.multiply(costly, costly))

    def expected(x):
        exps = np.exp(x)
        return exps / exps.sum(-1, keepdims=True), exps * exps

    case = graph("float32", [(5, 512)], build, expected)
    check(case)
    assert source(case).count("expf(") == 1


def test_the_row_is_read_from_memory_once():
    case = softmax_of(subtract, np.subtract, (5, 512), (512,))
    program = program_of(case.module)
    reads = [
        read.buffer for stage in program.stages for read in stage.reads
        if program.place(stage, read) is Where.SAME and read.buffer in program.inputs
    ]  # fmt: skip
    assert len(reads) == 1
    loads = [line for line in source(case).splitlines() if "(p0_ptr" in line and "=" in line]
    assert len(loads) == 1


def source(case) -> str:
    """The CUDA source of a case's only kernel."""
    return cuda_of(the_kernel(case.module))
