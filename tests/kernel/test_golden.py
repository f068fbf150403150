"""Generated TIR and CUDA as kept in tests/kernel/golden, so that every change is seen and reviewed.

After a change that is meant: `pytest tests/kernel/test_golden.py --renew`. Read the difference.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from across_rows import (
    batch_norm,
    column_sums,
    divided_by_their_norm,
    embedding_step,
    norm_backward,
    standardised,
)
from check import H200, TOGETHER, cuda_of, the_kernel
from products import attention, lstm_cell
from tensor_products import linear
from tvm import tirx
from zoo import Case, layer_norm, residual_rms_norm, row_and_group_statistics, softmax, transposed

from tvm_stitch.kernel.stitched import SCHEDULE_ATTRIBUTE
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE
from tvm_stitch.target import full_target

GOLDEN = Path(__file__).parent / "golden"
KERNELS: dict[str, Case] = {
    "barrier_of_the_grid": norm_backward("float32", (2200,), 128),
    "column_sums": column_sums("float32", 4096, 1000),
    "softmax_warp": softmax("float32", 1000, 20),
    "layer_norm_batch": layer_norm("bfloat16", (tirx.Var("n", "int64"), 4), 60),
    "softmax_block_peeled": softmax("float16", 6, 1027),
    "softmax_cluster": softmax("bfloat16", (tirx.Var("n", "int64"), 2), 65536),
    "layer_norm_cluster": layer_norm("bfloat16", (tirx.Var("n", "int64"), 2), 65536),
    "layer_norm_block": layer_norm("float32", 6, 1024),
    "product_after_product": attention("float32", 2, 2, 32, 16),
    "product_in_slices": lstm_cell("float32", 64, 16, 16),
    "panel": standardised("float32", 1, 777, 300),
    "persistent_rows": divided_by_their_norm((4096, 1024)),
    "product_by_warpgroups": linear("float16", 1024, 1024, 1024),
    "product_on_tensor_cores": linear("float16", 40, 128, 264),
    "residual_rms_norm_two_outputs": residual_rms_norm("bfloat16", 6, 512),
    "rounds": batch_norm("float32", (50000, 33)),
    "co_scheduled_rows": row_and_group_statistics("float32", 24, 512),
    "scattered_sums": embedding_step((40, 64), 100),
    "softmax_of_any_length": softmax(
        "float32", (tirx.Var("n", "int64"), 5), (tirx.Var("m", "int64"), 50)
    ),
    "transpose_of_halves": transposed((128, 192), (1, 0), "float16"),
}
# What only code for one GPU may use.
FULL = ("product_by_warpgroups",)
# What each is there for: a word of its CUDA, and how often it stands there.
TELLING = {
    "barrier_of_the_grid": ("grid_sync", 1),
    "column_sums": ("grid_sync", 1),
    "persistent_rows": ("grid_sync", 2),
    "product_by_warpgroups": ("wgmma_f16_ss_mma_async", 4),
    "product_on_tensor_cores": ("ptx_mma_sync", 1),
    "rounds": ("grid_sync", 2),
    "softmax_of_any_length": ("__global__", 3),
}


def target_of(name: str):
    return full_target(H200) if name in FULL else H200


@cache
def golden_kernel(name: str) -> tirx.PrimFunc:
    return the_kernel(KERNELS[name].module, target_of(name), TOGETHER)


def kernel_text(source: str) -> str:
    """The kernels themselves: what TVM writes before changes with TVM, not with this package."""
    parts = re.split(r'(?=^extern "C" __global__)', source, flags=re.M)[1:]
    defined = [part.rstrip() for part in parts if "{" in part]
    return "\n\n".join(defined) + "\n"


def tir_text(kernel: tirx.PrimFunc) -> str:
    """TIR without the schedule, which tests/kernel/golden/schedules.txt keeps.

    And without its head: of symbols TVM writes it as this Python has type parameters.
    """
    text = kernel.without_attr(SCHEDULE_ATTRIBUTE).without_attr(TILES_ATTRIBUTE).script()
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
