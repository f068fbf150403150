"""Damaged, hostile and unsupported input: each gives an error that says what and where."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from relay.node_graph import Graph, packed
from tvm import relax

from tvm_stitch import relay
from tvm_stitch.errors import RelayError

_SAVED = Path(__file__).parent / "saved"
_X = "%x: Tensor[(2, 3), float32]"


def _main(body: str, params: str = _X, result: str = "") -> str:
    return f'#[version = "0.0.5"]\ndef @main({params}){result} {{\n  {body}\n}}\n'


_WRONG_TEXT = {
    "unknown operator": (_main("no.such(%x)"), r"line 3, column 3.*no\.such is not one of Relay's"),
    "near miss": (_main("nn.sofmax(%x)"), r"did you mean nn\.softmax"),
    "refused operator": (_main("argwhere(%x)"), "argwhere.*depends on the data"),
    "unknown version": (_main("%x").replace("0.0.5", "0.0.9"), "version 0.0.9 is unknown"),
    "wrong type": (_main("exp(%x)", result=" -> Tensor[(3, 2), float32]"), "but it is Tensor"),
    "wrong dtype": (_main("add(%x, 1)"), "dtypes float32 and int32"),
    "shapes that do not fit": (_main("add(%x, %y)", _X + ", %y: Tensor[(4), float32]"), "in @main"),
    "unknown attribute": (_main("nn.softmax(%x, axes=1)"), "attribute axes=1 is not known here"),
    "attribute of a wrong type": (_main('nn.softmax(%x, axis="a")'), "axis should be an integer"),
    "axis out of range": (_main("nn.softmax(%x, axis=2)"), "axis 2 is outside"),
    "too few arguments": (_main("add(%x)"), "needs 2 arguments, has 1"),
    "undefined variable": (_main("exp(%y)"), "line 3, column 7: %y is not defined"),
    "undefined function": (_main("@f(%x)"), "there is no function @f"),
    "no type": (_main("exp(%x)", "%x"), "parameter %x.*its type is not written"),
    "field of a tensor": (_main("%x.0"), "a tuple is needed here"),
    "field out of range": (_main("%0 = (%x, %x);\n  %0.2"), "2 fields only"),
    "not a condition": (_main("if (%x) { %x } else { %x }"), "must be a bool scalar"),
    "cut off": (_main("exp(%x)")[:-4], "expected"),
    "never closed": (_main("/* exp(%x)"), "never closed"),
    "stray character": (_main("exp(%x) $"), r"line 3.*\$ is no part"),
    "open string": (_main('cast(%x, dtype="float32)'), "never closed"),
    "not a number": (_main("add(%x, 1.5i32)"), "expected a number"),
    "number too large": (_main("(%x, 300u8)"), "300u8 does not fit uint8"),
    "missing constant": (_main("add(%x, meta[relay.Constant][0])"), "not in the metadata section"),
    "defined twice": (_main("%x") + "def @main() { 1 }", "@main is defined twice"),
    "no function": ('#[version = "0.0.5"]\n', "no function"),
    "algebraic data type": (
        _main("Cons(%x)").replace("def", "type List[A] { Nil, Cons(A) }\ndef"),
        "line 4, column 3.*Cons constructs an algebraic data type",
    ),
    "match": (_main("match (%x) { Nil => %x }"), "match has no Relax counterpart"),
    "type of an algebraic data type": (_main("%x", "%x: List[int32]"), "'List' has no Relax"),
    "operator as value": (_main("add"), "named but not called"),
    "unknown dtype": (_main("%x", "%x: Tensor[(2), float99]"), "dtype float99 is unknown"),
    "closure in a tuple": (_main("(%x, fn (%a: float32) { %a })"), "used as a value"),
}


@pytest.mark.parametrize("name", _WRONG_TEXT)
def test_wrong_text(name):
    text, message = _WRONG_TEXT[name]
    with pytest.raises(RelayError, match=f"(?s){message}") as caught:
        relay.load(text)
    assert "Traceback" not in str(caught.value) and "/src/" not in str(caught.value)


def test_recursion_between_functions():
    text = (
        '#[version = "0.0.5"]\ndef @main(%x: float32) { @f(%x) }\n'
        "def @f(%x: float32) { @g(%x) }\ndef @g(%x: float32) { @f(%x) }\n"
    )
    with pytest.raises(RelayError, match=r"recursion \(@f → @g → @f\)"):
        relay.load(text)


def test_recursion_of_a_function_literal():
    body = "let %f = fn (%a: Tensor[(2, 3), float32]) { %f(%a) };\n  %f(%x)"
    with pytest.raises(RelayError, match="recursion: %f calls itself"):
        relay.load(_main(body))


@pytest.mark.slow
def test_recursion_of_a_function_literal_in_json():
    graph = Graph()
    kind = graph.tensor_type([2])
    f, a, x = graph.var("f", 0), graph.var("a", kind), graph.var("x", kind)
    again = graph.node("relay.Call", op=f, args=graph.array(a), attrs=0)
    first = graph.node("relay.Call", op=f, args=graph.array(x), attrs=0)
    body = graph.node("relay.Let", var=f, value=graph.function([a], again), body=first)
    with pytest.raises(RelayError, match=r"calls itself|depends on itself"):
        relay.load(graph.module(main=graph.function([x], body)))


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_truncated_json(part):
    text = (_SAVED / "transformer.json").read_text()
    with pytest.raises(RelayError, match=r"line \d+, column \d+.*truncated or damaged"):
        relay.load(text[: int(len(text) * part)])


def test_every_truncation_of_a_text_is_an_error():
    text = (_SAVED / "movement.relay").read_text()
    for size in range(25, len(text) - 10, 97):
        with pytest.raises(RelayError):
            relay.load(text[:size])


@pytest.mark.slow
def test_damaged_nodes():
    """Whatever one node is replaced by, the answer is a module or a RelayError."""
    document = json.loads((_SAVED / "elementwise_zoo.json").read_text())
    modules = errors = 0
    for index in range(1, len(document["nodes"]), 3):
        kept = document["nodes"][index]
        for damage in (
            {},
            None,
            7,
            {"type_key": "relay.Call", "attrs": {"op": "x"}},
            {"type_key": "Array", "data": [99999]},
            {"type_key": "relay.Match"},
        ):
            document["nodes"][index] = damage
            try:
                module = relay.load(json.dumps(document))
            except RelayError as error:
                assert str(error)
                errors += 1
            else:
                relax.analysis.well_formed(module)
                modules += 1
        document["nodes"][index] = kept
    assert errors > modules > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "not a graph of nodes"),
        ('{"root": 5, "nodes": []}', "node 5, which is not among"),
        ('{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Array"}]}', "holds a Array"),
        ("[" * 200_000, "neither"),
        ('{"a":' + "[" * 200_000, "nested this deep"),
        ("hello\nworld", "neither tvm.ir.save_json's JSON"),
        ("no-such-file.json", "cannot be read"),
        (b"\x7fELF\xff\xfe", "is not text"),
        (7, "is a path, a text or bytes"),
    ],
)
def test_not_a_module(text, message):
    with pytest.raises(RelayError, match=message):
        relay.load(text)


def test_a_node_that_contains_itself():
    graph = Graph()
    x = graph.var("x", graph.tensor_type([2]))
    call = graph.call("exp", x)
    graph.nodes[graph.nodes[call]["attrs"] and int(graph.nodes[call]["attrs"]["args"])]["data"] = [
        call
    ]
    with pytest.raises(RelayError, match="part of itself"):
        relay.load(graph.module(main=graph.function([x], call)))


def test_a_tensor_that_lies_about_its_size():
    graph = Graph()
    x = graph.var("x", graph.tensor_type([2]))
    body = graph.call("add", x, graph.constant(np.ones(2, "float32")))
    text = graph.module(main=graph.function([x], body))
    import base64

    good = packed(np.ones(2, "float32"))
    huge = good[:28] + (2**40).to_bytes(8, "little") + good[36:]
    for bad in (good[:-3], good[:20], b"\0" * 64, huge):
        damaged = text.replace(base64.b64encode(good).decode(), base64.b64encode(bad).decode())
        with pytest.raises(RelayError, match="tensor 0"):
            relay.load(damaged)


def test_nothing_is_executed(tmp_path):
    marker = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    for text in (
        _main(f'cast(%x, dtype="{code}")'),
        _main(f"exp(%x, {code})"),
        f'#[version = "{code}"]',
        json.dumps({"root": code, "nodes": [{"type_key": code}]}),
    ):
        with pytest.raises(RelayError):
            relay.load(text)
    assert not marker.exists()


@pytest.mark.slow
def test_functions_that_double_are_bounded():
    """Thirty function literals, each calling the one before twice, would be 2**30 operators."""
    lets = "let %f0 = fn (%a: float32) { exp(%a) };\n"
    for i in range(30):
        inner = f"%f{i}(%f{i}(%a))"
        lets += f"  let %f{i + 1} = fn (%a: float32) {{ {inner} }};\n"
    start = time.perf_counter()
    with pytest.raises(RelayError, match="expand to more than"):
        relay.load(_main(lets + "  %f30(%x)", "%x: float32"))
    assert time.perf_counter() - start < 60


def test_ifs_nested_too_deep():
    """Relax nests branches, so their depth is bounded by TVM; the answer is an error, no crash."""
    depth = 3000
    body = "if (%c) { " * depth + "%x" + " } else { %x }" * depth
    with pytest.raises(RelayError, match="branches are nested too deep"):
        relay.load(_main(body, _X + ", %c: bool"))
    body = "if (%c) { " * 50 + "%x" + " } else { %x }" * 50
    assert relay.load(_main(body, _X + ", %c: bool"))["main"]


@pytest.mark.slow
def test_a_text_with_200_megabytes_of_metadata():
    graph = Graph()
    weights = np.ones((7240, 7240), "float32")
    entries = graph.array(graph.constant(weights))
    root = graph.node("Map", keys=["relay.Constant"], data=[entries])
    text = _main("nn.dense(%x, meta[relay.Constant][0])", "%x: Tensor[(1, 7240), float32]")
    text += "\n#[metadata]\n" + graph.text(root)
    start = time.perf_counter()
    assert relay.load(text)["main"]
    assert time.perf_counter() - start < 30


@pytest.mark.slow
def test_a_constant_section_of_200_megabytes():
    """Loading is linear in its size, and takes seconds."""
    graph = Graph()
    side = 7240
    weights = np.ones((side, side), "float32")
    x = graph.var("x", graph.tensor_type([1, side]))
    text = graph.module(
        main=graph.function([x], graph.call("nn.dense", x, graph.constant(weights)))
    )
    assert weights.nbytes > 200_000_000
    start = time.perf_counter()
    mod = relay.load(text)
    assert time.perf_counter() - start < 30
    assert "R.matmul" in mod.script(show_meta=False)
