"""Checks and times convolutions by the library's call, beside PyTorch's.

In: Shapes. Out: dictionaries for JSON. Both work on PyTorch's tensors, which lie as the call wants
them; PyTorch chooses among cuDNN's engines by timing them, and has float32 as IEEE has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch
import tvm_ffi

from bench.convolutions.shapes import FUSED, RESIDUAL, Shape
from bench.measure import Meter
from tvm_stitch.library import shim
from tvm_stitch.library.convolution import DATA, FORWARD, WORKSPACE_BYTES
from tvm_stitch.library.numpy_convolution import convolved

F = torch.nn.functional
# How far from float64 a result may be, as a share of the largest: sums are in float32, and what is
# stored is rounded to its type; transforms (Winograd, FFT) of float32 lose a digit.
CLOSE = {"float32": 2e-5, "float16": 1.5e-3, "bfloat16": 1e-2}
Tensors = dict[str, torch.Tensor]


def settings() -> None:
    """PyTorch at its best, and exact."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


def tensors_of(shape: Shape, device: str) -> Tensors:
    """Random data, weights, gradient, bias and residual, as they lie in memory."""
    draw = torch.Generator(device=device).manual_seed(0)
    form = torch.channels_last if shape.channels_last else torch.contiguous_format

    def made(extents: Sequence[int], scale: float = 1.0) -> torch.Tensor:
        found = torch.randn(*extents, generator=draw, device=device) * scale
        found = found.to(getattr(torch, shape.dtype))
        return found.contiguous(memory_format=form) if found.dim() == 4 else found

    data, weight, result = shape.extents
    return {
        "data": made(data),
        "weight": made(weight, (weight[1] * weight[2] * weight[3]) ** -0.5),
        "gradient": made(result),
        "bias": made((shape.results,)),
        "residual": made(result),
    }


def operands(shape: Shape, given: Tensors) -> list[torch.Tensor]:
    """The tensors of the call."""
    names = ["gradient" if shape.what == DATA else "data"]
    names += ["weight" if shape.what in (FORWARD, DATA) else "gradient"]
    names += ["bias"] if shape.ending in (FUSED, RESIDUAL) else []
    return [given[name] for name in names + (["residual"] if shape.ending == RESIDUAL else [])]


def _lying(shape: Shape, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor by its dimensions in the order of memory."""
    return tensor.permute(0, 2, 3, 1) if shape.channels_last and tensor.dim() == 4 else tensor


def library_call(shape: Shape, given: Tensors) -> Callable[[], torch.Tensor]:
    """The call that compiled modules make; it returns the result, channels second."""
    function = shim.function("convolution")
    like = {FORWARD: "gradient", DATA: "data"}.get(shape.what, "weight")
    result = torch.empty_like(given[like])
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=result.device)
    passed = [_lying(shape, tensor) for tensor in operands(shape, given)]
    numbers = tvm_ffi.Shape(shape.convolution.encoded())
    written = _lying(shape, result)

    def call() -> torch.Tensor:
        function(*passed, numbers, written, workspace)
        return result

    return call


def torch_call(shape: Shape, given: Tensors) -> Callable[[], torch.Tensor]:
    """The same by PyTorch's operators."""
    data, weight, gradient = given["data"], given["weight"], given["gradient"]
    convolution = shape.convolution
    strides, padding = list(convolution.strides), list(convolution.before)
    if shape.what != FORWARD:
        wanted = 0 if shape.what == DATA else 1
        mask = [wanted == 0, wanted == 1, False]

        def backward() -> torch.Tensor:
            return torch.ops.aten.convolution_backward(
                gradient, data, weight, None, strides, padding, [1, 1], False, [0, 0],
                shape.groups, mask,
            )[wanted]  # fmt: skip

        return backward
    bias = given["bias"] if shape.ending else None

    def forward() -> torch.Tensor:
        found = F.conv2d(data, weight, bias, strides, padding, 1, shape.groups)
        found = found + given["residual"] if shape.ending == RESIDUAL else found
        return F.relu(found) if shape.ending else found

    return forward


def fused_call(shape: Shape, given: Tensors) -> Callable[[], torch.Tensor] | None:
    """PyTorch's own call of cuDNN with what follows in one kernel, where it has one."""
    convolution = shape.convolution
    way = [list(convolution.strides), list(convolution.before), [1, 1], shape.groups]
    data, weight, bias = given["data"], given["weight"], given["bias"]
    if shape.ending == FUSED:
        return lambda: torch.ops.aten.cudnn_convolution_relu(data, weight, bias, *way)
    if shape.ending == RESIDUAL:
        return lambda: torch.ops.aten.cudnn_convolution_add_relu(
            data, weight, given["residual"], 1.0, bias, *way
        )
    return None


def exact(shape: Shape, given: Tensors) -> torch.Tensor:
    """What it comes to, in float64."""
    return torch_call(shape, {name: each.double() for name, each in given.items()})()


def error_of(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest error, as a share of the largest result; not a number is infinitely wrong."""
    difference = (found.double() - expected).abs().max() / expected.abs().max()
    return float("inf") if bool(difference.isnan()) else float(difference)


def check_on_cpu(shapes: Sequence[Shape]) -> Iterator[dict[str, Any]]:
    """NumPy in the library's place: that calls are what they should be."""
    for shape in shapes:
        given = tensors_of(shape, "cpu")
        passed = [_lying(shape, each).float().numpy() for each in operands(shape, given)]
        expected = exact(shape, given)
        extents = _lying(shape, expected).shape
        found = torch.from_numpy(convolved(shape.convolution, passed, extents))
        error = error_of(found, _lying(shape, expected))
        yield {"shape": shape.name, "error": error, "ok": error <= CLOSE["float32"]}


def measure(shapes: Sequence[Shape], seconds: float) -> Iterator[dict[str, Any]]:
    """Each convolution checked and timed."""
    settings()
    meter, ends = Meter(), time.monotonic() + seconds
    for shape in shapes:
        if time.monotonic() > ends:
            return
        yield _measured(shape, meter)


def _measured(shape: Shape, meter: Meter) -> dict[str, Any]:
    row: dict[str, Any] = {"shape": shape.name, **asdict(shape), "operations": shape.operations}
    given = tensors_of(shape, "cuda")
    expected = exact(shape, given)
    calls = {"library": library_call, "torch": torch_call, "torch_fused": fused_call}
    ready: dict[str, Callable[[], Any]] = {}
    for way, make in calls.items():
        try:
            call = make(shape, given)
            if call is None:
                continue
            started = time.monotonic()
            found = call()
            torch.cuda.synchronize()
            row[f"{way}_first_s"] = round(time.monotonic() - started, 3)
            row[f"{way}_error"] = error_of(found, expected)
            repeated = torch.equal(found.clone(), call())
            row[f"{way}_repeats"] = repeated
            ready[way] = call
        except Exception as error:
            row[f"{way}_said"] = str(error)[-600:]
    row["ok"] = row.get("library_error", float("inf")) <= CLOSE[shape.dtype]
    for way, timing in meter.gpu_times(ready).items():
        row[f"{way}_us"], row[f"{way}_kernels"] = timing.us, [part[0] for part in timing.parts]
    return row
