"""The systems: how each compiles a module, and what it says about that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from bench.torch_models.row import Row

EAGER, INDUCTOR, STITCH = "eager", "inductor", "stitch"
SYSTEMS = (EAGER, INDUCTOR, STITCH)
# With mode="reduce-overhead"; tried where they are asked for.
GRAPHS = "-graphs"
CAPTURED = (INDUCTOR + GRAPHS, STITCH + GRAPHS)
# PyTorch's graphs run by its operators: what dynamo breaks, known without a compiler.
DYNAMO = "dynamo"
OPTIONAL = (*CAPTURED, DYNAMO)
CUDA, EXECUTOR = "cuda", "cpu-executor"
DEVICES = (CUDA, EXECUTOR)


class System:
    """One way to run what PyTorch runs; counts what dynamo does meanwhile."""

    def __init__(self, name: str, device: str) -> None:
        self.name = name
        self._backend: Any = "eager" if name == DYNAMO else "inductor"
        self._mode = "reduce-overhead" if name == INDUCTOR + GRAPHS else None
        self._counted: tuple[int, int] = (0, 0)
        if name.startswith(STITCH):
            from tvm_stitch.dynamo.backend import GraphCompiler
            from tvm_stitch.dynamo.settings import Settings

            target = "cuda" if device == CUDA else "sm_90"
            captures = name.endswith(GRAPHS)
            settings = Settings(device=device, target=target, cuda_graphs=captures)
            self._backend = GraphCompiler(settings)

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function under this system."""
        self._counted = _counters()
        if self.name == EAGER:
            return function
        return torch.compile(function, backend=self._backend, mode=self._mode)

    def counted(self) -> tuple[int, int]:
        """Graphs and graph breaks since compile."""
        graphs, breaks = _counters()
        return graphs - self._counted[0], breaks - self._counted[1]

    def tell(self, row: Row) -> None:
        """Into the row what became of the graphs."""
        row.graphs, row.breaks = self.counted()
        if not self.name.startswith(STITCH):
            return
        report = self._backend.log.report()
        row.stitched = sum(part.stitched for part in report.parts)
        row.failures = [
            f"{', '.join(dict.fromkeys(part.operators))}: {part.failure}"[:500]
            for part in report.parts
            if part.failure
        ]
        row.left = {}
        for each in report.left:
            name = f"{each.operator}: {each.reason}"
            row.left[name] = row.left.get(name, 0) + each.calls
        row.notes = list(report.notes)


def _counters() -> tuple[int, int]:
    found = torch._dynamo.utils.counters
    return int(found["stats"]["unique_graphs"]), sum(found["graph_break"].values())
