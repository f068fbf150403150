"""What ``tvm.ir.save_json`` wrote, in its generations, and parameter files."""

import base64
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi
from relay.case import run
from relay.node_graph import Graph, parameter_file

from tvm_stitch import relay
from tvm_stitch.errors import RelayError

_SAVED = Path(__file__).parent / "saved"


def _exp(shape=(2, 3)) -> tuple[Graph, int]:
    graph = Graph()
    x = graph.var("x", graph.tensor_type(shape))
    return graph, graph.function([x], graph.call("exp", x))


def _downgraded(text: str) -> str:
    """A file of 0.19 as 0.8 would have written it."""
    document = json.loads(text)
    nodes = document["nodes"]
    for node in nodes:
        kind, attrs = node["type_key"], node.get("attrs", {})
        attrs.pop("virtual_device_", None)
        attrs.pop("struct_info_", None)
        if kind == "Op":
            node["global_key"] = node.pop("repr_str")
        if kind == "runtime.BoxInt":
            node["type_key"] = "IntImm"
            node["attrs"] = {"dtype": "int32", "span": "0", "value": node.pop("repr_str")}
        if kind == "IRModule":
            for field in ("attrs", "global_infos"):
                attrs.pop(field, None)
        for field in ("mode", "layout", "data_layout", "kernel_layout", "pad_mode", "slice_mode"):
            target = attrs.get(field, "")
            if target.isdigit():
                attrs[field] = nodes[int(target)].get("repr_str", "")
    document["attrs"]["tvm_version"] = "0.8.0"
    return json.dumps(document)


@pytest.mark.parametrize("name", ["convolutions", "elementwise_zoo", "movement", "transformer"])
def test_older_files_mean_the_same(name):
    text = (_SAVED / f"{name}.json").read_text()
    assert tvm_ffi.structural_equal(relay.load(text), relay.load(_downgraded(text)))


def test_a_bare_function():
    graph, function = _exp()
    assert "R.exp" in relay.load(graph.text(function)).script()


def test_symbolic_dimension():
    graph, function = _exp((None, 3))
    x = np.ones((4, 3), "float32")
    np.testing.assert_allclose(run(relay.load(graph.module(main=function)), [x])[0], np.exp(x))


@pytest.mark.parametrize(
    ("array", "how"),
    [
        (np.array([1, 0, 1], bool), {}),
        (np.array([1, 0, 1], bool), {"code": 6, "bits": 8}),
        (np.array([1, -2], "int64"), {}),
        (np.array(1.5, "float64"), {}),
        (np.array([[1, 2], [3, 4]], "uint8"), {}),
        (np.zeros((0, 3), "float32"), {}),
    ],
)
def test_constants_of_every_kind(array, how):
    graph = Graph()
    x = graph.var("x", graph.tensor_type([1]))
    both = graph.node("relay.Tuple", fields=graph.array(x, graph.constant(array, **how)))
    outputs = run(relay.load(graph.module(main=graph.function([x], both))), [np.ones(1, "float32")])
    assert outputs[1].dtype == array.dtype
    np.testing.assert_array_equal(outputs[1], array)


def test_let_if_and_global_calls():
    graph = Graph()
    kind = graph.tensor_type([2])
    a, x, t = graph.var("a", kind), graph.var("x", kind), graph.var("t", kind)
    c = graph.var("c", graph.tensor_type([], "bool"))
    helper = graph.function([a], graph.call("exp", a))
    callee = graph.node("GlobalVar", name_hint=graph.node("runtime.String", repr_str="helper"))
    value = graph.node("relay.Call", op=callee, args=graph.array(x), attrs=0)
    choice = graph.node("relay.If", cond=c, true_branch=t, false_branch=graph.call("sin", t))
    body = graph.node("relay.Let", var=t, value=value, body=choice)
    mod = relay.load(graph.module(main=graph.function([x, c], body), helper=helper))
    data = np.ones(2, "float32")
    for choice_value, want in ((True, np.exp(data)), (False, np.sin(np.exp(data)))):
        (have,) = run(mod, [data, np.array(choice_value)])
        np.testing.assert_allclose(have, want, rtol=1e-6)


def test_names_in_base64():
    graph = Graph()
    raw = "größe".encode()
    encoded = base64.b64encode(struct.pack("<Q", len(raw)) + raw).decode()
    identity = graph.node("relay.Id", name_hint=graph.node("runtime.String", repr_b64=encoded))
    x = graph.node("relay.Var", vid=identity, type_annotation=graph.tensor_type([2]))
    mod = relay.load(graph.module(main=graph.function([x], graph.call("exp", x))))
    assert mod["main"].params[0].name == "größe"


def test_recorded_types_are_compared():
    graph = Graph()
    x = graph.var("x", graph.tensor_type([2, 3]))
    callee, wrong = graph.node("Op", repr_str="exp"), graph.tensor_type([3, 2])
    call = graph.node("relay.Call", op=callee, args=graph.array(x), attrs=0, _checked_type_=wrong)
    with pytest.raises(RelayError, match=r"result is Tensor\[\(3, 2\), float32\], but it is"):
        relay.load(graph.module(main=graph.function([x], call)))


@pytest.mark.slow
def test_ten_thousand_lets():
    graph = Graph()
    kind = graph.tensor_type([2])
    variables = [graph.var(f"v{i}", kind) for i in range(10_001)]
    body = variables[-1]
    for i in reversed(range(10_000)):
        value = graph.call("exp", variables[i])
        body = graph.node("relay.Let", var=variables[i + 1], value=value, body=body)
    mod = relay.load(graph.module(main=graph.function([variables[0]], body)))
    assert len(mod["main"].body.blocks[0].bindings) >= 10_000


# Parameters


def _dense_text() -> str:
    return (
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 3), float32], '
        "%w: Tensor[(4, 3), float32]) { nn.dense(%x, %w) }\n"
    )


@pytest.mark.parametrize("kind", ["mapping", "bytes", "path"])
def test_parameters_become_constants(kind, tmp_path):
    w = np.arange(12, dtype="float32").reshape(4, 3)
    data = parameter_file({"w": w, "unused": np.ones(2, "float32")})
    (tmp_path / "net.params").write_bytes(data)
    given = {"mapping": {"w": w}, "bytes": data, "path": tmp_path / "net.params"}[kind]
    mod = relay.load(_dense_text(), given)
    assert [p.name for p in mod["main"].params] == ["x"]
    x = np.ones((2, 3), "float32")
    np.testing.assert_allclose(run(mod, [x])[0], x @ w.T)


def test_bound_parameters_are_known_values():
    text = (
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 3), float32], %s: Tensor[(1), int64]) '
        "{ dyn.reshape(%x, %s) }\n"
    )
    mod = relay.load(text, {"s": np.array([6], "int64")})
    assert run(mod, [np.ones((2, 3), "float32")])[0].shape == (6,)
    with pytest.raises(RelayError, match="the new shape is computed from the model's inputs"):
        relay.load(text)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"w": np.ones((3, 4), "float32")}, r"parameter w is a float32 array of shape \[3, 4\]"),
        ({"w": np.ones((4, 3), "float64")}, "parameter w is a float64 array"),
        ({"weight": np.ones((4, 3), "float32")}, "none of the 1 given parameters"),
        ({"w": "four"}, "parameter w is not an array"),
        (b"not a parameter file at all", "not a parameter file"),
        (b"", "not a parameter file"),
        (3, "params must be a mapping"),
    ],
)
def test_wrong_parameters(params, message):
    with pytest.raises(RelayError, match=message):
        relay.load(_dense_text(), params)


def test_truncated_parameter_file():
    data = parameter_file({"w": np.ones((4, 3), "float32")})
    for size in range(16, len(data) - 1, 7):
        with pytest.raises(RelayError, match=r"truncated|damaged|begin"):
            relay.load(_dense_text(), data[:size])
