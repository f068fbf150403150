"""Which line of the user's program a node comes from.

In: the traces that PyTorch keeps of each node. Out: spans.
"""

from __future__ import annotations

import re

import tvm
from torch import fx

_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def span_of(node: fx.Node) -> tvm.ir.Span | None:
    """The innermost line of a node's trace: Dynamo leaves those of PyTorch itself out."""
    found = _LINE.findall(node.meta.get("stack_trace") or "")
    if not found:
        return None
    file, line = found[-1]
    return tvm.ir.Span(tvm.ir.SourceName(file), int(line), int(line), 0, 0)
