"""The reductions of a kernel, those in two stages that gain by it: partials, then the final ones.

In: Stages in order and what must be written. Out: the same with both stages of these. How one
reduction falls into two is kernel/cooperative/split_reduction's to say. Must not know threads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import tvm
from tvm import tirx

from tvm_stitch.kernel.analysis.two_stage_softmax import behind_maxima
from tvm_stitch.kernel.analysis.two_stage_variance import one_pass
from tvm_stitch.kernel.codegen.footprint import SUM_BYTES
from tvm_stitch.kernel.cooperative.split_reduction import (
    PIECE_BYTES,
    Split,
    split,
)
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.stage import Stage, Var, constant, element_bytes, handle

# Where rows are reduced first, a block takes whole ones of at most two vectors a thread.
WHOLE_ROW_BYTES = 1 << 14

Slices = dict[Var, tuple[Var, ...]]  # what partials a joined tensor is made of, in order


def in_two_stages(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[tuple[Stage, ...], tuple[Var, ...], Slices]:
    """All reductions that gain by it in two, and the same outputs.

    Sums whose results are only added up become one sum, over the partials of all of them; a sum and
    the squares around its mean are found together, and so are a maximum and the sum of what is
    measured against it.
    """
    two_stage = _two_stage(stages)
    joining = _Joining(stages, outputs, two_stage)
    joining.run()
    many = {k: own for k, own in two_stage.items() if own is not None and own.whole is None}
    pairs = one_pass(stages, many) | behind_maxima(stages, many)
    found: list[Stage] = []
    for stage in stages:
        key = handle(stage.output)
        own, final = two_stage.get(key), joining.replaced.get(key, stage)
        if key in pairs:
            found += pairs[key]
            continue
        if own is not None and final is not None:
            found += [own.partials, own.final] if own.whole is None else [own.whole]
        elif own is not None:
            found.append(own.partials)
        elif final is not None:
            found.append(final)
    return tuple(found), outputs, joining.slices


class _Joining:
    """Finds chains of additions, from their last to their first."""

    def __init__(
        self,
        stages: tuple[Stage, ...],
        outputs: tuple[Var, ...],
        two_stage: dict[int, Split | None],
    ) -> None:
        self.stages, self.two_stage = stages, two_stage
        self.producer = {handle(stage.output): stage for stage in stages}
        self.readers = Counter(k for s in stages for k in {handle(r.buffer) for r in s.reads})
        self.readers.update(map(handle, outputs))
        self.replaced: dict[int, Stage | None] = {}  # None: by what comes later
        self.slices: Slices = {}

    def run(self) -> None:
        """Find all."""
        for stage in reversed(self.stages):
            if handle(stage.output) not in self.replaced and self._terms(stage) is not None:
                self._join(stage)

    def _join(self, stage: Stage) -> None:
        between: list[int] = []
        sums: list[Split] = []
        pending = [stage]
        while pending:
            current = pending.pop()
            between.append(handle(current.output))
            terms, own = self._terms(current), self.two_stage.get(between[-1])
            if terms is not None:
                pending += reversed(terms)
            elif own is not None and constant(current.size) == 1 and current.combiner == "sum":
                sums.append(own)
            else:
                return
        if len(sums) < 2:
            return
        partials = tuple(own.partials.output for own in sums)
        size = tvm.sym.Analyzer().simplify(sum(own.partials.size for own in sums))
        whole = tirx.decl_buffer((size,), "float32", "partials")
        place = tirx.Var("partial", "int64")
        self.slices[whole] = partials
        self.replaced |= dict.fromkeys(between)
        self.replaced[handle(stage.output)] = replace(
            stage,
            value=whole[place],
            reduced=(place,),
            reduced_extents=(size,),
            combiner="sum",
            identity=tirx.const(0, "float32"),
        )

    def _terms(self, stage: Stage) -> list[Stage] | None:
        """The stages whose results a scalar is the sum of; None if it is not."""
        if stage.is_reduction or constant(stage.size) != 1:
            return None
        value = stage.value
        if not isinstance(value, tirx.Add | tvm.ir.TensorLoad):
            return None
        found = []
        for term in (value.a, value.b) if isinstance(value, tirx.Add) else (value,):
            if isinstance(term, tirx.FloatImm) and term.value == 0:
                continue
            is_load = isinstance(term, tvm.ir.TensorLoad)
            key = handle(term.source) if is_load else 0
            if key not in self.producer or self.readers[key] > 1:
                return None
            found.append(self.producer[key])
        return found


def _two_stage(stages: tuple[Stage, ...]) -> dict[int, Split | None]:
    """Both stages of all reductions; what follows reductions of whole rows takes whole rows."""
    item = _narrowest_item(stages)
    after: dict[int, set[tuple[int, int]]] = {}  # rows and columns that results depend on
    found: dict[int, Split | None] = {}
    for stage in stages:
        key = handle(stage.output)
        behind = set[tuple[int, int]]().union(*(after.get(handle(b), ()) for b in stage.buffers))
        if not stage.is_reduction:
            after[key] = behind
            continue
        size, reduced = NOMINAL.size(stage.size), NOMINAL.size(stage.reduced_size)
        whole = (reduced, size) in behind and size * item <= WHOLE_ROW_BYTES
        found[key] = split(stage, size if whole else PIECE_BYTES // item)
        after[key] = {(size, reduced)} if found[key] is None else set()
    return found


def _narrowest_item(stages: tuple[Stage, ...]) -> int:
    """Bytes of an element of the narrowest large tensor that is read: vectors are as long."""
    computed = {handle(stage.output) for stage in stages}
    read = {handle(r.buffer): r.buffer for stage in stages for r in stage.reads}
    inputs = [buffer for key, buffer in read.items() if key not in computed]
    largest = max(map(NOMINAL.elements, inputs), default=0)
    large = [element_bytes(b) for b in inputs if 2 * NOMINAL.elements(b) >= largest]
    return min((*large, SUM_BYTES))
