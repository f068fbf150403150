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
    """The kernel from its last block to its first; None: it has no such order."""
    extents: dict[str, list[tirx.AttrStmt]] = {}

    def find(stmt: tirx.AttrStmt) -> None:
        if stmt.attr_key == "thread_extent":
            extents.setdefault(stmt.node.thread_tag, []).append(stmt)

    tvm_ffi.structural_walk(kernel.body, (tirx.AttrStmt, find))
    grids = extents.get("blockIdx.x", [])
    # Blocks of a grid that synchronises iterate in an order of their own.
    blocks = constant(grids[0].value) if len(grids) == 1 else None
    if blocks is None or LAUNCH_ATTRIBUTE in kernel.attrs:
        return None
    clusters = extents.get("clusterCtaIdx.x", [])
    own = (constant(clusters[0].value) or 1) if clusters else 1  # neighbours that stay in order

    def reverse(stmt: tirx.AttrStmt) -> tirx.Stmt:
        if stmt.attr_key != "thread_extent" or stmt.node.thread_tag != "blockIdx.x":
            return stmt
        var = stmt.node.var
        last = tirx.const(blocks - own, var.ty)
        number = last - var if own == 1 else last - var // own * own + var % own
        body = substitute(stmt.body, {var: number})
        return tirx.AttrStmt(stmt.node, stmt.attr_key, stmt.value, body)

    body = tvm_ffi.structural_map(kernel.body, (tirx.AttrStmt, reverse))
    return kernel.with_body(body).with_attr(REVERSED, True)
