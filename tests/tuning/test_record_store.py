"""The record store: nothing is lost, nothing that is no record is taken for one."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

import tvm_stitch
from tvm_stitch.errors import InputError
from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.tuning.records import PACKAGE, Record, best_first, read_record, same_gpu
from tvm_stitch.tuning.store import Store

SCHEDULE = Schedule((Rows(threads=32, rows=4, vector=4, steps=8),))
RECORD = Record(
    workload="0" * 32, family="1" * 32, sizes=(64, 1024), title="64 x 1024 float32: sum",
    gpu="NVIDIA H200", capability=90, package=PACKAGE, schedule=SCHEDULE, cost=12.5, unit="us",
    how="CUDA events", date="2026-01-31T12:00:00+00:00", seed=0, trial=3,
)  # fmt: skip
FAILED = replace(RECORD, cost=None, error="timed out", trial=4)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "records.jsonl")


def trials(store):
    return [record.trial for record in store.read().records]


def numbered(numbers, **fields):
    return [replace(RECORD, trial=number, **fields) for number in numbers]


# Lines


@pytest.mark.parametrize("record", (RECORD, FAILED))
def test_round_trip(record):
    assert read_record(record.to_line().encode()) == record
    assert "\n" not in record.to_line()


def test_records_hold_for_this_version_of_the_package():
    assert tvm_stitch.__version__.startswith(PACKAGE + ".")


def edited(**changes) -> bytes:
    return json.dumps({**json.loads(RECORD.to_line()), **changes}).encode()


@pytest.mark.parametrize(
    ("line", "why"),
    (
        (RECORD.to_line().encode()[:-20], "not JSON, or cut off"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"3", "not a JSON object"),
        (b"{}", "record version None"),
        (edited(version=2), "version 2.*a newer tvm_stitch wrote it"),
        (edited(version=True), "version True"),
        (edited(cost="fast"), "field cost"),
        (edited(cost=float("nan")), "field cost"),
        (edited(cost=-1.0), "field cost"),
        (edited(cost=None), "either a cost or an error"),
        (edited(trial=1.5), "field trial"),
        (edited(trial=True), "field trial"),
        (edited(sizes=[1, "2"]), "field sizes"),
        (edited(unit="hours"), "field unit"),
        (edited(date="yesterday"), "field date"),
        (edited(extra=1), "extra"),
        (edited(schedule={"parts": []}), "at least one mapping"),
        (edited(schedule={"parts": [{"scheme": "__import__('os')"}]}), "incomplete"),
        (edited(title="x" * (1 << 20)), "a line of"),
    ),
)
def test_what_is_no_record(line, why):
    with pytest.raises(InputError, match=why):
        read_record(line)


# The file


def test_a_store_that_is_not_there_yet(store):
    assert store.read().records == ()
    assert not store.path.exists()
    with pytest.raises(InputError, match=r"make one with `tvm-stitch tune MODEL --database \S+`"):
        store.existing()


def test_records_are_appended(store):
    store.append(numbered([1, 2]))
    first = store.path.read_bytes()
    store.append(numbered([3]))
    assert store.path.read_bytes().startswith(first)
    assert trials(store) == [1, 2, 3]


def test_unreadable_lines_are_reported_and_skipped(store):
    store.append(numbered([1]))
    with store.path.open("ab") as file:
        file.write(b"garbage\n\n" + edited(version=9) + b"\n")
    store.append(numbered([2]))
    contents = store.read()
    assert [record.trial for record in contents.records] == [1, 2]
    assert [problem.line for problem in contents.unreadable] == [2, 4]
    assert "version 9" in str(contents.unreadable[1])


@pytest.mark.parametrize("cut", (1, 2, 100, 300))
def test_a_cut_file_loses_the_cut_record_only(store, cut):
    store.append(numbered([1, 2]))
    text = store.path.read_bytes()
    store.path.write_bytes(text[:-cut])
    store.append(numbered([3]))
    # All that a record's last byte lacks may be its newline.
    assert trials(store) == ([1, 2, 3] if cut == 1 else [1, 3])
    assert len(store.read().unreadable) == (0 if cut == 1 else 1)


def test_a_folder_is_no_store(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        Store(tmp_path).read()
    with pytest.raises(InputError, match="cannot write"):
        Store(tmp_path).append([RECORD])


WRITER = """
import sys
from dataclasses import replace
from tvm_stitch.tuning.records import read_record
from tvm_stitch.tuning.store import Store
store, first, count = Store(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
record = read_record(sys.argv[4].encode())
print("ready", flush=True)
for number in range(first, first + count):
    store.append([replace(record, trial=number, title="x" * (number * 37 % 5000))])
    print(number, flush=True)
"""


def writer(store, first, count):
    arguments = [str(store.path), str(first), str(count), RECORD.to_line()]
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_two_writers_at_once(store):
    children = [writer(store, first, 200) for first in (0, 1000)]
    for child in children:
        child.communicate(timeout=300)
        assert child.returncode == 0
    assert sorted(trials(store)) == [*range(200), *range(1000, 1200)]
    assert store.read().unreadable == ()


@pytest.mark.slow
def test_a_writer_killed_in_the_middle_loses_nothing_that_it_told(store):
    child = writer(store, 0, 1_000_000)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.3)
    os.kill(child.pid, signal.SIGKILL)
    told = [int(line) for line in child.stdout.read().split() if line.isdigit()]
    child.wait()
    store.append(numbered([-1]))
    found = trials(store)
    assert len(told) > 10
    assert set(told) <= set(found)
    assert found == [*range(len(found) - 1), -1]


@pytest.mark.slow
def test_pruning_while_another_writes_loses_nothing(store):
    store.append(numbered([0], cost=99.0))
    best = numbered([1], cost=1.0)
    store.append(best)
    child = writer(store, 100, 60)
    while child.poll() is None:
        store.prune()
    child.wait()
    store.append(numbered([7], workload="another"))
    assert {0, 1, 7} <= set(trials(store))
    assert store.read().unreadable == ()


# What is kept, and what counts


def test_pruning_keeps_the_analytic_choice_and_the_best_of_each_gpu(store):
    costs = [replace(RECORD, trial=n, cost=cost) for n, cost in enumerate((9.0, 3.0, 5.0))]
    other = replace(RECORD, gpu="NVIDIA A100", capability=80)
    store.append([*costs, FAILED, other])
    with store.path.open("ab") as file:
        file.write(edited(version=9) + b"\n")
    assert store.prune() == (5, 3)
    assert store.read().records == (costs[0], costs[1], other)
    assert len(store.read().unreadable) == 1  # a newer tvm_stitch may read it


def test_merging_adds_what_is_new(store, tmp_path):
    other = Store(tmp_path / "other.jsonl")
    store.append(numbered([1, 2]))
    other.append(numbered([2, 3, 3]))
    assert store.merge([other]) == 1
    assert trials(store) == [1, 2, 3]
    with pytest.raises(InputError, match="no record store"):
        store.merge([Store(tmp_path / "nowhere")])


def test_times_come_before_counts_and_final_times_before_others():
    counted = replace(RECORD, unit="accesses", cost=1.0)
    early, final = replace(RECORD, cost=2.0), replace(RECORD, cost=3.0, final=True)
    slow = replace(RECORD, cost=4.0, final=True)
    assert best_first([counted, FAILED, slow, early, final]) == [final, slow, early, counted]


@pytest.mark.parametrize(
    ("gpu", "capability", "same"),
    (
        ("NVIDIA H200", 90, True),
        ("H200", 90, True),  # the preset, where there is no such GPU
        ("NVIDIA H200 NVL", 90, False),
        ("NVIDIA H200", 80, False),
        ("A100", 80, False),
    ),
)
def test_the_same_gpu(gpu, capability, same):
    assert same_gpu(RECORD, gpu, capability) is same
