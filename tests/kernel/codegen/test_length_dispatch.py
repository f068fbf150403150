"""One compiled kernel for rows of many numbers and lengths."""

import dataclasses
import re

import numpy as np
import pytest
import tvm
import tvm_ffi
from check import A100, DTYPES, H200, HALVES, check, cuda_of, primfuncs, schedule_of, the_kernel
from symbolic_rows import COLUMNS, ROWS, run_softmax
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph, layer_norm, norm_gelu_softmax, softmax, softmax64

from tvm_stitch import simt
from tvm_stitch.build import lowering_context
from tvm_stitch.errors import InputError
from tvm_stitch.stages.stage import substitute


def compiled(case: Case) -> simt.Function:
    with lowering_context():
        return simt.Function(the_kernel(case.module), H200)


def bounded(case: Case, **bounds: int) -> Case:
    """The case with upper bounds of its symbolic dimensions."""
    main = case.module["main"].with_attr("tir_var_upper_bound", bounds)
    return dataclasses.replace(case, module=tvm.IRModule({"main": main}))


@pytest.mark.parametrize("columns", (7, 100, 1027))
def test_any_number_of_rows(columns):
    function = compiled(softmax("float32", (ROWS, 5), columns))
    for rows in (1, 3, 5, 64, 129):
        run_softmax(function, rows, columns)


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", (2, 3, 7, 31, 33, 35))
def test_batches_of_short_rows(columns):
    """The last batch is rarely full: rows that are not there are neither read nor written."""
    case = softmax("float32", (ROWS, 5), columns)
    mapping = schedule_of(the_kernel(case.module)).parts[0]
    assert mapping.batch > 1 or columns > 3
    function = compiled(case)
    for rows in (1, mapping.rows, mapping.block_rows - 1, mapping.block_rows, 301):
        run_softmax(function, rows, columns)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", (8, 40, 64))
def test_weights_that_are_loaded_with_short_rows(columns, dtype):
    case = layer_norm(dtype, (ROWS, 131), columns)
    assert schedule_of(the_kernel(case.module)).parts[0].prefetch_weights
    check(case, orders=2)


def test_symbols_may_be_called_like_numbers_and_cuda_s_variables():
    """As importers call them; the kernel's parameters are called otherwise."""
    for name in ("32", "blockIdx"):
        case = softmax("float32", (tirx.Var(name, "int64"), 5), 33)
        source = cuda_of(the_kernel(case.module))
        assert f"int64_t size_{name}" in source
        check(case, orders=1)


@pytest.mark.parametrize("columns", (100, None))
def test_no_rows_launch_nothing(columns):
    case = softmax("float32", (ROWS, 5), columns or (COLUMNS, 5))
    empty = np.empty((0, columns or 5), "float32")
    run = compiled(case)(empty, empty)
    assert run.ok and run.launch.blocks == 0 and run.kernel == "no kernel of main"


@pytest.mark.parametrize("columns", (1, 2, 31, 33, 500, 1024))
def test_any_row_length_below_the_bound(columns):
    case = bounded(softmax("float32", 3, (COLUMNS, 50)), m=1024)
    run_softmax(compiled(case), 3, columns)


def test_rows_of_the_bound_fit_wherever_they_start():
    function = compiled(bounded(softmax("float32", 9, (COLUMNS, 50)), m=1023))
    run_softmax(function, 9, 1023)


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", (1, 1000, 1149, 1150, 16384, 20477, 20478, 40001))
def test_without_a_bound_rows_have_any_length(columns):
    """One of three kernels: a warp a row, a block that keeps it, a block that reads it again."""
    run_softmax(compiled(softmax("float32", 3, (COLUMNS, 50))), 3, columns)


@pytest.mark.slow
@pytest.mark.parametrize("columns, target", [(5, H200), (1500, A100), (20_000, H200)])
def test_every_variant_is_verified(columns, target):
    """Three reductions and three outputs; kernels under conditions of the host have barriers."""
    check(norm_gelu_softmax("float32", (ROWS, 3), (COLUMNS, columns)), orders=2, target=target)


def test_the_variant_follows_from_the_length():
    function = compiled(softmax("float32", (ROWS, 5), (COLUMNS, 50)))
    names = []
    for columns in (1000, 10_000, 40_000):
        x = np.zeros((2, columns), "float32")
        names.append(function(x, np.empty_like(x)).kernel)
    assert names == ["main_kernel", "main_kernel_1", "main_kernel_2"]


def test_rows_and_columns():
    function = compiled(bounded(softmax("float32", (ROWS, 5), (COLUMNS, 50)), m=512))
    for rows, columns in ((1, 1), (5, 5), (40, 129), (3, 512)):
        run_softmax(function, rows, columns)


@pytest.mark.parametrize("dtype", DTYPES)
def test_verified_in_every_dtype(dtype):
    check(layer_norm(dtype, (ROWS, 5), 100))
    check(softmax(dtype, (ROWS, 5), (COLUMNS, 77)))


def test_elements_of_any_shape():
    check(
        graph(
            "float32",
            [((ROWS, 6), (COLUMNS, 11)), ((COLUMNS, 11),)],
            lambda emit, x, y: emit(op.tanh(emit(op.add(x, y)))),
            lambda x, y: np.tanh(x + y),
        )
    )


@pytest.mark.parametrize(
    "before, after",
    [((1, ROWS, 24), (1, ROWS, 4, 6)), ((1, ROWS), (ROWS,)), ((1, 1, ROWS), (ROWS, 1))],
)
def test_reshapes_where_an_extent_is_one(before, after):
    """TVM takes no index modulo 1, so nothing is taken off the first of them."""
    sizes = [(ROWS, 5) if extent is ROWS else extent for extent in before]
    case = graph(
        "float32",
        [tuple(sizes)],
        lambda emit, x: emit(op.exp(emit(op.reshape(emit(op.negative(x)), after)))),
        lambda x: np.exp(-x).reshape([5 if extent is ROWS else extent for extent in after]),
    )
    check(case)


@pytest.mark.parametrize("dtype", HALVES)
def test_parts_behind_parts_of_any_size(dtype):
    """Eight elements at once behind blocks that are counted at run time: TVM must see them aligned.

    It has no vectors of eight addresses, which it would print where it does not.
    """
    rows, others = (ROWS, 5), (COLUMNS, 77)

    def build(emit, x, y, z):
        return emit(op.nn.softmax(x)), emit(op.sum(y)), emit(op.exp(z))

    case = graph(
        dtype,
        [(rows, 64), (rows,), (others,)],
        build,
        lambda x, y, z: (softmax64(x), y.sum(), np.exp(z)),
    )
    check(case)


@pytest.mark.slow
def test_parts_with_rows_of_any_length():
    """TVM places barriers in their loops: it must know that a block's threads are in one part."""
    others = tirx.Var("k", "int64"), 3
    case = graph(
        "float32",
        [((ROWS, 5), (COLUMNS, 50)), (others, (COLUMNS, 50))],
        lambda emit, x, y: (emit(op.nn.softmax(x)), emit(op.nn.softmax(y))),
        lambda x, y: (softmax64(x), softmax64(y)),
    )
    check(case)


@pytest.mark.parametrize("dtype", HALVES)
def test_rotated_columns_behind_parts_of_any_size(dtype):
    """The place of a column is the rest of a division, of which TVM must know that it is none."""

    def build(emit, x, y, scale):
        whole = emit(op.trunc(x))
        first, second = emit(op.split(y, 2, axis=1))
        turned = emit(op.concat([emit(op.negative(second)), first], axis=1))
        return whole, emit(op.add(y, emit(op.multiply(turned, scale))))

    def expected(x, y, scale):
        return np.trunc(x), y + np.concatenate([-y[:, 12:], y[:, :12]], axis=1) * scale

    rows = (ROWS, 33)
    check(graph(dtype, [(rows, 24), (rows, 24), (24,)], build, expected))


@pytest.mark.parametrize("dtype", HALVES)
def test_a_kernel_is_launched_with_no_half(dtype):
    """TVM computes what only extents go into before the launch, and cannot pass on a half."""
    case = graph(
        dtype,
        [(1, 4, (COLUMNS, 33))],
        lambda emit, x: (emit(op.exp(x)), emit(op.nn.adaptive_avg_pool1d(x, [1]))),
        lambda x: (np.exp(x), x.mean(-1, keepdims=True)),
    )
    check(case)
    for kernel in primfuncs(case.module).values():
        signatures = re.findall(r"__global__.*\((.*)\) {", cuda_of(kernel))
        scalars = [p for each in signatures for p in each.split(", ") if "*" not in p]
        assert signatures and {p.split()[0] for p in scalars} <= {"int64_t", "int", "float"}


def test_a_longer_row_than_the_bound_is_an_error_before_the_launch():
    """A kernel must not leave the rest of a row undone in silence."""
    case = bounded(softmax("float32", (ROWS, 5), (COLUMNS, 50)), m=1000)
    kernel = the_kernel(case.module)
    (check_of_host,) = host_checks(kernel)
    # What it would have room for does not matter: all that is planned with the bound counts on it.
    assert schedule_of(kernel).parts[0].capacity > 1000
    assert holds(check_of_host.condition, 1000)
    assert not holds(check_of_host.condition, 1001)
    message = "".join(str(part.value) for part in check_of_host.message_parts)
    assert "tir_var_upper_bound" in message


@pytest.mark.parametrize("columns", (1001, 1025, 2045, 5000))
def test_the_executor_runs_the_checks_of_the_host(columns):
    function = compiled(bounded(softmax("float32", 3, (COLUMNS, 50)), m=1000))
    x = np.zeros((3, columns), "float32")
    with pytest.raises(InputError, match=r"ValueError: a row .* has at most 1000 elements"):
        function(x, np.empty_like(x))


def test_known_row_lengths_need_no_check():
    assert not host_checks(the_kernel(softmax("float32", (ROWS, 5), 100).module))


def host_checks(kernel: tirx.PrimFunc) -> list[tirx.AssertStmt]:
    """The checks that are left on the host once TVM has taken the kernel out of the function."""
    after: list[tvm.IRModule] = []

    @tvm.instrument.pass_instrument
    class Capture:
        def run_after_pass(self, module, info):
            if info.name == "tirx.SplitHostDevice":
                after.append(module)

    target = tvm.target.Target(H200, host="llvm")
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    with tvm.transform.PassContext(instruments=[Capture()]):
        tvm.tirx.build(module, target=target)
    found: list[tirx.AssertStmt] = []
    tvm_ffi.structural_walk(after[0]["main"].body, (tirx.AssertStmt, found.append))
    return found


def holds(condition, columns: int) -> bool:
    """Whether a check of the host passes for a row length."""
    (var,) = tirx.analysis.undefined_vars(condition)
    value = substitute(condition, {var: tirx.IntImm("int64", columns)})
    return bool(tvm.sym.Analyzer().simplify(value))


# Views of symbolic shapes: TVM's indices are full of divisions, yet nothing moves


@pytest.mark.parametrize(
    "shape, view",
    [
        ((2, (ROWS, 7), 64), lambda n: (2, n, 8, 8)),
        ((2, (ROWS, 7), 8, 8), lambda n: (2, n, 64)),
        (((ROWS, 7), 64), lambda n: (n, 1, 64)),
    ],
    ids=["heads split", "heads joined", "axis added"],
)
def test_a_view_does_not_part_a_kernel(shape, view):
    check(
        graph(
            "float32",
            [shape],
            lambda emit, x: emit(op.exp(emit(op.reshape(emit(op.tanh(x)), view(ROWS))))),
            lambda x: np.exp(np.tanh(x).reshape(view(7))),
        )
    )


def test_rows_of_a_view():
    check(
        graph(
            "float16",
            [(2, (ROWS, 7), 64)],
            lambda emit, x: emit(op.nn.softmax(emit(op.reshape(x, (2, ROWS, 8, 8))))),
            lambda x: softmax64(x.reshape(2, 7, 8, 8)),
        )
    )


def test_heads_moved_to_the_front():
    check(
        graph(
            "float32",
            [(2, (ROWS, 7), 64)],
            lambda emit, x: emit(
                op.permute_dims(emit(op.reshape(emit(op.tanh(x)), (2, ROWS, 4, 16))), [0, 2, 1, 3])
            ),
            lambda x: np.tanh(x).reshape(2, 7, 4, 16).transpose(0, 2, 1, 3),
        )
    )


def test_dimensions_that_no_tensor_gives_are_arguments():
    """A tensor of 4 m rows does not say m: TVM passes it, to the group and to the kernel."""
    check(
        graph(
            "float32",
            [(4, (COLUMNS, 9))],
            lambda emit, x: emit(op.exp(emit(op.reshape(emit(op.tanh(x)), (4 * COLUMNS,))))),
            lambda x: np.exp(np.tanh(x).reshape(-1)),
        )
    )
