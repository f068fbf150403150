"""A kernel whose blocks take their work from the last to the first.

In: a thread-bound PrimFunc as kernel/emit wrote it. Out: the same with its blocks counted the other
way round, or nothing where their numbers mean more than an order. Knows no other kernel.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.emit import LAUNCH_ATTRIBUTE
from tvm_stitch.kernel.stage import constant, substitute

TURNED = "tvm_stitch.way_back"  # of such a kernel


def way_back(kernel: tirx.PrimFunc) -> tirx.PrimFunc | None:
    """The kernel from its last block to its first; None: it has no such order."""
    extents: dict[str, list[tirx.AttrStmt]] = {}

    def find(stmt: tirx.AttrStmt) -> None:
        if stmt.attr_key == "thread_extent":
            extents.setdefault(stmt.node.thread_tag, []).append(stmt)

    tvm_ffi.structural_walk(kernel.body, (tirx.AttrStmt, find))
    grids = extents.get("blockIdx.x", [])
    # Blocks of a cluster are neighbours, and those of a grid that meets take turns of their own.
    if len(grids) != 1 or "clusterCtaIdx.x" in extents or LAUNCH_ATTRIBUTE in kernel.attrs:
        return None
    blocks = constant(grids[0].value)
    if blocks is None:
        return None

    def turn(stmt: tirx.AttrStmt) -> tirx.Stmt:
        if stmt.attr_key != "thread_extent" or stmt.node.thread_tag != "blockIdx.x":
            return stmt
        var = stmt.node.var
        body = substitute(stmt.body, {var: tirx.const(blocks - 1, var.ty) - var})
        return tirx.AttrStmt(stmt.node, stmt.attr_key, stmt.value, body)

    body = tvm_ffi.structural_map(kernel.body, (tirx.AttrStmt, turn))
    return kernel.with_body(body).with_attr(TURNED, True)
