"""Updates in the order of the rows that they go to, whatever the order of threads."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from check import H200, cuda_of

from tvm_stitch import simt
from tvm_stitch.device import device_of
from tvm_stitch.kernel.codegen.hazard_check import check_kernel, multiprocessors_needed
from tvm_stitch.kernel.codegen.prim_func import MULTIPROCESSORS_ATTRIBUTE
from tvm_stitch.kernel.scattered.order import Sort, order_of_rows, shares
from tvm_stitch.target import full_target

DEVICE = device_of(H200)
GARBAGE = 7


def sorted_by(wanted, seeds=(1,)):
    """What the kernel leaves of each sort, the same by each order of threads: its three lists."""
    sorts = [Sort(len(indices), rows, str(indices.dtype)) for indices, rows in wanted]
    function = order_of_rows(sorts, DEVICE)
    assert check_kernel(function, DEVICE) is None
    needed = multiprocessors_needed(function, DEVICE)
    assert 0 < needed <= min(DEVICE.multiprocessors, function.attrs[MULTIPROCESSORS_ATTRIBUTE])
    kernel = simt.Function(function, H200)
    found = []
    for seed in seeds:
        arrays = [np.full(int(p.ty.shape[0]), GARBAGE, str(p.ty.dtype)) for p in function.params]
        for array, (indices, _rows) in zip(arrays, wanted, strict=False):
            array[:] = indices
        assert not kernel(arrays, seed=seed).hazards
        found.append(arrays[len(wanted) : -1])
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)
    return [found[0][n : n + 3] for n in range(0, len(found[0]), 3)]


def check_order(*wanted, seeds=(1,)):
    for (indices, rows), lists in zip(wanted, sorted_by(wanted, seeds), strict=True):
        order, first, last = lists
        wide = indices.astype("int64")
        own = np.where((wide < 0) | (wide >= rows), rows, wide)
        np.testing.assert_array_equal(order, np.argsort(own, kind="stable"))
        counts = np.bincount(own, minlength=rows + 1)[:rows]
        starts = np.cumsum(counts) - counts
        np.testing.assert_array_equal(first, np.where(counts, starts, 0))
        np.testing.assert_array_equal(last, np.where(counts, starts + counts, 0))


def random(count, rows, dtype, beyond=0):
    """Indices, of which some are below 0 or beyond the rows."""
    rng = np.random.default_rng(count + rows)
    return rng.integers(-beyond, rows + beyond, count).astype(dtype)


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    "count, rows",
    [(1, 1), (7, 3), (33, 31), (1000, 7), (1027, 1000), (5000, 300), (3000, 70000)],
)
def test_updates_are_in_the_order_of_their_rows(count, rows, dtype):
    check_order((random(count, rows, dtype), rows))


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("count, rows", [(7, 3), (1027, 255), (2100, 256)])
def test_updates_of_no_row_come_last(count, rows, dtype):
    check_order((random(count, rows, dtype, beyond=1 + rows // 2), rows))


def test_what_32_bits_do_not_hold_is_no_row():
    check_order((np.array([1, 1 << 32, -(1 << 40), 0, (1 << 32) + 1, 2], "int64"), 3))


@pytest.mark.parametrize("index", [-1, 0, 41, 63, 64])
def test_all_may_go_to_one_row_or_none(index):
    check_order((np.full(2050, index, "int32"), 64))


@pytest.mark.parametrize("rows", [300, 70000])
def test_the_order_of_threads_makes_no_difference(rows):
    check_order((random(3000, rows, "int32", beyond=20), rows), seeds=range(1, 5))


def test_threads_have_several_updates(monkeypatch):
    small = replace(DEVICE, multiprocessors=2)
    monkeypatch.setitem(globals(), "DEVICE", small)
    (share,) = shares([Sort(11000, 300, "int64")], small)
    assert (share.turns, share.blocks) == (6, 2)
    check_order((random(11000, 300, "int64", beyond=9), 300), seeds=(1, 2))


def test_several_are_sorted_side_by_side():
    """Each by blocks of its own, whatever the others' sizes are."""
    sizes = [(5000, 300, "int64"), (40, 7, "int32"), (1, 1, "int64"), (1000, 70000, "int32")]
    check_order(*((random(n, rows, dtype), rows) for n, rows, dtype in sizes), seeds=(1, 2))


@pytest.mark.parametrize(
    "rows, passes, bits",
    [(1, 1, 1), (64, 1, 7), (255, 1, 8), (256, 2, 5), (5600, 2, 7), (1 << 20, 3, 7)],
)
def test_as_few_passes_as_there_are_bytes(rows, passes, bits):
    """Two barriers of the grid each."""
    sort = Sort(4096, rows, "int32")
    assert (sort.passes, sort.bits) == (passes, bits)
    source = cuda_of(order_of_rows([sort], DEVICE))
    assert source.count("cuda_grid_sync();") == 2 * passes


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the path")
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("rows", [64, 255, 1 << 20])
def test_nvcc_takes_it_without_a_stack(rows, dtype, tmp_path):
    target = full_target(H200)
    path = tmp_path / "order.cu"
    path.write_text(cuda_of(order_of_rows([Sort(1 << 17, rows, dtype)], DEVICE), target, "order"))
    command = ["nvcc", f"-arch={target.attrs['arch']}", "-cubin", "-Xptxas", "-v", "-O3"]
    done = subprocess.run([*command, path], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in done.stderr
