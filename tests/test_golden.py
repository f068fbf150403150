"""Generated CUDA as it is kept in tests/golden, so that every change of it is seen and reviewed.

After a change that is meant: `pytest tests/test_golden.py --renew`, then read the difference.
"""

from pathlib import Path

import pytest
from check import cuda_of, the_kernel
from products import attention, lstm_cell
from test_tensor_core import linear
from tvm import tirx
from zoo import layer_norm, residual_rms_norm, row_and_group_statistics, softmax, transposed

GOLDEN = Path(__file__).parent / "golden"
KERNELS = {
    "softmax_warp": softmax("float32", 1000, 20),
    "layer_norm_batch": layer_norm("bfloat16", (tirx.Var("n", "int64"), 4), 60),
    "softmax_block_peeled": softmax("float16", 6, 1027),
    "softmax_cluster": softmax("bfloat16", (tirx.Var("n", "int64"), 2), 65536),
    "layer_norm_cluster": layer_norm("bfloat16", (tirx.Var("n", "int64"), 2), 65536),
    "layer_norm_block": layer_norm("float32", 6, 1024),
    "product_after_product": attention("float32", 2, 2, 32, 16),
    "product_in_slices": lstm_cell("float32", 64, 16, 16),
    "product_on_tensor_cores": linear("float16", 40, 128, 264),
    "residual_rms_norm_two_outputs": residual_rms_norm("bfloat16", 6, 512),
    "rows_in_step": row_and_group_statistics("float32", 24, 512),
    "transpose_of_halves": transposed((128, 192), (1, 0), "float16"),
}


def kernel_text(source: str) -> str:
    """The kernel itself: what TVM writes before it changes with TVM, not with this package."""
    return source[source.rindex('extern "C" __global__') :].rstrip() + "\n"


@pytest.mark.parametrize("name", KERNELS)
def test_generated_cuda(name, request):
    text = kernel_text(cuda_of(the_kernel(KERNELS[name].module)))
    file = GOLDEN / f"{name}.cu"
    if request.config.getoption("--renew"):
        file.write_text(text)
    assert text == file.read_text()


def test_no_golden_file_is_left_over():
    assert {file.stem for file in GOLDEN.glob("*.cu")} == set(KERNELS)
