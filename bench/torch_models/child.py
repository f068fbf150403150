"""The process in which one model is tried, so that a crash or a hang costs that model alone.

In: one JSON object on standard input: what to try. Out: JSON objects a line: phases, rows, "done".
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable
from typing import Any

import torch

from bench.child import Send, answer_parent
from bench.systems import Gpu
from bench.systems.pytorch import allow_tf32
from bench.torch_models import registry
from bench.torch_models.model import with_channels_last
from bench.torch_models.systems import CUDA
from bench.torch_models.training import Autocast, Training
from bench.torch_models.tries import Dynamic, Try
from bench.worker import in_one_line

WAYS: dict[str, type[Try]] = {way.kind: way for way in (Try, Training, Autocast, Dynamic)}


def serve(commands: Iterable[str], send: Send) -> int:
    """Try what the parent asks for."""
    for line in commands:
        command = json.loads(line)
        try:
            _serve(command, send)
        except Exception as error:
            send({"event": "failed", "detail": in_one_line(error)})
        send({"event": "done"})
        return 0
    return 0


def _serve(command: dict[str, Any], send: Send) -> None:
    allow_tf32(command["tf32"])
    gpu = Gpu(command["lock"], lambda event: send({"event": event}))
    if command["device"] == CUDA:
        from bench import environment

        torch.cuda.init()
        send({"event": "machine", "machine": environment.machine()})
    model = registry.find(command["model"])
    if command["channels_last"]:
        model = with_channels_last(model)
    way = WAYS[command["kind"]](model, command["dtype"], command["device"], command["small"], send)
    timed = command["device"] == CUDA and command["timed"] and not command["first_only"]
    way.run(command["systems"], _meter if timed else None, gpu.held if timed else _free)


def _meter() -> Any:
    from bench.measure import Meter

    return Meter()


_free = contextlib.nullcontext


def main() -> int:
    """Serve the parent."""
    return answer_parent(serve)


if __name__ == "__main__":
    sys.exit(main())
