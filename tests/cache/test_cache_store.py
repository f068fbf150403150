"""Files kept for the next time: whole or not at all, bounded, safe when processes are killed."""

import multiprocessing
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tvm_stitch import InputError
from tvm_stitch.cache.store import CacheWarning, Store, store_of

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "cache", 1 << 20)


def started(function, *arguments) -> tuple[Any, Any]:
    """Another process that calls a function, and where it tells what it does."""
    here, there = FORK.Pipe()
    process = FORK.Process(target=function, args=(there, *arguments), daemon=True)
    process.start()
    return process, here


def files(store: Store) -> list[Path]:
    return [p for p in store.folder.glob("*/**/*") if p.is_file() and p.parent.name != "locks"]


def test_what_is_written_is_read(store):
    assert store.read("kind/a") is None and not store.folder.exists()
    store.write("kind/a", b"some bytes")
    store.write("kind/b", b"")
    assert (store.read("kind/a"), store.read("kind/b")) == (b"some bytes", b"")
    assert Store(store.folder).read("kind/a") == b"some bytes"
    assert sorted(path.name for path in files(store)) == ["a", "b"]


@pytest.mark.parametrize(
    "harm", [lambda b: b[:-3], lambda b: b"S" + b[1:], lambda b: b"", lambda b: b * 2]
)
def test_a_damaged_file_counts_as_none_and_is_replaced(store, harm):
    store.write("kind/a", b"some bytes")
    path = store.path("kind/a")
    whole = path.read_bytes()
    path.write_bytes(harm(whole))
    with pytest.warns(CacheWarning, match="damaged"):
        assert store.read("kind/a") is None
    assert store.made("kind/a", lambda: b"anew") == b"anew"
    assert store.read("kind/a") == b"anew"


def test_one_warning_is_enough(store):
    for name in "abc":
        store.write(f"kind/{name}", b"bytes")
        store.path(f"kind/{name}").write_bytes(b"")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert [store.read(f"kind/{name}") for name in "abc"] == [None] * 3
    assert len(heard) == 1


def test_what_was_used_longest_ago_is_removed_first(tmp_path):
    store = Store(tmp_path, 10_000)
    for number in range(4):
        store.write(f"kind/{number}", bytes(2000))
        os.utime(store.path(f"kind/{number}"), (number, number))
    assert store.read("kind/0") is not None  # and so it was used last
    store.write("kind/4", bytes(2400))
    assert [store.read(f"kind/{n}") is None for n in range(5)] == [False, True, False, False, False]
    assert sum(each.bytes for each in store.contents()) <= 10_000


def test_a_file_that_would_push_out_everything_is_not_kept(tmp_path):
    store = Store(tmp_path, 10_000)
    store.write("kind/large", bytes(9000))
    assert store.read("kind/large") is None and files(store) == []


def test_where_nothing_can_be_written_everything_is_made(tmp_path):
    (tmp_path / "file").write_text("no folder")
    store = Store(tmp_path / "file" / "cache")
    with pytest.warns(CacheWarning, match="nothing can be kept"):
        assert store.made("kind/a", lambda: b"made") == b"made"
    assert store.made("kind/a", lambda: b"again") == b"again"


def test_nothing_is_kept_of_what_fails(store):
    with pytest.raises(ZeroDivisionError):
        store.made("kind/a", lambda: bytes([1 // 0]))
    with pytest.raises(ZeroDivisionError), store.making("kind/b") as path:
        path.write_bytes(bytes([1 // 0]))
    assert files(store) == []
    assert store.made("kind/a", lambda: b"now") == b"now"


def test_of_processes_that_want_the_same_one_makes_it(store):
    def make(tell, own: str) -> None:
        calls = []

        def made() -> bytes:
            calls.append(own)
            time.sleep(0.3)
            return own.encode()

        tell.send((store.made("kind/a", made), len(calls)))

    waiting = [started(make, name) for name in ("one", "two", "three")]
    found, calls = zip(*(heard.recv() for _, heard in waiting), strict=True)
    assert (len(set(found)), sum(calls)) == (1, 1)


def test_a_lock_ends_with_the_process_that_is_killed(store):
    def hold(tell) -> None:
        with store.lock("kind/a"):
            tell.send("held")
            time.sleep(60)

    process, heard = started(hold)
    assert heard.recv() == "held"
    process.kill()
    begun = time.monotonic()
    assert store.made("kind/a", lambda: b"made") == b"made"
    assert time.monotonic() - begun < 30


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_that_is_read(store):
    def write(tell) -> None:
        with store.making("kind/a") as path:
            path.write_bytes(b"half")
            tell.send("half")
            time.sleep(60)

    process, heard = started(write)
    assert heard.recv() == "half"
    process.kill()
    process.join()
    assert store.read("kind/a") is None
    store.write("kind/a", b"whole")
    assert store.read("kind/a") == b"whole"
    for folder in store.folder.glob("kind/making-*"):
        os.utime(folder, (0, 0))
    store.clear()
    assert files(store) == []


def test_what_is_being_made_survives_clearing(store):
    store.write("kind/a", b"done")
    with store.making("kind/b") as made:
        made.write_bytes(b"new")
        store.clear()
    assert store.read("kind/a") is None
    assert store.read("kind/b") == b"new"


def test_folders_that_vanish_while_files_are_counted(store, monkeypatch):
    """Another process is done making: what it made there is gone when this one looks."""
    store.write("kind/a", b"some bytes")
    walked = os.walk

    def walk(top):
        for each in walked(top):
            for gone in [name for name in each[1] if name.startswith("making-")]:
                shutil.rmtree(Path(each[0], gone))
            yield each

    monkeypatch.setattr(os, "walk", walk)
    with tempfile.TemporaryDirectory(dir=store.folder / "kind", prefix="making-") as folder:
        Path(folder, "b").write_bytes(b"half")
        assert [(each.kind, each.files) for each in store.contents()] == [("kind", 1)]


def test_a_file_in_the_place_of_another_is_checked_anew(store):
    store.write("kind/a", b"some bytes")
    assert store.file("kind/a") == store.file("kind/a") == store.path("kind/a")
    other = store.folder / "other"
    other.write_bytes(b"damaged")
    os.replace(other, store.path("kind/a"))
    with pytest.warns(CacheWarning):
        assert store.file("kind/a") is None


def test_contents_by_kind_and_clearing(store):
    for name in ("modules/a", "modules/b", "kernels/c"):
        with store.lock(name):
            store.write(name, bytes(100))
    found = store.contents()
    assert [(each.kind, each.files) for each in found] == [("kernels", 1), ("modules", 2)]
    assert all(each.bytes > 100 * each.files for each in found)
    store.clear()
    assert store.contents() == []


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_STITCH_CACHE", "off")
    assert store_of() is None
    assert store_of(tmp_path).folder == tmp_path
    monkeypatch.setenv("TVM_STITCH_CACHE", str(tmp_path / "named"))
    assert store_of().folder == tmp_path / "named"
    assert store_of("off") is None
    assert store_of("0") is store_of("OFF") is None  # and no folder of that name
    monkeypatch.delenv("TVM_STITCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store_of().folder == tmp_path / "xdg" / "tvm-stitch"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the standard says to ignore
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store_of().folder == tmp_path / ".cache" / "tvm-stitch"


def test_how_large_it_may_be(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_STITCH_CACHE_BYTES", "12345")
    assert store_of(tmp_path).most_bytes == 12345
    monkeypatch.setenv("TVM_STITCH_CACHE_BYTES", "much")
    with pytest.raises(InputError, match="TVM_STITCH_CACHE_BYTES"):
        store_of(tmp_path)
