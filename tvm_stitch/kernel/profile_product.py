"""What a kernel with small matrix products asks of a device.

In: a ProductProgram and its Mapping. Out: a Profile of one phase, its figures those of an element
of the widest value. Must not know any device.
"""

from __future__ import annotations

from tvm_stitch.kernel.choose_product import panel_bytes, staged_panels, waiting_bytes
from tvm_stitch.kernel.product_panel import CHUNK, Contraction
from tvm_stitch.kernel.product_program import ProductProgram
from tvm_stitch.kernel.schedule import Mapping
from tvm_stitch.kernel.stage import Var, buffer_shape, constant, dtype_of, item_bytes, product

ACCESS = 4  # multiply-adds in the time of an access to shared memory


def shared_bytes(program: ProductProgram, mapping: Mapping) -> int:
    """Shared memory of a block."""
    panels = sum(map(panel_bytes, staged_panels(program, mapping)))
    return panels + waiting_bytes(program, mapping)


def tensor_bytes(buffers: tuple[Var, ...]) -> int:
    """All of them once."""
    elements = (constant(product(buffer_shape(b))) or 0 for b in buffers)
    return sum(n * item_bytes(dtype_of(b)) for n, b in zip(elements, buffers, strict=True))


def multiply_adds(program: ProductProgram) -> int:
    """Of all products and rows."""
    each = (c.contracted * program.columns[b] for b, c in program.contractions.items())
    return sum(each) * (constant(program.space.rows) or 0)


def accesses(contraction: Contraction, columns: int, mapping: Mapping) -> float:
    """Accesses to shared memory for each multiply-add of a product."""
    steps = -(-columns // mapping.threads)
    shared = steps * (1 if contraction.by_depth else CHUNK)
    return (mapping.batch + shared) / (CHUNK * mapping.batch * steps)
