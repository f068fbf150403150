"""The demonstration: a Transformer block is stitched, shown, and checked without a GPU.

In: nothing. Out: text on stdout, and an exit code. `block` is also the model of the tutorials.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tvm_stitch.build import compile as stitch_compile
from tvm_stitch.errors import CompilerMissing
from tvm_stitch.report import Report, explain
from tvm_stitch.report.data import DEFAULT
from tvm_stitch.target import cuda_target
from tvm_stitch.verify import verify

SMALL = (1, 4, 64, 128)  # batch, heads, tokens, features: seconds on the CPU executor
LARGE = (8, 12, 512, 768)  # BERT's, for timing
CALLS = 50  # timed calls, of which the median counts


def block(batch: int, heads: int, tokens: int, features: int) -> tvm.IRModule:
    """A Transformer's encoder block as a Relax module, matrix products included.

    Attention scores are scaled, masked and softmaxed; its result and the feed-forward network's
    (two layers with GELU between) are each added to what went in and layer-normalised. The norms
    are written out from means, as most exporters write them.
    """
    builder = relax.BlockBuilder()
    tensor = _Parameters()
    rows, hidden = batch * tokens, 4 * features
    x = tensor("x", rows, features)
    mask = tensor("mask", batch, 1, 1, tokens)
    query, key, value = (tensor(name, features, features) for name in ("query", "key", "value"))
    out, out_bias = tensor("out", features, features), tensor("out_bias", features)
    norm1 = tensor("norm1_scale", features), tensor("norm1_shift", features)
    widen, widen_bias = tensor("widen", features, hidden), tensor("widen_bias", hidden)
    narrow, narrow_bias = tensor("narrow", hidden, features), tensor("narrow_bias", features)
    norm2 = tensor("norm2_scale", features), tensor("norm2_shift", features)

    emit = builder.emit
    split = (batch, tokens, heads, features // heads)

    def by_head(weight: relax.Var, axes: list[int]) -> Any:
        projected = emit(op.matmul(x, weight))
        return emit(op.permute_dims(emit(op.reshape(projected, split)), axes))

    def normalised(update: Any, bias: relax.Var, residual: Any, norm: tuple[Any, Any]) -> Any:
        total = emit(op.add(emit(op.add(update, bias)), residual))
        centred = emit(op.subtract(total, emit(op.mean(total, -1, keepdims=True))))
        variance = emit(op.mean(emit(op.multiply(centred, centred)), -1, keepdims=True))
        inverse = emit(op.rsqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))
        scaled = emit(op.multiply(emit(op.multiply(centred, inverse)), norm[0]))
        return op.add(scaled, norm[1])

    with builder.function("main", tensor.made):
        with builder.dataflow():
            scores = emit(op.matmul(by_head(query, [0, 2, 1, 3]), by_head(key, [0, 2, 3, 1])))
            scale = relax.const(1 / math.sqrt(features // heads), "float32")
            masked = emit(op.add(emit(op.multiply(scores, scale)), mask))
            weights = emit(op.nn.softmax(masked))
            mixed = emit(op.matmul(weights, by_head(value, [0, 2, 1, 3])))
            together = emit(op.reshape(emit(op.permute_dims(mixed, [0, 2, 1, 3])), x.ty.shape))
            attended = emit(normalised(emit(op.matmul(together, out)), out_bias, x, norm1))
            inner = emit(op.add(emit(op.matmul(attended, widen)), widen_bias))
            update = emit(op.matmul(emit(op.nn.gelu(inner)), narrow))
            result = builder.emit_output(normalised(update, narrow_bias, attended, norm2))
        builder.emit_func_output(result)
    return builder.get()


class _Parameters:
    """Makes float32 parameters and remembers them."""

    def __init__(self) -> None:
        self.made: list[relax.Var] = []

    def __call__(self, name: str, *shape: int) -> relax.Var:
        self.made.append(relax.Var(name, relax.TensorType(shape, "float32")))
        return self.made[-1]


def inputs(mod: tvm.IRModule, seed: int = 0) -> list[np.ndarray]:
    """Arrays for `block`'s parameters: weights of the usual size, and a mask that hides tokens."""
    random = np.random.default_rng(seed)
    arrays = []
    for parameter in mod["main"].params:
        shape = tuple(int(extent) for extent in parameter.ty.shape.values)
        array = random.standard_normal(shape)
        if parameter.name == "mask":
            array = np.where(array > 1, -1e4, 0.0)
        elif len(shape) == 2 and parameter.name != "x":
            array /= math.sqrt(shape[0])
        arrays.append(array.astype("float32"))
    return arrays


def main(target: Any = "cuda", as_json: bool = False, say: Callable[[str], None] = print) -> int:
    """Show the plan, check it on the CPU, time it where there is a GPU. 0 if all is well.

    Raises CompilerMissing, after the plan is shown, where g++ is missing.
    """
    if as_json:
        return _as_json(cuda_target(target), say)
    cuda = cuda_target(target)
    mod = block(*SMALL)
    say(f"A Transformer block ({_described(SMALL)}), compiled for {cuda.attrs['arch']}:\n")
    say(_summary(explain(mod, cuda)))
    say("\nThe same module on this machine's CPU: every kernel from its CUDA source, in three")
    say("thread orders, compared with float64:\n")
    try:
        verification = verify(mod, cuda, inputs(mod))
    except CompilerMissing as error:
        raise CompilerMissing(f"the plan is above; to check it as well: {error}") from None
    say(str(verification))
    if tvm.cuda(0).exist:
        say(f"\nOn the GPU ({_described(LARGE)}), milliseconds a call:\n")
        times = _timed(cuda)
        say(f"TVM's default {times['default']:.3f}\nstitched      {times['stitched']:.3f}")
    else:
        say("\nNo GPU here, so nothing is timed.")
    return 0 if verification.ok else 1


def _described(size: tuple[int, int, int, int]) -> str:
    batch, heads, tokens, features = size
    return f"batch {batch}, {heads} heads, {tokens} tokens, {features} features, float32"


def _summary(report: Report) -> str:
    default = [kernel for kernel in report.kernels if kernel.scheme == DEFAULT]
    products = sum(kernel.launches for kernel in default if "matmul" in kernel.ops)
    return f"{report}\n\nOf the launches after, {products} are TVM's own matrix products."


def _as_json(cuda: tvm.target.Target, say: Callable[[str], None]) -> int:
    mod = block(*SMALL)
    report = explain(mod, cuda)
    verification = verify(mod, cuda, inputs(mod))
    data = {
        "report": report.to_json(),
        "verification": verification.to_json(),
        "milliseconds": _timed(cuda) if tvm.cuda(0).exist else None,
    }
    say(json.dumps(data, indent=2))
    return 0 if verification.ok else 1


def _timed(cuda: tvm.target.Target) -> dict[str, float]:
    """A call by TVM's default pipeline and stitched, in milliseconds."""
    mod = block(*LARGE)
    arrays, device = inputs(mod), tvm.cuda(0)
    return {
        "default": milliseconds(tvm.compile(mod, cuda), device, arrays),
        "stitched": milliseconds(stitch_compile(mod, cuda), device, arrays),
    }


def milliseconds(executable: Any, device: Any, arrays: list[np.ndarray]) -> float:
    """The median time of a call of main."""
    machine = relax.VirtualMachine(executable, device)
    tensors = [tvm.runtime.tensor(array, device) for array in arrays]
    machine["main"](*tensors)
    times = machine.time_evaluator("main", device, number=1, repeat=CALLS)(*tensors)
    return float(np.median(times.results)) * 1e3
