"""Modules whose convolutions cuDNN computes: what it is asked for, and that they are right."""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_stitch import Options
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.graph.back.launches import outside_calls
from tvm_stitch.graph.front.convolution import LibraryConvolutions
from tvm_stitch.library.convolution import NAME, decoded
from tvm_stitch.reference import random_inputs, reference
from tvm_stitch.target import full_target
from tvm_stitch.verify import stitched_for_cpu

TARGET = full_target("nvidia/nvidia-h100")
CLOSE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def module(body, *shapes, dtype="float16"):
    """A function of tensors of these shapes."""
    params = [relax.Var(f"p{n}", relax.TensorType(s, dtype)) for n, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(body(builder.emit, *params))
        builder.emit_func_output(output)
    return builder.get()


def calls(mod, tf32=False):
    """What cuDNN is asked for, in order, and what it is not asked for."""
    heard = []
    changed = LibraryConvolutions(lambda *each: heard.append(each), tf32)(mod)
    numbers = [
        [int(number) for number in call.args[1].fields[-1].values] for call in packed(changed)
    ]
    return [decoded(each) for each in numbers], [why for _, why in heard]


def packed(mod):
    """The calls of packed functions, in order."""
    return [
        binding.value
        for function in mod.functions.values()
        if isinstance(function, relax.Function)
        for block in function.body.blocks
        for binding in block.bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_dps_packed"
    ]


def check(mod, count=1, kernels=None, tf32=False):
    """The module calls cuDNN so often, launches so many kernels besides, and computes the same."""
    stitched = stitched_for_cpu(mod, TARGET, Options(tf32_convolutions=tf32))
    assert outside_calls(stitched) == ((NAME,) if count else ())
    assert len(calls(mod, tf32)[0]) == count
    arrays = random_inputs(mod, 0)
    runner = Runner(stitched, TARGET)
    for got, want in zip(runner.run(arrays, 0), reference(mod, arrays), strict=True):
        dtype = str(mod["main"].params[0].ty.dtype.dtype)
        got = got.view("bfloat16") if dtype == "bfloat16" and got.dtype == "uint16" else got
        assert np.abs(got.astype(float) - want).max() <= CLOSE[dtype] * np.abs(want).max()
    if kernels is not None:
        assert len(runner.ran) == kernels, runner.ran
