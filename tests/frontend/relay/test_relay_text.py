"""The language of Relay's text format: what is read, and what it means."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from relay.case import Random, agrees, case, check, run, write

from tvm_stitch import relay
from tvm_stitch.errors import RelayError

_X = np.arange(6, dtype="float32").reshape(2, 3)
_VERSION = '#[version = "0.0.5"]\n'


def _main(body: str, params: str = "%x: Tensor[(2, 3), float32]") -> str:
    return f"{_VERSION}def @main({params}) {{\n  {body}\n}}\n"


def _value(text: str, *inputs) -> np.ndarray:
    (output,) = run(relay.load(text), inputs or [_X])
    return output


def test_let_binds_in_order():
    body = "let %a = add(%x, 1f);\n  let %a = multiply(%a, 2f);\n  subtract(%a, %x)"
    check(case(body, (_X + 1) * 2 - _X, x=_X))


def test_graph_bindings_are_shared():
    mod = relay.load(_main("%0 = exp(%x);\n  %1 = add(%0, %0);\n  multiply(%1, %0)"))
    assert mod.script().count("R.exp") == 1


def test_infix_operators_bind_as_usual():
    check(case("%x + %x * 2f - %x / 4f", _X + _X * 2 - _X / 4, x=_X))
    check(case("(%x + 1f) * 2f > %x * 3f", (_X + 1) * 2 > _X * 3, x=_X))
    check(case("%x + 0f == %x", np.ones((2, 3), bool), x=_X))


def test_spaces_do_not_matter():
    text = '#[version="0.0.5"]def@main(%x:Tensor[(2,3),float32]){%0=%x/2f;%0+%x*%x}'
    np.testing.assert_allclose(_value(text), _X / 2 + _X * _X)


def test_tuples_nest():
    body = "%0 = ((%x, exp(%x)), negative(%x));\n  %1 = %0.0;\n  add(%1.1, %0.1)"
    check(case(body, np.exp(_X) - _X, x=_X))


def test_a_field_of_a_literal_tuple():
    check(case("(%x, exp(%x)).1", np.exp(_X), x=_X))


def test_nested_tuples_as_result():
    check(case("(%x, (exp(%x), %x))", _X, np.exp(_X), _X, x=_X))


def test_tuple_as_parameter():
    params = "%t: (Tensor[(2, 3), float32], Tensor[(3), float32])"
    mod = relay.load(_main("add(%t.0, %t.1)", params))
    machine = tvm.relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    pair = tuple(tvm.runtime.tensor(a) for a in (_X, _X[0]))
    np.testing.assert_allclose(machine["main"](pair).numpy(), _X + _X[0])


@pytest.mark.parametrize("choice", [True, False])
def test_if_runs_one_branch(choice):
    body = (
        "%0 = exp(%x);\n  %1 = if (%c) { add(%0, %x) } else { %2 = sin(%x); multiply(%2, %0) };\n"
    )
    body += "  subtract(%1, %0)"
    e = np.exp(_X)
    want = (e + _X if choice else np.sin(_X) * e) - e
    check(case(body, want, x=_X, c=np.array(choice)))


def test_what_both_branches_use_is_bound_once_outside():
    body = "%0 = exp(%x);\n  if (%c) { add(%0, %x) } else { multiply(%0, %x) }"
    script = relay.load(_main(body, "%x: Tensor[(2, 3), float32], %c: bool")).script()
    assert script.index("R.exp") < script.index("if c")
    assert script.count("R.exp") == 1


def test_ifs_nest():
    body = (
        "if (%c) { if (%d) { %x } else { exp(%x) } } else { if (%d) { sin(%x) } else { cos(%x) } }"
    )
    for c in (True, False):
        for d in (True, False):
            want = (_X if d else np.exp(_X)) if c else (np.sin(_X) if d else np.cos(_X))
            check(case(body, want, x=_X, c=np.array(c), d=np.array(d)))


def test_condition_may_be_computed():
    body = "%0 = max(%x, axis=None);\n  %1 = greater(%0, 3f);\n  if (%1) { %x } else { exp(%x) }"
    check(case(body, _X, x=_X))


def test_global_functions_call_each_other():
    text = _VERSION + (
        "def @twice(%a: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] { add(%a, %a) }\n"
        "def @four(%a: Tensor[(2, 3), float32]) { %0 = @twice(%a); @twice(%0) }\n"
        "def @main(%x: Tensor[(2, 3), float32]) { %0 = @four(%x); add(%0, @twice(%x)) }\n"
    )
    np.testing.assert_allclose(_value(text), _X * 6)


def test_functions_that_main_does_not_need_are_left_out():
    text = _VERSION + "def @other(%a: float32) { no.such.operator(%a) }\n"
    mod = relay.load(text + "def @main(%x: float32) { exp(%x) }\n")
    assert [gvar.name_hint for gvar in mod.functions] == ["main"]


_PRELUDE = (
    _VERSION
    + "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}\n"
    + "def @id[A](%x: A) -> A { %x }\n"
    + "def @hd(%l: List[float32]) -> float32 { match (%l) { Cons(%h, _) => %h } }\n"
)


def test_a_prelude_of_data_types_does_not_matter_to_a_model():
    """Importers for PyTorch and TensorFlow put one into every module."""
    text = _PRELUDE + "def @main(%x: Tensor[(2, 3), float32]) { exp(%x) }\n"
    np.testing.assert_allclose(_value(text), np.exp(_X), rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("@hd(%x)", "@hd: .*line 7.*'List' has no Relax counterpart"),
        ("@id(%x)", "@id: .*type parameters have no Relax counterpart"),
        ("Cons(%x, %x)", "Cons constructs an algebraic data type"),
    ],
)
def test_a_prelude_that_is_used_is_refused(body, message):
    with pytest.raises(RelayError, match=message):
        relay.load(_PRELUDE + f"def @main(%x: float32) {{ {body} }}\n")


def test_equal_functions_keep_their_names():
    text = _VERSION + "def @f(%x: float32) { exp(%x) }\ndef @exp(%x: float32) { exp(%x) }\n"
    names = {gvar.name_hint for gvar in relay.load(text).functions}
    assert {"f", "exp"} <= names


def test_function_literals_are_inlined_with_fresh_names():
    body = (
        "let %f = fn (%a: Tensor[(2, 3), float32]) { let %t = exp(%a); add(%t, %x) };\n"
        "  %0 = %f(%x);\n  %1 = %f(%0);\n  add(%0, %1)"
    )
    first = np.exp(_X / 4) + _X / 4
    check(case(body, first + np.exp(first) + _X / 4, x=_X / 4))


def test_primitive_functions_of_a_fused_module():
    body = (
        '%2 = fn (%p0: Tensor[(2, 3), float32], Primitive=1, hash="a1") -> '
        "Tensor[(2, 3), float32] {\n    %0 = exp(%p0);\n    add(%0, 1f)\n  };\n  %2(%x)"
    )
    check(case(body, np.exp(_X) + 1, x=_X))


def test_function_as_argument():
    body = (
        "let %apply = fn (%f: fn (float32) -> float32, %a: Tensor[(2, 3), float32]) { %f(%a) };\n"
        "  let %e = fn (%a: Tensor[(2, 3), float32]) { exp(%a) };\n  %apply(%e, %x)"
    )
    check(case(body, np.exp(_X), x=_X))


def test_comments_nest_and_do_not_matter():
    body = "/* a /* b */ c */ exp(%x) // to the end\n"
    check(case(body, np.exp(_X), x=_X))


def test_names_may_hold_dots_and_digits():
    text = _main(
        "add(%layer1.0.weight, %x.0)",
        "%layer1.0.weight: Tensor[(2, 3), float32], %x: (Tensor[(2, 3), float32],)",
    )
    assert relay.load(text)["main"].params[0].name == "layer1.0.weight"


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1f", np.float32(1)),
        ("-2.5f", np.float32(-2.5)),
        ("1e-05f", np.float32(1e-5)),
        ("2", np.int32(2)),
        ("-3i64", np.int64(-3)),
        ("7i8", np.int8(7)),
        ("200u8", np.uint8(200)),
        ("0.5f16", np.float16(0.5)),
        ("1.25f64", np.float64(1.25)),
        ("True", np.bool_(True)),
        ("inff", np.float32(np.inf)),
        ("-inff", np.float32(-np.inf)),
        ("nanf", np.float32(np.nan)),
    ],
)
def test_scalars(literal, value):
    outputs = run(relay.load(_main(f"(%x, {literal})")), [_X])
    assert outputs[1].dtype == value.dtype
    np.testing.assert_array_equal(outputs[1], value)


def test_bfloat16():
    text = _main("exp(%x)", "%x: Tensor[(2, 3), bfloat16]")
    assert 'dtype="bfloat16"' in relay.load(text).script()


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("0.707107f", np.float32(np.sqrt(0.5))),
        ("0.333333f", np.float32(1 / 3)),
        ("0.797885f", np.float32(np.sqrt(2 / np.pi))),
        ("3.14159f", np.float32(np.pi)),
        ("0.25f", np.float32(0.25)),
        ("0.123457f", np.float32(0.123457)),
        ("-0.707107f", np.float32(-np.sqrt(0.5))),
    ],
)
def test_digits_that_printing_lost_are_restored(printed, value):
    outputs = run(relay.load(_main(f"(%x, {printed})")), [_X])
    assert outputs[1] == value


def test_metadata_constants(tmp_path):
    text = _main("add(%x, meta[relay.Constant][0])") + _metadata([1.0, 2.0, 4.0])
    np.testing.assert_allclose(_value(text), _X + np.array([1, 2, 4]))


def _metadata(values) -> str:
    import base64
    import struct

    data = np.asarray(values, "float32")
    raw = struct.pack(
        "<QQiiiBBHqq", 0xDD5E40F096B4A13F, 0, 1, 0, 1, 2, 32, 1, data.size, data.nbytes
    )
    encoded = base64.b64encode(raw + data.tobytes()).decode()
    return (
        '\n#[metadata]\n{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Map", "keys": '
        '["relay.Constant"], "data": [2]}, {"type_key": "Array", "data": [3]}, {"type_key": '
        '"relay.Constant", "attrs": {"_checked_type_": "0", "data": "0", "span": "0"}}], '
        f'"b64ndarrays": ["{encoded}"], "attrs": {{"tvm_version": "0.8.0"}}}}\n'
    )


# Symbolic dimensions


def test_symbolic_dimension_runs_at_any_size():
    text = _main("nn.softmax(%x)", "%x: Tensor[(?, 3), float32]")
    for rows in (1, 5):
        x = Random(rows).floats((rows, 3))
        e = np.exp(x)
        np.testing.assert_allclose(_value(text, x), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_symbolic_dimension_through_reshape_and_dense():
    body = "%0 = reshape(%x, newshape=[-1, 12]);\n  nn.dense(%0, %w)"
    text = _main(body, "%x: Tensor[(?, 3, 4), float32], %w: Tensor[(5, 12), float32]")
    x, w = Random(0).floats((2, 3, 4)), Random(1).floats((5, 12))
    np.testing.assert_allclose(_value(text, x, w), x.reshape(2, 12) @ w.T, rtol=1e-5)


def test_two_symbolic_dimensions_are_checked_to_agree():
    params = "%x: Tensor[(?, 3), float32], %y: Tensor[(?, 3), float32]"
    mod = relay.load(_main("add(%x, %y)", params))
    a, b = Random(0).floats((4, 3)), Random(1).floats((4, 3))
    np.testing.assert_allclose(run(mod, [a, b])[0], a + b)
    with pytest.raises(Exception, match=r"(?i)match|shape|dim"):
        run(mod, [a, b[:2]])


def test_shapes_computed_from_a_symbolic_dimension():
    body = (
        '%0 = shape_of(%x, dtype="int64");\n  %1 = take(%0, 0i64);\n'
        "  %2 = (%1, -1i64);\n  %3 = stack(%2);\n  dyn.reshape(%x, %3)"
    )
    text = _main(body, "%x: Tensor[(?, 3, 4), float32]")
    x = Random(0).floats((2, 3, 4))
    np.testing.assert_allclose(_value(text, x), x.reshape(2, 12))


@pytest.mark.parametrize(("mode", "extent"), [("clip", 2), ("wrap", 4)])
def test_known_values_follow_the_mode_of_take(mode, extent):
    """An index of -1 is clipped to 0, or wraps to the last."""
    body = (
        f'%0 = shape_of(%x, dtype="int64");\n  %1 = take(%0, -1i64, mode="{mode}");\n'
        "  %2 = (%1, -1i64);\n  %3 = stack(%2);\n  dyn.reshape(%x, %3)"
    )
    x = Random(0).floats((2, 3, 4))
    value = _value(_main(body, "%x: Tensor[(2, 3, 4), float32]"), x)
    np.testing.assert_allclose(value, x.reshape(extent, -1))


def test_shape_of_a_symbolic_tensor_is_a_value_too():
    text = _main('shape_of(%x, dtype="int64")', "%x: Tensor[(?, 3), float32]")
    np.testing.assert_array_equal(_value(text, Random(0).floats((7, 3))), [7, 3])


# Depth


@pytest.mark.slow
def test_ten_thousand_lets():
    lets = "".join(f"  let %v{i + 1} = add(%v{i}, 1f);\n" for i in range(10_000))
    text = _main(lets + "  %v10000", "%v0: Tensor[(2), float32]")
    block = relay.load(text)["main"].body.blocks[0]
    assert len(block.bindings) >= 10_000


@pytest.mark.slow
def test_ten_thousand_nested_lets_and_calls():
    deep = "%x"
    nested = "add(" * 10_000 + deep + ", 1f)" * 10_000
    assert len(relay.load(_main(nested))["main"].body.blocks[0].bindings) >= 10_000
    parentheses = "(" * 10_000 + "exp(%x)" + ")" * 10_000
    np.testing.assert_allclose(_value(_main(parentheses)), np.exp(_X), rtol=1e-6)


def test_nothing_else_than_the_text_decides():
    text = write(case("exp(%x)", _X, x=_X))
    assert tvm_ffi.structural_equal(relay.load(text), relay.load(text))
    assert not agrees(case("exp(%x)", np.exp(_X), x=_X), run(relay.load(text), [_X]))
