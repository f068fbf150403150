"""In which order a Relay expression is evaluated, and in which branch of which ``if``.

Relay is a graph in which a node may be used from several places; Relax is a list of bindings in
nested blocks. In: an expression. Out: for each block, the nodes to bind there, uses after
definitions. A node used by both branches, or outside them, is bound outside. Let-bound names stand
for their values, and calls of function literals for the literal's body: Relay's expressions
have no effects that this could reorder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import ast

_MAX_INLINED = 1_000_000


@dataclass(eq=False)
class Block:
    """The nodes to bind in one block, in order."""

    parent: Block | None = None
    depth: int = 0
    nodes: list[ast.Expr] = field(default_factory=list)


@dataclass(frozen=True)
class Order:
    """A function's body, ordered."""

    body: Block
    branches: dict[ast.If, tuple[Block, Block]]
    meaning: dict[ast.Expr, ast.Expr]
    """What a let-bound name, a let and an inlined call stand for."""

    def resolve(self, node: ast.Expr) -> ast.Expr:
        """The node that holds a node's value."""
        while node in self.meaning:
            node = self.meaning[node]
        return node


def order(function: ast.Function) -> Order:
    """Order a function's body."""
    inliner = _Inliner()
    nodes = _post_order(function.body, inliner)
    return _place(function.body, nodes, inliner.meaning)


class _Inliner:
    """Resolves lets and calls of function literals as they are met."""

    def __init__(self) -> None:
        self.meaning: dict[ast.Expr, ast.Expr] = {}
        self.copied = 0

    def resolve(self, node: ast.Expr) -> ast.Expr:
        while True:
            if node in self.meaning:
                node = self.meaning[node]
            elif isinstance(node, ast.Let):
                self.meaning[node.var] = node.value
                self.meaning[node] = node.body
            elif isinstance(node, ast.Call) and not isinstance(node.callee, ast.Operator):
                callee = self.resolve_callee(node.callee)
                if not isinstance(callee, ast.Function):
                    return node
                self.meaning[node] = self.apply(callee, node)
            else:
                return node

    def resolve_callee(self, callee: ast.Expr) -> ast.Expr:
        while callee in self.meaning or isinstance(callee, ast.Let):
            if callee not in self.meaning:
                self.resolve(callee)
            callee = self.meaning[callee]
        return callee

    def apply(self, function: ast.Function, call: ast.Call) -> ast.Expr:
        """The function's body with the arguments in place of the parameters."""
        if len(function.params) != len(call.args):
            raise RelayError(
                f"{call.where}: a function of {len(function.params)} parameters is called with "
                f"{len(call.args)} arguments"
            )
        copies: dict[ast.Expr, ast.Expr] = dict(zip(function.params, call.args, strict=True))
        stack = [function.body]
        while stack:
            node = stack[-1]
            if isinstance(node, ast.Let) and node.value in copies:
                # The copy of a let is its body over the copied value: no name is left to clash.
                copies[node.var] = copies[node.value]
                waiting = [node.body] if node.body not in copies else []
            elif isinstance(node, ast.Let):
                waiting = [node.value]
            else:
                waiting = [child for child in ast.children(node) if child not in copies]
            if node in copies:
                stack.pop()
            elif waiting:
                stack.extend(waiting)
            else:
                copies[stack.pop()] = _with_children(node, copies)
                self.copied += 1
                if self.copied > _MAX_INLINED:
                    raise RelayError(
                        f"{call.where}: calls of function literals expand to more than "
                        f"{_MAX_INLINED} operators, or the function calls itself"
                    )
        return copies[function.body]


def _with_children(node: ast.Expr, copies: dict[ast.Expr, ast.Expr]) -> ast.Expr:
    """The node over copied children; the node itself where nothing below it changed."""
    if isinstance(node, ast.Let):
        return copies[node.body]
    if all(copies[child] is child for child in ast.children(node)):
        return node
    if isinstance(node, ast.Call):
        args = tuple(copies[arg] for arg in node.args)
        return ast.Call(copies[node.callee], args, node.attrs, node.type, node.where)
    if isinstance(node, ast.Tuple):
        return ast.Tuple(tuple(copies[item] for item in node.fields), node.where)
    if isinstance(node, ast.Field):
        return ast.Field(copies[node.value], node.index, node.where)
    if isinstance(node, ast.If):
        return ast.If(copies[node.condition], copies[node.then], copies[node.otherwise], node.where)
    if isinstance(node, ast.Function):
        body = copies[node.body]
        return ast.Function(node.params, body, node.result_type, node.attrs, node.where)
    return node


def _inputs(node: ast.Expr) -> Iterable[ast.Expr]:
    """What has to be evaluated before a resolved node."""
    if isinstance(node, ast.Call):
        return node.args
    if isinstance(node, (ast.Tuple, ast.Field, ast.If)):
        return ast.children(node)
    return ()


def _post_order(root: ast.Expr, inliner: _Inliner) -> list[ast.Expr]:
    """All nodes below the root, inputs first."""
    done: set[ast.Expr] = set()
    is_open: set[ast.Expr] = set()
    nodes: list[ast.Expr] = []
    stack = [inliner.resolve(root)]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        if node not in is_open:
            is_open.add(node)
            inputs = [inliner.resolve(child) for child in _inputs(node)]
            for child in inputs:
                if child in is_open and child not in done:
                    raise RelayError(
                        f"{getattr(child, 'where', '')}: a value depends on itself; recursion "
                        "is not read"
                    )
            stack.extend(child for child in reversed(inputs) if child not in done)
            continue
        stack.pop()
        done.add(node)
        nodes.append(node)
    return nodes


def _place(root: ast.Expr, nodes: list[ast.Expr], meaning: dict[ast.Expr, ast.Expr]) -> Order:
    """Give every node the innermost block that encloses all its uses."""
    body = Block()
    branches: dict[ast.If, tuple[Block, Block]] = {}
    result = Order(body, branches, meaning)
    block_of: dict[ast.Expr, Block] = {}

    def use(node: ast.Expr, block: Block) -> None:
        node = result.resolve(node)
        block_of[node] = _common(block_of[node], block) if node in block_of else block

    use(root, body)
    # From the result backwards every user is placed before what it uses.
    for node in reversed(nodes):
        block = block_of[node]
        if isinstance(node, ast.If):
            branches[node] = (Block(block, block.depth + 1), Block(block, block.depth + 1))
            use(node.condition, block)
            use(node.then, branches[node][0])
            use(node.otherwise, branches[node][1])
        else:
            for child in _inputs(node):
                use(child, block)
    for node in nodes:
        block_of[node].nodes.append(node)
    return result


def _common(left: Block, right: Block) -> Block:
    """The innermost block that encloses both."""
    while left is not right:
        if left.depth < right.depth:
            left, right = right, left
        assert left.parent is not None
        left = left.parent
    return left
