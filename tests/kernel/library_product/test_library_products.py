"""Products become calls of the library where that is cheaper, with what it can end with."""

import json

import numpy as np
import pytest
from check import H200, primfuncs
from library_stand_in import folder
from products_with_endings import product
from tvm import tirx
from tvm.relax import op
from twins_verified import verify_module
from zoo import Case, graph

import tvm_stitch
from tvm_stitch import Options
from tvm_stitch.kernel.build import is_library_call
from tvm_stitch.kernel.codegen.prim_func import IN_PLACE_ATTRIBUTE
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.library_product import build as library_product
from tvm_stitch.library import locate
from tvm_stitch.stages.stage import buffer_size, constant

DTYPES = ("float32", "float16", "bfloat16")


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))


def library_calls(case: Case) -> list[str]:
    return [name for name, f in primfuncs(case.module).items() if is_library_call(f)]


def test_a_plain_product_of_float32():
    case = product("float32", 130, 200, 264)
    assert len(library_calls(case)) == 1
    verified = tvm_stitch.verify(case.module, H200)
    assert verified.ok, str(verified)


@pytest.fixture
def cheap(monkeypatch):
    """The library costs nothing: whatever it can have, it has."""
    monkeypatch.setattr(library_product, "library_us", lambda *_, **__: 0.0)


@pytest.mark.spread(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "ending", ["", "bias", "residual", "scale residual bias ReLU", "bias GELU", "GELU", "ReLU"]
)
def test_one_call_with_what_it_ends_with(cheap, dtype, ending):
    case = product(dtype, 33, 72, 40, ending)
    assert len(primfuncs(case.module)) == len(library_calls(case)) == 1
    verified = tvm_stitch.verify(case.module, H200, orders=1)
    assert verified.ok, str(verified)
    (kernel,) = tvm_stitch.explain(case.module, H200).kernels
    assert kernel.scheme == "library"
    assert all(part in kernel.why for part in ending.split())


@pytest.mark.parametrize("ending", ["residual", "bias", "scale residual bias ReLU"])
def test_a_result_may_be_written_over_what_is_added(cheap, ending):
    (func,) = primfuncs(product("float32", 33, 72, 40, ending).module).values()
    pairs = json.loads(str(func.attrs.get(IN_PLACE_ATTRIBUTE, "[]")))
    as_large = [n for n, param in enumerate(func.params) if constant(buffer_size(param)) == 33 * 40]
    assert pairs == ([as_large] if "residual" in ending else [])


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [True, False])
def test_batches_and_transposed_weights(cheap, dtype, transposed):
    case = product(dtype, 31, 65, 33, "bias", batch=3, transposed=transposed)
    assert len(primfuncs(case.module)) == len(library_calls(case)) == 1
    verified = tvm_stitch.verify(case.module, H200, orders=1)
    assert verified.ok, str(verified)


@pytest.mark.parametrize("batch", [2, 6])
def test_heads_of_attention(cheap, batch):
    def build(emit, q, k):
        q, k = emit(op.permute_dims(q, [0, 2, 1, 3])), emit(op.permute_dims(k, [0, 2, 3, 1]))
        return emit(op.matmul(q, k))

    def expected(q, k):
        return np.einsum("bihd,bjhd->bhij", q, k)

    case = graph("float32", [(batch, 24, 4, 40), (batch, 33, 4, 40)], build, expected)
    assert len(library_calls(case)) == 1
    verified = tvm_stitch.verify(case.module, H200, orders=1)
    assert verified.ok, str(verified)


@pytest.mark.parametrize("batch, rows", [(8, 197), (2, 31)])
def test_heads_are_copied_for_one_call_by_tf32(batch, rows):
    """As of attention in training: calls for each of a batch's heads take too long."""

    def build(emit, q, k):
        q, k = emit(op.permute_dims(q, [0, 2, 1, 3])), emit(op.permute_dims(k, [0, 2, 3, 1]))
        q, k = emit(op.reshape(q, (-1, rows, 64))), emit(op.reshape(k, (-1, 64, rows)))
        return emit(op.matmul(q, k))

    def expected(q, k):
        return np.einsum("bihd,bjhd->bhij", q, k).reshape(-1, rows, rows)

    case = graph("float32", [(batch, rows, 12, 64)] * 2, build, expected)
    exact, rounded = (
        tvm_stitch.explain(case.module, H200, Options(tf32_products=each)).kernels
        for each in (False, True)
    )
    assert not any("transpose" in kernel.ops for kernel in exact)
    assert any("transpose" in kernel.ops for kernel in rounded)
    if batch > 2:
        (library,) = (kernel for kernel in rounded if kernel.by_library)
        assert "96 products of 197 x 64 x 197 by TF32" in library.why
        return
    verified = tvm_stitch.verify(case.module, H200, orders=1, options=Options(tf32_products=True))
    assert verified.ok, str(verified)


@pytest.mark.parametrize(("left", "right"), [((3, 2), (2,)), ((2,), (3, 2))])
def test_a_batch_that_shares_the_matrices_of_another(cheap, left, right):
    """A call for each of the shared matrices."""

    def build(emit, x, y):
        return emit(op.matmul(x, y))

    case = graph("float32", [(*left, 33, 40), (*right, 40, 24)], build, lambda x, y: x @ y)
    assert len(library_calls(case)) == 1
    verified = tvm_stitch.verify(case.module, H200, orders=1)
    assert verified.ok, str(verified)


@pytest.mark.parametrize("ending", ["", "bias", "residual"])
def test_rows_that_lie_in_several_matrices(cheap, ending):
    """The gradient of what a product of (batch, length, width) gave, which comes transposed."""

    def build(emit, x, w, b, r):
        y = emit(op.matmul(emit(op.permute_dims(x, [0, 2, 1])), w))
        return emit(op.add(y, {"bias": b, "residual": r}[ending])) if ending else y

    def expected(x, w, b, r):
        return x.swapaxes(1, 2) @ w + {"": 0, "bias": b, "residual": r}[ending]

    shapes = [(3, 40, 33), (40, 24), (24,), (3, 33, 24)]
    case = graph("float32", shapes, build, expected)
    assert len(primfuncs(case.module)) == len(library_calls(case)) == 1
    verified = tvm_stitch.verify(case.module, H200, orders=1)
    assert verified.ok, str(verified)


def test_the_report_says_what_a_missing_library_would_have(monkeypatch, tmp_path):
    monkeypatch.setenv(locate.FOLDER, str(tmp_path))
    case = product("float32", 130, 200, 264, "bias")
    assert not library_calls(case)
    (kernel,) = tvm_stitch.explain(case.module, H200).kernels
    assert kernel.scheme == "default"
    assert "cuBLASLt is not found: pip install nvidia-cublas" in kernel.why


def test_libraries_can_be_switched_off(cheap):
    case = product("float16", 130, 200, 264, "bias")
    without = Options(schemes=tuple(scheme for scheme in SCHEMES if scheme != "library"))
    (kernel,) = tvm_stitch.explain(case.module, H200, without).kernels
    assert kernel.scheme == "regional"


def test_the_report_says_what_a_product_by_tf32_takes():
    case = product("float32", 4096, 768, 3072, "bias")
    plain, rounded = (
        tvm_stitch.explain(case.module, H200, Options(tf32_products=tf32)).kernels[0]
        for tf32 in (False, True)
    )
    assert plain.scheme == rounded.scheme == "library"
    assert "by TF32" in rounded.why and "TF32" not in plain.why
    # 436 and 66 us on an H200.
    assert 300 < plain.predicted_us < 600 and 50 < rounded.predicted_us < 90


@pytest.mark.slow
def test_the_cheaper_way_is_taken(monkeypatch):
    """An ending that only one of them has counts as well."""
    case = product("float16", 4096, 768, 3072, "bias GELU")
    for us, scheme in ((1.0, "library"), (1e3, "regional")):
        monkeypatch.setattr(library_product, "library_us", lambda *_, us=us, **__: us)
        (kernel,) = tvm_stitch.explain(case.module, H200).kernels
        assert kernel.scheme == scheme


@pytest.mark.parametrize(
    "rows, depth, columns, ways",
    [
        # By the library with a kernel for the GELU and by one of ours, H200: 32.5 and 41.3 us,
        (3152, 768, 3072, ["library", "local"]),
        (4096, 768, 3072, ["regional"]),  # about 44 and 39.2,
        (8192, 64, 4096, ["regional"]),  # whose results do not stay in the L2: 56.7 and 39.1.
    ],
)
def test_a_gelu_goes_where_it_is_faster(rows, depth, columns, ways):
    def build(emit, x, w, b):
        return emit(op.nn.gelu(emit(op.add(emit(op.matmul(x, w)), b))))

    shapes = [(rows, depth), (depth, columns), (columns,)]
    case = graph("float16", shapes, build, lambda x, w, b: x @ w)
    kernels = tvm_stitch.explain(case.module, H200).kernels
    assert sorted(kernel.scheme for kernel in kernels) == ways


@pytest.mark.parametrize(
    "ending, measured", [("bias", 0.9), ("bias ReLU", 1.4), ("residual", 6.6), ("bias GELU", 4.8)]
)
@pytest.mark.slow
def test_endings_take_what_they_took_on_an_h200(ending, measured):
    """More than 4096 x 768 x 3072 alone, of bench/products/h200.json."""
    without = Options(schemes=tuple(scheme for scheme in SCHEMES if scheme != "regional"))

    def us(ending):
        case = product("float16", 4096, 768, 3072, ending)
        (kernel,) = tvm_stitch.explain(case.module, H200, without).kernels
        return kernel.predicted_us

    assert us(ending) - us("") == pytest.approx(measured, abs=0.8)


def test_what_the_library_cannot_end_with_stays_a_kernel(cheap):
    def build(emit, x, w, b):
        return emit(op.nn.gelu(emit(op.add(emit(op.matmul(x, w)), b))))

    case = graph("float32", [(512, 256), (256, 512), (512,)], build, lambda x, w, b: x @ w)
    kernels = tvm_stitch.explain(case.module, H200).kernels
    assert sorted(kernel.scheme for kernel in kernels) == ["library", "local"]


@pytest.mark.parametrize("rows, takes_longer", [(1237, True), (1240, False)])
@pytest.mark.parametrize("transposed", [True, False])
def test_lines_that_begin_anywhere_take_longer(rows, takes_longer, transposed):
    """Also those of what is read transposed, as the gradient of a weight reads its factors."""
    axes = [1, 0] if transposed else [0, 1]

    def build(emit, x, y):
        return emit(op.matmul(emit(op.permute_dims(x, axes)) if transposed else x, y))

    def us(rows):
        left, depth = ((512, rows), 512) if transposed else ((512, rows), rows)
        case = graph("float16", [left, (depth, 768)], build, lambda x, y: x)
        (kernel,) = tvm_stitch.explain(case.module, H200).kernels
        return kernel.predicted_us

    assert (us(rows) > 1.5 * us(1248)) == takes_longer


# Sizes that only run time knows

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")
SOME_N, SOME_M = (N, 3), (M, 5)


def right_at(case: Case, *sizes: dict[str, int]) -> None:
    """One call, and one compiled module that is right at all of these sizes."""
    assert len(primfuncs(case.module)) == len(library_calls(case)) == 1
    verify_module(case.module, *sizes, orders=1)


@pytest.mark.parametrize("ending", [False, True])
def test_rows_of_a_transposed_batch_are_few_large_matrices(ending):
    """Of words and sentences, the product of each sentence's words rather than of each word's."""

    def build(emit, x, w, b, r):
        y = emit(op.matmul(emit(op.permute_dims(x, [1, 0, 2])), w))
        return emit(op.add(emit(op.add(y, b)), r)) if ending else y

    def expected(x, w, b, r):
        y = x.swapaxes(0, 1) @ w
        return y + b + r if ending else y

    shapes = [(3, 130, 96), (96, 72), (72,), (130, 3, 72)]
    case = graph("float32", shapes, build, expected)
    assert len(primfuncs(case.module)) == len(library_calls(case)) == 1
    (kernel,) = tvm_stitch.explain(case.module, H200).kernels
    assert "3 products of 130 x 96 x 72" in kernel.why
    verified = tvm_stitch.verify(case.module, H200, orders=1)
    assert verified.ok, str(verified)


@pytest.mark.slow
def test_windows_cut_out_of_images_are_one_product_of_float32(cheap):
    """Whose rows lie at unequal distances: they are brought together before."""

    def build(emit, x, w):
        windows = emit(op.permute_dims(emit(op.nn.relu(x)), [0, 1, 3, 2, 4, 5]))
        return emit(op.matmul(emit(op.reshape(windows, (2 * 4 * 7 * 4 * 7, 96))), w))

    def expected(x, w):
        return np.maximum(x, 0).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 96) @ w

    case = graph("float32", [(2, 4, 7, 4, 7, 96), (96, 72)], build, expected)
    assert len(library_calls(case)) == 1 and len(primfuncs(case.module)) == 2
    verified = tvm_stitch.verify(case.module, H200, orders=1)
    assert verified.ok, str(verified)


@pytest.mark.parametrize(
    "rows, depth, products",
    [
        pytest.param(31, 512, 1, id="long sums of few results"),
        pytest.param(31, 384, 2, id="short sums"),
        pytest.param(1100, 512, 2, id="many results"),
    ],
)
def test_the_depth_of_a_few_rows_is_divided_as_of_one_matrix(cheap, rows, depth, products):
    """Of images that lie with channels first, as in Mamba; the library divides no batch's depth."""

    def build(emit, x, w):
        turned = emit(op.permute_dims(emit(op.nn.relu(x)), [0, 2, 1]))
        return emit(op.matmul(emit(op.reshape(turned, (2 * rows, depth))), w))

    def expected(x, w):
        return np.maximum(x, 0).swapaxes(1, 2).reshape(-1, depth) @ w

    case = graph("float32", [(2, depth, rows), (depth, 72)], build, expected)
    whys = [kernel.why for kernel in tvm_stitch.explain(case.module, H200).kernels]
    (product,) = (why for why in whys if "cuBLASLt" in why)
    one = f"a product of {2 * rows} x {depth} x 72"
    assert (one if products == 1 else f"2 products of {rows} x {depth} x 72") in product
    if products == 1:
        verified = tvm_stitch.verify(case.module, H200, orders=1)
        assert verified.ok, str(verified)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ending", ["", "scale residual bias ReLU", "bias GELU"])
@pytest.mark.slow
def test_symbolic_rows(cheap, dtype, ending):
    case = product(dtype, SOME_N, 72, 40, ending)
    right_at(case, *({"n": n} for n in (1, 7, 33, 128)))


def test_a_symbolic_batch_of_symbolic_rows(cheap):
    """Rows of all of a batch are one matrix."""

    def build(emit, x, w, b):
        return emit(op.nn.relu(emit(op.add(emit(op.matmul(x, w)), b))))

    def expected(x, w, b):
        return np.maximum(x @ w + b, 0)

    case = graph("float16", [(SOME_N, SOME_M, 72), (72, 40), (40,)], build, expected)
    right_at(case, {"n": 1, "m": 1}, {"n": 3, "m": 31}, {"n": 5, "m": 33})


@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_for_each_of_a_symbolic_batch(cheap, transposed):
    case = product("float16", SOME_M, 65, 33, "residual", batch=SOME_N, transposed=transposed)
    right_at(case, {"n": 1, "m": 1}, {"n": 3, "m": 31})


def test_symbolic_columns(cheap):
    case = product("float32", 31, 24, SOME_N, "bias")
    right_at(case, {"n": 1}, {"n": 33})


def test_a_transposed_factor_of_symbolic_rows(cheap):
    """Its lines are as long as there are rows."""

    def build(emit, x, w):
        return emit(op.matmul(emit(op.permute_dims(x, [1, 0])), w))

    case = graph("float16", [(24, SOME_N), (24, 40)], build, lambda x, w: x.T @ w)
    right_at(case, {"n": 1}, {"n": 33})


def test_a_depth_that_may_be_0_is_not_the_librarys(cheap):
    """It has no sums of nothing."""

    def build(emit, x, w, *more):
        joined = (emit(op.concat([each, *more], 0)) for each in (x, w))
        left, right = (emit(op.exp(each)) for each in joined)
        return emit(op.matmul(emit(op.permute_dims(left, [1, 0])), right))

    def expected(*arrays):
        left, right = (np.exp(np.concatenate([each, *arrays[2:]])) for each in arrays[:2])
        return left.T @ right

    shape = (SOME_N, 32)
    assert not library_calls(graph("float16", [shape, shape], build, expected))
    assert library_calls(graph("float16", [shape, shape, (1, 32)], build, expected))
