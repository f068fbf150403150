"""Relay's text format (``#[version = "0.0.5"]``) as an ``ast.Module``.

In: text. Out: plain data. The grammar's rules are generators that yield the rule they need next;
``_run`` keeps them on a list instead of Python's stack, so that no depth of nesting is too deep.
Nothing in the text is executed.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from tvm_stitch.frontend.relay import ast, numbers
from tvm_stitch.frontend.relay.json_reader import read_metadata
from tvm_stitch.frontend.relay.lexer import Cursor, Source, Token, tokenize

_VERSION = "0.0.5"
_SCALARS = ("float", "int", "uint", "bool", "bfloat")
# Weakest first.
_INFIX = (
    {"==": "equal", "!=": "not_equal"},
    {"<": "less", ">": "greater", "<=": "less_equal", ">=": "greater_equal"},
    {"+": "add", "-": "subtract"},
    {"*": "multiply", "/": "divide"},
)
_NOT_FINITE = re.compile(r"(inf|nan)f(16|64)?$")

Rule = Generator[Any, Any, Any]


def _run(rule: Rule) -> Any:
    """Run a rule and all the rules it asks for, without recursion."""
    stack, answer = [rule], None
    while stack:
        try:
            stack.append(stack[-1].send(answer))
            answer = None
        except StopIteration as finished:
            stack.pop()
            answer = finished.value
    return answer


def read_text(text: str, name: str = "the given text") -> ast.Module:
    """Parse a module in Relay's text format."""
    source = Source(text, name)
    tokens, metadata_at = tokenize(source)
    metadata: dict[str, list[Any]] = {}
    if metadata_at is not None:
        metadata = read_metadata(text[metadata_at:], f"{name}, metadata section")
    return _Parser(source, tokens, metadata).module()


class _Parser(Cursor):
    def __init__(self, source: Source, tokens: list[Token], metadata: dict[str, list[Any]]) -> None:
        super().__init__(source, tokens)
        self.metadata = metadata
        # Names in scope, innermost last: variables (%x) and graph bindings (%0).
        self.scopes: list[dict[str, ast.Expr]] = []

    # Modules and functions

    def module(self) -> ast.Module:
        if self.accept("#["):
            self.version()
        functions: dict[str, ast.Expr] = {}
        while self.token.kind != "end":
            if self.accept("def"):
                name = self.expect_kind("global", "a function's name (@main)")
                if name.text[1:] in functions:
                    raise self.error(f"{name.text} is defined twice", name)
                functions[name.text[1:]] = _run(self.function(name))
            elif self.sees("type") or self.sees("extern"):
                raise self.error(
                    "algebraic data types (type definitions) have no Relax counterpart"
                )
            else:
                raise self.error(f"expected a function definition, found {self.token.text!r}")
        if not functions:
            raise self.error("there is no function in this module")
        return ast.Module(functions, self.source.name)

    def version(self) -> None:
        self.expect("version")
        self.expect("=")
        version = self.expect_kind("string", "a version").text.strip('"')
        self.expect("]")
        if version != _VERSION:
            raise self.error(
                f"text format version {version} is unknown; {_VERSION} (TVM 0.7 to 0.19) is read"
            )

    def function(self, start: Token) -> Rule:
        if self.sees("["):
            raise self.error("functions with type parameters have no Relax counterpart")
        self.expect("(")
        params: list[ast.Var] = []
        attrs: dict[str, Any] = {}
        scope: dict[str, ast.Expr] = {}
        while not self.accept(")"):
            if self.token.kind == "local":
                token = self.next()
                kind = (yield self.type()) if self.accept(":") else None
                params.append(ast.Var(token.text[1:], kind, self.place(token)))
                if token.text in scope:
                    raise self.error(f"parameter {token.text} is named twice", token)
                scope[token.text] = params[-1]
            else:
                yield self.attribute(attrs)
            if not self.sees(")"):
                self.expect(",")
        result = (yield self.type()) if self.accept("->") else None
        self.scopes.append(scope)
        body = yield self.block()
        self.scopes.pop()
        return ast.Function(tuple(params), body, result, attrs, self.place(start))

    # Expressions

    def block(self) -> Rule:
        """``{`` bindings and a value ``}``: lets nest to the right, graph bindings only name."""
        self.expect("{")
        self.scopes.append({})
        lets: list[tuple[ast.Var, ast.Expr, str]] = []
        while True:
            start = self.token
            if self.accept("let"):
                lets.append((yield self.let(start)))
            elif start.kind == "local" and self.sees("=", 1):
                self.at += 2
                self.scopes[-1][start.text] = yield self.expression()
                self.expect(";")
            else:
                break
        body = yield self.expression()
        self.expect("}")
        self.scopes.pop()
        for variable, value, place in reversed(lets):
            body = ast.Let(variable, value, body, place)
        return body

    def let(self, start: Token) -> Rule:
        name = self.expect_kind("local", "a variable (%x)")
        kind = (yield self.type()) if self.accept(":") else None
        self.expect("=")
        if self.sees("fn"):
            recursion = ast.Unsupported(f"recursion: {name.text} calls itself", self.place(name))
            self.scopes[-1][name.text] = recursion
        value = yield self.expression()
        self.expect(";")
        variable = ast.Var(name.text[1:], kind, self.place(name))
        self.scopes[-1][name.text] = variable
        return variable, value, self.place(start)

    def expression(self, level: int = 0) -> Rule:
        if level == len(_INFIX):
            return (yield self.postfix())
        left = yield self.expression(level + 1)
        while self.token.kind == "mark" and self.token.text in _INFIX[level]:
            token = self.next()
            right = yield self.expression(level + 1)
            operator = ast.Operator(_INFIX[level][token.text])
            left = ast.Call(operator, (left, right), where=self.place(token))
        return left

    def postfix(self) -> Rule:
        start = self.token
        value = yield self.primary()
        while True:
            if self.sees("("):
                value = yield self.call(value, start)
            elif self.sees(".") and self.tokens[self.at + 1].kind == "number":
                self.next()
                value = self.projection(value, self.next())
            else:
                break
        if isinstance(value, ast.Operator):
            raise self.error(f"operator {value.name} is named but not called", start)
        return value

    def projection(self, value: ast.Expr, token: Token) -> ast.Expr:
        # ``%0.1.2`` reaches here as the number 1.2.
        for index in token.text.split("."):
            if not index.isdigit():
                raise self.error(f"expected a tuple index, found {token.text!r}", token)
            value = ast.Field(value, int(index), self.place(token))
        return value

    def call(self, callee: ast.Expr, start: Token) -> Rule:
        self.expect("(")
        args: list[ast.Expr] = []
        attrs: dict[str, Any] = {}
        while not self.accept(")"):
            if self.token.kind == "name" and self.sees("=", 1):
                yield self.attribute(attrs)
            elif self.sees("meta") and "Attrs" in self.tokens[self.at + 2].text:
                attrs.update(self.meta())
            else:
                args.append((yield self.expression()))
            if not self.sees(")"):
                self.expect(",")
        return ast.Call(callee, tuple(args), attrs, where=self.place(start))

    def primary(self) -> Rule:
        token = self.token
        if token.kind == "local":
            return self.variable(self.next())
        if token.kind == "global":
            return ast.Global(self.next().text[1:])
        if token.kind == "number" or self.sees("-") or _not_finite(token) is not None:
            value, dtype = self.number()
            try:
                return ast.Constant(numbers.scalar(value, dtype), self.place(token))
            except OverflowError:
                raise self.error(f"{token.text} does not fit {dtype}", token) from None
        if self.sees("("):
            return (yield self.parenthesis())
        if token.kind == "name":
            return (yield self.named(self.next()))
        raise self.error(f"expected an expression, found {token.text!r}")

    def variable(self, token: Token) -> ast.Expr:
        """The variable of that name; ``%x.0`` may be a name with a dot or a field of ``%x``."""
        name = token.text
        fields: list[str] = []
        while True:
            for scope in reversed(self.scopes):
                if name in scope:
                    value = scope[name]
                    for index in reversed(fields):
                        value = ast.Field(value, int(index), self.place(token))
                    return value
            name, dot, last = name.rpartition(".")
            if not dot or not last.isdigit():
                raise self.error(f"{token.text} is not defined here", token)
            fields.append(last)

    def parenthesis(self) -> Rule:
        start = self.expect("(")
        fields: list[ast.Expr] = []
        is_tuple = self.sees(")")
        while not self.accept(")"):
            fields.append((yield self.expression()))
            if not self.sees(")"):
                self.expect(",")
                is_tuple = True
        return ast.Tuple(tuple(fields), self.place(start)) if is_tuple else fields[0]

    def named(self, token: Token) -> Rule:
        """What begins with a word."""
        if token.text in ("True", "False"):
            value, dtype = token.text == "True", "bool"
            return ast.Constant(numbers.scalar(value, dtype), self.place(token))
        if token.text == "if":
            self.expect("(")
            condition = yield self.expression()
            self.expect(")")
            then = yield self.block()
            self.expect("else")
            otherwise = yield self.block()
            return ast.If(condition, then, otherwise, self.place(token))
        if token.text == "fn":
            return (yield self.function(token))
        if token.text == "meta":
            self.at -= 1
            value = self.meta()
            if not isinstance(value, ast.Constant):
                raise self.error("this entry of the metadata section is not a constant", token)
            return value
        if token.text in ("match", "ref", "ref_read", "ref_write"):
            raise self.error(f"{token.text} has no Relax counterpart", token)
        return ast.Operator(token.text)

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
        negative = self.accept("-")
        token = self.next()
        special = _not_finite(token)
        if special is not None:
            return (-special[0] if negative else special[0]), special[1]
        try:
            value, dtype = numbers.literal(token.text)
        except ValueError:
            raise self.error(f"expected a number, found {token.text!r}", token) from None
        return (-value if negative else value), dtype

    # Types and attributes

    def type(self) -> Rule:
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
        name = self.expect_kind("name", "an attribute's name")
        self.expect("=")
        if name.text in attrs:
            raise self.error(f"attribute {name.text} is given twice", name)
        attrs[name.text] = yield self.attribute_value()
        return None

    def attribute_value(self) -> Rule:
        token = self.token
        if token.kind == "string":
            return self.next().text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        if token.kind == "number" or self.sees("-") or _not_finite(token) is not None:
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
        if self.sees("{"):
            return self.skip_braces()
        raise self.error(f"expected an attribute's value, found {token.text!r}")

    def skip_braces(self) -> None:
        """A dictionary, which only attributes without effect on the result hold."""
        depth = 0
        while True:
            token = self.next()
            if token.kind == "end":
                raise self.error("this dictionary is never closed", token)
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            if depth == 0:
                return


def _not_finite(token: Token) -> tuple[float, str] | None:
    """``inff`` and ``nanf`` are what C++ streams and Relay's suffix make together."""
    match = _NOT_FINITE.match(token.text)
    return (float(match[1]), f"float{match[2] or 32}") if match else None
