"""Products that depend on nothing of each other, whose blocks are one grid: horizontal fusion.

In: the stages of a function. Out: its TensorProducts, mostly one, in the order of their blocks; and
whether these go through them one after the other, or co-scheduled. Must not know threads.

A product of 1024 x 768 x 768 has 96 blocks of 64 x 128 results for the 132 multiprocessors of an
H200; those of a query, a key and a value together leave fewer of them without work.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_stitch.device import Device
from tvm_stitch.kernel.partition import unrelated
from tvm_stitch.kernel.tensor_core.program import FEWEST_ROWS, TensorProduct, tensor_product
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.stage import Refused, Stage, Var, as_int64, same_size

# Each is code of its own, and those of all have to stay in the caches of instructions.
MOST_PRODUCTS = 8


def tensor_products(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    fewest_rows: int = FEWEST_ROWS,
    most_beside: int = 0,
) -> tuple[TensorProduct, ...] | Refused:
    """The products that a function's stages are, if they are nothing else.

    Of one left factor so many more may be beside each, which what follows needs as well. The
    deepest come first, whose blocks take the longest: less of the grid waits for the last.
    """
    parts = unrelated(stages, outputs, by_inputs=False)
    if len(parts) > MOST_PRODUCTS:
        return Refused(f"{len(parts)} computations, more than one kernel has products")
    found = [
        tensor_product(*part, fewest_rows=fewest_rows, most_beside=most_beside)
        for part in parts or [(stages, outputs)]
    ]
    refused = [each for each in found if isinstance(each, Refused)]
    if refused:
        return refused[0]
    products = [each for each in found if not isinstance(each, Refused)]
    return tuple(sorted(products, key=lambda each: -NOMINAL.size(as_int64(each.contracted))))


def co_scheduled(products: Sequence[TensorProduct], device: Device) -> bool:
    """Whether blocks of all products should come to the same rows at about the same time.

    What they share is then read from memory once, instead of once for each; unless it stays in the
    L2 anyway, or what they do not share would not.
    """
    first, *others = products
    alike = all(
        other.left.buffer is first.left.buffer
        and same_size(as_int64(other.rows), as_int64(first.rows))
        for other in others
    )
    left = NOMINAL.bytes(first.left.buffer)
    right = sum(NOMINAL.bytes(product.right.buffer) for product in products)
    return bool(others) and alike and 2 * right <= device.l2_size < left + right
