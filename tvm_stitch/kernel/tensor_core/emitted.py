"""What kernels of matrix products have in common that this package emits, whatever their tiles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.kernel.codegen.prim_func import signature
from tvm_stitch.kernel.ir.mapping import switched_off
from tvm_stitch.kernel.kernel import Kernel
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused, Stage, Var

Products = tuple[TensorProduct, ...]
Find = Callable[[tuple[Stage, ...], tuple[Var, ...]], Products | Refused]


def products_of(find: Find, func: tirx.PrimFunc) -> Products | Refused:
    """The products of a sort that a fused PrimFunc computes, mostly one."""
    stages = read_stages(func)
    return stages if isinstance(stages, Refused) else find(stages, outputs_of(func, stages))


def by_schemes(
    find: Find, stages: tuple[Stage, ...], outputs: tuple[Var, ...], schemes: Sequence[str]
) -> Products | Refused:
    """The products of a sort that stages are, if their schemes are not switched off."""
    found = switched_off(("regional",), schemes) or find(stages, outputs)
    if isinstance(found, Refused):
        return found
    return switched_off(("independent",) if len(found) > 1 else (), schemes) or found


@dataclass(frozen=True, eq=False)
class EmittedProducts(Kernel):
    """Products whose blocks are one grid; its tiles go along in an attribute, as JSON."""

    attribute: ClassVar[str]
    products: tuple[TensorProduct, ...]

    @property
    def buffers(self) -> tuple[Var, ...]:
        """The tensors that it reads and writes."""
        return tuple(dict.fromkeys(b for product in self.products for b in product.buffers))

    @property
    def parts(self) -> int:
        """How many products it has."""
        return len(self.products)

    def check(self, _seen: set[Hashable] | None = None) -> Refused | None:
        """What check_kernel will find in it, asked before there is a fused PrimFunc."""
        return check_kernel(self.emitted(signature(self.buffers)), self.device)

    def emit(self, func: tirx.PrimFunc) -> tirx.PrimFunc | Refused:
        """The kernel by its legal tiles, which are attached as JSON."""
        kernel = self.emitted(func)
        hazard = check_kernel(kernel, self.device)
        return kernel.with_attr(self.attribute, self.tiles_text) if hazard is None else hazard

    @property
    @abstractmethod
    def tiles_text(self) -> str:
        """Its tiles as JSON."""

    @abstractmethod
    def emitted(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        """The kernel in place of a function, not yet checked."""
