"""Blocks of models with convolutions, compiled whole, beside PyTorch with channels last.

In: nothing. Out: dictionaries for JSON. Images lie with channels last on both sides, weights are
constants, as in inference: what is measured holds every transposition that the module needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import tvm
from tvm import relax
from tvm.relax import op

from bench.convolutions.run import error_of, settings
from bench.libraries import is_named
from bench.measure import Meter
from tvm_stitch import Options
from tvm_stitch import compile as compile_module
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.target import full_target
from tvm_stitch.verify import stitched_for_cpu

F = torch.nn.functional
Emit = Callable[[Any], Any]
CLOSE = 1e-2  # halves are rounded between operators, in PyTorch as here


@dataclass(frozen=True)
class Block:
    """The same function of an image and weights for Relax and for PyTorch."""

    name: str
    image: tuple[int, int, int, int]
    weights: tuple[tuple[int, ...], ...]
    relax: Callable[..., Any]
    torch: Callable[..., torch.Tensor]


def _channel(emit: Emit, vector: Any) -> Any:
    return emit(op.reshape(vector, (1, -1, 1, 1)))


def _conv(emit: Emit, x: Any, weight: Any, bias: Any, **how: Any) -> Any:
    return emit(op.add(emit(op.nn.conv2d(x, weight, **how)), _channel(emit, bias)))


def _bottleneck(emit: Emit, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    h = emit(op.nn.relu(_conv(emit, x, w1, b1)))
    h = emit(op.nn.relu(_conv(emit, h, w2, b2, padding=1)))
    return emit(op.nn.relu(emit(op.add(_conv(emit, h, w3, b3), x))))


def _torch_bottleneck(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> torch.Tensor:
    h = F.relu(F.conv2d(x, w1, b1))
    h = F.relu(F.conv2d(h, w2, b2, padding=1))
    return F.relu(F.conv2d(h, w3, b3) + x)


def _convnext(emit: Emit, x: Any, w: Any, b: Any, g: Any, s: Any, w1: Any, w2: Any, t: Any) -> Any:
    h = _conv(emit, x, w, b, padding=3, groups=int(x.ty.shape.values[1]))
    h = emit(op.permute_dims(h, [0, 2, 3, 1]))
    h = emit(op.nn.layer_norm(h, g, s, [-1], 1e-6))
    h = emit(op.nn.gelu_tanh(emit(op.matmul(h, w1))))
    h = emit(op.multiply(emit(op.matmul(h, w2)), t))
    return emit(op.add(emit(op.permute_dims(h, [0, 3, 1, 2])), x))


def _torch_convnext(
    x: Any, w: Any, b: Any, g: Any, s: Any, w1: Any, w2: Any, t: Any
) -> torch.Tensor:
    h = F.conv2d(x, w, b, padding=3, groups=x.shape[1]).permute(0, 2, 3, 1)
    h = F.gelu(F.layer_norm(h, g.shape, g, s, 1e-6) @ w1, approximate="tanh")
    return (h @ w2 * t).permute(0, 3, 1, 2) + x


def _unet(
    emit: Emit, x: Any, g1: Any, s1: Any, w1: Any, b1: Any, time: Any, g2: Any, s2: Any,
    w2: Any, b2: Any,
) -> Any:  # fmt: skip
    h = emit(op.nn.silu(emit(op.nn.group_norm(x, g1, s1, 32, 1, [2, 3], 1e-5))))
    h = _conv(emit, h, w1, b1, padding=1)
    h = emit(op.add(h, _channel(emit, time)))
    h = emit(op.nn.silu(emit(op.nn.group_norm(h, g2, s2, 32, 1, [2, 3], 1e-5))))
    return emit(op.add(_conv(emit, h, w2, b2, padding=1), x))


def _torch_unet(
    x: Any, g1: Any, s1: Any, w1: Any, b1: Any, time: Any, g2: Any, s2: Any, w2: Any, b2: Any
) -> torch.Tensor:
    h = F.silu(F.group_norm(x, 32, g1, s1))
    h = F.conv2d(h, w1, b1, padding=1) + time[None, :, None, None]
    h = F.silu(F.group_norm(h, 32, g2, s2))
    return F.conv2d(h, w2, b2, padding=1) + x


def _mbconv(
    emit: Emit, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, w4: Any, b4: Any,
    w5: Any, b5: Any,
) -> Any:  # fmt: skip
    h = emit(op.nn.silu(_conv(emit, x, w1, b1)))
    groups = int(h.ty.shape.values[1])
    h = emit(op.nn.silu(_conv(emit, h, w2, b2, padding=1, groups=groups)))
    gate = emit(op.mean(h, [2, 3], keepdims=True))
    gate = emit(op.nn.silu(_conv(emit, gate, w3, b3)))
    gate = emit(op.sigmoid(_conv(emit, gate, w4, b4)))
    return emit(op.add(_conv(emit, emit(op.multiply(h, gate)), w5, b5), x))


def _torch_mbconv(
    x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, w4: Any, b4: Any, w5: Any, b5: Any
) -> torch.Tensor:
    h = F.silu(F.conv2d(x, w1, b1))
    h = F.silu(F.conv2d(h, w2, b2, padding=1, groups=h.shape[1]))
    gate = torch.sigmoid(F.conv2d(F.silu(F.conv2d(h.mean((2, 3), True), w3, b3)), w4, b4))
    return F.conv2d(h * gate, w5, b5) + x


def _up(emit: Emit, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, **how: Any) -> Any:
    h = emit(op.nn.conv2d_transpose(x, w1, strides=(2, 2), **how))
    h = emit(op.nn.relu(emit(op.add(h, _channel(emit, b1)))))
    return emit(op.nn.relu(_conv(emit, h, w2, b2, padding=1)))


def _torch_up(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, padding: int = 0) -> torch.Tensor:
    h = F.relu(F.conv_transpose2d(x, w1, b1, stride=2, padding=padding))
    return F.relu(F.conv2d(h, w2, b2, padding=1))


def blocks(small: bool = False) -> list[Block]:
    """One of each model, or of each a small one."""

    def sized(batch: int, channels: int, side: int) -> tuple[int, int, int, int]:
        return (1, channels, 6, 6) if small else (batch, channels, side, side)

    n, m, c, u = (32, 8, 16, 32) if small else (256, 64, 96, 320)
    e, k, s = (8, 24, 4) if small else (24, 144, 6)
    g = 8 if small else 256
    bottleneck = ((m, n, 1, 1), (m,), (m, m, 3, 3), (m,), (n, m, 1, 1), (n,))
    convnext = ((c, 1, 7, 7), (c,), (c,), (c,), (c, 4 * c), (4 * c, c), (c,))
    unet = ((u,), (u,), (u, u, 3, 3), (u,), (u,), (u,), (u,), (u, u, 3, 3), (u,))
    mbconv = (
        (k, e, 1, 1), (k,), (k, 1, 3, 3), (k,), (s, k, 1, 1), (s,), (k, s, 1, 1), (k,),
        (e, k, 1, 1), (e,),
    )  # fmt: skip

    def up(size: int) -> tuple[tuple[int, ...], ...]:
        return (2 * g, g, size, size), (g,), (g, g, 3, 3), (g,)

    return [
        Block("resnet bottleneck", sized(16, n, 56), bottleneck, _bottleneck, _torch_bottleneck),
        Block("convnext block", sized(16, c, 56), convnext, _convnext, _torch_convnext),
        Block("unet residual block", sized(8, u, 64), unet, _unet, _torch_unet),
        Block("efficientnet block", sized(16, e, 56), mbconv, _mbconv, _torch_mbconv),
        Block("unet up block", sized(4, 2 * g, 56), up(2), _up, _torch_up),
        Block(
            "generator block", sized(64, 2 * g, 16), up(4),
            partial(_up, padding=(1, 1)), partial(_torch_up, padding=1),
        ),
    ]  # fmt: skip


def inputs_of(block: Block, device: str) -> list[torch.Tensor]:
    """The image, channels last, and the weights."""
    draw = torch.Generator(device=device).manual_seed(0)
    found = []
    for extents in (block.image, *block.weights):
        value = torch.randn(*extents, generator=draw, device=device)
        per_result = value[0].numel() if value.dim() == 4 else value.shape[0]
        found.append((value * (per_result**-0.5 if value.dim() != 1 else 0.5)).half())
    found[0] = torch.randn(*block.image, generator=draw, device=device).half()
    form = torch.channels_last
    return [each.contiguous(memory_format=form) if each.dim() == 4 else each for each in found]


def module_of(block: Block, weights: Sequence[torch.Tensor]) -> tvm.IRModule:
    """The block as Relax: an image with channels last in, one out, the weights within."""
    batch, channels, height, width = block.image
    image = relax.Var("image", relax.TensorType((batch, height, width, channels), "float16"))
    builder = relax.BlockBuilder()
    constants = [relax.const(each.contiguous().cpu().numpy(), "float16") for each in weights]
    with builder.function("main", [image]):
        with builder.dataflow():
            x = builder.emit(op.permute_dims(image, [0, 3, 1, 2]))
            found = block.relax(builder.emit, x, *constants)
            output = builder.emit_output(op.permute_dims(found, [0, 2, 3, 1]))
        builder.emit_func_output(output)
    return builder.get()


def _exact(block: Block, given: Sequence[torch.Tensor]) -> torch.Tensor:
    return block.torch(*(each.double() for each in given)).permute(0, 2, 3, 1)


def check_on_cpu() -> Iterator[dict[str, Any]]:
    """Small blocks as the GPU would get them, run by the executor; cuDNN's part by NumPy."""
    target = full_target(tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}))
    for block in blocks(small=True):
        given = inputs_of(block, "cpu")
        runner = Runner(stitched_for_cpu(module_of(block, given[1:]), target), target)
        image = given[0].permute(0, 2, 3, 1).contiguous().numpy()
        error = error_of(torch.from_numpy(runner.run([image], 0)[0]), _exact(block, given))
        yield {"shape": block.name, "error": error, "ok": error <= CLOSE, "kernels": runner.ran}


def measure(patterns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Each block checked and timed: with the libraries and without, and PyTorch's ways."""
    settings()
    meter = Meter()
    for block in blocks():
        if is_named(block.name, patterns):
            yield _measured(block, meter)


def _measured(block: Block, meter: Meter) -> dict[str, Any]:
    given = inputs_of(block, "cuda")
    expected = _exact(block, given)
    row: dict[str, Any] = {"block": block.name, "ok": True}
    ways: dict[str, Callable[[], Callable[[], torch.Tensor]]] = {
        "library": lambda: _compiled(block, given),
        "torch": lambda: lambda: block.torch(*given).permute(0, 2, 3, 1),
        "torch_compile": lambda: _inductor(block, given),
    }
    ready: dict[str, Callable[[], Any]] = {}
    for way, make in ways.items():
        try:
            with torch.no_grad():
                call = make()
                row[f"{way}_error"] = error_of(call(), expected)
            ready[way] = call
        except Exception as error:
            row[f"{way}_said"] = str(error)[-600:]
    row["ok"] = row.get("library_error", float("inf")) <= CLOSE
    with torch.no_grad():
        timings = meter.gpu_times(ready)
    for way, timing in timings.items():
        row[f"{way}_us"], row[f"{way}_kernels"] = timing.us, timing.parts
    return row


def _compiled(block: Block, given: Sequence[torch.Tensor]) -> Callable[[], torch.Tensor]:
    built = compile_module(module_of(block, given[1:]), "cuda", Options(cache="off"))
    main = relax.VirtualMachine(built, tvm.cuda(0))["main"]
    image = tvm.runtime.from_dlpack(given[0].permute(0, 2, 3, 1))
    return lambda: torch.from_dlpack(main(image))


def _inductor(block: Block, given: Sequence[torch.Tensor]) -> Callable[[], torch.Tensor]:
    compiled = torch.compile(block.torch)
    return lambda: compiled(*given).permute(0, 2, 3, 1)


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    ways = ("library", "torch", "torch_compile")
    times = ", ".join(f"{way} {row[f'{way}_us']:.1f} us" for way in ways if f"{way}_us" in row)
    said = "".join(f"\n    {way}: {row[f'{way}_said']}" for way in ways if f"{way}_said" in row)
    verdict = "" if row["ok"] else "  WRONG"
    return f"{row['block']:24} {times}  error {row.get('library_error')}{verdict}{said}"
