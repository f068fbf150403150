"""The CUDA kernels of a lowered module: which there are, and how often each is called.

In: a module whose PrimFuncs are scheduled and whose dataflow is lowered, before TVM splits host
from device. Out: Nests, each of which becomes one kernel, and calls by function.
Must not know stitching.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.stage import constant, item_bytes, product

Expr = Any
THREAD_EXTENT = "thread_extent"
LONGEST_FORMULA = 80  # characters


@dataclass(frozen=True, eq=False)
class Nest:
    """An outermost loop nest bound to blocks and threads."""

    stmt: Any

    @property
    def mapping(self) -> str:
        """One line for people."""
        threads = product(tuple(self._extents("threadIdx.").values()))
        blocks = product(tuple(self._extents("blockIdx.").values()))
        counts = ((shown(threads), "thread"), (shown(blocks), "block"))
        each, all_of = (f"{n} {thing}{'' if n == '1' else 's'}" for n, thing in counts)
        return f"{each} per block, {all_of}"

    @property
    def has_blocks(self) -> Expr | None:
        """The condition that its grid has blocks, if only run time can tell."""
        counts = self._extents("blockIdx.").values()
        unknown = [count > 0 for count in counts if constant(count) is None]
        return tirx.all(*unknown) if unknown else None

    def _extents(self, axes: str) -> dict[str, Expr]:
        """The extents of the nest's axes; the same axis stands in several places as one."""
        found: dict[str, Expr] = {}

        def visit(stmt: Any) -> None:
            bound = bound_axis(stmt)
            if bound is not None and bound[0].startswith(axes):
                found.setdefault(*bound)

        tvm_ffi.structural_walk(self.stmt, ((tirx.For, tirx.AttrStmt), visit), order="pre")
        return found

    def tensors(self) -> list[Any]:
        """All global buffers that it touches, each once."""
        found: dict[Any, None] = {}

        def visit(access: Any) -> None:
            stores = isinstance(access, tirx.BufferStore)
            buffer = access.buffer if stores else access.source
            if isinstance(buffer.ty, tirx.BufferType) and buffer.scope() == "global":
                found[buffer] = None

        tvm_ffi.structural_walk(self.stmt, ((tvm.ir.TensorLoad, tirx.BufferStore), visit))
        return list(found)


def nests(func: tirx.PrimFunc) -> tuple[Nest, ...]:
    """The nests of a scheduled function that become kernels, in order."""
    found = outermost_nests(func)
    if len(found) < 2:
        return found
    # TVM's sorts and scans launch by conditions and host loops that constant shapes may rule out.
    mod = tvm.IRModule({"main": func})
    for simplify in (tirx.transform.StmtSimplify(), tirx.transform.RemoveNoOp()):
        mod = simplify(mod)
    return outermost_nests(mod["main"])


def outermost_nests(func: tirx.PrimFunc) -> tuple[Nest, ...]:
    """The nests that are bound to threads, those included that constant shapes rule out."""
    found: list[Nest] = []

    def visit(stmt: Any) -> Any:
        if bound_axis(stmt) is None:
            return None
        found.append(Nest(stmt))
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(func.body, ((tirx.For, tirx.AttrStmt), visit), order="pre")
    return tuple(found)


def kernel_names(function: str, count: int) -> tuple[str, ...]:
    """The names that TVM gives the kernels of a function."""
    return tuple(f"{function}_kernel" + (f"_{i}" if i else "") for i in range(count))


def tensor_type_bytes(ty: Any, sizes: Extents | None = None) -> int | None:
    """Bytes of a tensor by its type, where symbols have some sizes; None if it is not known."""
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        return None
    elements = product(tuple(ty.shape.values))
    elements = constant(elements) if sizes is None else sizes.size(elements)
    return None if elements is None else elements * item_bytes(str(ty.dtype))


def calls(mod: tvm.IRModule) -> Counter[str]:
    """How often the module's Relax functions call each PrimFunc, by name."""
    found: Counter[str] = Counter()

    def visit(expr: Expr) -> None:
        if isinstance(expr, tvm.ir.Call):
            callee = expr.op if isinstance(expr.op, tvm.ir.GlobalVar) else None
            for part in (callee, *expr.args):
                if isinstance(part, tvm.ir.GlobalVar) and isinstance(mod[part], tirx.PrimFunc):
                    found[part.name_hint] += 1

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return found


def outside_calls(mod: tvm.IRModule) -> tuple[str, ...]:
    """The packed functions that the module calls, without those of TVM's own virtual machine."""
    found: dict[str, None] = {}

    def visit(expr: Expr) -> None:
        if isinstance(expr, tvm.ir.Call):
            for part in (expr.op, *expr.args):
                if isinstance(part, relax.ExternFunc) and not part.global_symbol.startswith("vm."):
                    found[part.global_symbol] = None

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return tuple(found)


def bound_axis(stmt: Any) -> tuple[str, Expr] | None:
    """The axis that a statement binds, and its extent."""
    if isinstance(stmt, tirx.For):
        bound = stmt.kind == tirx.ForKind.THREAD_BINDING
        return (stmt.thread_binding.thread_tag, stmt.extent) if bound else None
    if stmt.attr_key == THREAD_EXTENT:
        return stmt.node.thread_tag, stmt.value
    return None


def shown(extent: Expr) -> str:
    """A dimension for people; "some" where it is a long formula, as of TVM's sorts."""
    value = constant(extent)
    text = str(extent) if value is None else str(value)
    text = re.sub(r"T\.int64\((-?\d+)\)", r"\1", text)
    return text if len(text) <= LONGEST_FORMULA else "some"
