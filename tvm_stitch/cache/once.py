"""Whether what a pipeline makes of a module may be kept, and what it depends on beside the module.

In: the pipeline's arguments. Out: the lowered module, from the cache if it is there.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import fields

import tvm

from tvm_stitch.cache.lowered import lowered
from tvm_stitch.cache.store import Store, store_of
from tvm_stitch.cache.versions import pass_settings
from tvm_stitch.device import device_of
from tvm_stitch.dump.folder import wanted
from tvm_stitch.executable.cuda import checks
from tvm_stitch.library import shim
from tvm_stitch.options import Options
from tvm_stitch.tuning.apply import Records

_NO_PART = ("cache", "dump", "plan")  # of what comes out; the plan says itself what it is


def once_lowered(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    options: Options,
    records: Records | None,
    passes: str | None,
    lower: Callable[[tvm.IRModule], tvm.IRModule],
) -> tvm.IRModule:
    """What `lower` makes of a module by these arguments; it is asked once for each.

    `passes` names those that a pipeline has more than others; None if nobody knows them.
    """
    store = store_for(options)
    if store is None or passes is None:
        return lower(mod)
    depends_on = [*made_of(target, options, records), passes]
    return lowered(mod, depends_on, lower, store, in_time(options))


def in_time(options: Options) -> Callable[[], bool]:
    """Tells, later on, whether the clock can have cut no plan short that was begun since.

    Such a plan is no plan for a quicker machine.
    """
    start, limit = time.monotonic(), options.time_limit_s
    return lambda: limit == 0 or time.monotonic() - start < limit


def made_of(target: tvm.target.Target, options: Options, records: Records | None) -> list[str]:
    """What a pipeline's work depends on beside the module, in the settings of now."""
    # The device is this machine's GPU where the target names none.
    device = f"{device_of(target)!r} {_libraries()} {checks()}"
    return [str(target), device, _settings(options), _used(records), pass_settings()]


def store_for(options: Options) -> Store | None:
    """Where it is kept; nowhere if somebody watches."""
    watched = options.measure or wanted(options) is not None
    watched = watched or bool(tvm.transform.PassContext.current().instruments)
    return None if watched else store_of(options.cache)


def _settings(options: Options) -> str:
    chosen = {e.name: getattr(options, e.name) for e in fields(Options) if e.name not in _NO_PART}
    plan = options.plan.to_json() if options.plan is not None else ""
    return f"{chosen} {plan}"


def _libraries() -> str:
    """What modules may call: another release of a library is called the same way."""
    return " ".join(title for title, why in shim.reasons().items() if why is None)


def _used(records: Records | None) -> str:
    lines = "\n".join(record.to_line() for record in records.records) if records else ""
    return hashlib.sha256(lines.encode()).hexdigest()
