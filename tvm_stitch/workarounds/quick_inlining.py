"""DLight's rules without attempts that must fail: of each, TVM renders a message and a stack.

The rules try to inline every block into its reader, and then into its writer. A function of one
block has neither. The first stack of a process takes 0.65 CPU seconds, with PyTorch for the CPU, as
the symbols of all libraries are read for it. And after each block that went, TVM tries all others
anew: of a scan of 64 steps as one function (Mamba) that took more than ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.s_tir.dlight.base import common_schedules
from tvm.s_tir.dlight.gpu import fallback


def inline_where_possible() -> None:
    """Mend DLight's try_inline for the whole process; to do so twice does no harm."""
    common_schedules.try_inline = _try_inline
    fallback.try_inline = _try_inline


def _try_inline(sch: Any, blocks: list[Any]) -> list[Any]:
    """Inline as many blocks as possible; those that are left."""
    while _inlined(blocks, sch.get_consumers, sch.compute_inline) or _inlined(
        blocks, sch.get_producers, sch.reverse_compute_inline
    ):
        pass
    return blocks


def _inlined(
    blocks: list[Any], others: Callable[[Any], Any], inline: Callable[[Any], None]
) -> bool:
    """Whether any block was inlined into others, which it must have; all are tried, once."""
    left = []
    for block in blocks:
        if not others(block.block_rv):
            left.append(block)
            continue
        try:
            inline(block.block_rv)
        except Exception:  # TVM says why in many ways
            left.append(block)
    is_shorter = len(left) < len(blocks)
    blocks[:] = left
    return is_shorter
