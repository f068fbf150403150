"""ATen's operators: those that become Relax, and those that are left to PyTorch with the reason."""

from __future__ import annotations

from tvm_stitch.frontend.torch.call import Converter
from tvm_stitch.frontend.torch.ops import (
    activation,
    attention,
    create,
    division,
    images,
    indices,
    movement,
    pointwise,
    positions,
    product,
    reduce,
    replaced,
)
from tvm_stitch.frontend.torch.ops.left import LEFT
from tvm_stitch.frontend.torch.ops.movement import ALONG_ONE, SAME_MEMORY, VIEWS
from tvm_stitch.frontend.torch.ops.product import PRODUCTS
from tvm_stitch.frontend.torch.ops.reduce import ALONG

FAMILIES: dict[str, dict[str, Converter]] = {
    "element-wise": {**pointwise.OPERATORS, **division.OPERATORS, **activation.OPERATORS},
    "reductions": {**reduce.OPERATORS, **positions.OPERATORS},
    "sorts of short rows": indices.sorting.OPERATORS,
    "matrix products": {**product.OPERATORS, **product.RAGGED},
    "attention": attention.OPERATORS,
    "images": {**images.OPERATORS, **images.columns.OPERATORS, **images.sampling.OPERATORS},
    "movement": {**movement.OPERATORS, **replaced.OPERATORS},
    "indices": indices.OPERATORS,
    "creation": create.OPERATORS,
}

OPERATORS: dict[str, Converter] = {
    name: function for family in FAMILIES.values() for name, function in family.items()
}

ELEMENTWISE = frozenset(FAMILIES["element-wise"]) | movement.ELEMENTWISE
"""Those of which each element of the result is of the operands' elements at its place."""
IMAGES = frozenset(images.OPERATORS)
"""Those that can be told that channels lie innermost."""

ATTENTION = frozenset(attention.OPERATORS)
LIBRARYS = (
    PRODUCTS | frozenset(product.RAGGED) | ATTENTION | frozenset(images.convolution.OPERATORS)
)
"""Those that libraries have kernels for, which ours have no lead over."""

__all__ = [
    "ALONG",
    "ALONG_ONE",
    "ATTENTION",
    "ELEMENTWISE",
    "FAMILIES",
    "IMAGES",
    "LEFT",
    "LIBRARYS",
    "OPERATORS",
    "PRODUCTS",
    "SAME_MEMORY",
    "VIEWS",
]
