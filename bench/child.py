"""What the child processes that measure have in common: their pipe, and how they begin.

In: JSON objects a line on standard input. Out: JSON objects a line on what was standard output;
anything that systems and compilers print goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from bench import environment
from bench.systems import Gpu

Send = Callable[[dict[str, Any]], None]
Serve = Callable[[Iterable[str], Send], int]


def answer_parent(serve: Serve) -> int:
    """Serve the parent: its pipe is kept, and standard output joins standard error."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        pipe.write(json.dumps(message) + "\n")
        pipe.flush()

    return serve(sys.stdin, send)


def begin(gpu: Gpu, calibrate: bool) -> tuple[Any, dict[str, Any]]:
    """The meter of this machine's GPU and what the machine is."""
    from bench.measure import Meter

    with gpu.held():
        meter = Meter()
        machine = environment.machine()
        if calibrate:
            machine["copy_gbs"] = round(meter.bandwidth(), 1)
    return meter, machine
