"""Writes a module as TVM 0.19's ``tvm.ir.save_json`` did, with every field of every attribute.

For tests only: it shows that JSON and text mean the same for each operator.
"""

import base64
import json

import numpy as np

from relay.attributes import CLASSES
from relay.node_graph import packed
from tvm_stitch.frontend.relay import ast
from tvm_stitch.frontend.relay.formats.text import read_text


class Writer:
    """Builds the list of nodes."""

    def __init__(self) -> None:
        self.nodes: list[dict] = [{"type_key": ""}]
        self.tensors: list[str] = []
        self.memo: dict[ast.Expr, int] = {}

    def node(self, kind: str, attrs: dict | None = None, **more) -> int:
        node: dict = {"type_key": kind, **more}
        if attrs is not None:
            node["attrs"] = {key: _written(value) for key, value in attrs.items()}
        self.nodes.append(node)
        return len(self.nodes) - 1

    def string(self, value: str) -> int:
        return self.node("runtime.String", repr_str=value)

    def array(self, items: list[int]) -> int:
        return self.node("Array", data=items)

    def value(self, value) -> int:
        """An object of its own."""
        if value is None:
            return 0
        if isinstance(value, list):
            return self.array([self.value(item) for item in value])
        if isinstance(value, str):
            return self.string(value)
        kind = "FloatImm" if isinstance(value, float) else "IntImm"
        dtype = "bool" if isinstance(value, bool) else "float32" if kind == "FloatImm" else "int32"
        return self.node(kind, {"dtype": dtype, "span": "0", "value": value})

    def type(self, kind: ast.Type | None) -> int:
        if isinstance(kind, ast.TensorType):
            shape = [self.node("relay.Any") if n is None else self.value(n) for n in kind.shape]
            attrs = {"dtype": kind.dtype, "shape": self.array(shape), "span": 0}
            return self.node("relay.TensorType", attrs)
        if isinstance(kind, ast.TupleType):
            fields = self.array([self.type(field) for field in kind.fields])
            return self.node("TupleType", {"fields": fields, "span": 0})
        return 0

    def attributes(self, call: ast.Call, name: str) -> int:
        found = CLASSES.get(name)
        if found is None:
            return 0
        kind, fields = found
        attrs = {}
        for field, (how, default) in fields.items():
            value = call.attrs.get(field, default)
            value = default if value is None and how in "id" else value
            attrs[field] = value if how in "id" else self.value(value)
        return self.node(f"relay.attrs.{kind}", attrs)

    def expression(self, node: ast.Expr) -> int:
        if node not in self.memo:
            self.memo[node] = self.written(node)
        return self.memo[node]

    def written(self, node: ast.Expr) -> int:
        if isinstance(node, ast.Var):
            identity = self.node("relay.Id", {"name_hint": self.string(node.name)})
            return self.node(
                "relay.Var", {"vid": identity, "type_annotation": self.type(node.type)}
            )
        if isinstance(node, ast.Constant):
            array = np.asarray(node.value)
            self.tensors.append(base64.b64encode(packed(array)).decode())
            return self.node("relay.Constant", {"data": len(self.tensors) - 1})
        if isinstance(node, ast.Operator):
            return self.node("Op", repr_str=node.name)
        if isinstance(node, ast.Tuple):
            fields = self.array([self.expression(field) for field in node.fields])
            return self.node("relay.Tuple", {"fields": fields})
        if isinstance(node, ast.Field):
            attrs = {"tuple_value": self.expression(node.value), "index": node.index}
            return self.node("relay.TupleGetItem", attrs)
        assert isinstance(node, ast.Call) and isinstance(node.callee, ast.Operator), node
        args = self.array([self.expression(arg) for arg in node.args])
        attrs = self.attributes(node, node.callee.name)
        return self.node(
            "relay.Call", {"op": self.expression(node.callee), "args": args, "attrs": attrs}
        )


def _written(value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def saved_json(text: str) -> str:
    """The module of a text, as ``tvm.ir.save_json`` wrote it."""
    writer = Writer()
    main = read_text(text).functions["main"]
    assert isinstance(main, ast.Function)
    params = writer.array([writer.expression(param) for param in main.params])
    body = writer.expression(main.body)
    attrs = {"params": params, "body": body, "ret_type": writer.type(main.result_type), "attrs": 0}
    function = writer.node("relay.Function", attrs)
    name = writer.node("GlobalVar", {"name_hint": writer.string("main")})
    functions = writer.node("Map", data=[name, function])
    root = writer.node("IRModule", {"functions": functions})
    return json.dumps({"root": root, "nodes": writer.nodes, "b64ndarrays": writer.tensors})
