"""Relay's operators: those that are read, and those that are refused with the reason.

``OPERATORS.md`` beside this package lists both for readers; a test keeps it in step.
"""

from __future__ import annotations

from tvm_stitch.frontend.relay.call import OperatorFunction
from tvm_stitch.frontend.relay.ops import (
    create,
    elementwise,
    image,
    index,
    movement,
    reduce,
    signal,
    slices,
    spatial,
    vision,
)
from tvm_stitch.frontend.relay.ops.layers import conv, nn, pool, qnn
from tvm_stitch.frontend.relay.ops.refused import REFUSED

FAMILIES = {
    "element-wise": elementwise.OPERATORS,
    "reductions": reduce.OPERATORS,
    "neural networks": nn.OPERATORS,
    "convolutions": conv.OPERATORS,
    "pooling": pool.OPERATORS,
    "padding and spatial rearrangement": spatial.OPERATORS,
    "movement": movement.OPERATORS,
    "slices": slices.OPERATORS,
    "indexing, sorting, scanning": index.OPERATORS,
    "creation and the dyn dialect": create.OPERATORS,
    "Fourier transforms": signal.OPERATORS,
    "images": image.OPERATORS,
    "detection": vision.OPERATORS,
    "quantised": qnn.OPERATORS,
}

OPERATORS: dict[str, OperatorFunction] = {
    name: function for family in FAMILIES.values() for name, function in family.items()
}

__all__ = ["FAMILIES", "OPERATORS", "REFUSED"]
