"""Parts of a graph that are lowered by several processes at a time.

In: converted modules, and what their lowering depends on. Out: those that other processes lowered.
Until there are any, nobody waits for them. Must not know PyTorch, which they do without.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import tvm

from tvm_stitch import timing
from tvm_stitch.device import Device, device_of, told
from tvm_stitch.dump.folder import wanted
from tvm_stitch.dynamo.lowering.lowering import Lowering
from tvm_stitch.executable.link import calls_libraries
from tvm_stitch.library import shim
from tvm_stitch.processes.forks import FORKS
from tvm_stitch.processes.modules import module_of, operators, text_of
from tvm_stitch.processes.pass_settings import PassSettings

# Operators of a graph that several processes may lower, and of a part that is worth sending.
LEAST_OPERATORS, LEAST_OF_PART = 150, 10


@dataclass(frozen=True)
class Work:
    """A part that another process lowers."""

    lowering: Lowering
    module: str
    device: Device
    settings: PassSettings
    libraries: Mapping[str, str | None]  # why one cannot be called, if it cannot


class Ahead:
    """Parts of a graph, of which other processes lower those that are not at work here."""

    def __init__(self, parts: Mapping[Hashable, tuple[tvm.IRModule, Lowering]]) -> None:
        self._parts = dict(parts)
        self._asked: dict[Hashable, int] = {}

    @property
    def order(self) -> list[Hashable]:
        """In which order they are lowered here: the largest first, which others would end with."""
        return sorted(self._parts, key=lambda key: -operators(self._parts[key][0]))

    def lowered(self, key: Hashable) -> tvm.IRModule | None:
        """A part as another process has lowered it; None if it is to be lowered here."""
        del self._parts[key]
        asked = self._asked.pop(key, None)
        if asked is None:
            self._ask()
            return None
        with timing.stage(timing.ELSEWHERE):
            text = FORKS.answer(asked)
        found = None if text is None else module_of(text)
        if found is not None and calls_libraries(found) and shim.failure() is not None:
            return None
        return found

    def _ask(self) -> None:
        """Have all others lowered, if there is somebody who does it by now."""
        settings = PassSettings.now()
        if self._asked or settings is None or not FORKS.is_ready:
            return
        with shim.assumed():
            libraries = shim.reasons()
        for key in self.order:
            module, lowering = self._parts[key]
            text = text_of(module) if operators(module) >= LEAST_OF_PART else None
            if text is not None and _is_plain(lowering):
                device = device_of(module_of(lowering.target))
                work = Work(lowering, text, device, settings, libraries)
                self._asked[key] = FORKS.ask(lowered_there, work)


def begin(count: int) -> None:
    """Start what lowers parts of a graph of so many operators beside others."""
    if count >= LEAST_OPERATORS:
        FORKS.begin()


def lowered_there(work: Work) -> str:
    """In another process: the lowered module as text."""
    with shim.told(work.libraries), told(work.device), work.settings.context():
        return tvm.ir.save_json(work.lowering(module_of(work.module)))


def _is_plain(lowering: Lowering) -> bool:
    """Whether another process would lower a part alike, of which nobody watches a stage."""
    options = lowering.options
    is_pinned = options.measure or options.plan is not None or lowering.database is not None
    return not is_pinned and wanted(options) is None
