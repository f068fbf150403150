"""The machines of a model's parts, one for all that are equal; of a graph several at a time.

In: parts, as FX graphs. Out: Machines. What other processes can do of it they do meanwhile
(dynamo/lowering). Must not know where parts come from, nor what becomes of one that fails.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
import tvm_ffi
from torch import fx

from tvm_stitch.build import without_folding
from tvm_stitch.dynamo.lowering.ahead import Ahead, ToLower, are_idle, size
from tvm_stitch.dynamo.machine import Machine, Results, lowering_of, machine_for
from tvm_stitch.dynamo.part import results_of
from tvm_stitch.dynamo.parts.nodes import device_of
from tvm_stitch.dynamo.settings import Settings
from tvm_stitch.frontend.torch import convert
from tvm_stitch.frontend.torch.convert import Converted
from tvm_stitch.processes.forks import FORKS

Parts = Mapping[str, fx.GraphModule]
Over = Mapping[str, Mapping[int, int]]
"""By the names of parts: their results that may be written over their tensors, by number."""


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

    def __init__(self, settings: Settings, by_others: bool = True) -> None:
        self._settings, self._by_others = settings, by_others
        self._ahead = Ahead()
        self.found: dict[Any, Machine] = {}

    def expect(self, graph: fx.GraphModule, operators: int = 1) -> None:
        """Start what will lower some of a graph's parts, before the graph is split into them.

        Each of its calls becomes so many operators.
        """
        if self._by_others:
            called = (node.op in ("call_function", "call_method") for node in graph.graph.nodes)
            FORKS.begin_for(operators * sum(called))

    @property
    def have_idle_processes(self) -> bool:
        """Whether others could lower what nobody waits for yet."""
        return self._by_others and are_idle()

    def lower_ahead(self, parts: Parts, over: Over) -> dict[str, Known]:
        """A graph's parts by their names, which others lower: somebody may ask for them."""
        known = self._known(parts, over)
        with without_folding():
            self._ahead.ask(self._lowerings(known.values()), can_wait=True)
        return known

    def of(self, part: Known) -> Machine:
        """What runs a part, which another process may have lowered."""
        key = part.key
        if key not in self.found:
            given = part.converted, self._settings, part.device, part.results
            self.found[key] = machine_for(*given, partial(self._ahead.lowered, key))
        return self.found[key]

    def lowered_together(
        self, parts: Parts, over: Over, known: dict[str, Known]
    ) -> dict[str, Known]:
        """A graph's parts by their names, whose machines are made while others lower some.

        Some may be known. What fails of a part fails again where somebody asks for it.
        """
        if not self._by_others:
            return known
        if not known and len(parts) > 1:
            known = self._known(parts, over)
        left = self._lowerings(known.values())
        new = {part.key: part for part in known.values()}
        with without_folding():
            # The largest first, which others would end with; what they are at already last.
            for key in sorted(left, key=lambda key: (self._ahead.is_asked(key), -size(left[key]))):
                del left[key]
                self._ahead.ask(left)
                with suppress(Exception):
                    self.of(new[key])
        return known

    def _known(self, parts: Parts, over: Over) -> dict[str, Known]:
        known: dict[str, Known] = {}
        for name, part in parts.items():
            with suppress(Exception):
                known[name] = Known.of(part, over.get(name, {}))
        return known

    def _lowerings(self, parts: Iterable[Known]) -> dict[Hashable, ToLower]:
        """Of parts that have no machine yet, each once: what others need to lower them."""
        return {
            part.key: (part.converted.module, self._lowering(part))
            for part in parts
            if part.key not in self.found
        }

    def _lowering(self, part: Known) -> Any:
        return lowering_of(self._settings, part.device, part.results.over)
