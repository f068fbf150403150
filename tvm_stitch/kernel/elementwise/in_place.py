"""Which inputs of a kernel its outputs may be written over.

In: an emitted kernel and the Programs that it was emitted from. Out: pairs of parameters. An output
may take an input's memory where it is made of it, and every thread reads there what it writes
itself, before it writes: in kernels of elements alone, of tensors that no other program reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.ir.mapping import Flat
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.stages.stage import Var, handle
from tvm_stitch.stages.visit import walked

Pair = tuple[int, int]
"""The numbers of an input and of an output among a kernel's parameters."""


def overwritable(
    func: tirx.PrimFunc, kernel: tirx.PrimFunc, programs: Sequence[Program], schedule: Schedule
) -> list[Pair]:
    """The pairs of parameters; the kernel begins with those of the function that it is made of."""
    if schedule.blocks or schedule.longer is not None:
        return []
    number = {handle(param): n for n, param in enumerate(func.params)}
    candidates = [
        (number[handle(source)], number[handle(output)])
        for program, mapping in zip(programs, schedule.parts, strict=True)
        if type(mapping) is Flat
        for source, output in _of_program(program, programs)
    ]
    return [pair for pair in candidates if _in_order(kernel, *pair)] if candidates else []


def _of_program(program: Program, programs: Sequence[Program]) -> Iterator[tuple[Var, Var]]:
    others = {handle(b) for other in programs if other is not program for b in other.inputs}
    elsewhere = {
        handle(read.buffer)
        for stage, read in program.reads
        if program.place(stage, read) is not Where.SAME
    }
    for source in program.inputs:
        if handle(source) not in others | elsewhere:
            for output in program.outputs:
                same = tvm_ffi.structural_equal(source.ty, output.ty)
                if same and handle(source) in _made_of(program, output):
                    yield source, output


def _made_of(program: Program, output: Var) -> set[int]:
    """What a stage reads, and what that is made of."""
    met, waiting = {handle(output)}, [output]
    while waiting:
        stage = program.producer.get(waiting.pop())
        for read in stage.reads if stage is not None else ():
            if handle(read.buffer) not in met:
                met.add(handle(read.buffer))
                waiting.append(read.buffer)
    return met


def _in_order(kernel: tirx.PrimFunc, source: int, output: int) -> bool:
    """Whether all that is read of one parameter comes before what is stored to another."""
    seen_as = {handle(param): handle(param) for param in kernel.params}
    events: list[str] = []

    def declared(statement: tirx.DeclBuffer) -> None:
        of = handle(statement.buffer)
        walked(statement.data, (tirx.Var, lambda var: seen_as.update({of: handle(var)})))

    def loaded(load: tvm.ir.TensorLoad) -> None:
        if seen_as.get(handle(load.source)) == handle(kernel.params[source]):
            events.append("load")

    def stored(store: tirx.BufferStore) -> None:
        if seen_as.get(handle(store.buffer)) == handle(kernel.params[output]):
            events.append("store")

    walked(kernel.body, (tirx.DeclBuffer, declared))
    walked(kernel.body, (tvm.ir.TensorLoad, loaded), (tirx.BufferStore, stored))
    both = "load" in events and "store" in events
    return both and events == sorted(events)
