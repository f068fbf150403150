"""Writes what ``tvm.ir.save_json`` and ``relay.save_param_dict`` wrote: nodes, arrays."""

import base64
import json
import struct

import numpy as np


def packed(array: np.ndarray, code: int | None = None, bits: int | None = None) -> bytes:
    """An array as ``NDArray::Save`` wrote it."""
    codes = {"i": 0, "u": 1, "f": 2, "b": 1}
    code = codes[array.dtype.kind] if code is None else code
    bits = (1 if array.dtype.kind == "b" else array.itemsize * 8) if bits is None else bits
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim, code, bits, 1)
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    return head + shape + struct.pack("<q", array.nbytes) + array.tobytes()


def parameter_file(arrays: dict[str, np.ndarray]) -> bytes:
    """Arrays as ``relay.save_param_dict`` wrote them."""
    names = b"".join(struct.pack("<Q", len(n)) + n.encode() for n in arrays)
    tensors = b"".join(packed(a) for a in arrays.values())
    count = struct.pack("<Q", len(arrays))
    return struct.pack("<QQ", 0xF7E58D4F05049CB7, 0) + count + names + count + tensors


class Graph:
    """Writes a graph of nodes."""

    def __init__(self) -> None:
        self.nodes: list[dict] = [{"type_key": ""}]
        self.tensors: list[str] = []

    def node(self, kind: str, **fields) -> int:
        node: dict = {"type_key": kind}
        for key in ("data", "keys", "repr_str", "repr_b64", "global_key"):
            if key in fields:
                node[key] = fields.pop(key)
        if fields:
            node["attrs"] = {key: str(value) for key, value in fields.items()}
        self.nodes.append(node)
        return len(self.nodes) - 1

    def integer(self, value: int) -> int:
        return self.node("IntImm", dtype="int32", value=value)

    def array(self, *items: int) -> int:
        return self.node("Array", data=list(items))

    def tensor_type(self, shape, dtype="float32") -> int:
        dims = [self.node("Any") if n is None else self.integer(n) for n in shape]
        return self.node("relay.TensorType", dtype=dtype, shape=self.array(*dims))

    def var(self, name: str, kind: int) -> int:
        identity = self.node("relay.Id", name_hint=self.node("runtime.String", repr_str=name))
        return self.node("relay.Var", vid=identity, type_annotation=kind)

    def call(self, operator: str, *args: int, attrs: int = 0) -> int:
        callee = self.node("Op", repr_str=operator)
        return self.node("relay.Call", op=callee, args=self.array(*args), attrs=attrs)

    def constant(self, array: np.ndarray, **how) -> int:
        self.tensors.append(base64.b64encode(packed(array, **how)).decode())
        return self.node("relay.Constant", data=len(self.tensors) - 1)

    def function(self, params: list[int], body: int) -> int:
        return self.node("relay.Function", params=self.array(*params), body=body, attrs=0)

    def module(self, **functions: int) -> str:
        names = [
            self.node("GlobalVar", name_hint=self.node("runtime.String", repr_str=name))
            for name in functions
        ]
        pairs = [n for pair in zip(names, functions.values(), strict=True) for n in pair]
        return self.text(self.node("IRModule", functions=self.node("Map", data=pairs)))

    def text(self, root: int) -> str:
        return json.dumps({"root": root, "nodes": self.nodes, "b64ndarrays": self.tensors})
