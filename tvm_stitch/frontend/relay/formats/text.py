"""Relay's text format (``#[version = "0.0.5"]``) as an ``ast.Module``.

In: text. Out: plain data. The grammar's rules are generators that yield the rule they need next;
``_run`` keeps them on a list instead of Python's stack, so that no depth of nesting is too deep.
Nothing in the text is executed.
"""

from __future__ import annotations

from typing import Any

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import ast
from tvm_stitch.frontend.relay.formats import numbers
from tvm_stitch.frontend.relay.formats.json_reader import read_metadata
from tvm_stitch.frontend.relay.formats.lexer import Source, Token, tokenize
from tvm_stitch.frontend.relay.formats.text_values import Rule, ValueParser, not_finite

_VERSION = "0.0.5"
# Weakest first.
_INFIX = (
    {"==": "equal", "!=": "not_equal"},
    {"<": "less", ">": "greater", "<=": "less_equal", ">=": "greater_equal"},
    {"+": "add", "-": "subtract"},
    {"*": "multiply", "/": "divide"},
)


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


class _Parser(ValueParser):
    def __init__(self, source: Source, tokens: list[Token], metadata: dict[str, list[Any]]) -> None:
        super().__init__(source, tokens, metadata)
        self.constructors: set[str] = set()
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
                functions[name.text[1:]] = self.global_function(name)
            elif self.accept("type"):
                self.data_type()
            else:
                raise self.error(f"expected a function definition, found {self.token.text!r}")
        if not functions:
            raise self.error("there is no function in this module")
        return ast.Module(functions, self.source.name)

    def global_function(self, name: Token) -> ast.Expr:
        """A function, or why it cannot be read: importers add some that no model calls."""
        start = self.at
        try:
            return _run(self.function(name))
        except RelayError as error:
            self.at = start
            if name.text == "@main" or not self.skip_block():
                raise
            self.scopes.clear()
            reason = str(error).removeprefix(f"{self.source.name}, ")
            return ast.Unsupported(reason, self.place(name))

    def data_type(self) -> None:
        """The definition of an algebraic data type: only its constructors' names are kept."""
        start = self.at
        if not self.skip_block():
            raise self.error("this type definition is not closed")
        body = self.tokens[start : self.at]
        opening = next(i for i, token in enumerate(body) if token.text == "{")
        depth = 0
        for token in body[opening + 1 :]:
            if token.kind == "name" and depth == 0:
                self.constructors.add(token.text)
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)

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
        if token.kind == "number" or self.sees("-") or not_finite(token) is not None:
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
        if token.text in self.constructors:
            what = f"{token.text} constructs an algebraic data type"
            return ast.Unsupported(what, self.place(token))
        return ast.Operator(token.text)
