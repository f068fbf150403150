"""Schedules are data: they go through JSON unchanged, and broken texts are refused."""

import json
from dataclasses import replace

import pytest
from check import schedule_of, the_kernel
from zoo import ZOO, softmax

from tvm_stitch.errors import InputError
from tvm_stitch.kernel.ir.mapping import (
    RENAMED,
    SCHEMES,
    ColumnSums,
    Flat,
    Rows,
    RowSegment,
    SmallMatmul,
    Transposed,
)
from tvm_stitch.kernel.ir.read_mapping import mapping_from
from tvm_stitch.kernel.ir.schedule import Schedule

WARP = Rows(threads=32, rows=4, vector=4, steps=8)
BLOCK = Rows(threads=128, rows=1, vector=8, steps=2, residence="shared")
CLUSTER = Rows(256, 1, 4, 3, cluster=4, peeled=True)
BATCH = Rows(8, 16, 4, 1, batch=4, prefetch_weights=True, min_blocks_per_sm=4)
STREAM = Rows(512, 1, 4, 0, residence="nowhere", recompute=True)
FLAT = Flat(threads=256, vector=4, steps=2)


@pytest.mark.parametrize("parts", [(WARP,), (BLOCK,), (CLUSTER,), (FLAT,), (BATCH,), (WARP, BLOCK)])
def test_round_trip(parts):
    schedule = Schedule(parts)
    assert Schedule.from_json(schedule.to_json()) == schedule
    chain = Schedule(parts, longer=Schedule((BLOCK,), longer=Schedule((STREAM,))))
    assert Schedule.from_json(chain.to_json()) == chain


@pytest.mark.parametrize("name", ZOO)
def test_a_kernel_says_how_it_is_laid_out(name):
    schedule = schedule_of(the_kernel(ZOO[name]("float16").module))
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert schedule.schemes <= set(SCHEMES)


def test_fields_by_their_earlier_names():
    """Records and plans that were written before the fields had their names of today."""
    data = json.loads(Schedule((BATCH,), blocks=8, min_blocks_per_sm=2).to_json())
    earlier = {new: old for old, new in RENAMED.items()}
    parts = [{earlier.get(name, name): value for name, value in data["parts"][0].items()}]
    text = json.dumps({"parts": parts, "blocks": 8, "resident": 2})
    assert "ahead" in text and "prefetch_weights" not in text
    assert Schedule.from_json(text) == Schedule((BATCH,), blocks=8, min_blocks_per_sm=2)


def test_equal_schedules_have_equal_texts():
    text = Schedule((WARP,)).to_json()
    shuffled = json.dumps({"parts": [dict(reversed(json.loads(text)["parts"][0].items()))]})
    assert Schedule.from_json(shuffled).to_json() == text


def test_figures():
    assert WARP.block_threads == BLOCK.block_threads == 128
    assert WARP.reach == 1024 and WARP.capacity == 1024
    assert (BATCH.block_threads, BATCH.rows, BATCH.block_rows) == (128, 16, 64)
    assert CLUSTER.capacity == 4 * 256 * 4 * 3 - 3  # a row may start three elements late


def test_the_widest_scheme_names_the_kernel():
    assert Schedule((WARP,)).scheme == "warp"
    assert Schedule((WARP, BLOCK)).scheme == "independent"
    assert Schedule((WARP, BLOCK)).schemes == {"independent", "warp", "regional"}


def test_mappings_in_words():
    assert str(WARP) == "32 threads per row, 4 rows per block, 8 x 4 elements per thread"
    assert "row in shared memory" in str(BLOCK)
    assert "256 threads per row in each of 4 blocks" in str(CLUSTER) and "peeled" in str(CLUSTER)
    assert str(FLAT) == "256 threads per block, 2 x 4 elements per thread"
    assert Schedule((WARP, WARP, BLOCK)).mapping == f"2 of {WARP}; 1 of {BLOCK}"


def part(**changes) -> dict:
    (data,) = json.loads(Schedule((WARP,)).to_json())["parts"]
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


def before(**changes) -> dict:
    """A mapping from when all had the same fields."""
    usual = {
        "scheme": "warp", "threads": 32, "rows": 4, "vector": 4, "steps": 8, "cluster": 1,
        "residence": "register", "recompute": False, "peeled": False, "split": False, "blocks": 0,
        "min_blocks_per_sm": 0, "prefetch_next_row": False, "batch": 1, "prefetch_weights": False,
        "asynchronous": False, "online": False, "unroll": 0, "idle": 0, "tile": 0,
        "persistent_rows": 0,
    }  # fmt: skip
    return {**usual, **changes}


@pytest.mark.parametrize(
    "changes, mapping",
    [
        ({}, WARP),
        (
            {"scheme": "regional", "threads": 64, "persistent_rows": 8},
            replace(WARP, threads=64, persistent_rows=8),
        ),
        ({"scheme": "local", "rows": 1, "split": True}, Flat(32, 4, 8)),
        (
            {"scheme": "regional", "rows": 1, "split": True, "tile": 16},
            Transposed(32, 4, 8, tile=16),
        ),
        (
            {"scheme": "global", "blocks": 8, "min_blocks_per_sm": 2, "recompute": True},
            ColumnSums(32, 4, 4, 8, recompute=True, blocks=8, min_blocks_per_sm=2),
        ),
        (
            {"scheme": "global", "split": True, "recompute": True, "batch": 2},
            RowSegment(32, 4, 4, 8, batch=2),
        ),
        (
            {"scheme": "regional", "vector": 1, "residence": "shared", "batch": 2},
            SmallMatmul(32, 4, 8, batch=2),
        ),
    ],
)
def test_mappings_from_before_they_said_their_kind(changes, mapping):
    assert mapping_from(before(**changes)) == mapping
    least = ("scheme", "threads", "rows", "vector", "steps")
    short = {k: v for k, v in before(**changes).items() if k in changes or k in least}
    assert mapping_from(short) == mapping


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "schedule must be a JSON object with the fields"),
        ("{}", "schedule is incomplete: parts"),
        ('{"parts": [], "more": 1}', "without more"),
        (json.dumps({"parts": [part()], "blocks": -1}), "schedule field blocks: -1 is not a count"),
        (json.dumps({"parts": [part()], "longer": {}}), "schedule is incomplete: parts"),
        ('{"parts": []}', "at least one mapping"),
        ('{"parts": {}}', "at least one mapping"),
        ('{"parts": [7]}', "mapping must be a JSON object"),
        (json.dumps({"parts": [part(tread=3)]}), "with the fields"),
        (json.dumps({"parts": [part(threads="32")]}), "threads must be int"),
        (json.dumps({"parts": [part(threads=32.0)]}), "threads must be int"),
        (json.dumps({"parts": [part(threads=True)]}), "threads must be int"),
        (json.dumps({"parts": [part(peeled=1)]}), "peeled must be bool"),
        (json.dumps({"parts": [part(kind="tree")]}), "kind must be one of"),
        (json.dumps({"parts": [part(tile=8)]}), "with the fields"),
        (json.dumps({"parts": [before(scheme="telepathy")]}), "of no kind"),
        (json.dumps({"parts": [before(split=True, rows=2)]}), "of no kind"),
        (json.dumps({"parts": [before(tile=8)]}), "of no kind"),
        (json.dumps({"parts": [part(threads=None)]}), "incomplete.*threads"),
    ],
)
def test_broken_texts(text, message):
    with pytest.raises(InputError, match=message):
        Schedule.from_json(text)


def test_texts_of_kernels_are_stable():
    """The same function gives the same schedule, run to run."""
    texts = {schedule_of(the_kernel(softmax("float32").module)).to_json() for _ in range(3)}
    assert len(texts) == 1
