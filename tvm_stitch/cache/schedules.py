"""Schedules that took TVM long to find, by the function that they are of.

In: a PrimFunc, and who schedules it. Out: the scheduled PrimFunc. Some of DLight's rules take
seconds for one function; models that are otherwise different share such functions.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Callable

import tvm
from tvm import tirx
from tvm_ffi.serialization import from_json_graph_str

from tvm_stitch.cache.store import Store
from tvm_stitch.cache.versions import versions

KIND = "schedules"
# Seconds from which on it is worth a file.
LONG = 1.0


def scheduled_once(
    function: tirx.PrimFunc,
    target: tvm.target.Target,
    schedule: Callable[[], tirx.PrimFunc | None],
    store: Store | None,
) -> tirx.PrimFunc | None:
    """The function with its schedule; None, which is not kept, if it launches nothing."""
    if store is None:
        return schedule()
    made_of = json.dumps([versions(), str(target), tvm.ir.save_json(function)])
    name = f"{KIND}/{hashlib.sha256(made_of.encode()).hexdigest()}"
    kept = store.read(name)
    if kept is not None:
        return from_json_graph_str(zlib.decompress(kept).decode())
    start = time.perf_counter()
    made = schedule()
    if made is not None and time.perf_counter() - start >= LONG:
        store.write(name, zlib.compress(tvm.ir.save_json(made).encode(), 1))
    return made
