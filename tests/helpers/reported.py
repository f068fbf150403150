"""Modules of which reports are made: one kernel, several, TVM's own, branches."""

import tvm
from decompose_helpers import emitted
from tvm import relax
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Branches:
    @R.function
    def main(x: R.Tensor((64, 128), "float32"), flag: R.Tensor((), "bool")):
        with R.dataflow():
            y = R.nn.softmax(x)
            R.output(y)
        if flag:  # noqa: SIM108 a Relax branch
            w = R.exp(y)
        else:
            w = y
        with R.dataflow():
            z = R.nn.softmax(w)
            R.output(z)
        return z


def module(build, *shapes, dtype="float32") -> tvm.IRModule:
    """A module whose main applies `build(emit, *parameters)`."""
    return emitted(build, shapes, dtype)


def softmax(*shape) -> tvm.IRModule:
    return module(lambda emit, x: op.nn.softmax(x), shape)


def two_softmaxes() -> tvm.IRModule:
    return module(lambda emit, x: op.nn.softmax(emit(op.sort(emit(op.nn.softmax(x))))), (64, 128))


def mixed() -> tvm.IRModule:
    """A convolution, matrix products, a sort, a scan, an operator without TIR, and row work."""

    def build(emit, image, weight, matrix):
        features = emit(op.nn.relu(emit(op.nn.conv2d(image, weight, padding=1))))
        rows = emit(op.reshape(features, (128, 128)))
        rows = emit(op.nn.softmax(emit(op.matmul(rows, matrix))))
        ordered = emit(op.sort(rows))
        scanned = emit(op.cumsum(emit(op.concat([ordered, ordered]))))  # of all, too long a row
        return relax.Tuple([emit(op.nn.softmax(scanned)), emit(op.unique(rows))])

    return module(build, (1, 3, 32, 32), (16, 3, 3, 3), (128, 128))
