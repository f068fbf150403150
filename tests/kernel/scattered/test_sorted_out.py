"""Updates that all blocks of a grid sort out for each other, and the choice whether they do."""

from dataclasses import replace

import numpy as np
import pytest
from across_rows import embedding_step, embedding_step_module
from check import H200, check, cuda_of, primfuncs, schedule_by, the_kernel
from tvm import relax
from tvm.relax import op
from zoo import graph_of

from tvm_stitch.device import device_of
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import problem_of
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.scattered.lists import chunk_layout, layout, sorting
from tvm_stitch.kernel.scattered.mapping import Scattered
from tvm_stitch.verify import rounded, stitched_for_cpu

SORTED_OUT = Scattered(4, 16, 1, 2, blocks=6, partitioned=True)
SCANNED = replace(SORTED_OUT, partitioned=False)
IDLE = replace(SORTED_OUT, threads=32, rows=2, idle=28)


def sums(rows, indices, columns=5, dtype="int64"):
    """Rows of a table, to which indices send rows of small whole numbers: sums are exact."""
    count = len(indices)
    updates, table = (
        np.random.default_rng(count).integers(-9, 9, (size, columns)) for size in (count, rows)
    )

    def build(emit, at, dy, data):
        sums = emit(op.scatter_nd(data, at, dy, "add"))
        return emit(op.multiply(sums, relax.const(0.5, "float32")))

    def expected(at, dy, data):
        total = data.copy()
        at = at[:, 0].astype(int)
        inside = (at >= 0) & (at < rows)
        np.add.at(total, at[inside], dy[inside])
        return total * 0.5

    inputs = [((count, 1), dtype, np.asarray(indices).reshape(-1, 1).astype(dtype))]
    inputs += [(each.shape, "float32", each) for each in (updates, table)]
    return graph_of(inputs, build, expected)


def random(rows, count):
    """Indices that are as likely to be one as another."""
    return np.random.default_rng(3).integers(0, rows, count)


def by(monkeypatch, mapping):
    schedule_by(monkeypatch, lambda *_: Schedule((mapping,)))


def chosen(module, schemes=SCHEMES):
    (function,) = primfuncs(module, before="StitchSchedule").values()
    (program,) = read_programs(function)
    return kind_of(program).choose(problem_of(program, device_of(H200), schemes=schemes))


@pytest.mark.spread(2)
@pytest.mark.parametrize("rows", [2, 33, 1000])
@pytest.mark.parametrize("count", [2, 7, 1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_each_block_gets_what_all_have_for_it(monkeypatch, rows, count):
    by(monkeypatch, SORTED_OUT)
    check(sums(rows, random(rows, count)), kernels=1)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("count", [40, 300, 2000])
def test_all_may_go_to_one_row(monkeypatch, count, dtype):
    """Few are compared with each other, more sorted by a network."""
    by(monkeypatch, SORTED_OUT)
    check(sums(100, np.full(count, 57), dtype=dtype), kernels=1)


@pytest.mark.spread(2)
@pytest.mark.parametrize("longest", [sorting.LONGEST_COMPARED, 128])
@pytest.mark.parametrize("mapping", [SORTED_OUT, SCANNED, IDLE])
def test_some_rows_have_many_updates(monkeypatch, mapping, longest):
    """They are compared with each other, or sorted by a network each."""
    monkeypatch.setattr(sorting, "LONGEST_COMPARED", longest)
    by(monkeypatch, mapping)
    many = np.repeat([3, 9, 90], 200)
    check(sums(100, np.random.default_rng(5).permutation([*many, *random(100, 90)])), kernels=1)


@pytest.mark.parametrize("mapping", [SORTED_OUT, SCANNED])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_what_goes_to_no_row_goes_to_no_block(monkeypatch, mapping, dtype):
    """TVM's own kernels, that `check` asks as well, write where these indices say."""
    by(monkeypatch, mapping)
    for indices in (random(60, 500) - 10, np.full(300, 33), np.full(300, -1)):
        case = sums(33, indices, dtype=dtype)
        arrays = rounded(case.module, case.arrays)
        runner = Runner(stitched_for_cpu(case.module, H200), H200)
        for seed in range(3):
            (got,) = runner.run(arrays, seed)
            np.testing.assert_array_equal(got, case.expected[0])
        assert (len(runner.ran), runner.hazards) == (3, [])


@pytest.mark.parametrize("blocks", [1, 2, 63])
def test_any_number_of_blocks_sorts_out(monkeypatch, blocks):
    by(monkeypatch, replace(SORTED_OUT, blocks=blocks))
    check(sums(1000, random(1000, 300)), kernels=1)


@pytest.mark.spread(2)
@pytest.mark.parametrize("list_bytes", [64, 256, 1 << 12])
@pytest.mark.parametrize("words", [61, 2])
def test_what_has_no_room_is_listed_by_iterations(monkeypatch, words, list_bytes):
    """Blocks take several chunks each, and are sent more than they have room for."""
    monkeypatch.setattr(layout, "LIST_BYTES", list_bytes)
    by(monkeypatch, Scattered(32, 2, 1, 1, blocks=3, partitioned=True))
    check(embedding_step((61, 31), 190, words), kernels=1)


def test_neighbouring_blocks_get_the_same(monkeypatch):
    by(monkeypatch, Scattered(8, 8, 4, 1, blocks=6, partitioned=True))
    check(embedding_step((61, 68), 190), kernels=1)


@pytest.mark.parametrize("words", [61, 1])
def test_idle_threads_add_up_some_of_a_row_that_many_name(monkeypatch, words):
    """Of a row in three pieces, each of 8 threads in 32; the last has 4 columns."""
    by(monkeypatch, Scattered(32, 4, 4, 1, blocks=6, idle=24))
    check(embedding_step((61, 68), 190, words), kernels=1)
    by(monkeypatch, Scattered(64, 1, 4, 1, blocks=3, idle=56))
    check(embedding_step((61, 68), 190, words), kernels=1)


def test_two_sums_are_sorted_out_before_one_barrier(monkeypatch):
    rows, columns = 40, 6
    first, second = random(rows, 150).reshape(-1, 1), random(rows, 71).reshape(-1, 1)[::-1]

    def build(emit, at, other, dy, dz, data):
        sums = emit(op.scatter_nd(data, at, dy, "add"))
        zeros = emit(op.zeros(relax.ShapeExpr((rows, columns)), "float32"))
        return emit(op.multiply(sums, emit(op.scatter_nd(zeros, other, dz, "add"))))

    def expected(at, other, dy, dz, data):
        total, factor = data.copy(), np.zeros_like(data)
        np.add.at(total, at[:, 0].astype(int), dy)
        np.add.at(factor, other[:, 0].astype(int), dz)
        return total * factor

    inputs = [(first.shape, "int64", first), (second.shape, "int64", second)]
    inputs += [((len(each), columns), "float32", None) for each in (first, second)]
    case = graph_of([*inputs, ((rows, columns), "float32", None)], build, expected)
    by(monkeypatch, SORTED_OUT)
    check(case, kernels=1)
    assert cuda_of(the_kernel(case.module)).count("grid_sync();") == 1


@pytest.mark.parametrize(("often", "longest"), [(0, 1024), (200, 1024), (200, 128)])
def test_sums_are_the_same_however_updates_are_found(monkeypatch, often, longest):
    """To the bit, in whatever order threads come; updates of all magnitudes do not commute."""
    monkeypatch.setattr(sorting, "LONGEST_COMPARED", longest)
    monkeypatch.setattr(chunk_layout, "HOT", 32)
    indices = [*np.repeat([3, 20], often), *random(33, 900 - 2 * often)]
    case = sums(33, np.random.default_rng(5).permutation(indices))
    at, updates, table = rounded(case.module, case.arrays)
    updates *= np.float32(1.02) ** np.arange(-450, 450, dtype="float32")[:, None]
    found = {}
    for mapping in (SORTED_OUT, SCANNED):
        by(monkeypatch, mapping)
        runner = Runner(stitched_for_cpu(case.module, H200), H200)
        found[mapping] = {runner.run((at, updates, table), seed)[0].tobytes() for seed in range(3)}
    # Chunks have sums of their own of rows that are sent many.
    both = found[SORTED_OUT] | found[SCANNED]
    assert ([len(each) for each in found.values()], len(both)) == ([1, 1], 2 if often else 1)


HOT = {
    "one": np.full(500, 57),
    "half": np.where(np.arange(500) % 2, 9, random(100, 500)),
    "ten": random(10, 500),
    "sorted": np.sort(random(20, 500)),
}


@pytest.mark.spread(3)
@pytest.mark.parametrize("indices", HOT)
@pytest.mark.parametrize("bins", [1 << 13, 4])
@pytest.mark.parametrize("mapping", [SORTED_OUT, IDLE, replace(SORTED_OUT, threads=64, rows=1)])
def test_rows_that_are_sent_many_are_added_up_in_chunks(monkeypatch, mapping, bins, indices):
    """Of rows that have a bin together one is."""
    monkeypatch.setattr(chunk_layout, "HOT", 3)
    monkeypatch.setattr(chunk_layout, "MOST_BINS", bins)
    by(monkeypatch, mapping)
    check(sums(100, HOT[indices]), kernels=1)


@pytest.mark.parametrize("words", [61, 2])
def test_each_piece_of_a_row_has_its_sums_of_chunks(monkeypatch, words):
    monkeypatch.setattr(chunk_layout, "HOT", 3)
    for mapping in (Scattered(8, 8, 4, 1, blocks=6), Scattered(32, 4, 4, 1, blocks=6, idle=24)):
        by(monkeypatch, replace(mapping, partitioned=True))
        check(embedding_step((61, 68), 190, words), kernels=1)


@pytest.mark.parametrize("list_bytes", [256, 1 << 12])
def test_sums_of_chunks_have_room_where_lists_have_none(monkeypatch, list_bytes):
    monkeypatch.setattr(chunk_layout, "HOT", 3)
    monkeypatch.setattr(layout, "LIST_BYTES", list_bytes)
    by(monkeypatch, Scattered(32, 2, 1, 1, blocks=3, partitioned=True))
    check(embedding_step((61, 31), 190, 2), kernels=1)


def test_many_indices_are_sorted_out_and_few_are_not():
    few, many = (embedding_step_module((30522, 128), count) for count in (512, 1 << 17))
    assert not chosen(few).partitioned
    assert chosen(many).partitioned
    # Without barriers of a grid there is but one way.
    assert not chosen(many, tuple(each for each in SCHEMES if each != "global")).partitioned


def test_blocks_that_wait_for_each_other_are_all_there():
    (function,) = primfuncs(
        embedding_step_module((999, 128), 4096), before="StitchSchedule"
    ).values()
    (program,) = read_programs(function)
    kind, problem = kind_of(program), problem_of(program, device_of(H200))
    mapping = replace(kind.choose(problem), partitioned=True)
    assert kind.refusal(problem, mapping) is None
    assert "not all are resident" in kind.refusal(problem, replace(mapping, blocks=200)).reason
    small = replace(mapping, threads=32, idle=0, rows=2)
    assert "a thread of a block counts" in kind.refusal(problem, small).reason


@pytest.mark.parametrize(
    ("rows", "columns", "blocks"),
    [(10000, 1, 79), (10000, 128, 132), (64, 128, 128), (2, 768, 120)],
)
def test_few_elements_have_as_many_threads(rows, columns, blocks):
    """Of 10000 rows by threads of their own, 40 blocks of 256 were all that there were.

    Of 64 rows of 128 columns 4 blocks, each of which went through all rows; of 2 rows of 768 there
    were 48, where updates are added up in chunks now.
    """
    mapping = chosen(sums(rows, random(rows, 10000), columns).module)
    assert (mapping.block_threads, mapping.blocks) == (1024, blocks)
