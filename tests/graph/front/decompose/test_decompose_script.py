"""Decompose, before and after: the whole function, one for every family of operators."""

from __future__ import annotations

import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_stitch.graph.front.decompose import Decompose


def check(before: tvm.IRModule, after: tvm.IRModule) -> None:
    written = Decompose()(before)
    tvm.ir.assert_structural_equal(written, after)
    tvm.ir.assert_structural_equal(Decompose()(written), after)


def test_softmax():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 33), "float16")):
            with R.dataflow():
                y = R.nn.softmax(x, axis=-1)
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((4, 33), "float16")):
            with R.dataflow():
                wide = R.astype(x, "float32")
                top = R.max(wide, axis=[-1], keepdims=True)
                shifted = R.subtract(wide, top)
                powers = R.exp(shifted)
                total = R.sum(powers, axis=[-1], keepdims=True)
                ratio = R.divide(powers, total)
                y = R.astype(ratio, "float16")
                R.output(y)
            return y

    check(Before, After)


def test_log_softmax():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 33), "float32")):
            with R.dataflow():
                y = R.nn.log_softmax(x, axis=1)
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((4, 33), "float32")):
            with R.dataflow():
                top = R.max(x, axis=[1], keepdims=True)
                shifted = R.subtract(x, top)
                powers = R.exp(shifted)
                total = R.sum(powers, axis=[1], keepdims=True)
                logarithm = R.log(total)
                y = R.subtract(shifted, logarithm)
                R.output(y)
            return y

    check(Before, After)


def test_layer_norm():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((4, 33), "bfloat16"),
            gamma: R.Tensor((33,), "bfloat16"),
            beta: R.Tensor((33,), "bfloat16"),
        ):
            with R.dataflow():
                y = R.nn.layer_norm(x, gamma, beta, axes=[-1], epsilon=0.5)
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(
            x: R.Tensor((4, 33), "bfloat16"),
            gamma: R.Tensor((33,), "bfloat16"),
            beta: R.Tensor((33,), "bfloat16"),
        ):
            with R.dataflow():
                wide = R.astype(x, "float32")
                wide_gamma = R.astype(gamma, "float32")
                wide_beta = R.astype(beta, "float32")
                mean = R.mean(wide, axis=[1], keepdims=True)
                centred = R.subtract(wide, mean)
                squares = R.square(centred)
                variance = R.mean(squares, axis=[1], keepdims=True)
                raised = R.add(variance, R.const(0.5, "float32"))
                inverse = R.rsqrt(raised)
                normal = R.multiply(centred, inverse)
                scaled = R.multiply(normal, wide_gamma)
                moved = R.add(scaled, wide_beta)
                y = R.astype(moved, "bfloat16")
                R.output(y)
            return y

    check(Before, After)


def test_rms_norm():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 33), "float32"), weight: R.Tensor((33,), "float32")):
            with R.dataflow():
                y = R.nn.rms_norm(x, weight, axes=[-1], epsilon=0.5)
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((4, 33), "float32"), weight: R.Tensor((33,), "float32")):
            with R.dataflow():
                squares = R.square(x)
                power = R.mean(squares, axis=[1], keepdims=True)
                raised = R.add(power, R.const(0.5, "float32"))
                inverse = R.rsqrt(raised)
                normal = R.multiply(x, inverse)
                y = R.multiply(normal, weight)
                R.output(y)
            return y

    check(Before, After)


def test_group_norm():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor(("n", 6, "h", 7), "float32"),
            gamma: R.Tensor((6,), "float32"),
            beta: R.Tensor((6,), "float32"),
        ):
            with R.dataflow():
                y = R.nn.group_norm(
                    x, gamma, beta, num_groups=3, channel_axis=1, axes=[2, 3], epsilon=0.5
                )
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(
            x: R.Tensor(("n", 6, "h", 7), "float32"),
            gamma: R.Tensor((6,), "float32"),
            beta: R.Tensor((6,), "float32"),
        ):
            n = T.int64()
            h = T.int64()
            with R.dataflow():
                rows = R.reshape(x, R.shape([n, 3, 2 * h * 7]))
                mean = R.mean(rows, axis=[2], keepdims=True)
                centred = R.subtract(rows, mean)
                squares = R.square(centred)
                variance = R.mean(squares, axis=[2], keepdims=True)
                raised = R.add(variance, R.const(0.5, "float32"))
                inverse = R.rsqrt(raised)
                normal = R.multiply(centred, inverse)
                image = R.reshape(normal, R.shape([n, 6, h, 7]))
                gammas = R.reshape(gamma, R.shape([6, 1, 1]))
                betas = R.reshape(beta, R.shape([6, 1, 1]))
                scaled = R.multiply(image, gammas)
                y = R.add(scaled, betas)
                R.output(y)
            return y

    check(Before, After)


def test_instance_norm():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 6, 5, 7), "float32"),
            gamma: R.Tensor((6,), "float32"),
            beta: R.Tensor((6,), "float32"),
        ):
            with R.dataflow():
                y = R.nn.instance_norm(x, gamma, beta, channel_axis=1, axes=[2, 3], epsilon=0.5)
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(
            x: R.Tensor((2, 6, 5, 7), "float32"),
            gamma: R.Tensor((6,), "float32"),
            beta: R.Tensor((6,), "float32"),
        ):
            with R.dataflow():
                mean = R.mean(x, axis=[2, 3], keepdims=True)
                centred = R.subtract(x, mean)
                squares = R.square(centred)
                variance = R.mean(squares, axis=[2, 3], keepdims=True)
                raised = R.add(variance, R.const(0.5, "float32"))
                inverse = R.rsqrt(raised)
                normal = R.multiply(centred, inverse)
                gammas = R.reshape(gamma, R.shape([6, 1, 1]))
                betas = R.reshape(beta, R.shape([6, 1, 1]))
                scaled = R.multiply(normal, gammas)
                y = R.add(scaled, betas)
                R.output(y)
            return y

    check(Before, After)


def test_batch_norm_at_inference_is_taken_out_of_its_tuple():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 6, 5, 7), "float32"),
            gamma: R.Tensor((6,), "float32"),
            beta: R.Tensor((6,), "float32"),
            mean: R.Tensor((6,), "float32"),
            variance: R.Tensor((6,), "float32"),
        ):
            with R.dataflow():
                three = R.nn.batch_norm(
                    x, gamma, beta, mean, variance, axis=1, epsilon=0.5, training=False
                )
                one = three[0]
                y = R.exp(one)
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(
            x: R.Tensor((2, 6, 5, 7), "float32"),
            gamma: R.Tensor((6,), "float32"),
            beta: R.Tensor((6,), "float32"),
            mean: R.Tensor((6,), "float32"),
            variance: R.Tensor((6,), "float32"),
        ):
            with R.dataflow():
                means = R.reshape(mean, R.shape([6, 1, 1]))
                centred = R.subtract(x, means)
                raised = R.add(variance, R.const(0.5, "float32"))
                inverse = R.rsqrt(raised)
                gain = R.multiply(inverse, gamma)
                gains = R.reshape(gain, R.shape([6, 1, 1]))
                scaled = R.multiply(centred, gains)
                betas = R.reshape(beta, R.shape([6, 1, 1]))
                normal = R.add(scaled, betas)
                y = R.exp(normal)
                R.output(y)
            return y

    check(Before, After)


def test_gelu():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 33), "float16")):
            with R.dataflow():
                y = R.nn.gelu(x)
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((4, 33), "float16")):
            with R.dataflow():
                wide = R.astype(x, "float32")
                scaled = R.multiply(wide, R.const(0.7071067811865476, "float32"))
                erf = R.erf(scaled)
                half = R.multiply(erf, R.const(0.5, "float32"))
                gate = R.add(half, R.const(0.5, "float32"))
                gated = R.multiply(wide, gate)
                y = R.astype(gated, "float16")
                R.output(y)
            return y

    check(Before, After)


def test_standard_deviation():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 33), "float32")):
            with R.dataflow():
                y = R.std(x, axis=[1])
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((4, 33), "float32")):
            with R.dataflow():
                mean = R.mean(x, axis=[1], keepdims=True)
                centred = R.subtract(x, mean)
                squares = R.square(centred)
                variance = R.mean(squares, axis=[1])
                y = R.sqrt(variance)
                R.output(y)
            return y

    check(Before, After)


def test_nll_loss_of_a_log_softmax_masks_the_row():
    @I.ir_module
    class Before:
        @R.function
        def main(logs: R.Tensor((4, 33), "float32"), targets: R.Tensor((4,), "int64")):
            with R.dataflow():
                logits = R.log(logs)
                loss = R.nn.nll_loss(logits, targets, reduction="none", ignore_index=-1)
                R.output(loss)
            return loss

    @I.ir_module
    class After:
        @R.function
        def main(logs: R.Tensor((4, 33), "float32"), targets: R.Tensor((4,), "int64")):
            with R.dataflow():
                logits = R.log(logs)
                counted = R.not_equal(targets, R.const(-1, "int64"))
                classes = R.where(counted, targets, R.const(0, "int64"))
                ones = R.one_hot(classes, R.prim_value(1), R.prim_value(0), depth=33, axis=-1)
                match = R.astype(ones, "bool")
                chosen = R.where(match, logits, R.const(0.0, "float32"))
                picked = R.sum(chosen, axis=[1])
                negative = R.negative(picked)
                loss = R.where(counted, negative, R.const(0.0, "float32"))
                R.output(loss)
            return loss

    check(Before, After)


def test_sum_of_half_precision_adds_up_in_float32():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 33), "float16")):
            with R.dataflow():
                y = R.sum(x, axis=[0])
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((4, 33), "float16")):
            with R.dataflow():
                wide = R.astype(x, "float32")
                total = R.sum(wide, axis=[0])
                y = R.astype(total, "float16")
                R.output(y)
            return y

    check(Before, After)
