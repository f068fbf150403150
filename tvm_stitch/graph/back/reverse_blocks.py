"""A kernel whose blocks are reversed: they take their work from the last to the first.

In: a thread-bound PrimFunc as kernel/emit wrote it. Out: the same with its blocks counted the other
way round, or nothing where their numbers mean more than an order. Knows no other kernel.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.codegen.prim_func import LAUNCH_ATTRIBUTE
from tvm_stitch.stages.stage import constant, substitute

REVERSED = "tvm_stitch.reversed"  # of such a kernel


def reverse_blocks(kernel: tirx.PrimFunc) -> tirx.PrimFunc | None:
    """The kernel from its last block to its first; None: it has no such order.

    Of a kernel with variants, those whose number of blocks is known.
    """
    if LAUNCH_ATTRIBUTE in kernel.attrs:  # blocks that synchronise iterate in an order of their own
        return None
    known: list[int] = []

    def reverse(stmt: tirx.AttrStmt) -> tirx.Stmt:
        blocks = constant(stmt.value) if _is_extent(stmt, "blockIdx.x") else None
        if blocks is None:
            return stmt
        known.append(blocks)
        var, own = stmt.node.var, _cluster_of(stmt)
        last = tirx.const(blocks - own, var.ty)
        number = last - var if own == 1 else last - var // own * own + var % own
        body = substitute(stmt.body, {var: number})
        return tirx.AttrStmt(stmt.node, stmt.attr_key, stmt.value, body)

    body = tvm_ffi.structural_map(kernel.body, (tirx.AttrStmt, reverse))
    return kernel.with_body(body).with_attr(REVERSED, True) if known else None


def _is_extent(stmt: tirx.AttrStmt, tag: str) -> bool:
    return bool(stmt.attr_key == "thread_extent" and stmt.node.thread_tag == tag)


def _cluster_of(grid: tirx.AttrStmt) -> int:
    """Blocks of a cluster, which stay in their order."""
    found: list[int] = []

    def find(stmt: tirx.AttrStmt) -> None:
        if _is_extent(stmt, "clusterCtaIdx.x"):
            found.append(constant(stmt.value) or 1)

    tvm_ffi.structural_walk(grid, (tirx.AttrStmt, find))
    return max(found, default=1)
