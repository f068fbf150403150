"""Long rows: clusters, rows that arrive while threads work, maximum and sum in one pass."""

from dataclasses import replace

import numpy as np
import pytest
from check import H200, check, cuda_of, program_of, schedule_by, the_kernel
from tvm import relax
from tvm.relax import op
from zoo import graph, graph_of, layer_norm, norm64, residual_rms_norm, softmax, softmax64

from tvm_stitch import simt
from tvm_stitch.build import lowering_context
from tvm_stitch.device import device_of
from tvm_stitch.kernel.analysis.online_reduction import in_one_pass
from tvm_stitch.kernel.choose import choose as default_choice
from tvm_stitch.kernel.choose import problem_of
from tvm_stitch.kernel.codegen import cluster_exchange
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.legal import legal
from tvm_stitch.kernel.rows import emit_async_copy

SHARED = {"residence": "shared", "recompute": True, "rows": 1}
ONLINE = {"threads": 64, "rows": 1, "recompute": True, "online": True}


@pytest.fixture
def laid_out(monkeypatch):
    """Has every kernel laid out with some fields of its own, in as many steps as that takes."""

    def with_fields(**changes):
        def choose(programs, *rest):
            (mapping,), (program,) = default_choice(programs, *rest).parts, programs
            mapping = replace(
                mapping, batch=1, prefetch_weights=False, min_blocks_per_sm=0, **changes
            )
            reach = problem_of(program, device_of(H200)).columns + (
                mapping.vector - 1 if mapping.peeled else 0
            )
            wide = mapping.cluster * mapping.threads * mapping.vector
            mapping = replace(mapping, steps=-(-reach // wide))
            schedule = Schedule((mapping,))
            assert legal(programs, schedule, device_of(H200)) is None
            return schedule

        schedule_by(monkeypatch, choose)

    return with_fields


# Clusters and copies


@pytest.mark.spread(2)
@pytest.mark.parametrize("model", (softmax, layer_norm, residual_rms_norm))
@pytest.mark.parametrize("blocks, threads, columns", ((2, 64, 1027), (4, 64, 7), (16, 128, 1000)))
def test_blocks_of_a_cluster(laid_out, model, columns, blocks, threads):
    laid_out(cluster=blocks, threads=threads, **SHARED)
    check(model("bfloat16", 3, columns), orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("model", (softmax, layer_norm))
@pytest.mark.parametrize("blocks, columns", ((1, 1000), (2, 8), (4, 10000)))
def test_rows_copied_asynchronously(laid_out, model, columns, blocks):
    laid_out(cluster=blocks, threads=64, asynchronous=True, **SHARED)
    case = model("bfloat16", 3, columns)
    assert "cp_async" in cuda_of(the_kernel(case.module))
    check(case, orders=2)


def test_copies_of_two_rows(laid_out):
    """Tensors of different widths: a vector of the wider one takes two copies."""
    laid_out(threads=64, asynchronous=True, **SHARED)
    case = graph_of(
        [((3, 1000), "float32", None), ((3, 1000), "float16", None)],
        lambda emit, x, y: emit(
            op.multiply(emit(op.nn.softmax(x)), emit(op.nn.softmax(emit(op.astype(y, "float32")))))
        ),
        lambda x, y: softmax64(x) * softmax64(y),
    )
    check(case)


def test_a_forgotten_wait_shows(laid_out, monkeypatch):
    """Copies land as late as the program allows in the CPU executor."""
    laid_out(threads=64, asynchronous=True, **SHARED)
    monkeypatch.setattr(emit_async_copy, "wait", lambda part, pending: None)
    with pytest.raises(AssertionError):
        check(softmax("bfloat16", 3, 1000), orders=1)


@pytest.mark.parametrize("forgotten", ("wait", "await_barriers"))
def test_a_forgotten_wait_of_a_cluster_shows(laid_out, monkeypatch, forgotten):
    """Values are sent as late as possible; and to a barrier that may not be there yet."""
    laid_out(cluster=4, threads=64, **SHARED)
    monkeypatch.setattr(cluster_exchange, forgotten, lambda *_: None)
    with pytest.raises(AssertionError):
        check(softmax("bfloat16", 3, 1000), orders=1)


# A mean and the squares around it in one pass


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns, blocks", ((1024, 2), (4096, 4), (512, 1)))
@pytest.mark.parametrize("dtype", ("bfloat16", "float32"))
def test_a_variance_in_one_pass(laid_out, dtype, columns, blocks):
    laid_out(cluster=blocks, threads=64, asynchronous=True, online=True, **SHARED)
    check(layer_norm(dtype, 3, columns), orders=2)


@pytest.mark.parametrize("dtype", ("bfloat16", "float32"))
@pytest.mark.parametrize("columns, blocks", ((1024, 2), (512, 1)))
def test_a_variance_in_one_pass_behind_another_reduction(laid_out, dtype, columns, blocks):
    """A norm of what a softmax makes: a thread's first value is then one that waits."""
    laid_out(cluster=blocks, threads=64, asynchronous=True, online=True, **SHARED)

    def build(emit, x, w):
        y = emit(op.astype(emit(op.multiply(x, relax.const(3.0, dtype))), "float32"))
        y = emit(op.nn.layer_norm(emit(op.nn.softmax(y)), w, w, axes=-1))
        return emit(op.astype(y, dtype))

    def expected(x, w):
        return norm64(softmax64(3 * x)) * w + w

    inputs = [((3, columns), dtype, None), ((columns,), "float32", None)]
    check(graph_of(inputs, build, expected), orders=2)


def test_a_variance_far_from_zero_in_one_pass(laid_out):
    """Of each row by itself: no mean and no first value that is far from the rest spoils it."""
    x = np.random.default_rng(2).standard_normal((6, 4096))
    x[1] += 1000
    x[2, ::64] = 1e6  # first values of threads
    x[3, 0] = -1e6
    x[4] = 5
    x[5] = 1e-3 * x[5] + 1
    x = x.astype("float32")

    def normalised(emit, x):
        apart = emit(op.subtract(x, emit(op.mean(x, -1, keepdims=True))))
        variance = emit(op.mean(emit(op.square(apart)), -1, keepdims=True))
        return emit(op.multiply(apart, variance)), variance

    case = graph_of([(x.shape, "float32", x)], normalised, lambda x: (x, x))
    fields = {**SHARED, "cluster": 2, "threads": 64}
    laid_out(asynchronous=True, online=True, **fields)
    out, variance = np.empty_like(x), np.empty((6, 1), "float32")
    with lowering_context():
        assert simt.Function(the_kernel(case.module), H200)(x, variance, out).ok
    np.testing.assert_allclose(variance[:, 0], x.astype("float64").var(-1), rtol=4e-6)


@pytest.mark.parametrize("online", (False, True))
def test_a_norm_of_what_is_computed_from_rows_that_arrive(laid_out, online):
    fields = {**SHARED, "cluster": 2, "threads": 64}
    laid_out(asynchronous=True, online=online, **fields)
    case = graph_of(
        [((3, 2048), "float32", None), ((2048,), "float32", None)],
        lambda emit, x, b: emit(op.nn.layer_norm(emit(op.nn.relu(x)), b, b, axes=[-1])),
        lambda x, b: norm64(np.maximum(x, 0)) * b + b,
    )
    check(case)


# Maximum and sum in one pass


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", (7, 31, 33, 1000, 1027))
@pytest.mark.parametrize("residence", ("register", "shared"))
def test_softmax_in_one_pass(laid_out, residence, columns):
    laid_out(residence=residence, **ONLINE)
    check(softmax("bfloat16", 3, columns), orders=2)


def test_softmax_in_one_pass_by_a_cluster(laid_out):
    changes = {**ONLINE, **SHARED, "threads": 128, "cluster": 16}
    laid_out(asynchronous=True, **changes)
    check(softmax("float32", 3, 10000))


def log_sum(emit, x):
    """The logarithm of a row's sum of exponentials, of which nothing waits."""
    shifted = emit(op.subtract(x, emit(op.max(x, -1, keepdims=True))))
    total = emit(op.sum(emit(op.exp(shifted)), -1, keepdims=True))
    return emit(op.add(emit(op.log(total)), emit(op.max(x, -1, keepdims=True))))


@pytest.mark.parametrize("columns", (1024, 3000))
def test_rows_that_are_only_reduced_are_read_once(laid_out, columns):
    laid_out(residence="nowhere", **ONLINE)
    case = graph(
        "float32",
        [(3, columns)],
        log_sum,
        lambda x: np.log(np.exp(x).sum(-1, keepdims=True)),
    )
    check(case)
    source = cuda_of(the_kernel(case.module))
    loads = [line for line in source.splitlines() if "(p0_ptr" in line and " = " in line]
    assert 1 <= len(loads) <= 3, source  # whole batches, what is left of them, the row's end


@pytest.mark.parametrize("residence", ("register", "shared", "nowhere"))
def test_softmax_of_a_norm_in_one_pass(laid_out, residence):
    """The maximum belongs to a later phase, which is the first to need the mask."""

    def build_rows(emit, x, w, mask):
        normal = emit(op.nn.layer_norm(x, w, w, axes=[-1]))
        return emit(op.nn.softmax(emit(op.add(normal, mask))))

    laid_out(residence=residence, **ONLINE)
    case = graph(
        "float16",
        [(3, 1000), (1000,), (3, 1000)],
        build_rows,
        lambda x, w, mask: softmax64(norm64(x) * w + w + mask),
    )
    check(case)


@pytest.mark.parametrize("residence", ("register", "shared"))
def test_masked_rows_in_one_pass(laid_out, residence):
    """Threads and whole warps see nothing but minus infinity; the first row, a single element."""
    laid_out(residence=residence, **ONLINE)
    x = np.random.default_rng(1).standard_normal((4, 3000))
    x[0, :-1] = -np.inf
    x[1, 100:] = -np.inf
    x[2, ::2] = -np.inf
    case = graph_of([((4, 3000), "float32", x)], lambda emit, x: emit(op.nn.softmax(x)), softmax64)
    check(case)


@pytest.mark.parametrize("online", (False, True))
def test_rows_that_are_not_finite_in_one_pass(laid_out, online):
    """Nothing but minus infinity, a not-a-number, plus infinity: not-a-number, as in two passes."""
    laid_out(residence="register", **{**ONLINE, "online": online})
    x = np.zeros((4, 3000))
    x[0], x[1, 77], x[2, 2000] = -np.inf, np.nan, np.inf
    with np.errstate(invalid="ignore"):
        case = graph_of(
            [((4, 3000), "float32", x)], lambda emit, x: emit(op.nn.softmax(x)), softmax64
        )
    out = np.empty((4, 3000), "float32")
    with lowering_context():
        assert simt.Function(the_kernel(case.module), H200)(x.astype("float32"), out).ok
    np.testing.assert_array_equal(np.isnan(out).all(-1), [True, True, True, False])


def found_in_one_pass(build_rows) -> bool:
    case = graph("float32", [(3, 70)], build_rows, lambda x: x)
    return in_one_pass(program_of(case.module)) is not None


def rows_with(value):
    """A sum along the row behind its maximum, and what needs both."""

    def build_rows(emit, x):
        largest = emit(op.max(x, -1, keepdims=True))
        total = emit(op.sum(value(emit, x, largest), -1, keepdims=True))
        return emit(op.divide(emit(op.subtract(x, largest)), total))

    return build_rows


def test_what_can_be_found_in_one_pass():
    assert found_in_one_pass(lambda emit, x: emit(op.nn.softmax(x)))
    assert found_in_one_pass(lambda emit, x: emit(op.nn.log_softmax(x)))
    assert found_in_one_pass(rows_with(lambda emit, x, m: emit(op.exp(emit(op.subtract(x, m))))))


@pytest.mark.parametrize(
    "value",
    (
        lambda emit, x, m: emit(op.exp(emit(op.subtract(m, x)))),
        lambda emit, x, m: emit(op.exp(emit(op.add(x, m)))),
        lambda emit, x, m: emit(op.exp(emit(op.subtract(emit(op.negative(x)), m)))),
        lambda emit, x, m: emit(op.sqrt(emit(op.subtract(m, x)))),
        lambda emit, x, m: emit(op.exp(x)),
    ),
    ids=("the other way round", "sum", "of another value", "root", "not shifted"),
)
def test_what_cannot_be_found_in_one_pass(value):
    assert not found_in_one_pass(rows_with(value))


def test_rows_beside_values_that_wait_are_not_copied(laid_out):
    """What a cross entropy's gradient keeps besides its logits is computed, not read."""

    def build_rows(emit, x, y, z):
        product = emit(op.multiply(emit(op.multiply(y, z)), x))
        shares = emit(op.multiply(emit(op.nn.softmax(x)), emit(op.sum(product, -1, keepdims=True))))
        return emit(op.subtract(product, shares))

    def expected(x, y, z):
        product = x * y * z
        return product - softmax64(x) * product.sum(-1, keepdims=True)

    case = graph("float32", 3 * [(2, 1000)], build_rows, expected)
    fields = {**SHARED, "cluster": 2, "threads": 64}
    laid_out(**fields)
    check(case)
    with pytest.raises(AssertionError, match="beside values that wait"):
        laid_out(asynchronous=True, **fields)
        check(case)
