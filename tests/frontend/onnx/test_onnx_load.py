"""ONNX models as Relax: what they compute of shapes is folded, and what cannot be read says so."""

import subprocess
import sys

import numpy as np
import pytest
import tvm
from tvm import relax

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import tvm_stitch  # noqa: E402
from tvm_stitch.errors import InputError, OnnxError  # noqa: E402
from tvm_stitch.frontend.onnx.fold import folded  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(nodes, shape, constants=(), opset=18, result=None):
    """A model of one input `x` that returns `y`."""
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, result)],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    return model


def attention_like(shape):
    """x as heads, softmax along them, and back: what exporters write of `view` and `size`."""
    node = helper.make_node
    return model_of(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["batch"]),
            node("Gather", ["shape", "one"], ["length"]),
            node("Gather", ["shape", "two"], ["width"]),
            node("Div", ["width", "heads"], ["each"]),
            *(
                node("Unsqueeze", [name, "axis"], [f"{name}_1"])
                for name in ("batch", "length", "each")
            ),
            node("Constant", [], ["heads_1"], value_ints=[4]),
            node("Concat", ["batch_1", "length_1", "heads_1", "each_1"], ["apart"], axis=0),
            node("Reshape", ["x", "apart"], ["split"]),
            node("Cast", ["each"], ["each_f"], to=FLOAT),
            node("Sqrt", ["each_f"], ["root"]),
            node("Div", ["split", "root"], ["scaled"]),
            node("Softmax", ["scaled"], ["soft"], axis=-1),
            node("Reshape", ["soft", "shape"], ["y"]),
        ],
        shape,
        [("zero", np.int64(0)), ("one", np.int64(1)), ("two", np.int64(2)),
         ("heads", np.int64(4)), ("axis", np.array([0]))],
        result=shape,
    )  # fmt: skip


def expected(x):
    split = x.reshape(*x.shape[:2], 4, -1) / np.sqrt(x.shape[-1] // 4)
    split = np.exp(split - split.max(-1, keepdims=True))
    return (split / split.sum(-1, keepdims=True)).reshape(x.shape)


def run(mod, *arrays):
    machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    result = machine["main"](*map(tvm.runtime.tensor, arrays))
    return (result if hasattr(result, "numpy") else result[0]).numpy()


def operators(mod):
    return {
        binding.value.op.name
        for block in mod["main"].body.blocks
        for binding in block.bindings
        if hasattr(binding.value, "op")
    }


def test_shapes_are_folded(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(attention_like([2, 3, 16]), path)
    mod = tvm_stitch.onnx.load(path)
    assert operators(mod) <= {"relax.reshape", "relax.divide", "relax.nn.softmax"}
    x = np.random.default_rng(0).standard_normal((2, 3, 16), dtype="float32")
    np.testing.assert_allclose(run(mod, x), expected(x), rtol=1e-5)


def test_dimensions_that_have_names_stay_symbolic():
    mod = tvm_stitch.onnx.load(attention_like(["batch", "length", 16]))
    assert operators(mod) <= {"relax.reshape", "relax.divide", "relax.nn.softmax"}
    assert len({str(dim) for dim in mod["main"].params[0].ty.shape.values}) == 3
    for shape in ((2, 3, 16), (1, 7, 16)):
        x = np.random.default_rng(0).standard_normal(shape, dtype="float32")
        np.testing.assert_allclose(run(mod, x), expected(x), rtol=1e-5)


def test_shapes_that_are_given_hold_wherever_the_name_stands():
    model = attention_like(["batch", "length", 16])
    mod = tvm_stitch.onnx.load(model, shapes={"x": (2, 3, 16)})
    assert [int(dim) for dim in mod["main"].params[0].ty.shape.values] == [2, 3, 16]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_constants_of_every_kind():
    node = helper.make_node
    nodes = [
        node("Constant", [], ["a"], value_float=2.0),
        node("Constant", [], ["b"], value_floats=[1.0, 3.0]),
        node("Constant", [], ["n"], value_int=1),
        node("Cast", ["n"], ["m"], to=FLOAT),
        node("Mul", ["x", "a"], ["p"]),
        node("Add", ["p", "b"], ["q"]),
        node("Sub", ["q", "m"], ["y"]),
    ]
    model = model_of(nodes, [3, 2])
    x = np.ones((3, 2), "float32")
    np.testing.assert_array_equal(run(tvm_stitch.onnx.load(model), x), x * 2 + [1, 3] - 1)


def test_weights_as_parameters():
    weight = np.ones((2, 4), "float32")
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [3, 2], [("w", weight)])
    mod = tvm_stitch.onnx.load(model, keep_params_in_input=True)
    mod, params = relax.frontend.detach_params(mod)
    assert len(mod["main"].params) == 2
    np.testing.assert_array_equal(params["main"][0].numpy(), weight)


def test_large_weights_are_not_computed_with():
    weight = np.ones((300, 300), "float32")
    nodes = [helper.make_node("Neg", ["w"], ["v"]), helper.make_node("MatMul", ["x", "v"], ["y"])]
    model = folded(model_of(nodes, [3, 300], [("w", weight)]))
    assert [each.op_type for each in model.graph.node] == ["Neg", "MatMul"]


def test_what_cannot_be_read_says_why(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        tvm_stitch.onnx.load(tmp_path / "missing.onnx")
    path = tmp_path / "text.onnx"
    for text in ("", "{}", "some text that is no protobuf"):
        path.write_text(text)
        with pytest.raises(OnnxError, match="is not an ONNX model"):
            tvm_stitch.onnx.load(path)
    unknown = model_of([helper.make_node("Det", ["x"], ["y"])], [3, 3])
    with pytest.raises(OnnxError, match=r"not supported.*Det"):
        tvm_stitch.onnx.load(unknown)


def test_shapes_that_do_not_fit_are_refused():
    model = attention_like(["batch", "length", 16])
    for shapes, message in (
        ({"z": (1,)}, "no input 'z'; it has"),
        ({"x": (1, 2)}, "has 3 dimensions, not 2"),
        ({"x": (1, 2, 8)}, "is 16, not 8"),
    ):
        with pytest.raises(InputError, match=message):
            tvm_stitch.onnx.load(model, shapes=shapes)


@pytest.mark.slow
def test_without_onnx_it_says_what_to_install():
    code = (
        "import sys; sys.modules['onnx'] = None\nimport tvm_stitch\n"
        "try: tvm_stitch.onnx\nexcept tvm_stitch.InputError as e: print(e)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tvm-stitch[onnx]'" in found.stdout


def test_nothing_becomes_a_constant_without_elements():
    """TVM cannot load what it saved of one."""
    value = helper.make_tensor("zero", FLOAT, [1], [0.0])
    nodes = [
        helper.make_node("ConstantOfShape", ["none"], ["state"], value=value),
        helper.make_node("Concat", ["state", "x"], ["y"], axis=0),
    ]
    mod = tvm_stitch.onnx.load(model_of(nodes, [3, 2], [("none", np.array([0, 2]))]))
    x = np.ones((3, 2), "float32")
    np.testing.assert_array_equal(run(mod, x), x)
    assert "R.broadcast_to(" in mod["main"].script()


def test_a_shape_that_data_tell():
    node = helper.make_node("Expand", ["x", "to"], ["y"])
    inputs = [
        helper.make_tensor_value_info("x", FLOAT, [3, 1]),
        helper.make_tensor_value_info("to", INT64, [2]),
    ]
    result = helper.make_tensor_value_info("y", FLOAT, None)
    model = helper.make_model(
        helper.make_graph([node], "graph", inputs, [result]),
        opset_imports=[helper.make_opsetid("", 18)],
    )
    model.ir_version = 10
    module = tvm_stitch.onnx.load(model)
    x = np.arange(3, dtype="float32").reshape(3, 1)
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    given = [tvm.runtime.tensor(each) for each in (x, np.array([3, 4]))]
    np.testing.assert_array_equal(machine["main"](*given).numpy(), np.broadcast_to(x, (3, 4)))
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    assert tvm_stitch.verify(module, target, [x, np.array([3, 4])], orders=1).ok


def test_operators_that_the_importer_lacks_are_written_out():
    """ONNX defines them by others: TVM takes this Attention for another, and knows no loss."""
    nodes = [
        helper.make_node("Attention", ["x", "x", "x"], ["mixed"], is_causal=1),
        helper.make_node("Celu", ["mixed"], ["y"], alpha=0.5),
    ]
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype("float32")
    mod = tvm_stitch.onnx.load(model_of(nodes, x.shape, opset=23, result=x.shape))
    scores = x @ x.swapaxes(-1, -2) / np.sqrt(8) + np.triu(np.full((5, 5), -np.inf), 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ x
    wanted = np.maximum(mixed, 0) + np.minimum(0, 0.5 * np.expm1(mixed / 0.5))
    np.testing.assert_allclose(run(mod, x), wanted, rtol=1e-4, atol=1e-5)


def test_functions_of_the_model_are_inlined():
    body = [
        helper.make_node("Add", ["a", "a"], ["twice"]),
        helper.make_node("Celu", ["twice"], ["b"]),
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    model = model_of([helper.make_node("Doubled", ["x"], ["y"], domain="own")], (3,), result=(3,))
    model.opset_import.append(opsets[1])
    model.functions.append(helper.make_function("own", "Doubled", ["a"], ["b"], body, opsets[:1]))
    x = np.array([-1.0, 0.5, 2.0], "float32")
    wanted = np.where(x > 0, 2 * x, np.expm1(2 * x))
    np.testing.assert_allclose(run(tvm_stitch.onnx.load(model), x), wanted, rtol=1e-5)


def test_what_is_no_function_is_refused_by_name():
    """The inliner fails on optional inputs that are left out; the operator's name is what helps."""
    attention = helper.make_node("LinearAttention", ["x", "x", "x", "", "", ""], ["y"])
    newest = onnx.defs.get_schema("LinearAttention").since_version
    cases = [("Det", 18), ("LinearAttention", newest), ("LinearAttention", 18)]
    for name, opset in cases:
        node = attention if name == "LinearAttention" else helper.make_node(name, ["x"], ["y"])
        with pytest.raises(OnnxError, match=f"not supported.*{name}"):
            tvm_stitch.onnx.load(model_of([node], (2, 2), opset=opset, result=()))


def test_every_call_says_which_node_it_comes_from():
    node = helper.make_node
    nodes = [
        node("Add", ["x", "x"], ["twice"], name="/sum/Add"),
        node("Gelu", ["twice"], ["gelu"], name="/act/Gelu"),
        node("Softmax", ["gelu"], ["y"]),  # without a name: that of its result
    ]
    report = tvm_stitch.explain(tvm_stitch.onnx.load(model_of(nodes, [4, 16], opset=20)), "sm_90")
    assert {source.place for source in report.sources} == {"/sum/Add", "/act/Gelu", "y"}
    (soft,) = [source for source in report.sources if source.place == "y"]
    assert "softmax" in soft.text


def test_a_node_that_many_read_is_computed_once():
    node = helper.make_node
    nodes = [node("Exp", ["x"], ["e"]), node("Add", ["e", "e"], ["y"])]
    mod = tvm_stitch.onnx.load(model_of(nodes, [4, 16]))
    (block,) = mod["main"].body.blocks
    calls = [b.value.op.name for b in block.bindings if isinstance(b.value, tvm.ir.Call)]
    assert calls == ["relax.exp", "relax.add"]
