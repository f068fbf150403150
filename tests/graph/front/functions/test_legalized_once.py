"""Equal calls of operators are legalised once, and what comes out is what TVM makes of each."""

import tvm
from built import module
from tvm import relax, tirx
from tvm.relax import op

from tvm_stitch.graph.front.functions.legalized_once import LegalizeOnce


def legalised(mod, *operators):
    """How often these are legalised in a module that comes out as LegalizeOps makes it."""
    count = 0

    def heard(rule):
        def legalize(builder, call):
            nonlocal count
            count += 1
            return rule(builder, call)

        return legalize

    own = {name: heard(tvm.ir.Op.get(name).get_attr("FLegalize")) for name in operators}
    once = LegalizeOnce(own)(mod)
    tvm.ir.assert_structural_equal(once, relax.transform.LegalizeOps()(mod))
    assert str(once) == str(relax.transform.LegalizeOps()(mod))
    return count


def test_equal_calls_are_legalised_once_whatever_they_read():
    def body(emit, x, y):
        a = emit(op.add(x, y))
        b = emit(op.add(a, x))
        return emit(op.permute_dims(a)), emit(op.permute_dims(b)), emit(op.add(b, a))

    assert legalised(module(body, (4, 8), (4, 8)), "relax.add", "relax.permute_dims") == 2


def test_what_is_read_twice_is_another_call():
    def body(emit, x, y):
        return emit(op.multiply(x, y)), emit(op.multiply(x, x)), emit(op.multiply(y, y))

    assert legalised(module(body, (4, 8), (4, 8)), "relax.multiply") == 2


def test_types_sizes_numbers_and_attributes_tell_calls_apart():
    def body(emit, x, y):
        half = emit(op.astype(x, "float16"))
        yield from (half, emit(op.astype(x, "int32")), emit(op.astype(y, "float16")))
        yield from (emit(op.add(x, relax.const(n, "float32"))) for n in (1.0, 2.0, 1.0))
        yield emit(op.add(half, relax.const(1.0, "float16")))
        yield from (emit(op.sum(x, axis)) for axis in (0, 1, 1))
        yield from (emit(op.reshape(x, shape)) for shape in ((8, 4), (2, 16), (8, 4)))
        yield from (emit(op.strided_slice(x, [1], [0], [end])) for end in (3, 5, 3))

    names = ("astype", "add", "sum", "reshape", "strided_slice")
    found = legalised(module(body, (4, 8), (5, 8)), *(f"relax.{name}" for name in names))
    assert found == 3 + 3 + 2 + 2 + 2


def test_sizes_that_are_not_known_and_several_tensors_are_legalised_each_time():
    def body(emit, x, y):
        return [emit(op.add(x, x)), emit(op.add(x, x)), *(emit(op.concat([y, y])) for _ in "ab")]

    mod = module(body, (tirx.Var("n", "int64"), 8), (4, 8))
    assert legalised(mod, "relax.add", "relax.concat") == 4


def test_nothing_is_remembered_of_another_module():
    def body(emit, x):
        return [emit(op.exp(x))]

    legalize = LegalizeOnce({})
    for mod in (module(body, (4, 8)), module(body, (4, 8))):
        tvm.ir.assert_structural_equal(legalize(mod), relax.transform.LegalizeOps()(mod))
