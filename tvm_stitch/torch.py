"""PyTorch's front door: compile models, see what becomes of them, read programs and functions.

`torch.compile(model, backend="tvm_stitch")` needs no import of this package. The functions here
are for those who want arguments that an editor completes, a report, or the Relax module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_stitch.errors import InputError
from tvm_stitch.options import Options

try:
    import torch
except ImportError as error:
    raise InputError(
        "tvm_stitch.torch needs PyTorch, which is not installed: pip install 'tvm-stitch[torch]'"
    ) from error

from tvm_stitch.dynamo.backend import GraphCompiler, TorchWarning, tvm_stitch_backend
from tvm_stitch.dynamo.report import LeftReport, PartReport, TorchReport
from tvm_stitch.dynamo.settings import Settings
from tvm_stitch.frontend.torch.load import load, trace

__all__ = [
    "GraphCompiler",
    "LeftReport",
    "PartReport",
    "Settings",
    "TorchReport",
    "TorchWarning",
    "compile",
    "explain",
    "load",
    "trace",
]


def compile(
    model: Callable[..., Any] | None = None,
    *,
    device: str = "cuda",
    target: Any = "cuda",
    smallest_part: int | None = None,
    stitching: Options | None = None,
    database: Any = None,
    largest_logits: int | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
) -> Any:
    """`torch.compile(model, backend="tvm_stitch", ...)`; without a model, a decorator.

    model: a module or function of PyTorch's.
    device: "cuda" compiles what lies on a GPU. "cpu-executor" compiles what lies on the CPU:
        the kernels that a GPU would run, thread by thread on this machine, slow and watched.
        "llvm" compiles what lies on the CPU with TVM's LLVM target, without stitching.
    target: the GPU to plan for, as TVM names it; "cuda" is this machine's.
    smallest_part: parts of fewer operators, views apart, stay PyTorch's. None: single products,
        convolutions and constants do, for which nothing is gained.
    stitching: Options of the stitching passes.
    database: the path of a record store that `tvm_stitch.tune` wrote.
    largest_logits: in training, logits of more bytes, the loss of them and its gradients are
        computed by chunks of rows, of which none has more. None: all at once.
    dynamic: as for torch.compile.
    fullgraph: as for torch.compile.
    """
    settings = Settings(
        device,
        target,
        smallest_part,
        stitching or Options(),
        database,
        largest_logits=largest_logits,
    )
    options: Any = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    return torch.compile(
        model, backend=tvm_stitch_backend, options=options, dynamic=dynamic, fullgraph=fullgraph
    )


def explain(
    model: Callable[..., Any],
    *inputs: Any,
    target: Any = "cuda",
    stitching: Options | None = None,
    smallest_part: int | None = None,
    largest_logits: int | None = None,
    dynamic: bool | None = None,
) -> TorchReport:
    """What `compile` makes of a model for these inputs: its parts, their kernels, what is left.

    The model runs once, on whatever device it lies, by PyTorch's operators; so do the gradients of
    its results, if any result needs them. No GPU is needed, and no `.grad` changes; buffers that
    the model updates are updated.
    """
    settings = Settings(
        target=target,
        stitching=stitching or Options(),
        smallest_part=smallest_part,
        largest_logits=largest_logits,
    )
    compiler = GraphCompiler(settings, explained=True)
    results = torch.compile(model, backend=compiler, dynamic=dynamic)(*inputs)
    differentiable = [t for t in _tensors(results) if t.requires_grad]
    if differentiable:
        sources = [t for t in _tensors(inputs) if t.requires_grad]
        if isinstance(model, torch.nn.Module):
            sources += [parameter for parameter in model.parameters() if parameter.requires_grad]
        ones = [torch.ones_like(tensor) for tensor in differentiable]
        torch.autograd.grad(differentiable, sources, ones, allow_unused=True)
    return compiler.log.report()


def _tensors(value: Any) -> list[torch.Tensor]:
    leaves, _ = torch.utils._pytree.tree_flatten(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
