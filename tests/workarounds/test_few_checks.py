"""Host functions whose arguments have been checked ask only which device they are on."""

import re
from unittest import mock

from check import H200
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R

import tvm_stitch
from tvm_stitch.executable import compiler as compiler_room
from tvm_stitch.stages.visit import walked


@I.ir_module
class Two:
    @R.function
    def main(x: R.Tensor(("n", 64), "float32"), y: R.Tensor((64,), "float32")):
        with R.dataflow():
            a = R.nn.softmax(R.add(x, y))
            R.output(a)
        return a


@I.ir_module
class Branching:
    @R.function
    def main(x: R.Tensor((8, 64), "float32"), flag: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.nn.softmax(x)
            R.output(a)
        if flag:  # noqa: SIM108 it is no Python
            y = R.exp(a)
        else:
            y = R.negative(a)
        return y


def asked(module):
    """What the host's functions of stitched kernels assert, by their names."""
    hosts = []
    compiler = compiler_room._compiler

    def seen(host, host_mod, *rest):
        hosts.append(host_mod)
        return compiler(host, host_mod, *rest)

    with mock.patch.object(compiler_room, "_compiler", seen):
        tvm_stitch.compile(module, H200)
    found = {}
    for var, function in hosts[0].functions_items():
        if var.name_hint.startswith("stitched_"):
            checks = found[var.name_hint] = []
            walked(function.body, (tirx.AssertStmt, checks.append))
    assert found
    return found


def test_kernels_of_checked_arguments_ask_for_the_device_alone():
    for checks in asked(Two).values():
        assert checks
        for check in checks:
            assert re.search(r"device_id|device_type", str(check))
            assert not re.search(r"strides|dtype|ndim|shape\[", str(check.condition))


def test_kernels_behind_branches_ask_for_all():
    texts = "".join(str(check) for checks in asked(Branching).values() for check in checks)
    assert ".ndim" in texts and ".strides" in texts and ".device_type" in texts


def test_kernels_behind_functions_of_others_ask_themselves():
    builder, kind = relax.BlockBuilder(), relax.TensorType((4, 64), "float32")
    x = relax.Var("x", kind)
    with builder.function("main", [x]):
        found = builder.emit(relax.op.call_pure_packed("of_others", x, ty_args=[kind]))
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.softmax(relax.op.exp(found)))
        builder.emit_func_output(result)
    texts = "".join(str(each) for checks in asked(builder.get()).values() for each in checks)
    assert ".strides" in texts


def test_kernels_that_get_what_nobody_asked_for_ask_themselves():
    x = relax.Var("x", relax.TensorType(dtype="float32", ndim=2))
    pair = relax.Var("pair", relax.TupleType([relax.TensorType((4, 64), "float32")] * 2))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, pair]):
        with builder.dataflow():
            added = builder.emit(relax.op.add(relax.TupleGetItem(pair, 0), pair[1]))
            result = builder.emit_output(relax.op.nn.softmax(added))
        builder.emit_func_output(result)
    texts = "".join(str(each) for checks in asked(builder.get()).values() for each in checks)
    assert ".strides" in texts
