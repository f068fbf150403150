"""The float64 reference, held against NumPy and math, and refusing what it cannot do."""

from __future__ import annotations

import ast
import math
import pathlib

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op
from tvm.relax.op import nn
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from typed import module, normal

import tvm_stitch.reference
from tvm_stitch.errors import InputError
from tvm_stitch.reference import in_float64, reference


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "negative": np.negative,
    "round": np.round,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}


def operands(name):
    """Arguments of all magnitudes where the function is defined."""
    x = np.concatenate([normal(200) * scale for scale in (1e-9, 1e-3, 1.0, 20.0)])
    if name in ("acos", "asin", "atanh"):
        return x[np.abs(x) < 1]
    if name in ("log", "rsqrt", "sqrt"):
        return np.abs(x)
    return np.abs(x) + 1 if name == "acosh" else x


@pytest.mark.parametrize("name", UNARY)
def test_functions_are_double_precision(name):
    x = operands(name)
    (actual,) = reference(module(getattr(op, name), (x.shape, "float64")), [x])
    np.testing.assert_allclose(actual, UNARY[name](x), rtol=1e-13, atol=0)


BINARY = {
    "power": (lambda x, y: op.power(op.abs(x), y), lambda x, y: np.abs(x) ** y),
    "atan2": (op.atan2, np.arctan2),
    "divide": (op.divide, np.divide),
    "log_add_exp": (op.log_add_exp, np.logaddexp),
    "subtract": (op.subtract, np.subtract),
    "maximum": (op.maximum, np.maximum),
}


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arguments_are_double_precision(name):
    build, meaning = BINARY[name]
    x, y = normal((400,)) * 3, normal((400,), seed=1) * 3
    (actual,) = reference(module(build, ((400,), "float32"), ((400,), "float32")), [x, y])
    np.testing.assert_allclose(actual, meaning(x, y), rtol=1e-13)


def standardized(x, axes):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


IMAGE, VECTOR = (2, 6, 5, 7), (6,)
COMPOUND = {
    "softmax": (nn.softmax, softmax, [(4, 33)]),
    "log_softmax": (nn.log_softmax, lambda x: np.log(softmax(x)), [(4, 33)]),
    "gelu": (nn.gelu, lambda x: x * (0.5 + 0.5 * UNARY["erf"](x / math.sqrt(2))), [(4, 33)]),
    "gelu_tanh": (
        nn.gelu_tanh,
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        [(4, 33)],
    ),
    "silu": (nn.silu, lambda x: x * sigmoid(x), [(4, 33)]),
    "layer_norm": (
        lambda x, g, b: nn.layer_norm(x, g, b, axes=[-1]),
        lambda x, g, b: standardized(x, -1) * g + b,
        [(4, 33), (33,), (33,)],
    ),
    "layer_norm_transposed": (
        lambda x, g, b: nn.layer_norm(x, g, b, axes=[2, 1]),
        lambda x, g, b: standardized(x, (1, 2)) * g.T + b.T,
        [(4, 5, 7), (7, 5), (7, 5)],
    ),
    "layer_norm_unscaled": (
        lambda x, g, b: nn.layer_norm(x, g, b, axes=[-1], scale=False, center=False),
        lambda x, g, b: standardized(x, -1),
        [(4, 33), (33,), (33,)],
    ),
    "instance_norm": (
        lambda x, g, b: nn.instance_norm(x, g, b, channel_axis=1, axes=[2, 3]),
        lambda x, g, b: standardized(x, (2, 3)) * g[:, None, None] + b[:, None, None],
        [IMAGE, VECTOR, VECTOR],
    ),
    "group_norm": (
        lambda x, g, b: nn.group_norm(x, g, b, 3, channel_axis=1, axes=[2, 3]),
        lambda x, g, b: (
            standardized(x.reshape(2, 3, -1), -1).reshape(IMAGE) * g[:, None, None]
            + b[:, None, None]
        ),
        [IMAGE, VECTOR, VECTOR],
    ),
    "group_norm_channels_last": (
        lambda x, g, b: nn.group_norm(x, g, b, 3, channel_axis=3, axes=[1, 2]),
        lambda x, g, b: (
            standardized(x.reshape(2, 5, 7, 3, 2), (1, 2, 4)).reshape(2, 5, 7, 6) * g + b
        ),
        [(2, 5, 7, 6), VECTOR, VECTOR],
    ),
    "multiply_add": (op.ewise_fma, lambda a, b, c: a * b + c, [(4, 33)] * 3),
    "matmul": (lambda a, b: op.matmul(a, b, out_dtype="float32"), np.matmul, [(4, 9), (9, 5)]),
    "cumsum": (lambda x: op.cumsum(x, axis=1), lambda x: np.cumsum(x, 1), [(4, 33)]),
    "sort": (lambda x: op.sort(x, axis=1), lambda x: np.sort(x, 1), [(4, 33)]),
}


@pytest.mark.spread(8)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", COMPOUND)
def test_operators_match_numpy(name, dtype):
    build, meaning, shapes = COMPOUND[name]
    inputs = [normal(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    (actual,) = reference(module(build, *((shape, dtype) for shape in shapes)), inputs)
    expected = meaning(*[value.astype("float64") for value in inputs])
    assert actual.dtype == "float64"
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-14)


def test_a_cast_to_half_rounds_nothing_and_one_to_integer_stays():
    def build(x):
        return relax.Tuple([op.astype(op.astype(x, "float16"), "float32"), op.astype(x, "int32")])

    x = np.array([1 + 2.0**-30, -2.75, 1e30 / 1e26])
    exact, whole = reference(module(build, ((3,), "float32")), [x])
    np.testing.assert_array_equal(exact, x)
    np.testing.assert_array_equal(whole, [1, -2, 10000])
    assert whole.dtype == "int32"


def test_constants_and_attributes_become_float64():
    def build(x):
        third = relax.const(np.array([1 / 3, 2 / 3], "float16"))
        filled = op.full((2,), relax.const(0.1, "float16"), "float16")
        return op.add(op.add(x, third), op.add(filled, op.arange(0, 2, 1, "float16")))

    (actual,) = reference(module(build, ((2,), "float16")), [np.zeros(2)])
    expected = np.array([1 / 3, 2 / 3], "float16").astype("float64") + np.float16(0.1) + [0, 1]
    np.testing.assert_allclose(actual, expected, rtol=1e-15)


@pytest.mark.parametrize("bits", [False, True])
def test_bfloat16_comes_as_numbers_or_as_bits(bits):
    x = normal((4, 9)).astype(ml_dtypes.bfloat16)
    mod = module(lambda x: op.multiply(x, x), ((4, 9), "bfloat16"))
    (actual,) = reference(mod, [x.view("uint16") if bits else x])
    np.testing.assert_array_equal(actual, x.astype("float64") ** 2)


def test_prim_funcs_are_evaluated_in_float64_too():
    @I.ir_module
    class Module:
        @T.prim_func(private=True, s_tir=True)
        def row_max(
            x: T.Buffer((T.int64(4), T.int64(8)), "float16"), y: T.Buffer((T.int64(4),), "float16")
        ):
            for i, j in T.grid(T.int64(4), T.int64(8)):
                with T.sblock("max"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        y[vi] = T.min_value("float16")
                    y[vi] = T.max(y[vi], T.tanh(x[vi, vj]) * T.float16(3) - T.exp10(x[vi, vj]))

        @R.function
        def main(x: R.Tensor((4, 8), "float16")):
            cls = Module
            with R.dataflow():
                y = R.call_tir(cls.row_max, (x,), out_ty=R.Tensor((4,), "float16"))
                R.output(y)
            return y

    # Far below what float16 could start a maximum from.
    x = normal((4, 8)) * 0.1 + 6
    (actual,) = reference(Module, [x])
    np.testing.assert_allclose(actual, (np.tanh(x) * 3 - 10.0**x).max(1), rtol=1e-13)


def test_symbolic_extents_are_those_of_the_inputs():
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")
    mod = module(lambda x, y: op.mean(op.add(x, y), -1), ((n, m), "float16"), ((m,), "float16"))
    x, y = normal((3, 11), "float16"), normal((11,), "float16", 1)
    (actual,) = reference(mod, [x, y])
    np.testing.assert_allclose(actual, (x.astype("float64") + y).mean(-1), rtol=1e-14)
    with pytest.raises(InputError, match=r"`p1` has shape \(10,\), expected \(m\) with n = 3, m"):
        reference(mod, [x, y[:10]])


def test_outputs_are_flattened():
    mod = module(
        lambda x: relax.Tuple([x, relax.Tuple([op.exp(x), op.less(x, x)])]), ((3,), "float32")
    )
    x, powers, less = reference(mod, [np.arange(3.0)])
    np.testing.assert_array_equal(x, np.arange(3.0))
    np.testing.assert_allclose(powers, np.exp(np.arange(3.0)), rtol=1e-15)
    assert less.dtype == bool


def test_the_module_is_left_as_it_was():
    mod = module(nn.gelu, ((4, 8), "float16"))
    before = mod.script()
    converted = in_float64(mod)
    assert mod.script() == before
    assert "float16" not in converted.script()


def test_the_truth_shares_no_code_with_the_passes():
    folder = pathlib.Path(tvm_stitch.reference.__file__).parent
    imported = {
        node.module
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("tvm_stitch")
    }
    assert imported
    # What a module says of its indices has to be read by whoever runs it.
    known = ("tvm_stitch.reference", "tvm_stitch.errors", "tvm_stitch.checked_index")
    assert all(name.startswith(known) for name in imported)


def test_wrong_inputs_are_refused():
    mod = module(op.add, ((4, 8), "float32"), ((8,), "float32"))
    x, y = normal((4, 8)), normal((8,))
    with pytest.raises(InputError, match=r"`main` takes 2 inputs \(p0, p1\), got 1"):
        reference(mod, [x])
    with pytest.raises(InputError, match=r"`p0` has shape \(4, 7\), expected \(4, 8\)"):
        reference(mod, [x[:, :7], y])
    with pytest.raises(InputError, match="`p1` has dtype int64, expected float32"):
        reference(mod, [x, np.arange(8)])
    with pytest.raises(InputError, match=r"no Relax function `other`; it has .'main'."):
        reference(mod, [x, y], entry="other")
    with pytest.raises(InputError, match=r"expected a tvm\.IRModule, got str"):
        reference("mod", [x, y])


def test_parameters_that_are_no_tensors_are_refused():
    builder = relax.BlockBuilder()
    shape = relax.Var("s", relax.ShapeType(ndim=2))
    with builder.function("main", [shape]):
        builder.emit_func_output(shape)
    with pytest.raises(InputError, match=r"parameter `s` of `main` is .*takes tensors"):
        reference(builder.get(), [np.zeros(2)])


def test_prim_funcs_that_depend_on_their_dtype_are_refused():
    @I.ir_module
    class Module:
        @T.prim_func(private=True, s_tir=True)
        def bits(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
            for i in T.grid(T.int64(4)):
                with T.sblock("bits"):
                    vi = T.axis.remap("S", [i])
                    y[vi] = T.reinterpret("float32", T.reinterpret("int32", x[vi]) + 1)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Module
            with R.dataflow():
                y = R.call_tir(cls.bits, (x,), out_ty=R.Tensor((4,), "float32"))
                R.output(y)
            return y

    with pytest.raises(InputError, match=r"PrimFunc `bits` .* T.reinterpret .* bits for numbers"):
        reference(Module, [normal((4,))])


def test_what_the_cpu_cannot_compile_is_refused_in_one_line():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.call_dps_packed("no.such.function", (x,), out_ty=R.Tensor((4,), "float32"))
                R.output(y)
            return y

    with pytest.raises(InputError, match=r"reference of `main` .*no.such.function"):
        reference(Module, [normal((4,))])


def test_a_sum_over_nothing_is_nothing():
    """TVM sets a sum to 0 at the first turn of its loop, which does not come."""
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((2, n, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        total = builder.emit(relax.op.sum(x, axis=[1]))
        builder.emit_func_output(builder.emit(relax.op.add(total, total)))
    for _ in range(3):
        (found,) = reference(builder.get(), [np.zeros((2, 0, 4), "float32")])
        np.testing.assert_array_equal(found, np.zeros((2, 4)))
