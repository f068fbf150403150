"""What is not stitched gets a schedule of TVM's: where one of its rules fails, the next one's."""

import numpy as np
import pytest
import tvm
from check import H200, check, primfuncs_of
from lowered import run_lowered, scheduled, scheduled_by_default
from tvm import relax, topi
from tvm.relax import op
from tvm.s_tir import dlight
from zoo import Case, Graph, graph, graph_of

import tvm_stitch
from tvm_stitch import InputError, StitchError, simt
from tvm_stitch.graph.back.launches import nests
from tvm_stitch.simt.lowering import cuda_source
from tvm_stitch.tvm_default import default_schedules


def runs(case: Case, tolerance: float = 1e-5) -> None:
    """All CUDA kernels of the case are right, TVM's too."""
    outputs = run_lowered(scheduled(case.module), case.arrays, H200)
    for got, want in zip(outputs, case.expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def log_sum_exp64(x):
    return np.log(np.exp(x).sum(1))


def test_a_rule_that_asserts():
    """DLight's GEMV takes a log-sum-exp of float64 for one and fails on an assertion of its own."""
    case = graph(
        "float64",
        [(8, 100)],
        lambda emit, x: emit(op.log(emit(op.sum(emit(op.exp(x)), axis=1)))),
        log_sum_exp64,
    )
    runs(case)


SYMBOLIC = {
    "element-wise": ([("n", 8)], lambda emit, x: emit(op.exp(x)), np.exp),
    "a middle axis": ([("n", 8, 6)], lambda emit, x: emit(op.sum(x, axis=1)), lambda x: x.sum(1)),
    "a product": ([("n", 80), (80, 48)], lambda emit, x, w: emit(op.matmul(x, w)), np.matmul),
}


@pytest.mark.parametrize("shapes, build, expected", SYMBOLIC.values(), ids=SYMBOLIC)
def test_symbolic_shapes_may_be_empty_when_called(shapes, build, expected):
    """CUDA refuses to launch a grid without blocks."""
    n = tvm.tirx.Var("n", "int64")
    case = graph(
        "float32",
        [tuple((n, 5) if extent == "n" else extent for extent in shape) for shape in shapes],
        build,
        expected,
    )
    for function in primfuncs_of(scheduled_by_default(case.module)).values():
        run = simt.Function(function, H200)
        for rows in (0, 5):
            arrays = [a.astype("float32") for a in case.arrays]
            arrays[0] = arrays[0][:rows]
            want = expected(*arrays)
            got = np.full(want.shape, np.nan, "float32")
            try:
                assert run([*arrays, got]).ok
            except InputError as error:
                assert not rows and "launches no kernel" in str(error)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [0, 3])
def test_kernels_that_tvm_writes_for_threads_may_have_no_blocks(rows):
    shape, ones = ((tvm.tirx.Var("n", "int64"), rows), 5), np.ones((rows, 5))
    case = graph_of(
        [(shape, dtype, ones.astype(dtype)) for dtype in ("float32", "int64", "float32")],
        lambda emit, x, at, add: emit(op.scatter_elements(x, at, add, axis=1, reduction="add")),
        lambda x, _at, add: x + add.sum(1, keepdims=True) * [0, 1, 0, 0, 0],
    )
    check(case, kernels=None)


def test_pairs_are_not_exchanged_between_threads():
    """What DLight's shuffles make of index and value an H200 has been seen to get wrong."""
    values = np.random.default_rng(0).standard_normal((129, 12, 4)).astype("float32")
    x = relax.Var("x", relax.TensorType(values.shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit_te(topi.argmax, x, 2, primfunc_name_hint="pairs"))
    module = builder.get()
    runs(Case(module, (values,), (values.argmax(2),)))
    source = cuda_source(tvm_stitch.compile(module, H200))
    assert "shfl" not in source and "__syncthreads" not in source


class Fails(dlight.ScheduleRule):
    """A rule that takes nothing and says so loudly."""

    def apply(self, func, target, _tunable):
        raise AssertionError("consumers of the cache-write stage are not inlined")


@pytest.mark.slow
def test_the_next_rule_takes_what_one_fails_on(monkeypatch):
    rules = default_schedules.default_rules()
    monkeypatch.setattr(default_schedules, "default_rules", lambda: [Fails(), *rules])
    runs(squeeze_and_excite("float32"), 1e-4)


def test_a_failure_that_remains_names_the_operator(monkeypatch):
    monkeypatch.setattr(default_schedules, "default_rules", lambda: [Fails()])
    case = graph("float32", [(9, 9, 9, 3)], lambda emit, x: emit(op.sum(x, axis=[0, 2])), np.sum)
    with pytest.raises(StitchError, match=r"the operator sum: .*cache-write"):
        scheduled(case.module)


def test_the_module_given_stays_as_it_was():
    case = graph("float64", [(8, 100)], lambda emit, x: emit(op.exp(x)), np.exp)
    module = tvm.relax.transform.LegalizeOps()(case.module)
    before = module.script()
    default_schedules.DefaultSchedules(H200)(module)
    assert module.script() == before


def silu64(x):
    return x / (1 + np.exp(-x))


def sigmoid64(x):
    return 1 / (1 + np.exp(-x))


def depthwise64(x, w):
    """A 3 x 3 convolution of each channel by itself, with padding 1."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = x.shape[2:]
    return sum(
        padded[:, :, i : i + height, j : j + width] * w[None, :, 0, i, j, None, None]
        for i in range(3)
        for j in range(3)
    )


def squeeze_and_excite(dtype: str, channels: int = 8, size: int = 9) -> Case:
    """A block of EfficientNet: expand, depthwise, squeeze and excite, project, add."""
    g = Graph()
    x = g.input("x", (2, channels, size, size), dtype)
    expand = g.input("expand", (2 * channels, channels, 1, 1), dtype)
    depth = g.input("depth", (2 * channels, 1, 3, 3), dtype)
    scale = g.input("scale", (2 * channels,), dtype)
    shift = g.input("shift", (2 * channels,), dtype)
    squeeze = g.input("squeeze", (4, 2 * channels, 1, 1), dtype)
    excite = g.input("excite", (2 * channels, 4, 1, 1), dtype)
    project = g.input("project", (channels, 2 * channels, 1, 1), dtype)

    def norm(emit, y, scale, shift):
        ones, zeros = emit(op.ones_like(scale)), emit(op.zeros_like(scale))
        whole = emit(op.nn.batch_norm(y, scale, shift, zeros, ones, axis=1, training=False))
        return emit(tvm.relax.TupleGetItem(whole, 0))

    def build(emit, x, expand, depth, scale, shift, squeeze, excite, project):
        y = emit(op.nn.silu(norm(emit, emit(op.nn.conv2d(x, expand)), scale, shift)))
        y = emit(op.nn.conv2d(y, depth, padding=1, groups=2 * channels))
        y = emit(op.nn.silu(norm(emit, y, scale, shift)))
        gate = emit(op.nn.conv2d(emit(op.nn.adaptive_avg_pool2d(y, 1)), squeeze))
        gate = emit(op.sigmoid(emit(op.nn.conv2d(emit(op.nn.silu(gate)), excite))))
        return emit(op.add(emit(op.nn.conv2d(emit(op.multiply(y, gate)), project)), x))

    def product(x, w):
        return np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0])

    def norm64(y):
        return y / np.sqrt(1 + 1e-5) * scale[None, :, None, None] + shift[None, :, None, None]

    y = silu64(norm64(depthwise64(silu64(norm64(product(x, expand))), depth)))
    gate = sigmoid64(product(silu64(product(y.mean((2, 3), keepdims=True), squeeze)), excite))
    return g.case(build, product(y * gate, project) + x)


@pytest.mark.slow
def test_squeeze_and_excite():
    runs(squeeze_and_excite("float32"), 1e-4)


@pytest.mark.slow
def test_a_tree_of_operators_is_scheduled_block_by_block():
    """DLight's rules would compute an element of 2,048 loads, and of a scan's tree never end."""
    depth = 11

    def build(emit, x):
        for _ in range(depth):
            x = emit(op.add(emit(op.tanh(x)), emit(op.cos(x))))
        return x

    def expected(x):
        for _ in range(depth):
            x = np.tanh(x) + np.cos(x)
        return x

    case = graph("float32", [(7, 33)], build, expected)
    module = scheduled_by_default(case.module)
    (function,) = primfuncs_of(module).values()
    assert len(nests(function)) == 3 * depth
    (got,) = run_lowered(module, case.arrays, H200)
    np.testing.assert_allclose(got, case.expected[0], rtol=1e-4, atol=1e-4)


def test_what_follows_a_product_is_not_applied_at_each_of_its_steps():
    g = Graph()
    x, y = g.input("x", (100, 1), "float64"), g.input("y", (1, 100), "float64")
    z = g.input("z", (1, 100), "float64")

    def build(emit, x, y, z):
        return emit(op.log_add_exp(z, emit(op.matmul(x, y))))

    runs(g.case(build, np.logaddexp(z, x @ y)), 1e-12)


def test_sums_of_threads_together_keep_the_condition_of_their_store():
    """DLight's GEMV of 3 rows has 16 threads for them, and TVM drops the guard of the store."""
    case = graph_of(
        [((3, 96), "float64", None), ((96, 1), "float64", None)],
        lambda emit, x, y: emit(op.einsum([x, y], "ak,kn->an")),
        lambda x, y: x @ y,
    )
    verified = tvm_stitch.verify(case.module, H200, case.arrays, orders=1)
    assert verified.ok and verified.default
