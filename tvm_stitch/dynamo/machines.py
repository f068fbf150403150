"""The machines of a model's parts, one for all that are equal; of a graph several at a time.

In: parts, as FX graphs. Out: Machines. What other processes can do of it they do meanwhile
(dynamo/lowering). Must not know where parts come from, nor what becomes of one that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
import tvm
import tvm_ffi
from torch import fx

from tvm_stitch.build import without_folding
from tvm_stitch.dynamo.lowering.ahead import Ahead, begin
from tvm_stitch.dynamo.machine import Machine, Results, lowering_of, machine_for
from tvm_stitch.dynamo.part import results_of
from tvm_stitch.dynamo.parts import device_of
from tvm_stitch.dynamo.settings import Settings
from tvm_stitch.frontend.torch import convert
from tvm_stitch.frontend.torch.convert import Converted


@dataclass(frozen=True)
class Known:
    """A converted part, its results, and where its tensors lie."""

    converted: Converted
    results: Results
    device: torch.device

    @staticmethod
    def of(part: fx.GraphModule, over: Mapping[int, int]) -> Known:
        """A part, whose results may be written over some of its tensors."""
        (output,) = part.graph.find_nodes(op="output")
        converted = convert(part.graph)
        results = results_of(part.graph, converted, over)
        return Known(converted, results, device_of(output.args[0][0]))

    @cached_property
    def key(self) -> Any:
        """Those of one key have one machine."""
        return tvm_ffi.StructuralKey(self.converted.module), self.device, self.results.over


class Machines:
    """Those of parts that are compiled by the same settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.found: dict[Any, Machine] = {}

    def expect(self, graph: fx.GraphModule) -> None:
        """Start what will lower some of a graph's parts, while the graph is split into them."""
        begin(sum(node.op == "call_function" for node in graph.graph.nodes))

    def of(self, part: Known, lowered: Callable[[], tvm.IRModule | None] = lambda: None) -> Machine:
        """What runs a part; `lowered` says what another process has made of it."""
        key = part.key
        if key not in self.found:
            given = part.converted, self._settings, part.device, part.results
            self.found[key] = machine_for(*given, lowered)
        return self.found[key]

    def lowered_together(
        self, parts: Mapping[str, fx.GraphModule], over: Mapping[str, Mapping[int, int]]
    ) -> dict[str, Known]:
        """A graph's parts by their names, whose machines are made while others lower some.

        What fails of a part fails again where somebody asks for it.
        """
        known: dict[str, Known] = {}
        for name, part in parts.items() if len(parts) > 1 else ():
            with suppress(Exception):
                known[name] = Known.of(part, over.get(name, {}))
        new = {part.key: part for part in known.values() if part.key not in self.found}
        if len(new) > 1:
            with without_folding():
                ahead = Ahead(
                    {key: (p.converted.module, self._lowering(p)) for key, p in new.items()}
                )
                for key in ahead.order:
                    with suppress(Exception):
                        self.of(new[key], partial(ahead.lowered, key))
        return known

    def _lowering(self, part: Known) -> Any:
        return lowering_of(self._settings, part.device, part.results.over)
