"""Which line of the user's program a node comes from, and which of the model's modules.

In: the traces that PyTorch keeps of each node. Out: spans.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
import tvm
from torch import fx

from tvm_stitch.frontend.placing import Line, span

# A frame, and the text of its line where PyTorch found that.
_FRAME = re.compile(r'File "([^"]+)", line (\d+)[^\n]*(?:\n(?!\s*File ")[ \t]*([^\n]*))?')
_OWN = str(Path(torch.__file__).parent)
# Of Dynamo, around the names by which a model holds its modules.
_SELF = re.compile(r"^L\['self'\]\.?|^L__self__\.?")
_HELD = re.compile(r"\.?_modules\['([^']*)'\]")


def span_of(node: fx.Node) -> tvm.ir.Span | None:
    """The innermost line of a node's trace that is not PyTorch's own, if there is one."""
    found = _FRAME.findall(node.meta.get("stack_trace") or "")
    if not found:
        return None
    file, line, text = next((each for each in reversed(found) if not _is_own(each[0])), found[-1])
    return span(Line(file, int(line), text.strip(), _module(node)))


def _is_own(file: str) -> bool:
    """Whether a file is PyTorch's: of this machine, or of the one where a program was saved."""
    return file.startswith(f"{_OWN}/") or "/site-packages/torch/" in file.replace("\\", "/")


def _module(node: fx.Node) -> str:
    """The innermost module that was called, by its path in the model."""
    held = list((node.meta.get("nn_module_stack") or {}).values())
    if not held or not isinstance(held[-1], tuple):
        return ""
    return _HELD.sub(r".\1", _SELF.sub("", str(held[-1][0]))).lstrip(".")
