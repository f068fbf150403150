"""ATen's operators: those that become Relax, and those that are left to PyTorch with the reason."""

from __future__ import annotations

from tvm_stitch.frontend.torch.call import Converter
from tvm_stitch.frontend.torch.ops import (
    activation,
    create,
    division,
    index,
    movement,
    pointwise,
    positions,
    product,
    reduce,
    scatter,
)
from tvm_stitch.frontend.torch.ops.left import LEFT
from tvm_stitch.frontend.torch.ops.movement import VIEWS
from tvm_stitch.frontend.torch.ops.product import PRODUCTS

FAMILIES: dict[str, dict[str, Converter]] = {
    "element-wise": {**pointwise.OPERATORS, **division.OPERATORS, **activation.OPERATORS},
    "reductions": {**reduce.OPERATORS, **positions.OPERATORS},
    "matrix products": product.OPERATORS,
    "movement": movement.OPERATORS,
    "indices": {**index.OPERATORS, **scatter.OPERATORS},
    "creation": create.OPERATORS,
}

OPERATORS: dict[str, Converter] = {
    name: function for family in FAMILIES.values() for name, function in family.items()
}

__all__ = ["FAMILIES", "LEFT", "OPERATORS", "PRODUCTS", "VIEWS"]
