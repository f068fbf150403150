"""Fewer calls of the virtual machine: the same results, and every wrong argument still an error."""

import sys
from collections import Counter

import numpy as np
import pytest
import tvm
import tvm_ffi
from check import H200
from tvm import relax
from tvm.relax.backend.cpu_generic import pipeline as cpu_pipeline
from tvm.script import ir as I
from tvm.script import relax as R

import tvm_stitch
from tvm_stitch.graph.back.vm_calls.argument_checks import Demand, check_functions
from tvm_stitch.graph.back.vm_calls.fewer_calls import CHECKED_AT_ONCE
from tvm_stitch.transform import FewerCalls

MODES = ("bytecode", "compiled")


@I.ir_module
class Several:
    """Arguments of several kinds, and results out of each other."""

    @R.function
    def main(
        x: R.Tensor((3, 4), "float32"),
        y: R.Tensor((3, 4), "float32"),
        scale: R.Tensor((), "float32"),
        keep: R.Tensor((4,), "bool"),
    ):
        with R.dataflow():
            a = R.multiply(R.add(x, y), scale)
            b = R.where(keep, a, y)
            R.output(a, b)
        return (a, (b, a))


@I.ir_module
class Symbolic:
    """One length that is constant, one that both arguments share, one that is anything."""

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            a = R.add(R.exp(x), y)
            R.output(a)
        return a


@I.ir_module
class Mixed:
    """What the checks leave to the virtual machine: unknown dtypes, tuples, shapes."""

    @R.function
    def main(
        x: R.Tensor((3,)),
        y: R.Tensor(ndim=1, dtype="float32"),
        pair: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")),
        shape: R.Shape([2, 3]),
    ):
        with R.dataflow():
            a = R.add(pair[0], pair[1])
            R.output(a)
        return (x, y, a)


@I.ir_module
class Growing:
    """Each value larger than all before it, so that no storage can be used twice."""

    @R.function
    def main(x: R.Tensor((2, 2), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.concat([a, a])
            c = R.concat([b, b])
            d = R.concat([c, c])
            R.output(d)
        return d


@I.ir_module
class Branching:
    @R.function
    def main(x: R.Tensor((3,), "float32"), positive: R.Tensor((), "bool")):
        if positive:  # noqa: SIM108, Relax knows statements only
            y = R.exp(x)
        else:
            y = R.negative(x)
        return y


def lowered(module: tvm.IRModule, fewer: bool = True) -> tvm.IRModule:
    """As the virtual machine gets it, for the CPU."""
    target = tvm.target.Target("llvm")
    passes = [
        relax.transform.LegalizeOps(),
        *cpu_pipeline.dataflow_lower_passes(target),
        *cpu_pipeline.finalize_passes(target),
    ]
    with target:
        return tvm.transform.Sequential([*passes, FewerCalls()] if fewer else passes)(module)


def machine(module: tvm.IRModule, mode: str = "bytecode", fewer: bool = True):
    """The compiled function, on the CPU."""
    executable = relax.build(
        lowered(module, fewer), tvm.target.Target("llvm"), relax_pipeline=None, exec_mode=mode
    )
    return relax.VirtualMachine(executable, tvm.cpu())["main"]


def calls(module: tvm.IRModule) -> Counter:
    """How often the main function calls what."""
    callees = (
        getattr(b.value.op, "global_symbol", getattr(b.value.op, "name", None))
        for block in module["main"].body.blocks
        for b in block.bindings
        if isinstance(b.value, relax.Call)
    )
    return Counter(callees)


def tensor(shape, dtype="float32"):
    return tvm.runtime.tensor(np.ones(shape, dtype))


SEVERAL = (tensor((3, 4)), tensor((3, 4)), tensor(()), tensor((4,), "bool"))
WRONG = {
    "rank": tensor((3,)),
    "length": tensor((3, 5)),
    "first length": tensor((4, 4)),
    "dtype": tensor((3, 4), "float16"),
    "integers": tensor((3, 4), "int32"),
    "nothing": None,
    "a number": 3,
    "a list": [tensor((3, 4))],
    "a short text": "x",
    "a long text": "x" * 99,
    "a shape": tvm_ffi.Shape((3, 4)),
}


@pytest.fixture(scope="module")
def several() -> dict:
    return {
        "as TVM leaves it": machine(Several, fewer=False),
        **{mode: machine(Several, mode) for mode in MODES},
    }


def error_of(function, arguments) -> tuple[type, str]:
    with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
        function(*arguments)
    return caught.type, str(caught.value)


@pytest.mark.parametrize("mode", MODES)
def test_results(several, mode):
    rng = np.random.default_rng(0)
    x, y, scale = (rng.standard_normal(s).astype("float32") for s in ((3, 4), (3, 4), ()))
    keep = np.array([True, False, True, False])
    a, (b, again) = several[mode](*map(tvm.runtime.tensor, (x, y, scale, keep)))
    exact = (x.astype("float64") + y) * scale
    np.testing.assert_allclose(a.numpy(), exact, atol=1e-6)
    np.testing.assert_allclose(again.numpy(), exact, atol=1e-6)
    np.testing.assert_allclose(b.numpy(), np.where(keep, exact, y), atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("position", [0, 1])
def test_wrong_arguments_are_the_errors_that_they_were(several, mode, wrong, position):
    arguments = list(SEVERAL)
    arguments[position] = WRONG[wrong]
    kind, message = error_of(several[mode], arguments)
    before, _ = error_of(several["as TVM leaves it"], arguments)
    assert kind is before
    assert f"param={'xy'[position]}" in message


@pytest.mark.parametrize("wrong", [tensor((4,), "int8"), tensor((4,)), tensor((5,), "bool")])
def test_a_flag_must_be_a_flag(several, wrong):
    kind, message = error_of(several["bytecode"], [*SEVERAL[:3], wrong])
    assert kind is error_of(several["as TVM leaves it"], [*SEVERAL[:3], wrong])[0]
    assert "param=keep" in message


def test_one_call_for_all_constant_checks():
    found = calls(lowered(Several))
    assert found["main_arguments_0"] == 1
    assert not {"vm.builtin.check_tensor_info", "vm.builtin.match_shape"} & set(found)
    before = calls(lowered(Several, fewer=False))
    # The scalar's shape is its rank.
    assert (before["vm.builtin.check_tensor_info"], before["vm.builtin.match_shape"]) == (4, 3)


def test_many_arguments_are_checked_some_at_a_time():
    names = [f"argument_{number}" for number in range(CHECKED_AT_ONCE + 3)]
    parameters = [relax.Var(name, relax.TensorType((2,), "float32")) for name in names]
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            results = builder.emit_output(relax.Tuple(parameters[-2:]))
        builder.emit_func_output(results)
    module = builder.get()
    found = calls(lowered(module))
    assert [found[f"main_arguments_{number}"] for number in range(3)] == [1, 1, 0]
    function = machine(module)
    assert len(function(*[tensor((2,)) for _ in names])) == 2
    for position in (0, CHECKED_AT_ONCE - 1, CHECKED_AT_ONCE, len(names) - 1):
        arguments = [tensor((2,)) for _ in names]
        arguments[position] = tensor((3,))
        assert f"param={names[position]}," in error_of(function, arguments)[1]


def test_symbolic_shapes_stay_with_the_virtual_machine():
    found, before = calls(lowered(Symbolic)), calls(lowered(Symbolic, fewer=False))
    assert (found["main_arguments_0"], found["vm.builtin.check_tensor_info"]) == (1, 0)
    assert found["vm.builtin.match_shape"] == before["vm.builtin.match_shape"] > 0
    function = machine(Symbolic)
    for rows in (1, 7):
        x = np.linspace(0, 1, rows * 4, dtype="float32").reshape(rows, 4)
        got = function(tvm.runtime.tensor(x), tvm.runtime.tensor(x))
        np.testing.assert_allclose(got.numpy(), np.exp(x) + x, rtol=1e-6)
    for wrong in (tensor((6, 4)), tensor((7, 5)), tensor((7, 4), "float16"), tensor((7,))):
        assert "param=y" in error_of(function, [tensor((7, 4)), wrong])[1]


def test_what_is_not_asked_in_constants_stays():
    found, before = calls(lowered(Mixed)), calls(lowered(Mixed, fewer=False))
    assert found["main_arguments_0"] == 1
    assert found["vm.builtin.check_tensor_info"] == before["vm.builtin.check_tensor_info"] - 1
    for name in ("match_shape", "check_tuple_info", "check_shape_info"):
        assert found[f"vm.builtin.{name}"] == before[f"vm.builtin.{name}"]
    function, shape = machine(Mixed), tvm_ffi.Shape((2, 3))
    pair = (tensor((2,)), tensor((2,)))
    arguments = [tensor((3,), "int8"), tensor((9,)), pair, shape]
    np.testing.assert_equal(function(*arguments)[2].numpy(), [2, 2])
    wrong = {0: tensor((4,)), 1: tensor((9,), "int8"), 2: pair[:1], 3: tvm_ffi.Shape((2, 4))}
    for position, value in wrong.items():
        changed = [*arguments[:position], value, *arguments[position + 1 :]]
        assert f"param[{position}]" in error_of(function, changed)[1]


def held_at_allocations(module: tvm.IRModule) -> list[set[int]]:
    """At every allocation, which of the storages that came before are still in memory."""
    storages, lies_in, alive, held = [], {}, set(), []
    for binding in (b for block in module["main"].body.blocks for b in block.bindings):
        value = binding.value
        callee = getattr(getattr(value, "op", None), "name", None)
        if callee == "relax.vm.alloc_storage":
            held.append({storages.index(lies_in[v]) for v in alive})
            storages.append(binding.var)
            lies_in[binding.var] = binding.var
            alive.add(binding.var)
        elif callee == "relax.vm.alloc_tensor":
            lies_in[binding.var] = value.args[0]
            alive.add(binding.var)
        elif callee == "relax.vm.kill_object":
            alive.discard(value.args[0])
    return held


@pytest.mark.parametrize("module", [Several, Symbolic, Growing])
def test_memory_is_free_where_it_is_wanted(module):
    fewer, before = lowered(module), lowered(module, fewer=False)
    assert held_at_allocations(fewer) == held_at_allocations(before)
    assert calls(fewer)["relax.vm.kill_object"] < calls(before)["relax.vm.kill_object"]


def test_what_an_allocation_follows_is_killed():
    killed = [len(held) for held in held_at_allocations(lowered(Growing))]
    assert killed == [0, 1, 1]


@pytest.mark.parametrize("mode", MODES)
def test_the_end_of_a_function_lets_go(mode):
    """That is why kills at the end are idle: here an argument, which nothing else lets go of."""
    function = machine(Growing, mode)
    room = np.empty(80, "uint8")
    start = -room.ctypes.data % 64  # where from_dlpack wants an array to begin
    array = room[start : start + 16].view("float32").reshape(2, 2)
    array[:] = 1
    before = sys.getrefcount(array)
    argument = tvm.runtime.from_dlpack(array)
    result = function(argument)
    assert sys.getrefcount(array) > before
    del argument
    assert sys.getrefcount(array) == before
    np.testing.assert_allclose(result.numpy(), np.full((16, 2), np.e), rtol=1e-6)


def test_functions_with_branches_stay_as_they_are():
    assert "main_arguments_0" not in calls(lowered(Branching))
    function = machine(Branching)
    x = tensor((3,))
    for flag, expected in ((True, np.e), (False, -1)):
        got = function(x, tvm.runtime.tensor(np.array(flag)))
        np.testing.assert_allclose(got.numpy(), np.full(3, expected), rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1, 2), (3, 0, 2), ()])
def test_where_arguments_of_kernels_lie(shape):
    torch = pytest.importorskip("torch")  # whose tensors are passed as they lie
    demand = Demand("of x: ", len(shape), "float32", shape)
    checks = tvm.tirx.build(
        tvm.IRModule(check_functions("checks", [demand], for_kernels=True)), target="llvm"
    )
    given = torch.zeros(shape)
    apart = torch.zeros(64).as_strided(shape, [2 * stride for stride in given.stride()])
    checks["checks"](given)
    if given.numel() > 1:
        with pytest.raises(ValueError, match="of x: expect a compact Tensor"):
            checks["checks"](apart)


def test_a_name_that_is_taken():
    module = tvm.IRModule({"main": Several["main"], "main_arguments": Symbolic["main"]})
    found = lowered(module)
    names = {var.name_hint for var in found.get_global_vars()}
    assert {"main_arguments", "main_arguments_1_0", "main_arguments_arguments_0"} <= names
    assert calls(found)["main_arguments_1_0"] == 1


def test_the_pipeline_ends_with_it():
    with H200:
        stitched = tvm_stitch.pipeline(H200)(Several)
    found = calls(stitched)
    assert found["main_arguments_0"] == 1
    assert found["relax.vm.kill_object"] == 0
