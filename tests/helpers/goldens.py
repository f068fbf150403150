"""The kernels whose TIR and CUDA tests/kernel/golden keeps."""

from functools import cache

from across_rows import (
    batch_norm,
    column_sums,
    divided_by_their_norm,
    embedding_step,
    norm_backward,
    standardised,
)
from check import H200, TOGETHER, the_kernel
from products import attention, lstm_cell
from tensor_products import linear, linear_of_torch
from tvm import tirx
from zoo import Case, layer_norm, residual_rms_norm, row_and_group_statistics, softmax, transposed

from tvm_stitch.target import full_target

KERNELS: dict[str, Case] = {
    "barrier_of_the_grid": norm_backward("float32", (2200,), 128),
    "column_sums": column_sums("float32", 4096, 1000),
    "softmax_warp": softmax("float32", 1000, 20),
    "layer_norm_batch": layer_norm("bfloat16", (tirx.Var("n", "int64"), 4), 60),
    "softmax_block_peeled": softmax("float16", 6, 1027),
    "softmax_cluster": softmax("bfloat16", (tirx.Var("n", "int64"), 2), 65536),
    "layer_norm_cluster": layer_norm("bfloat16", 500, 65536),
    "layer_norm_block": layer_norm("float32", 6, 1024),
    "product_after_product": attention("float32", 2, 2, 32, 16),
    "product_in_slices": lstm_cell("float32", 64, 16, 16),
    "panel": standardised("float32", 1, 777, 300),
    "persistent_rows": divided_by_their_norm((4096, 1024)),
    "product_by_clusters": linear("bfloat16", 64, 3072, 768),
    "product_by_warpgroups": linear("float16", 1024, 1024, 1024),
    "product_on_tensor_cores": linear("float16", 40, 128, 264),
    "product_of_few_rows": linear_of_torch("float16", 4, 4096, 1000),
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
FULL = ("product_by_clusters", "product_by_warpgroups")


def target_of(name: str):
    return full_target(H200) if name in FULL else H200


@cache
def golden_kernel(name: str) -> tirx.PrimFunc:
    return the_kernel(KERNELS[name].module, target_of(name), TOGETHER)
