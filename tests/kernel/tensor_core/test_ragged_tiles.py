"""Ragged products on tensor cores: each block finds its group and rows while the kernel runs."""

import numpy as np
import pytest
from check import H200, HALVES, check, primfuncs
from library_stand_in import folder
from ragged_products import GROUPS, check_ragged, ragged_case, ragged_function
from tvm import target
from tvm.relax import op

import tvm_stitch
from tvm_stitch.device import device_of
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.library_product.build import CUBLASLT_PRODUCT
from tvm_stitch.kernel.tensor_core.build import (
    TILES_ATTRIBUTE,
    emit_products,
    read_products,
    tensor_kernel,
)
from tvm_stitch.kernel.tensor_core.cost import least_bytes
from tvm_stitch.kernel.tensor_core.ragged import filled_groups, row_tiles
from tvm_stitch.kernel.tensor_core.tiles import Tiles, fitted_to_all, why_illegal
from tvm_stitch.library import locate
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused

SM_90A = target.Target({"kind": "cuda", "arch": "sm_90a"})
BY_WARPS = (Tiles(16, 64, 32, 16, 32, 3), Tiles(64, 64, 32, 32, 32, 3))
BY_GROUPS = (
    Tiles(64, 128, 64, 16, 128, 3, warpgroups=True),
    Tiles(16, 64, 64, 16, 16, 3, warpgroups=True),
)
SEVERAL = {name: case for name, case in GROUPS.items() if case[0] > 1}
ALONG = pytest.mark.parametrize("along", (True, False), ids=("along", "across"))


@pytest.mark.spread(3)
@pytest.mark.parametrize("case", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("tiles", (*BY_WARPS, *BY_GROUPS), ids=str)
@ALONG
def test_every_tile(case, tiles, along):
    """Sixteen rows number their tiles by rows, 64 by groups."""
    for depth, columns in ((72, 88), (200, 71 if along else 136)):
        function = ragged_function(case[0], depth, columns, len(case[1]), along)
        products = read_products(function)
        assert not isinstance(products, Refused)
        fitted = fitted_to_all(products, tiles)
        assert why_illegal(products, fitted, device_of(SM_90A)) is None
        kernel = emit_products(function, products, fitted)
        assert check_kernel(kernel, device_of(SM_90A)) is None
        check_ragged(kernel, case, depth, columns, along, SM_90A)


@pytest.mark.parametrize("ends", [[-5, 7, 3, 90], [40, 2, 2, 2]], ids=str)
def test_ends_out_of_order_leave_the_memory_of_others_alone(ends):
    """PyTorch does not look at them either: results mean nothing, as long as they are in place."""
    function = ragged_function(33, 72, 88, 4)
    products = read_products(function)
    for tiles in BY_WARPS:
        kernel = emit_products(function, products, fitted_to_all(products, tiles))
        arrays = [np.ones(shape, "float16") for shape in ((33, 72), (4, 88, 72))]
        result = np.zeros((33, 88), "float32")
        executor = tvm_stitch.simt.Function(kernel, H200, check=True)
        run = executor([*arrays, np.array(ends, "int32"), result], seed=1)
        assert all(hazard.kind == "race" for hazard in run.hazards)  # rows may be in two groups


@pytest.mark.parametrize("dtype", HALVES)
@ALONG
def test_what_follows_is_computed_in_the_same_kernel(dtype, along):
    def behind(emit, y):
        return emit(op.nn.relu(emit(op.multiply(y, y))))

    case = ragged_case(dtype, (300, [17, 145, 145, 290]), 72, 88, along, behind, lambda y: y * y)
    (kernel,) = primfuncs(case.module, target=H200).values()
    assert TILES_ATTRIBUTE in kernel.attrs
    check(case, orders=2)


def chosen(rows: int, groups: int, depth: int = 2048, columns: int = 1536):
    stages = read_stages(function := ragged_function(rows, depth, columns, groups))
    how = stages, outputs_of(function, stages), device_of(SM_90A), NO_BOUNDS, SCHEMES
    return tensor_kernel(*how)


def test_tiles_suit_the_rows_of_a_group():
    tall, few = (chosen(rows, 128).tiles for rows in (16384, 256))
    assert few.rows < tall.rows and few.splits == tall.splits == 1


def test_a_library_of_dense_products_has_none_of_these(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    stages = read_stages(function := ragged_function(1024, 256, 256, 8))
    how = stages, outputs_of(function, stages), device_of(SM_90A), NO_BOUNDS, SCHEMES
    found = CUBLASLT_PRODUCT.choose(*how)
    assert isinstance(found, Refused) and "ragged" in found.reason


def test_only_matrices_of_groups_with_rows_are_read():
    def read(rows: int, groups: int) -> tuple[int, int]:
        (product,) = read_products(ragged_function(rows, 2048, 1536, groups))
        return filled_groups(product, NOMINAL), least_bytes([product])

    assert read(8, 128)[0] == 8 and read(4096, 128)[0] == 128
    assert read(8, 128)[1] < read(4096, 128)[1] / 10


@pytest.mark.parametrize("rows, groups, most", [(8, 128, 8), (64, 4, 9), (1024, 8, 25)])
def test_a_grid_has_tiles_for_any_ends(rows, groups, most):
    (product,) = read_products(ragged_function(rows, 64, 64, groups))
    assert row_tiles(product, 16 if rows < 1024 else 64) == most
