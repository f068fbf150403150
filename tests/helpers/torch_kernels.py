"""What is converted runs as the kernels of a GPU, in the CPU executor."""

from collections.abc import Callable
from typing import Any

import torch
from torch_programs import agree, flat

from tvm_stitch.dynamo.backend import GraphCompiler
from tvm_stitch.dynamo.settings import EXECUTOR, Settings


def check_kernels(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    """PyTorch compiles the function into kernels, which compute what PyTorch computes."""
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90", smallest_part=1))
    with torch.no_grad():
        found = flat(torch.compile(function, backend=ours)(*inputs))
        exact = flat(function(*(x.double() if x.is_floating_point() else x for x in inputs)))
        for got, want, truth in zip(found, flat(function(*inputs)), exact, strict=True):
            agree(got, want, truth)
    report = ours.log.report()
    assert report.parts
    assert not [part.failure for part in report.parts if part.failure]
    assert any(machine.kernels for machine in ours.machines.values())
