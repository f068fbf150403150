"""Generated TIR and CUDA as kept in tests/kernel/golden, so that every change is seen and reviewed.

After a change that is meant: `pytest tests/kernel/test_golden.py --renew`. Read the difference.
"""

import re
from pathlib import Path

import pytest
from check import cuda_of
from goldens import KERNELS, golden_kernel, target_of
from tvm import tirx

from tvm_stitch.kernel.skinny_matmul.build import SKINNY_ATTRIBUTE
from tvm_stitch.kernel.stitched import SCHEDULE_ATTRIBUTE
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE

GOLDEN = Path(__file__).parent / "golden"
# What each is there for: a word of its CUDA, and how often it stands there.
TELLING = {
    "barrier_of_the_grid": ("grid_sync", 1),
    "column_sums": ("grid_sync", 1),
    "persistent_rows": ("grid_sync", 2),
    "product_by_clusters": ("barrier_cluster_arrive", 2),
    "product_by_warpgroups": ("wgmma_f16_ss_mma_async", 4),
    "product_of_few_rows": ("ptx_mma_sync", 4),
    "product_on_tensor_cores": ("ptx_mma_sync", 1),
    "rounds": ("grid_sync", 2),
    "softmax_of_any_length": ("__global__", 3),
}


def kernel_text(source: str) -> str:
    """The kernels themselves: what TVM writes before changes with TVM, not with this package."""
    parts = re.split(r'(?=^extern "C" __global__)', source, flags=re.M)[1:]
    defined = [part.rstrip() for part in parts if "{" in part]
    return "\n\n".join(defined) + "\n"


def tir_text(kernel: tirx.PrimFunc) -> str:
    """TIR without the schedule, which tests/kernel/golden/schedules.txt keeps.

    And without its head: of symbols TVM writes it as this Python has type parameters.
    """
    for attribute in (SCHEDULE_ATTRIBUTE, TILES_ATTRIBUTE, SKINNY_ATTRIBUTE):
        kernel = kernel.without_attr(attribute)
    text = kernel.script()
    return text[text.index("\n    ") + 1 :] + "\n"


def compare(file: Path, text: str, renew: bool) -> None:
    if renew:
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", KERNELS)
def test_generated_cuda(name, request):
    text = kernel_text(cuda_of(golden_kernel(name), target_of(name)))
    word, count = TELLING.get(name, ("__global__", 1))
    assert len(re.findall(word, text)) == count
    compare(GOLDEN / f"{name}.cu", text, request.config.getoption("--renew"))


@pytest.mark.parametrize("name", KERNELS)
def test_emitted_tir(name, request):
    text = tir_text(golden_kernel(name))
    compare(GOLDEN / f"{name}.tir", text, request.config.getoption("--renew"))


def test_no_golden_file_is_left_over():
    assert {file.stem for file in GOLDEN.glob("*.cu")} == set(KERNELS)
    assert {file.stem for file in GOLDEN.glob("*.tir")} == set(KERNELS)
