"""Kernels that are broken on purpose: the executor must see it, whatever the numbers say."""

import re

import numpy as np
import pytest
from check import cuda_of, schedule_of, the_kernel
from zoo import softmax, softmax64

from tvm_stitch import simt


class Softmax:
    """A stitched softmax as CUDA source, to be changed and run."""

    def __init__(self, rows: int, columns: int) -> None:
        kernel = the_kernel(softmax("float32", rows, columns).module)
        (self.mapping,) = schedule_of(kernel).parts
        self.source = cuda_of(kernel)
        self.x = np.random.default_rng(0).standard_normal((rows, columns)).astype("float32")

    def broken(self, pattern: str, replacement: str) -> str:
        """The source with the first match replaced."""
        changed, count = re.subn(pattern, replacement, self.source, count=1)
        assert count == 1, f"{pattern} is not in the kernel"
        return changed

    def hazards(self, source: str) -> set[str]:
        """The kinds of hazards of three orders, and the right result where there are none."""
        found = set()
        for seed in (0, 1, 2):
            out = np.empty_like(self.x)
            rows = self.x.shape[0]
            arrays = {"x": self.x, "T_divide_intermediate": out}
            grid, block = -(-rows // self.mapping.rows), self.mapping.block_threads
            run = simt.run(source, arrays=arrays, grid=grid, block=block, seed=seed)
            found |= {hazard.kind for hazard in run.hazards}
            if run.ok:
                np.testing.assert_allclose(out, softmax64(self.x.astype("float64")), atol=2e-6)
        return found


@pytest.fixture(scope="module")
def block() -> Softmax:
    return Softmax(3, 1024)


@pytest.fixture(scope="module")
def packed() -> Softmax:
    """Several rows a block, the last block not full."""
    found = Softmax(131, 20)
    assert found.mapping.rows > 1 and 131 % found.mapping.rows
    return found


def test_as_they_are(block, packed):
    assert block.hazards(block.source) == set()
    assert packed.hazards(packed.source) == set()


@pytest.mark.parametrize("number", (0, 1))
def test_a_barrier_removed(block, number):
    barrier = "__syncthreads();"
    parts = block.source.split(barrier)
    assert len(parts) == 3
    without = barrier.join(parts[: number + 1]) + barrier.join(parts[number + 1 :])
    assert "race" in block.hazards(without)


def test_a_barrier_that_some_threads_do_not_reach(block):
    source = block.broken(r"__syncthreads\(\);", "if (threadIdx.x < 32) __syncthreads();")
    assert block.hazards(source) & {"divergent barrier", "deadlock"}


def test_a_shared_buffer_shrunk(block):
    (size,) = re.findall(r"__shared__ \S+ float x_red_warps_ptr\[(\d+)\]", block.source)
    source = block.broken(rf"x_red_warps_ptr\[{size}\]", f"x_red_warps_ptr[{int(size) - 1}]")
    assert any(kind.startswith("out-of-bounds") for kind in block.hazards(source))


def test_a_register_buffer_shrunk(block):
    source = block.broken(r"float x_kept_ptr\[4\]", "float x_kept_ptr[3]")
    assert block.hazards(source)


def test_a_row_guard_off_by_one_reads_beyond_the_end(packed):
    source = packed.broken(r", 130\)", ", 131)")
    assert "out-of-bounds read" in packed.hazards(source)


def test_a_row_guard_off_by_one_writes_beyond_the_end(packed):
    source = packed.broken(r"< 131\)", "< 132)")
    assert "out-of-bounds write" in packed.hazards(source)


def test_a_column_guard_off_by_one(packed):
    """The thread after the row's end takes the next row's first elements, and writes them."""
    source = re.sub(r"(threadIdx\.x\) & 7\)) < 5\)", r"\1 < 6)", packed.source)
    assert source != packed.source
    assert packed.hazards(source)


def test_scratch_that_was_never_written(block):
    source = block.broken(r"x_red_warps_ptr\[[^=\n]*\] = [^;]*;", ";")
    assert "uninitialised read" in block.hazards(source)
