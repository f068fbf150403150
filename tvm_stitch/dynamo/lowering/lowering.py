"""How a converted part is lowered, as plain data.

In: what it depends on. Out: what the pipeline makes of a module, with results and memory between
kernels given by the caller. Must not know PyTorch, which other processes that lower do without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_stitch.build import lowering_context, pipeline
from tvm_stitch.graph.back.destinations import Destinations, InPlace
from tvm_stitch.graph.back.storages import Storages
from tvm_stitch.options import Options
from tvm_stitch.processes.modules import module_of

_KEPT_AS = "results in destinations, storages in one tensor"  # in the cache


@dataclass(frozen=True)
class Lowering:
    """What the lowering of a part depends on; results may be written over some of its tensors."""

    target: str  # TVM's JSON
    options: Options
    database: Any
    over: tuple[tuple[int, int], ...]

    @staticmethod
    def of(
        target: tvm.target.Target,
        options: Options,
        database: Any,
        over: Sequence[tuple[int, int]] = (),
    ) -> Lowering:
        """For a target as it is."""
        return Lowering(tvm.ir.save_json(target), options, database, tuple(over))

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        """The lowered module."""
        target = module_of(self.target)
        written = [Destinations(), *([InPlace(self.over)] if self.over else [])]
        passes = pipeline(
            target,
            self.options,
            self.database,
            lowered=written,
            planned=[Storages()],
            kept_as=f"{_KEPT_AS}; {self.over}" if self.over else _KEPT_AS,
        )
        with lowering_context(), target:
            return passes(mod)
