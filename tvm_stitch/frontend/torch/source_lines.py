"""A BlockBuilder whose calls say which line of the user's program they come from.

In: the traces that PyTorch keeps of each node. Out: spans, which reports read. A span changes
nothing else: equal functions stay equal.
"""

from __future__ import annotations

import re
from typing import Any

import tvm
from torch import fx
from tvm import relax

_LINE = re.compile(r'File "([^"]+)", line (\d+)')


class PlacingBuilder(relax.BlockBuilder):
    """Gives every call that is emitted the span of the node that is converted."""

    span: tvm.ir.Span | None = None

    def emit(self, expr: Any, name_hint: str = "") -> relax.Var:
        """As a BlockBuilder does."""
        if self.span is not None and isinstance(expr, tvm.ir.Call) and expr.span is None:
            expr = tvm.ir.Call(expr.op, expr.args, expr.attrs, expr.ty_args, self.span, expr.ty)
        return super().emit(expr, name_hint)


def span_of(node: fx.Node) -> tvm.ir.Span | None:
    """The innermost line of a node's trace: Dynamo leaves those of PyTorch itself out."""
    found = _LINE.findall(node.meta.get("stack_trace") or "")
    if not found:
        return None
    file, line = found[-1]
    return tvm.ir.Span(tvm.ir.SourceName(file), int(line), int(line), 0, 0)
