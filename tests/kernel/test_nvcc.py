"""NVIDIA's compiler takes every kernel of the zoo, and no thread needs its stack.

A stack frame or a spill means that registers run over: the kernel would be slow in silence.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from check import A100, DTYPES, H200, HALVES, TOGETHER, cuda_of, the_kernel
from tensor_products import linear, product_function, with_tiles
from tvm import tirx
from zoo import ZOO, layer_norm, norm_gelu_softmax, residual_rms_norm, softmax

from tvm_stitch.kernel.tensor_core.build import emit_products, read_products
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.target import full_target

NVCC = shutil.which("nvcc")
pytestmark = [
    pytest.mark.skipif(NVCC is None, reason="nvcc is not on the path"),
    pytest.mark.slow,
]

# Rows of 40960 elements fill the registers: measured, a block with a spilled word or two is quicker
# than one of twice the threads. Rows of up to 4096 must not spill at all.
LONG_ROW = f"zoo_{list(ZOO).index('group norm + SiLU, long rows')}_"
LONG_ROW_STACK = 16
ANY_ROWS = (tirx.Var("n", "int64"), 4)  # mapped as if there were many
LONG = {
    f"{graph.__name__}_{columns}": (graph, columns)
    for graph in (softmax, layer_norm, residual_rms_norm)
    for columns in (1024, 4096)
}


class Kernels:
    """Sources that are compiled together: each kernel under a name of its own."""

    def __init__(self, target) -> None:
        self.target = target
        self.sources: dict[str, str] = {}

    def add(self, name: str, module) -> None:
        self.add_kernel(name, the_kernel(module, self.target, TOGETHER))

    def add_kernel(self, name: str, kernel: tirx.PrimFunc) -> None:
        self.sources[name] = cuda_of(kernel, self.target, name)

    def reports(self, folder: Path) -> dict[str, str]:
        """What ptxas says of each kernel, from one invocation of nvcc."""
        files = []
        for name, source in self.sources.items():
            files.append(folder / f"{name}.cu")
            files[-1].write_text(source)
        arch = str(self.target.attrs["arch"])
        command = [NVCC, f"-arch={arch}", "-cubin", "-Xptxas", "-v", "-O3", "--threads", "2"]
        command.append("--use_fast_math")  # as TVM does
        done = subprocess.run(
            [*command, *map(str, files)], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "Performance Loss" not in done.stderr, done.stderr[-3000:]
        found = re.split(r"Compiling entry function '(\w+)'", done.stderr)
        return dict(zip(found[1::2], found[2::2], strict=True))


def wasteful(reports: dict[str, str]) -> Iterable[str]:
    """The kernels that use the stack, with what ptxas says."""
    for name, text in reports.items():
        used = re.findall(r"(\d+) bytes (?:stack frame|spill)", text)
        assert len(used) == 3, text
        if max(map(int, used)) > (LONG_ROW_STACK if name.startswith((LONG_ROW, "any")) else 0):
            yield f"{name}: {' '.join(text.split())}"


@pytest.mark.parametrize("target", (A100, H200), ids=("sm_80", "sm_90"))
def test_the_zoo(target, tmp_path):
    kernels = Kernels(target)
    for number, make in enumerate(ZOO.values()):
        for dtype in DTYPES:
            kernels.add(f"zoo_{number}_{dtype}", make(dtype).module)
    reports = kernels.reports(tmp_path)
    assert len(reports) == len(DTYPES) * len(ZOO)
    assert not list(wasteful(reports))


@pytest.mark.parametrize("target", (A100, H200), ids=("sm_80", "sm_90"))
def test_rows_of_up_to_4096_elements(target, tmp_path):
    kernels = Kernels(target)
    for name, (graph, columns) in LONG.items():
        for dtype in ("float32", "bfloat16"):
            kernels.add(f"{name}_few_{dtype}", graph(dtype, 64, columns).module)
            kernels.add(f"{name}_many_{dtype}", graph(dtype, ANY_ROWS, columns).module)
    reports = kernels.reports(tmp_path)
    # Of any number of rows, few may have a kernel of their own.
    assert 4 * len(LONG) <= len(reports) <= 6 * len(LONG)
    assert not list(wasteful(reports))


def test_rows_of_any_length(tmp_path):
    """Guarded one by one, halves take a register each: two inputs and two kept values of 16384.

    The mapping must know, or hundreds of bytes spill.
    """
    kernels = Kernels(H200)
    columns = tirx.Var("m", "int64"), 1000
    kernels.add("any", norm_gelu_softmax("float16", 6, columns).module)
    reports = kernels.reports(tmp_path)
    assert len(reports) == 3
    assert not list(wasteful(reports))


def test_products_by_groups_of_warps(tmp_path):
    """Sums stay in their registers from product to product, or each would wait for the last one."""
    kernels = Kernels(full_target(H200))
    function = product_function(2048, 768, 3072)
    for tiles in (
        Tiles(128, 256, 64, 16, 256, 4, warpgroups=True),
        Tiles(192, 128, 64, 16, 128, 4, warpgroups=True),
        Tiles(64, 64, 64, 16, 64, 4, 8, 3, warpgroups=True),
        Tiles(96, 64, 64, 96, 16, 8, warpgroups=True),
        Tiles(160, 128, 64, 160, 16, 6, warpgroups=True, splits=2),
        Tiles(128, 192, 64, 16, 192, 4, warpgroups=True, splits=8),
    ):
        kernel = emit_products(function, read_products(function), tiles)
        kernels.add_kernel(f"tiles_{tiles.rows}_{tiles.columns}", kernel)
    reports = kernels.reports(tmp_path)
    assert len(reports) == 6
    assert not list(wasteful(reports))


@pytest.mark.parametrize("dtype", HALVES)
def test_products_that_are_rounded_wait_once(dtype, tmp_path, monkeypatch):
    """ptxas would wait for every product, or use the sums too early, if each was rounded alone."""
    kernels = Kernels(full_target(H200))
    for rows, columns in ((96, 64), (32, 64), (48, 192)):
        for splits in (1, 4):
            tiles = Tiles(rows, columns, 64, rows, 16, 6, warpgroups=True, splits=splits)
            with_tiles(monkeypatch, tiles)
            kernels.add(f"swapped_{rows}_{columns}_{splits}", linear(dtype, 1024, 3072, 768).module)
    reports = kernels.reports(tmp_path)
    assert len(reports) == 6
    assert not list(wasteful(reports))
