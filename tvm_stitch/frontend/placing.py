"""A BlockBuilder whose calls say which place of the user's model they come from.

In: the place of what is being converted, a span. Out: calls with spans, which reports read. A span
changes nothing else: equal functions stay equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax


@dataclass(frozen=True)
class Line:
    """A place of the user's model."""

    file: str  # or the name of a node, which has no lines
    number: int = 0
    text: str = ""  # of that line
    module: str = ""  # the part of the model that was called: "layers.0.attention"


def span(line: Line) -> tvm.ir.Span:
    """A span that says all of it: the source's name holds what spans have no field for."""
    name = "\n".join((line.file, line.text, line.module)) if line.text or line.module else line.file
    return tvm.ir.Span(tvm.ir.SourceName(name), line.number, line.number, 0, 0)


def line_of(span: tvm.ir.Span) -> Line:
    """What a span says, also one of TVM's own."""
    file, text, module = [*str(span.source_name.name).split("\n"), "", ""][:3]
    return Line(file, int(span.line), text, module)


class PlacingBuilder(relax.BlockBuilder):
    """Gives every call that is emitted or normalised the span of what is converted."""

    span: tvm.ir.Span | None = None

    def emit(self, expr: Any, name_hint: str = "") -> relax.Var:
        """As a BlockBuilder does."""
        return super().emit(self._placed(expr), name_hint)

    def normalize(self, expr: Any) -> Any:
        """As a BlockBuilder does, which drops the span of a call whose arguments it binds."""
        return self._placed(super().normalize(self._placed(expr)))

    def _placed(self, expr: Any) -> Any:
        if self.span is None:
            return expr
        return _with_span(expr, self.span, {})


def _with_span(expr: Any, span: tvm.ir.Span, seen: dict[Any, Any]) -> Any:
    """The expression with that span on all calls that have none; one object stays one."""
    if isinstance(expr, relax.Tuple):
        fields = [_with_span(each, span, seen) for each in expr.fields]
        is_same = all(new is old for new, old in zip(fields, expr.fields, strict=True))
        return expr if is_same else relax.Tuple(fields, expr.span)
    if not isinstance(expr, tvm.ir.Call) or expr.span is not None:
        return expr
    if expr not in seen:
        args = [_with_span(each, span, seen) for each in expr.args]
        seen[expr] = tvm.ir.Call(expr.op, args, expr.attrs, expr.ty_args, span, expr.ty)
    return seen[expr]
