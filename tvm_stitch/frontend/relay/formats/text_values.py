"""What Relay's text format writes besides expressions: numbers, types, attributes, metadata.

In: tokens. Out: plain data. ``text`` builds its rules for expressions on these.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from tvm_stitch.frontend.relay import ast
from tvm_stitch.frontend.relay.formats import numbers
from tvm_stitch.frontend.relay.formats.lexer import Cursor, Source, Token

_SCALARS = ("float", "int", "uint", "bool", "bfloat")
_NOT_FINITE = re.compile(r"(inf|nan)f(16|64)?$")

Rule = Generator[Any, Any, Any]
"""A rule of the grammar: it yields the rule whose result it needs next."""


class ValueParser(Cursor):
    """The rules that need no scope."""

    def __init__(self, source: Source, tokens: list[Token], metadata: dict[str, list[Any]]) -> None:
        super().__init__(source, tokens)
        self.metadata = metadata

    def meta(self) -> Any:
        """``meta[relay.Constant][3]``."""
        start = self.expect("meta")
        self.expect("[")
        kind = self.expect_kind("name", "a type name").text
        self.expect("]")
        self.expect("[")
        index = int(self.expect_kind("number", "an index").text)
        self.expect("]")
        entries = self.metadata.get(kind, [])
        if index >= len(entries):
            raise self.error(
                f"meta[{kind}][{index}] is not in the metadata section, which holds "
                f"{len(entries)} of that type; the text may be cut off, or was saved with "
                "astext(show_meta_data=False)",
                start,
            )
        return entries[index]

    def number(self) -> tuple[int | float, str]:
        """A literal with its sign, and its dtype."""
        negative = self.accept("-")
        token = self.next()
        special = not_finite(token)
        if special is not None:
            return (-special[0] if negative else special[0]), special[1]
        try:
            value, dtype = numbers.literal(token.text)
        except ValueError:
            raise self.error(f"expected a number, found {token.text!r}", token) from None
        return (-value if negative else value), dtype

    def type(self) -> Rule:
        """A type; None stands for one to infer."""
        token = self.next()
        if token.text == "Tensor" and self.accept("["):
            self.expect("(")
            shape: list[int | None] = []
            while not self.accept(")"):
                shape.append(self.dimension())
                if not self.sees(")"):
                    self.expect(",")
            self.expect(",")
            dtype = self.expect_kind("name", "a dtype").text
            self.expect("]")
            return ast.TensorType(tuple(shape), dtype)
        if token.text == "(":
            fields = []
            while not self.accept(")"):
                fields.append((yield self.type()))
                if not self.sees(")"):
                    self.expect(",")
            return ast.TupleType(tuple(fields))
        if token.kind == "name" and token.text.startswith(_SCALARS):
            return ast.TensorType((), token.text)
        if token.text == "_":
            return None
        if token.text == "fn":
            yield self.type()
            self.expect("->")
            yield self.type()
            return ast.OtherType("fn")
        raise self.error(
            f"type {token.text!r} has no Relax counterpart; Tensor[...], scalars and tuples are "
            "read, algebraic data types and references are not",
            token,
        )

    def dimension(self) -> int | None:
        """A dimension; None stands for ``?``."""
        if self.accept("?"):
            return None
        token = self.expect_kind("number", "a dimension (a number or ?)")
        try:
            value, dtype = numbers.literal(token.text)
        except ValueError:
            value, dtype = 0, "float32"
        if dtype.startswith("float"):
            raise self.error(f"{token.text} is not a dimension", token)
        return int(value)

    def attribute(self, attrs: dict[str, Any]) -> Rule:
        """``name=value``, put among the attributes."""
        name = self.expect_kind("name", "an attribute's name")
        self.expect("=")
        if name.text in attrs:
            raise self.error(f"attribute {name.text} is given twice", name)
        attrs[name.text] = yield self.attribute_value()
        return None

    def attribute_value(self) -> Rule:
        """An attribute's value."""
        token = self.token
        if token.kind == "string":
            return self.next().text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        if token.kind == "number" or self.sees("-") or not_finite(token) is not None:
            value, _ = self.number()
            return numbers.restore(value) if isinstance(value, float) else value
        for opening, closing in (("[", "]"), ("(", ")")):
            if self.accept(opening):
                items: list[Any] = []
                while not self.accept(closing):
                    items.append((yield self.attribute_value()))
                    if not self.sees(closing):
                        self.expect(",")
                return items
        if self.sees("meta"):
            value = self.meta()
            return value.value.tolist() if isinstance(value, ast.Constant) else value
        if token.kind == "name":
            word = self.next().text
            return {"None": None, "True": True, "False": False}.get(word, word)
        if self.sees("{") and self.skip_block():
            # A dictionary, which only attributes without effect on the result hold.
            return None
        raise self.error(f"expected an attribute's value, found {token.text!r}")


def not_finite(token: Token) -> tuple[float, str] | None:
    """``inff`` and ``nanf`` are what C++ streams and Relay's suffix make together."""
    match = _NOT_FINITE.match(token.text)
    return (float(match[1]), f"float{match[2] or 32}") if match else None
