"""Ragged products of which groups have few rows, as experts have where a model decodes."""

import pytest
from check import H200, HALVES, check, primfuncs
from ragged_products import GROUPS, check_ragged, ragged_case, ragged_function
from tvm.relax import op

from tvm_stitch.device import device_of
from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.kernel.skinny_matmul.build import SKINNY_ATTRIBUTE, emit_skinny, read_skinny
from tvm_stitch.kernel.skinny_matmul.program import rows_of
from tvm_stitch.kernel.skinny_matmul.tiles import SkinnyTiles
from tvm_stitch.stages.stage import Refused

DEVICE = device_of(H200)
FEW = {name: case for name, case in GROUPS.items() if case[0] < 100}
ALONG = pytest.mark.parametrize("along", (True, False), ids=("along", "across"))


@pytest.mark.spread(3)
@pytest.mark.parametrize("case", FEW.values(), ids=FEW)
@pytest.mark.parametrize("warps, chunks", [(4, 2), (8, 4)])
@ALONG
def test_every_tile(case, warps, chunks, along):
    for depth, columns in ((72, 88), (520, 71 if along else 72)):
        function = ragged_function(case[0], depth, columns, len(case[1]), along)
        products = read_skinny(function)
        assert not isinstance(products, Refused)
        kernel = emit_skinny(function, products, [SkinnyTiles(16, warps, chunks)])
        assert check_kernel(kernel, DEVICE) is None
        check_ragged(kernel, case, depth, columns, along, H200)


@pytest.mark.parametrize("dtype", HALVES)
@ALONG
def test_what_follows_is_computed_in_the_same_kernel(dtype, along):
    def behind(emit, y):
        return emit(op.nn.relu(emit(op.negative(y))))

    ends = [0, 1, 1, 3, 4, 4, 4, 7, *[8] * 8]
    case = ragged_case(dtype, (8, ends), 256, 136, along, behind, lambda y: (-y).clip(0))
    (kernel,) = primfuncs(case.module, target=H200).values()
    assert SKINNY_ATTRIBUTE in kernel.attrs
    check(case, orders=2)


@pytest.mark.parametrize("rows, groups, own", [(1, 8, 1), (8, 128, 8), (128, 16, 16), (7, 60, 7)])
def test_a_block_has_as_many_rows_as_a_group_mostly_has(rows, groups, own):
    (product,) = read_skinny(ragged_function(rows, 256, 128, groups))
    assert rows_of(product) == own


def test_groups_of_many_rows_are_for_tiles():
    refused = read_skinny(ragged_function(300, 256, 128, 8))
    assert isinstance(refused, Refused) and "of each group" in refused.reason
