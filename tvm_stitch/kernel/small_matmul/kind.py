"""Rows with small matrix products as a kind of kernel: see analysis/kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm_stitch.kernel.analysis.kind import POWERS, Axes, Kind, Problem, Values
from tvm_stitch.kernel.analysis.profile import Profile
from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.ir.mapping import SmallMatmul
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.stage import Expr, Refused
from tvm_stitch.kernel.small_matmul.choose import (
    mapping_of_products,
    product_mapping,
    product_reasons,
)
from tvm_stitch.kernel.small_matmul.emit import ProductPart
from tvm_stitch.kernel.small_matmul.profile import product_profile
from tvm_stitch.kernel.small_matmul.program import ProductProgram


class SmallMatmulKind(Kind[ProductProgram, SmallMatmul]):
    """See the module's docstring."""

    mappings = (SmallMatmul,)
    flags = ("asynchronous",)

    def holds(self, program: Program) -> bool:
        """It was made for products."""
        return isinstance(program, ProductProgram)

    def choose(self, problem: Problem[ProductProgram]) -> SmallMatmul | Refused:
        """See small_matmul/choose."""
        return product_mapping(problem.program, problem.device)

    def beside(
        self, _program: ProductProgram, _mapping: SmallMatmul, _threads: int
    ) -> SmallMatmul | Refused:
        """See Kind."""
        return Refused("a part with matrix products fills a kernel of its own")

    def illegal(self, problem: Problem[ProductProgram], mapping: SmallMatmul) -> Iterator[str]:
        """See Kind."""
        return product_reasons(problem.program, mapping, problem.device)

    def profile(self, program: ProductProgram, mapping: SmallMatmul) -> Profile:
        """See Kind."""
        return product_profile(program, mapping)

    def emit(self, program: ProductProgram, mapping: SmallMatmul, place: Place) -> Expr:
        """Write its statements."""
        part = ProductPart(program, mapping, place)
        part.emit()
        return part.position.blocks

    def why(self, program: ProductProgram, mapping: SmallMatmul) -> str:
        """See Kind."""
        count, shared = len(program.contractions), program.inner
        products = f"{count} small matrix products" if count > 1 else "a small matrix product"
        rows = f"{shared} rows share" if shared > 1 else "each row has"
        text = (
            f"{products}: {rows} a factor in shared memory, and there a row waits for its threads"
        )
        if mapping.split:
            text += "; blocks have some of a row's columns each, and no more of the shared factor"
        if not program.reduces_rows:
            return text
        reductions = len(program.row_reductions) - count
        times = "once" if reductions == 1 else f"{reductions} times"
        return f"{text}; it is reduced {times} by shuffles within a warp"

    def axes(self, _program: ProductProgram) -> Axes:
        """Steps follow from the widest value."""
        return {
            "threads": POWERS[:9],
            "rows": POWERS,
            "batch": (1, 2, 4, 8),
            "split": (False, True),
            "prefetch_weights": (False, True),
        }

    def fitted(self, problem: Problem[ProductProgram], values: Values) -> SmallMatmul | None:
        """See Kind."""
        sizes = values["threads"], values["rows"], values["batch"]
        mapping = mapping_of_products(problem.program, *sizes, values["split"])
        own = {name: values[name] for name in ("prefetch_weights", *self.flags) if name in values}
        return replace(mapping, **own)
