"""What the library can end a product with, and what it cannot, whichever way it is written."""

import pytest
import tvm
from check import H200
from library_stand_in import folder
from tvm import relax
from tvm.relax import op

from tvm_stitch import transform
from tvm_stitch.graph.front.legalize import Legalize
from tvm_stitch.kernel.library_product.epilogue import library_epilogue
from tvm_stitch.kernel.library_product.matrices import Matrices, batches
from tvm_stitch.kernel.tensor_core.program import tensor_product
from tvm_stitch.library import locate
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused

ROWS, DEPTH, COLUMNS = 24, 40, 56
MULTIPLIED = ("float32", "float16", "bfloat16")
PASSES = [
    transform.Decompose(),
    Legalize(),
    relax.transform.AnnotateTIROpPattern(),
    relax.transform.ConvertToDataflow(),
    relax.transform.FuseOps(),
    relax.transform.FuseTIR(),
]


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))


def read(build, dtype="float32", shapes=((ROWS, DEPTH), (DEPTH, COLUMNS)), more=()):
    """The product that a graph is; `build` has emit and the tensors."""
    builder = relax.BlockBuilder()
    given = [
        relax.Var(f"p{number}", relax.TensorType(shape, dtype))
        for number, shape in enumerate((*shapes, *more))
    ]
    with builder.function("main", given):
        with builder.dataflow():
            output = builder.emit_output(build(builder.emit, *given))
        builder.emit_func_output(output)
    with H200:
        mod = tvm.transform.Sequential(PASSES)(builder.get())
    bindings = (binding for block in mod["main"].body.blocks for binding in block.bindings)
    calls = [b.value for b in bindings if isinstance(b.value, tvm.ir.Call)]
    functions = [mod[call.args[0]] for call in calls]
    function = next(f for f in functions if read_stages(f)[0].is_reduction)
    stages = read_stages(function)
    return tensor_product(stages, outputs_of(function, stages), MULTIPLIED, fewest_rows=1)


def ending(after, dtype="float32", more=()):
    """What `after`, of emit, a product's result and more tensors, is to the library."""
    found = read(lambda emit, x, w, *r: after(emit, emit(op.matmul(x, w)), *r), dtype, more=more)
    return library_epilogue(found)


def const(value, dtype="float32"):
    return relax.const(value, dtype)


def zeros(like):
    return relax.const(0.0, like.ty.dtype)


BIAS, FULL = (COLUMNS,), (ROWS, COLUMNS)


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", MULTIPLIED)
@pytest.mark.parametrize(
    ("after", "more", "said"),
    [
        (lambda emit, y: op.nn.relu(y), (), "ReLU"),
        (lambda emit, y, b: op.add(b, y), (BIAS,), "bias"),
        (lambda emit, y, b, r: op.add(emit(op.add(r, y)), b), (BIAS, FULL), "residual, bias"),
        (lambda emit, y, b: op.nn.gelu_tanh(emit(op.add(y, b))), (BIAS,), "bias, GELU"),
        (
            lambda emit, y, b: op.maximum(emit(op.add(y, b)), op.zeros_like(y)),
            (BIAS,),
            "bias, ReLU",
        ),
    ],
)
def test_endings_that_the_library_has(dtype, after, more, said):
    assert str(ending(after, dtype, more)) == said


def test_scales_are_told_from_activations():
    assert str(ending(lambda emit, y: op.multiply(y, const(0.25)))) == "scale 0.25"
    assert str(ending(lambda emit, y: op.divide(y, const(8.0)))) == "scale 0.125"
    twice = ending(lambda emit, y: op.multiply(emit(op.multiply(y, const(0.5))), const(-4.0)))
    assert twice.scale == -2.0
    scaled = ending(lambda emit, y, b: op.add(emit(op.multiply(y, const(2.0))), b), more=(BIAS,))
    assert str(scaled) == "scale 2, bias"


@pytest.mark.parametrize(
    ("after", "more", "why"),
    [
        (lambda emit, y: op.nn.gelu(y), (), "does not end with"),
        (lambda emit, y: op.tanh(y), (), "this function of a result"),
        (lambda emit, y: op.add(y, const(1.0)), (), "this function of a result"),
        (lambda emit, y, r: op.add(emit(op.nn.relu(y)), r), (FULL,), "what it does with a tensor"),
        (lambda emit, y, r: op.multiply(y, r), (FULL,), "what it does with a tensor"),
        (lambda emit, y, r: op.subtract(y, r), (FULL,), "what it does with a tensor"),
        (lambda emit, y, b, c: op.add(emit(op.add(y, b)), c), (BIAS, BIAS), "a second bias"),
        (lambda emit, y, c: op.add(y, c), ((ROWS, 1),), "a broadcast of"),
    ],
)
def test_endings_that_it_has_not(after, more, why):
    found = ending(after, more=more)
    assert isinstance(found, Refused) and why in found.reason


def test_a_scale_behind_a_bias_is_none_of_the_product():
    found = ending(lambda emit, y, b: op.multiply(emit(op.add(y, b)), const(2.0)), more=(BIAS,))
    assert isinstance(found, Refused)


def test_matrices_in_tensors():
    plain = batches(read(lambda emit, x, w: op.matmul(x, w)))
    assert plain.left == Matrices(0, True, DEPTH, 0)
    assert plain.right == Matrices(0, False, COLUMNS, 0)
    turned = read(
        lambda emit, x, w: op.matmul(x, emit(op.permute_dims(w))), shapes=((24, 40), (56, 40))
    )
    assert batches(turned).right == Matrices(0, True, 40, 0)
    batch = batches(read(lambda emit, x, w: op.matmul(x, w), shapes=((3, 24, 40), (3, 40, 56))))
    assert (batch.calls, batch.batch, batch.stride) == (1, 3, 24 * 56)
    assert batch.left == Matrices(0, True, 40, 24 * 40)
    assert batch.right == Matrices(0, False, 56, 40 * 56)


def attention(emit, q, k):
    q, k = emit(op.permute_dims(q, [0, 2, 1, 3])), emit(op.permute_dims(k, [0, 2, 3, 1]))
    return op.matmul(q, k)


def test_heads_that_lie_beside_each_other_take_the_fewest_calls():
    one = batches(read(attention, shapes=((1, 24, 4, 40), (1, 56, 4, 40))))
    assert (one.calls, one.batch) == (1, 4) and one.left == Matrices(0, True, 160, 40)
    several = batches(read(attention, shapes=((2, 24, 4, 40), (2, 56, 4, 40))))
    assert (several.calls, several.batch) == (2, 4)
    assert several.left == Matrices(0, True, 160, 40, 24 * 160)
    assert (several.stride, several.leap) == (24 * 56, 4 * 24 * 56)
    many = batches(read(attention, shapes=((16, 24, 4, 40), (16, 56, 4, 40))))
    assert (many.calls, many.batch) == (4, 16)
    assert many.left == Matrices(0, True, 160, 24 * 160, 40)
    assert (many.stride, many.leap) == (4 * 24 * 56, 24 * 56)
