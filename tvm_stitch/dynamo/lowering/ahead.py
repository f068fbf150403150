"""Parts of a graph that are lowered by several processes at a time.

In: converted modules, and what their lowering depends on. Out: those that other processes lowered.
Until there are any, nobody waits for them. Must not know PyTorch, which they do without.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import tvm

from tvm_stitch import timing
from tvm_stitch.cache.once import in_time
from tvm_stitch.device import Device, device_of, told
from tvm_stitch.dump.folder import wanted
from tvm_stitch.dynamo.lowering.lowering import Lowering
from tvm_stitch.executable.link import calls_libraries
from tvm_stitch.library import shim
from tvm_stitch.processes.forks import FORKS
from tvm_stitch.processes.modules import module_of, operators, text_of
from tvm_stitch.processes.pass_settings import PassSettings
from tvm_stitch.processes.pickled import jobs_now

# Operators of a part that is worth sending.
LEAST_OF_PART = 10
# Cores, of which what nobody waits for takes some.
LEAST_IDLE = 4


@dataclass(frozen=True)
class Work:
    """A part that another process lowers."""

    lowering: Lowering
    module: str
    device: Device
    settings: PassSettings
    libraries: Mapping[str, str | None]  # why one cannot be called, if it cannot


ToLower = tuple[tvm.IRModule, Lowering]


class Ahead:
    """Parts that other processes lower, by keys that tell them apart."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, int | None] = {}  # None: it is to be lowered here

    def is_asked(self, key: Hashable) -> bool:
        """Whether another process lowers a part."""
        return self._asked.get(key) is not None

    def ask(self, parts: Mapping[Hashable, ToLower], can_wait: bool = False) -> None:
        """Have parts lowered that have not been asked for, if there is somebody who does it."""
        settings = PassSettings.now()
        new = {key: part for key, part in parts.items() if key not in self._asked}
        if not new or settings is None or not FORKS.is_ready:
            return
        with shim.assumed():
            libraries = shim.reasons()
        for key in sorted(new, key=lambda key: -size(new[key])):
            work = _work(*new[key], settings, libraries)
            asked = None if work is None else FORKS.ask(lowered_there, work, can_wait=can_wait)
            self._asked[key] = asked

    def lowered(self, key: Hashable) -> tvm.IRModule | None:
        """A part as another process has lowered it; None if it is to be lowered here."""
        asked = self._asked.pop(key, None)
        if asked is None:
            return None
        with timing.stage(timing.ELSEWHERE):
            text = FORKS.answer(asked)
        found = None if text is None else module_of(text)
        if found is not None and calls_libraries(found) and shim.failure() is not None:
            return None
        return found


def size(part: ToLower) -> int:
    """How many operators a part has, about."""
    return operators(part[0])


def are_idle() -> bool:
    """Whether there are processes that would lower what nobody waits for yet."""
    return FORKS.is_ready and jobs_now() >= LEAST_IDLE


def _work(
    module: tvm.IRModule,
    lowering: Lowering,
    settings: PassSettings,
    libraries: Mapping[str, str | None],
) -> Work | None:
    """What another process needs; None if the part is not to be sent."""
    text = text_of(module) if operators(module) >= LEAST_OF_PART else None
    if text is None or not _is_plain(lowering):
        return None
    return Work(lowering, text, device_of(module_of(lowering.target)), settings, libraries)


def lowered_there(work: Work) -> str | None:
    """In another process: the lowered module as text; None if planning may have been cut short,
    which whoever waits for it has to know."""
    is_in_time = in_time(work.lowering.options)
    with shim.told(work.libraries), told(work.device), work.settings.context():
        text = tvm.ir.save_json(work.lowering(module_of(work.module)))
    return text if is_in_time() else None


def _is_plain(lowering: Lowering) -> bool:
    """Whether another process would lower a part alike, of which nobody watches a stage."""
    options = lowering.options
    is_pinned = options.measure or options.plan is not None or lowering.database is not None
    return not is_pinned and wanted(options) is None
