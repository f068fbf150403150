"""What kernels of matrix products have in common that this package emits, whatever their tiles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.kernel.codegen.prim_func import signature
from tvm_stitch.kernel.kernel import Kernel
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.stages.stage import Refused, Var


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
