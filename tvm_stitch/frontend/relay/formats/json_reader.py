"""``tvm.ir.save_json`` of TVM 0.7 to 0.19 as an ``ast.Module``.

In: the JSON text, a flat list of nodes that refer to each other by number. Out: plain data. The
package's own TVM no longer knows Relay's node types, so the graph is read here, node by node and
without recursion. Nothing in the file is executed.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import ast
from tvm_stitch.frontend.relay.arrays import Reader, read_tensor
from tvm_stitch.frontend.relay.formats.json_fields import TEXTS, inline, is_object


def read_json(text: str, name: str = "the given JSON") -> ast.Module:
    """Read a module that ``tvm.ir.save_json`` wrote."""
    graph = _Graph(text, name)
    root = graph.node(graph.root)
    if root.get("type_key") == "relay.Function":
        return ast.Module({"main": graph.expression(graph.root)}, name)
    if root.get("type_key") not in ("IRModule", "relay.Module"):
        raise RelayError(
            f"{name} holds a {root.get('type_key')}, not a Relay module (IRModule or "
            "relay.Function); save the module itself with tvm.ir.save_json"
        )
    functions: dict[str, ast.Expr] = {}
    for key, value in graph.map_items(graph.reference(root, "functions")):
        function_name = graph.string(graph.reference(graph.node(key), "name_hint"))
        if not function_name:
            raise RelayError(f"{name}, node {key}: a global function has no name")
        functions[function_name] = graph.expression(value)
    if not functions:
        raise RelayError(f"{name} has no functions")
    return ast.Module(functions, name)


def read_metadata(text: str, name: str) -> dict[str, list[Any]]:
    """The metadata section of the text format: constants and attribute values by type."""
    graph = _Graph(text, name)
    if graph.node(graph.root).get("type_key") not in ("Map", "StrMap"):
        raise RelayError(f"{name} is not a map by type")
    entries: dict[str, list[Any]] = {}
    for key, value in graph.map_items(graph.root):
        kind = str(key)
        entries[kind] = [
            graph.expression(item) if kind == "relay.Constant" else graph.value(item)
            for item in graph.items(value)
        ]
    return entries


class _Graph:
    def __init__(self, text: str, name: str) -> None:
        self.name = name
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise RelayError(
                f"{name}, line {error.lineno}, column {error.colno}: not JSON ({error.msg}); "
                "the file is truncated or damaged"
            ) from None
        except RecursionError:
            raise RelayError(f"{name}: JSON nested this deep was not written by TVM") from None
        nodes = document.get("nodes") if isinstance(document, dict) else None
        if not isinstance(nodes, list) or not isinstance(document.get("root"), int):
            raise RelayError(
                f'{name} is JSON, but not a graph of nodes ("root", "nodes") as '
                "tvm.ir.save_json wrote up to TVM 0.19"
            )
        self.nodes: list[dict[str, Any]] = nodes
        self.root: int = document["root"]
        self.encoded = document.get("b64ndarrays", [])
        self._tensors: dict[int, np.ndarray] = {}
        self._expressions: dict[int, ast.Expr] = {}

    # Nodes

    def error(self, index: int, message: str) -> RelayError:
        return RelayError(f"{self.name}, node {index}: {message}")

    def node(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self.nodes) or not isinstance(self.nodes[index], dict):
            raise RelayError(
                f"{self.name} refers to node {index}, which is not among its "
                f"{len(self.nodes)}; the file is truncated or damaged"
            )
        return self.nodes[index]

    def kind(self, index: int) -> str:
        return str(self.node(index).get("type_key", ""))

    def attributes(self, node: dict[str, Any]) -> dict[str, str]:
        attrs = node.get("attrs") or {}
        if not isinstance(attrs, dict):
            raise RelayError(f"{self.name}: the fields of a {node.get('type_key')} are damaged")
        return attrs

    def reference(self, node: dict[str, Any], field: str) -> int:
        """The number of the node that a field refers to; 0 is null."""
        value = self.attributes(node).get(field, "0")
        try:
            return int(value)
        except (TypeError, ValueError):
            raise RelayError(
                f"{self.name}: field {field} of a {node.get('type_key')} should be a node's "
                f"number, not {value!r}"
            ) from None

    def items(self, index: int) -> list[int]:
        data = self.node(index).get("data") or []
        if not isinstance(data, list) or not all(isinstance(item, int) for item in data):
            raise self.error(index, "its items are damaged")
        return data

    def map_items(self, index: int) -> list[tuple[Any, int]]:
        data, keys = self.items(index), self.node(index).get("keys")
        if isinstance(keys, list):
            return list(zip(keys, data, strict=False))
        return list(zip(data[::2], data[1::2], strict=False))

    def string(self, index: int) -> str:
        node = self.node(index)
        if "repr_b64" in node:
            try:
                # The length of the string precedes it.
                return base64.b64decode(node["repr_b64"])[8:].decode("utf-8", "replace")
            except (binascii.Error, TypeError):
                raise self.error(index, "a string is damaged") from None
        return str(node.get("repr_str", node.get("global_key", "")))

    def tensor(self, position: int, index: int) -> np.ndarray:
        if position not in self._tensors:
            if not isinstance(self.encoded, list) or not 0 <= position < len(self.encoded):
                raise self.error(
                    index, f"tensor {position} is missing; the file is truncated or damaged"
                )
            try:
                data = base64.b64decode(self.encoded[position])
            except (binascii.Error, TypeError, ValueError):
                raise self.error(index, f"tensor {position} is not base64") from None
            self._tensors[position] = read_tensor(Reader(data, f"{self.name}, tensor {position}"))
            # The text of a large constant is not needed twice.
            self.encoded[position] = ""
        return self._tensors[position]

    # Types and attribute values

    def type(self, index: int, depth: int = 0) -> ast.Type | None:
        kind, node = self.kind(index), self.node(index)
        if index == 0 or kind in ("", "IncompleteType", "relay.IncompleteType"):
            return None
        if depth > 100:
            raise self.error(index, "a type is nested more than 100 deep")
        if kind in ("relay.TensorType", "TensorType"):
            shape = tuple(
                self.dimension(item) for item in self.items(self.reference(node, "shape"))
            )
            return ast.TensorType(shape, str(self.attributes(node).get("dtype")))
        if kind in ("TupleType", "relay.TupleType"):
            fields = self.items(self.reference(node, "fields"))
            types = [self.type(field, depth + 1) for field in fields]
            return ast.TupleType(tuple(t or ast.OtherType("an unknown type") for t in types))
        return ast.OtherType(kind)

    def dimension(self, index: int) -> int | None:
        if self.kind(index) == "IntImm":
            return int(self.value(index))
        if self.kind(index).rpartition(".")[2] == "Any":
            return None
        raise self.error(index, f"a dimension is a {self.kind(index)}, not a number or ?")

    def value(self, index: int, depth: int = 0) -> ast.AttributeValue:
        """An attribute's value."""
        kind, node = self.kind(index), self.node(index)
        if depth > 100:
            raise self.error(index, "an attribute is nested more than 100 deep")
        if index == 0 or kind == "":
            return None
        if kind in ("Array", "runtime.Array"):
            return [self.value(item, depth + 1) for item in self.items(index)]
        if kind in ("Map", "StrMap"):
            return {str(key): self.value(item, depth + 1) for key, item in self.map_items(index)}
        if kind in ("IntImm", "FloatImm"):
            fields = self.attributes(node)
            number = inline(str(fields.get("value", "")))
            if isinstance(number, str):
                raise self.error(index, f"{number!r} is not a number")
            return bool(number) if fields.get("dtype") == "bool" else number
        if kind in ("runtime.String", "StringImm", "tir.StringImm", "Op"):
            return self.string(index) if "Imm" not in kind else self.attributes(node).get("value")
        if kind.startswith("runtime.Box"):
            return inline(self.string(index))
        if kind == "relay.Constant":
            return self.tensor(self.reference(node, "data"), index).tolist()
        if kind.endswith("Attrs"):
            return self.operator_attributes(index)
        return f"<{kind}>"

    def operator_attributes(self, index: int) -> dict[str, ast.AttributeValue]:
        """The attributes of a call."""
        if index == 0:
            return {}
        node = self.node(index)
        kind = self.kind(index).rpartition(".")[2]
        if kind == "DictAttrs":
            found = self.value(self.reference(node, "__dict__"))
            return found if isinstance(found, dict) else {}
        return {
            name: self.field(kind, name, str(text)) for name, text in self.attributes(node).items()
        }

    def field(self, kind: str, name: str, text: str) -> ast.AttributeValue:
        if not text.isdigit():
            return None if text == "void" else inline(text)
        if is_object(kind, name):
            return self.value(int(text))
        # A string of digits is no layout, mode or dtype: it is the number of a string's node.
        target = int(text)
        if name in TEXTS and target < len(self.nodes):
            node_kind = self.kind(target)
            if node_kind == "runtime.String":
                return self.string(target)
            if node_kind in ("Array", "runtime.Array") and self.items(target):
                return self.value(target)
        return int(text)

    # Expressions

    def expression(self, index: int) -> ast.Expr:
        """The expression of a node, its children first; shared nodes stay shared."""
        stack, open_nodes = [index], set()
        while stack:
            current = stack[-1]
            if current in self._expressions:
                stack.pop()
                continue
            missing = [c for c in self.children(current) if c not in self._expressions]
            if not missing:
                self._expressions[current] = self.build(current)
                open_nodes.discard(current)
                stack.pop()
                continue
            if current in open_nodes:
                raise self.error(current, "it is part of itself; recursion is not read")
            open_nodes.add(current)
            stack.extend(reversed(missing))
        return self._expressions[index]

    def children(self, index: int) -> list[int]:
        node, kind = self.node(index), self.kind(index)
        if kind == "relay.Call":
            args = self.items(self.reference(node, "args"))
            return [self.reference(node, "op"), *args]
        if kind == "relay.Tuple":
            return self.items(self.reference(node, "fields"))
        if kind == "relay.Function":
            params = self.items(self.reference(node, "params"))
            return [*params, self.reference(node, "body")]
        fields = {
            "relay.TupleGetItem": ("tuple_value",),
            "relay.Let": ("var", "value", "body"),
            "relay.If": ("cond", "true_branch", "false_branch"),
        }
        return [self.reference(node, field) for field in fields.get(kind, ())]

    def build(self, index: int) -> ast.Expr:
        kind, place = self.kind(index), f"node {index}"
        build = _BUILDERS.get(kind)
        if build is not None:
            return build(self, index, place)
        if index == 0 or not kind:
            raise self.error(index, "an expression is missing here")
        return ast.Unsupported(_UNSUPPORTED.get(kind, f"{kind} has no Relax counterpart"), place)

    def built(self, index: int) -> ast.Expr:
        return self._expressions[index]

    def variable(self, index: int, place: str) -> ast.Var:
        node = self.node(index)
        identity = self.reference(node, "vid")
        # Before 0.7 a variable carried its name; later an identity object does.
        holder = self.node(identity) if identity else node
        text = self.attributes(holder).get("name_hint", "")
        name = self.string(int(text)) if text.isdigit() else text
        annotation = self.type(self.reference(node, "type_annotation"))
        return ast.Var(name, annotation or self.checked_type(node), place)

    def checked_type(self, node: dict[str, Any]) -> ast.Type | None:
        return self.type(self.reference(node, "_checked_type_"))

    def call(self, index: int, place: str) -> ast.Call:
        node = self.node(index)
        callee, *args = [self.built(child) for child in self.children(index)]
        return ast.Call(
            callee,
            tuple(args),
            self.operator_attributes(self.reference(node, "attrs")),
            self.checked_type(node),
            place,
        )

    def function(self, index: int, place: str) -> ast.Function:
        node = self.node(index)
        *params, body = [self.built(child) for child in self.children(index)]
        if not all(isinstance(param, ast.Var) for param in params):
            raise self.error(index, "a function's parameter is not a variable")
        result = self.type(self.reference(node, "ret_type"))
        attrs = self.operator_attributes(self.reference(node, "attrs"))
        return ast.Function(tuple(params), body, result, attrs, place)  # type: ignore[arg-type]

    def let(self, index: int, place: str) -> ast.Let:
        var, value, body = [self.built(child) for child in self.children(index)]
        if not isinstance(var, ast.Var):
            raise self.error(index, "a let binds something that is not a variable")
        return ast.Let(var, value, body, place)

    def projection(self, index: int, place: str) -> ast.Field:
        text = self.attributes(self.node(index)).get("index", "")
        if not str(text).isdigit():
            raise self.error(index, f"{text!r} is not a tuple index")
        return ast.Field(self.built(self.children(index)[0]), int(text), place)

    def branch(self, index: int, place: str) -> ast.If:
        condition, then, otherwise = [self.built(child) for child in self.children(index)]
        return ast.If(condition, then, otherwise, place)

    def tuple(self, index: int, place: str) -> ast.Tuple:
        return ast.Tuple(tuple(self.built(child) for child in self.children(index)), place)

    def constant(self, index: int, place: str) -> ast.Constant:
        node = self.node(index)
        return ast.Constant(self.tensor(self.reference(node, "data"), index), place)

    def operator(self, index: int, place: str) -> ast.Operator:
        return ast.Operator(self.string(index))

    def global_name(self, index: int, place: str) -> ast.Global:
        node = self.node(index)
        text = str(self.attributes(node).get("name_hint", ""))
        return ast.Global(self.string(int(text)) if text.isdigit() else text)


_BUILDERS: dict[str, Callable[[_Graph, int, str], ast.Expr]] = {
    "relay.Var": _Graph.variable,
    "relay.Constant": _Graph.constant,
    "relay.Call": _Graph.call,
    "relay.Tuple": _Graph.tuple,
    "relay.TupleGetItem": _Graph.projection,
    "relay.Let": _Graph.let,
    "relay.If": _Graph.branch,
    "relay.Function": _Graph.function,
    "Op": _Graph.operator,
    "GlobalVar": _Graph.global_name,
    "relay.GlobalVar": _Graph.global_name,
}
_UNSUPPORTED = {
    "relay.Match": "match on algebraic data types has no Relax counterpart",
    "Constructor": "algebraic data types have no Relax counterpart",
    "relay.Constructor": "algebraic data types have no Relax counterpart",
    "relay.RefCreate": "references have no Relax counterpart",
    "relay.RefRead": "references have no Relax counterpart",
    "relay.RefWrite": "references have no Relax counterpart",
    "tir.PrimFunc": "a function written in TIR cannot be carried over to today's TIR",
}
