"""What a mutation breaks: one decision at a time in the source of a module.

In: the text of a Python file. Out: Mutations, each of which gives the text with one decision the
other way. Only what decides is broken: no message, no annotation, no docstring. Knows no test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# Statements that make threads wait for each other, or for memory.
BARRIERS = re.compile(r"sync|barrier|fence|wait\b|arrive|meet|commit", re.IGNORECASE)
# Parts of inline assembly and CUDA without which a compiler may move or drop it.
QUALIFIERS = ("volatile", ': "memory"', ".aligned", "__syncwarp();", ".acquire", ".release")
CONTEXT = 40  # characters before a change that are shown
FLIPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


@dataclass(frozen=True)
class Mutation:
    """One change of one file: `old` at a line and column becomes `new`."""

    file: str
    line: int
    column: int
    end: tuple[int, int]  # line and column behind what is replaced
    kind: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The text with this change. Columns count UTF-8 bytes, as Python's ast has them."""
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        first, last = self.line - 1, self.end[0] - 1
        before = lines[first][: self.column]
        behind = lines[last][self.end[1] :]
        lines[first : last + 1] = [before + self.new.encode() + behind]
        return b"".join(lines).decode()

    def __str__(self) -> str:
        pairs = enumerate(zip(self.old, self.new, strict=False))
        differs = next((place for place, (old, new) in pairs if old != new), 0)
        left = max(0, differs - CONTEXT)
        old, new = (_short(" ".join(part[left:].split())) for part in (self.old, self.new))
        return f"{self.file}:{self.line}:{self.column} {self.kind}: {old} -> {new}"


def _short(text: str, most: int = 70) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def mutations(file: str, text: str) -> list[Mutation]:
    """All mutations of a file, in the order of its lines."""
    tree = ast.parse(text)
    found: list[Mutation] = []
    for node in _deciding(tree):
        for kind, place, new in _of(node, text):
            old = ast.get_source_segment(text, place) or ""
            end = place.end_lineno or place.lineno, place.end_col_offset or 0
            if old != new:
                found.append(Mutation(file, place.lineno, place.col_offset, end, kind, old, new))
    unique = {(m.line, m.column, m.end, m.new): m for m in found}
    return sorted(unique.values(), key=lambda m: (m.line, m.column, m.end, m.new))


Change = tuple[str, ast.expr | ast.stmt, str]  # kind, what is replaced, by what


def _deciding(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node but those of annotations, messages and docstrings."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.JoinedStr):  # its parts have no place in the text
            continue
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            children = value if isinstance(value, list) else [value]
            pending += [
                child
                for child in children
                if isinstance(child, ast.AST)
                and not isinstance(child, (ast.Raise, ast.Assert))
                and not _is_message(child)
                and not _is_type_alias(child)
            ]


def _is_message(node: ast.AST) -> bool:
    """A docstring, a refusal, or zip's strict: what they say decides nothing."""
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refused"


def _is_type_alias(node: ast.AST) -> bool:
    """Expr = Any, Move = Callable[[int], int] and the like."""
    return isinstance(node, ast.Assign) and isinstance(node.value, (ast.Subscript, ast.Name))


def _of(node: ast.AST, text: str) -> Iterator[Change]:
    for kind, type_, change in _RULES:
        if isinstance(node, type_):
            for place, new in change(node, text):
                yield kind, place, new


def _source(node: ast.AST, text: str) -> str:
    return ast.get_source_segment(text, node) or ""


Changes = Iterator[tuple[ast.expr | ast.stmt, str]]


def _comparison(node: ast.Compare, text: str) -> Changes:
    """The other side of a boundary."""
    if len(node.ops) != 1 or type(node.ops[0]) not in FLIPPED:
        return
    left, right = _source(node.left, text), _source(node.comparators[0], text)
    yield node, f"({left} {FLIPPED[type(node.ops[0])]} {right})"


def _guard(node: ast.If, _text: str) -> Changes:
    """An early return, or work, that depends on a condition: never."""
    if not node.orelse:
        yield node.test, "False"


def _conditional(node: ast.IfExp, text: str) -> Changes:
    for branch in (node.body, node.orelse):
        yield node, f"({_source(branch, text)})"


def _emitted_guard(node: ast.Call, text: str) -> Changes:
    """A condition in the generated kernel: what depends on it always happens."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name == "when" and len(node.args) == 1 and not node.keywords:
        yield node.args[0], "None"
    if name == "IfThenElse" and len(node.args) == 3:
        nothing = isinstance(node.args[2], ast.Constant) and node.args[2].value is None
        if nothing:
            yield node, _source(node.args[1], text)
    if name in ("Select", "if_then_else") and len(node.args) == 3:
        yield node, _source(node.args[1], text)


def _barrier(node: ast.Expr, text: str) -> Changes:
    """A statement that adds a barrier, or calls what does."""
    if isinstance(node.value, ast.Call) and BARRIERS.search(_source(node, text)):
        yield node, "pass"


def _connective(node: ast.BoolOp, text: str) -> Changes:
    for number in range(len(node.values)):
        kept = [_source(v, text) for n, v in enumerate(node.values) if n != number]
        word = " and " if isinstance(node.op, ast.And) else " or "
        yield node, f"({word.join(f'({part})' for part in kept)})"


def _negation(node: ast.UnaryOp, text: str) -> Changes:
    if isinstance(node.op, ast.Not):
        yield node, f"({_source(node.operand, text)})"
    # -(-a // b) rounds up.
    inner = node.operand
    is_quotient = isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.FloorDiv)
    if isinstance(node.op, ast.USub) and is_quotient and isinstance(inner.left, ast.UnaryOp):
        yield node, f"({_source(inner.left.operand, text)} // {_source(inner.right, text)})"


def _arithmetic(node: ast.BinOp, text: str) -> Changes:
    """Off by one, and the other extreme of a product."""
    one = isinstance(node.right, ast.Constant) and node.right.value == 1
    if one and isinstance(node.op, (ast.Add, ast.Sub)):
        yield node, f"({_source(node.left, text)})"
    two = isinstance(node.left, ast.Constant) and node.left.value == 2
    if two and isinstance(node.op, ast.Mult):
        yield node, f"({_source(node.right, text)})"


def _flag(node: ast.Constant, _text: str) -> Changes:
    if node.value is True or node.value is False:
        yield node, str(not node.value)


def _qualifier(node: ast.Constant | ast.JoinedStr, text: str) -> Changes:
    for word in QUALIFIERS:
        source = _source(node, text)
        if word in source:
            yield node, source.replace(word, "")


def _extreme(node: ast.Call, text: str) -> Changes:
    name = getattr(node.func, "id", "")
    if name in ("min", "max") and len(node.args) > 1:
        other = "max" if name == "min" else "min"
        yield node.func, other


def _constant(node: ast.Assign, text: str) -> Changes:
    """A measured constant of a rule, twice as large."""
    named = isinstance(node.targets[0], ast.Name) and node.targets[0].id.lstrip("_").isupper()
    pairs = [(node.targets[0], node.value)]
    if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        named = all(getattr(t, "id", "a").lstrip("_").isupper() for t in node.targets[0].elts)
        pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
    for _, value in pairs if named else []:
        try:
            number = eval(compile(ast.Expression(value), "", "eval"), {})
        except Exception:  # names, calls: no number
            continue
        if isinstance(number, (int, float)) and not isinstance(number, bool) and number:
            yield value, f"(2 * ({_source(value, text)}))"


_RULES: tuple[tuple[str, type[ast.AST], Callable], ...] = (
    ("barrier left out", ast.Expr, _barrier),
    ("comparison flipped", ast.Compare, _comparison),
    ("guard dropped", ast.If, _guard),
    ("guard of the kernel dropped", ast.Call, _emitted_guard),
    ("one branch always", ast.IfExp, _conditional),
    ("condition dropped", ast.BoolOp, _connective),
    ("negation dropped", ast.UnaryOp, _negation),
    ("off by one", ast.BinOp, _arithmetic),
    ("flag turned", ast.Constant, _flag),
    ("qualifier dropped", ast.Constant, _qualifier),
    ("qualifier dropped", ast.JoinedStr, _qualifier),
    ("min for max", ast.Call, _extreme),
    ("constant doubled", ast.Assign, _constant),
)
