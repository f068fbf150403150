"""Mappings follow from shape, dtype and device; what has none is refused with the reason."""

import pytest
from check import A100, H200
from expressions import softmax, tensor
from tvm import te, topi

from tvm_stitch.device import device_of
from tvm_stitch.kernel.analysis.kind import BESIDE, Context
from tvm_stitch.kernel.build import kernel_of, read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, choose, context_of, problem_of
from tvm_stitch.kernel.codegen.footprint import registers_left
from tvm_stitch.kernel.ir.mapping import SCHEMES, Mapping, Rows
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.kernel.rows.kind import ROWS
from tvm_stitch.stages.stage import Refused

BIG, SMALL = device_of(H200), device_of(A100)


def softmax_of(x):
    """The result of a softmax."""
    exps = topi.exp(topi.subtract(x, topi.max(x, axis=1, keepdims=True)))
    return (topi.divide(exps, topi.sum(exps, axis=1, keepdims=True)),)


def chosen(*tensors, device=BIG, bounds=NO_BOUNDS, schemes=SCHEMES):
    programs = read_programs(te.create_prim_func(list(tensors)))
    assert not isinstance(programs, Refused), programs
    return choose(programs, device, bounds, schemes)


def mapping(*tensors, **settings) -> Mapping:
    schedule = chosen(*tensors, **settings)
    assert not isinstance(schedule, Refused), schedule
    (found,) = schedule.parts
    return found


def refusal(*tensors, **settings) -> str:
    schedule = chosen(*tensors, **settings)
    assert isinstance(schedule, Refused), schedule
    return schedule.reason


# Mappings


def test_short_rows_share_a_warp():
    found = mapping(*softmax(100_000, 16))
    assert found.threads < 32 and found.rows * found.threads >= 128


def test_rows_of_one_vector_need_no_other_thread():
    assert mapping(*softmax(1_000_000, 4)).scheme == "local"


@pytest.mark.parametrize(
    "dtype, columns, threads",
    [
        ("bfloat16", 512, 16),
        ("bfloat16", 1024, 64),
        ("bfloat16", 2048, 64),
        ("float32", 256, 8),
        ("float32", 512, 64),
        ("float32", 1024, 32),
    ],
)
def test_threads_keep_less_of_a_row_of_two_kilobytes(dtype, columns, threads):
    """Of half and of twice that length they keep as much as ever; measured."""
    assert mapping(*softmax(32_768, columns, dtype)).threads == threads


@pytest.mark.parametrize("columns, threads, batch", [(32, 8, 4), (123, 16, 1), (4, 1, 4)])
def test_threads_of_short_rows_load_several_at_once(columns, threads, batch):
    x = tensor(11_000 if columns == 123 else 750_000, columns)
    found = mapping(x, topi.sum(x, axis=1))
    assert (found.threads, found.batch) == (threads, batch)
    assert found.min_blocks_per_sm * found.block_threads >= 512


def test_rows_that_are_written_as_well_keep_memory_busy():
    assert mapping(*softmax(750_000, 32)).batch == 1
    assert mapping(*softmax(750_000, 33)).batch == 1
    assert mapping(*softmax(750_000, 25, "float16")).batch == 1


def test_rows_of_a_device_that_holds_them_all_come_at_once():
    x, r = tensor(4096, 768), tensor(4096, 768, name="r")
    total = topi.add(x, r)
    found = mapping(x, r, topi.divide(total, topi.sum(total, axis=1, keepdims=True)))
    blocks = 4096 // found.rows
    assert -(-blocks // BIG.multiprocessors) == found.min_blocks_per_sm
    assert found.min_blocks_per_sm * found.block_threads <= BIG.max_threads


def test_few_short_rows_get_threads_of_their_own():
    x = tensor(1000, 32)
    assert mapping(x, topi.sum(x, axis=1)).batch == 1


def test_rows_that_keep_enough_loads_in_flight_are_not_batched():
    assert mapping(*softmax(100_000, 256)).batch == 1


@pytest.mark.parametrize("columns, ahead", [(128, True), (4096, False)])
def test_weights_of_short_rows_are_loaded_with_them(columns, ahead):
    x, w = tensor(100_000, columns), tensor(columns, name="w")
    normal = topi.divide(x, topi.sum(x, axis=1, keepdims=True))
    assert mapping(x, w, topi.multiply(normal, w)).prefetch_weights == ahead
    assert not mapping(x, normal).prefetch_weights


def test_a_warp_for_a_row_that_fits_it():
    found = mapping(*softmax(100_000, 1024))
    assert (found.scheme, found.threads, found.reach) == ("warp", 32, 1024)


def test_a_block_for_longer_rows():
    found = mapping(*softmax(100_000, 8192))
    assert found.scheme == "regional" and found.threads > 32


def test_rows_too_long_for_registers_wait_in_shared_memory():
    assert mapping(*softmax(1000, 30_000), device=SMALL).residence == "shared"


def test_clusters_for_rows_beyond_a_block():
    assert mapping(*softmax(1000, 100_000)).scheme == "cluster"


def test_rows_of_a_cluster_are_copied_meanwhile_and_gone_through_once():
    found = mapping(*softmax(10_000, 65_536, "bfloat16"))
    assert (found.cluster, found.threads, found.residence) == (4, 256, "shared")
    assert found.asynchronous and found.online
    peeled = mapping(*softmax(10_000, 65_537, "bfloat16"))
    assert peeled.cluster > 1 and peeled.online and not peeled.asynchronous


def test_a_cluster_rather_than_a_block_that_fills_a_multiprocessor():
    assert mapping(*softmax(10_000, 32_768, "bfloat16")).cluster == 2
    pair = mapping(*softmax(10_000, 32_768, "bfloat16"), schemes=("regional", "warp", "local"))
    assert (pair.cluster, pair.residence, pair.min_blocks_per_sm) == (1, "shared", 2)


def test_rows_that_need_not_wait_are_read_once():
    x = tensor(10_000, 65_536)
    largest = topi.max(x, axis=1, keepdims=True)
    total = topi.sum(topi.exp(topi.subtract(x, largest)), axis=1, keepdims=True)
    found = mapping(x, topi.add(topi.log(total), largest))
    assert (found.cluster, found.residence, found.online) == (1, "nowhere", True)


@pytest.mark.parametrize("columns", [50_264, 50_257])
def test_long_rows_of_which_nothing_waits_are_gone_along(columns):
    """Not in pairs of blocks that fill a multiprocessor, with few registers for each thread."""
    x, y = (tensor(2048, columns, dtype="bfloat16", name=name) for name in "xy")
    total = topi.sum(topi.cast(y, "float32"), axis=1, keepdims=True)
    scaled = topi.multiply(topi.exp(topi.cast(x, "float32")), total)
    found = mapping(x, y, topi.cast(scaled, "bfloat16"))
    assert (found.cluster, found.residence, found.min_blocks_per_sm) == (1, "nowhere", 0)


@pytest.mark.parametrize("rows, columns, device", [(1000, 60_000, SMALL), (1000, 4_000_000, BIG)])
def test_rows_that_nothing_has_room_for_are_read_again(rows, columns, device):
    found = mapping(*softmax(rows, columns), device=device)
    assert (found.scheme, found.residence, found.cluster) == ("regional", "nowhere", 1)
    assert found.capacity >= columns


def test_more_threads_a_row_where_rows_are_few():
    few, many = mapping(*softmax(8, 1024)), mapping(*softmax(100_000, 1024))
    assert few.threads > many.threads


@pytest.mark.parametrize("dtype, vector", [("float32", 4), ("float16", 8), ("bfloat16", 8)])
def test_accesses_of_16_bytes(dtype, vector):
    assert mapping(*softmax(100_000, 4096, dtype)).vector == vector


def test_misaligned_rows_are_peeled():
    found = mapping(*softmax(1000, 1027))
    assert found.peeled and found.capacity >= 1027


@pytest.mark.parametrize("columns", (1, 2, 3, 31, 1000, 1027, 4096, 30_000, 100_000))
@pytest.mark.parametrize("dtype", ("float32", "float16"))
@pytest.mark.parametrize("rows", (1, 64, 100_000))
def test_a_mapping_covers_its_row(rows, dtype, columns):
    found = mapping(*softmax(rows, columns, dtype))
    assert found.capacity >= columns
    assert found.block_threads <= 1024
    assert found.threads & (found.threads - 1) == 0  # the threads of a row reduce in a butterfly


def test_elements_without_rows_are_split_over_blocks():
    x = tensor(4096, 4096)
    found = mapping(x, topi.exp(x))
    assert found.split and found.scheme == "local" and found.vector == 4


def test_unrelated_parts_have_equal_blocks():
    x, y = tensor(100_000, 64), tensor(100_000, 1024, name="y")
    schedule = chosen(x, y, topi.sum(x, axis=1), topi.max(y, axis=1))
    assert schedule.scheme == "independent"
    assert len({part.block_threads for part in schedule.parts}) == 1


def test_bounds_say_how_long_symbolic_rows_are():
    m = te.var("m", "int64")
    x = tensor(100_000, m)
    short = mapping(x, topi.sum(x, axis=1), bounds=Bounds((("m", 256),)))
    assert 256 <= short.capacity < 1024


def test_symbolic_rows_get_a_kernel_for_every_length():
    m = te.var("m", "int64")
    x = tensor(100_000, m)
    schedule = chosen(x, topi.sum(x, axis=1))
    (short,), (long,), (endless,) = (each.parts for each in variants(schedule))
    assert 1024 <= short.capacity < 16_384 <= long.capacity and endless.any_length
    assert short.threads < long.threads
    bounded = chosen(x, topi.sum(x, axis=1), bounds=Bounds((("m", 5000),)))
    assert [part.any_length for each in variants(bounded) for part in each.parts] == [False] * 2


def test_a_scheme_that_is_switched_off_leaves_out_its_variant():
    m = te.var("m", "int64")
    x = tensor(100_000, m)
    others = tuple(scheme for scheme in SCHEMES if scheme != "warp")
    full, less = (chosen(x, topi.sum(x, axis=1), schemes=s) for s in (SCHEMES, others))
    assert variants(full)[1:] == variants(less)


def variants(schedule):
    """A schedule and those for longer rows."""
    return [] if schedule is None else [schedule, *variants(schedule.longer)]


# Refusals


def test_dtypes_without_kernels():
    x = tensor(4, 5, dtype="float64")
    assert refusal(x, topi.exp(x)) == "x has dtype float64"


def test_matrix_products():
    x, y = tensor(65, 80), tensor(80, 6, name="y")
    found = read_programs(te.create_prim_func([x, y, topi.matmul(x, y)]))
    assert isinstance(found, Refused) and "small enough" in found.reason


def test_reductions_of_axes_that_are_apart():
    x = tensor(4, 40, 50, 3)
    assert "across the rows" in refusal(x, topi.sum(x, axis=[0, 2]))


def test_few_rows_beyond_a_blocks_shared_memory():
    """Reading them again would leave most of the device idle."""
    reason = refusal(*softmax(10, 60_000), device=SMALL)
    assert reason.endswith("bytes of shared memory, a block has 166912")


def test_rows_beyond_a_cluster():
    """They are reduced by all blocks, with a barrier in between."""
    found = chosen(*softmax(2, 4_000_000))
    assert found.scheme == "global"
    assert found.blocks == found.min_blocks_per_sm * BIG.multiprocessors


@pytest.mark.parametrize(
    "scheme, tensors",
    [
        ("local", lambda x: [topi.exp(x)]),
        ("warp", lambda x: [topi.sum(x, axis=1)]),
    ],
)
def test_schemes_that_are_switched_off(scheme, tensors):
    x = tensor(100_000, 64)
    others = tuple(other for other in SCHEMES if other != scheme)
    assert refusal(x, *tensors(x), schemes=others) == f"the {scheme} scheme is switched off"


def test_without_clusters_long_rows_have_no_room():
    others = tuple(scheme for scheme in SCHEMES if scheme != "cluster")
    assert "bytes of shared memory" in refusal(*softmax(10, 100_000), schemes=others)


def test_independent_parts_switched_off():
    x, y = tensor(100_000, 64), tensor(100_000, 1024, name="y")
    others = tuple(scheme for scheme in SCHEMES if scheme != "independent")
    reason = refusal(x, y, topi.sum(x, axis=1), topi.max(y, axis=1), schemes=others)
    assert reason == "the independent scheme is switched off"


def programs_of(*tensors):
    return read_programs(te.create_prim_func(list(tensors)))


def test_a_cluster_fills_its_kernel():
    x, y = tensor(4, 64), tensor(4, 64, name="y")
    programs = programs_of(x, y, topi.sum(x, axis=1), topi.max(y, axis=1))
    problem = problem_of(programs[1], BIG, context=context_of(programs))
    refused = ROWS.refusal(problem, Rows(32, 1, 1, 1, cluster=2))
    assert refused == Refused("a part of the cluster scheme fills a kernel of its own")


def test_rows_of_a_cluster_have_no_cluster_beside_others():
    x, y = tensor(4096, 65536), tensor(4096, 65536, name="y")
    assert mapping(x, *softmax_of(x)).cluster > 1
    schedule = chosen(x, y, *softmax_of(x), *softmax_of(y))
    assert not isinstance(schedule, Refused)
    assert [part.cluster for part in schedule.parts] == [1, 1]


def test_parts_of_different_block_sizes():
    n = te.var("n", "int64")
    x, y = tensor(n, 64), tensor(4096, 16384, name="y")
    schedule = chosen(x, y, topi.sum(x, axis=1), *softmax_of(y))
    assert not isinstance(schedule, Refused)
    short, long = schedule.parts
    assert short.block_threads == long.block_threads == long.threads
    own = mapping(x, topi.sum(x, axis=1))
    assert (short.threads, short.rows > own.rows) == (own.threads, True)


@pytest.mark.parametrize("context", [Context(), *(Context(BESIDE, n) for n in (0, 256, 512, 1024))])
@pytest.mark.parametrize("columns", [60, 1000, 4096, 30000, 65536, 1 << 20])
def test_what_is_chosen_is_the_first_legal_candidate_of_its_context(columns, context):
    (program,) = programs_of(*softmax(512, columns))
    problem = problem_of(program, BIG, schemes=SCHEMES, context=context)
    found = ROWS.choose(problem)
    legal = (m for m in ROWS.candidates(problem) if ROWS.refusal(problem, m) is None)
    assert found == next(legal, found)
    assert isinstance(found, Refused) or context.threads in (0, found.block_threads)


def test_registers_of_larger_blocks_are_fewer_for_each_thread():
    """Of 1024 threads each has 64, and a row in 8 hands then needs more of them."""
    (program,) = programs_of(*softmax(1 << 16, 256))
    alone, beside = (
        ROWS.choose(problem_of(program, BIG, schemes=SCHEMES, context=context))
        for context in (Context(BESIDE), Context(BESIDE, 1024))
    )
    assert not isinstance(alone, Refused) and not isinstance(beside, Refused)
    most = registers_left(1024)
    assert footprint(program, alone).registers > most >= footprint(program, beside).registers


def test_a_view_is_no_kernel():
    x = tensor(4, 5)
    function = te.create_prim_func([x, topi.reshape(x, (20,))])
    assert kernel_of(function, BIG) == Refused("a view costs nothing")
