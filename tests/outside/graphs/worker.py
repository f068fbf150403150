"""A process that runs graphs one after the other, and the handle on it.

Asked with a line of JSON (a seed, or a pickled graph), it answers with lines: stages, then an
Outcome. Whatever ends it (a segmentation fault, an illegal access on the GPU, a hang) costs the one
graph: the handle says so and starts another process.
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from tests.outside.graphs.outcome import WRONG, Outcome

# Graphs after which a process is replaced, for what it may have lost hold of.
GRAPHS = 150
ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "tests.outside.graphs.worker")


class Worker:
    """A process, started when it is needed and again when it has ended."""

    def __init__(self, settings: Any, timeout: float, environment: dict[str, str] | None = None):
        self.settings, self.timeout = settings, timeout
        self.environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen | None = None
        self._errors: IO[bytes] | None = None
        self._answered = 0

    def ask(self, graph: int | Any, default: bool = False) -> Outcome:
        """The outcome of a graph or of a seed; `default` asks for TVM's own pipeline."""
        start = time.monotonic()
        seed = graph if isinstance(graph, int) else graph.seed
        found = self._ask(graph, seed, default)
        if (found.kind in ("died", "hang") or found.fatal) and not default:
            # Is it ours, or does TVM's own end the same way?
            if found.stage.startswith(WRONG):
                found = replace(found, kind="wrong", detail=found.stage.removeprefix(WRONG))
            elif found.stage in ("default", "oracle"):
                found = replace(found, kind="invalid" if found.stage == "oracle" else "tvm")
            elif self._ask(graph, seed, True).kind != "ok":
                found = replace(found, kind="tvm")
        return replace(found, seconds=round(time.monotonic() - start, 2))

    def _ask(self, graph: Any, seed: int, default: bool) -> Outcome:
        process = self._running()
        asked: dict[str, Any] = {"default": default, **asdict(self.settings)}
        if isinstance(graph, int):
            asked["seed"] = graph
        else:
            asked["graph"] = base64.b64encode(pickle.dumps(graph)).decode()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._ended(seed, "start")
        found = self._answer(seed)
        if found.fatal:
            self.close()
        return found

    def _answer(self, seed: int) -> Outcome:
        process, stage = self._running(), "start"
        assert process.stdout is not None
        end = time.monotonic() + self.timeout
        pending = b""
        while True:
            ready, _, _ = select.select([process.stdout], [], [], max(end - time.monotonic(), 0))
            if not ready:
                return self._hung(seed, stage)
            read = os.read(process.stdout.fileno(), 65536)
            if not read:
                return self._ended(seed, stage)
            *lines, pending = (pending + read).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                if "stage" in answer and "kind" not in answer:
                    stage = answer["stage"]
                    continue
                self._answered += 1
                return Outcome.from_json(line.decode())

    def _running(self) -> subprocess.Popen:
        if self._process is not None and self._answered >= GRAPHS:
            self.close()
        if self._process is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
            self._process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
                env=self.environment, cwd=ROOT,
            )  # fmt: skip
            self._answered = 0
        return self._process

    def _hung(self, seed: int, stage: str) -> Outcome:
        assert self._process is not None
        self._process.send_signal(signal.SIGABRT)  # faulthandler says where it was
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        text, where = self._tail()
        self.close()
        return Outcome(seed, "hang", f"{self.timeout:.0f} s in {stage}; {text}", where, stage)

    def _ended(self, seed: int, stage: str) -> Outcome:
        assert self._process is not None
        code = self._process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        text, where = self._tail()
        self.close()
        return Outcome(seed, "died", f"{name} in {stage}; {text}", f"{name} {where}", stage)

    def _tail(self) -> tuple[str, str]:
        """The end of what the process wrote, and the innermost line of tvm_stitch or TVM in it."""
        assert self._errors is not None
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors.tell() - 6000, 0))
        text = self._errors.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        frames = [line for line in lines if line.startswith("File ")]
        return (frames or lines or [""])[0 if frames else -1][:300], (frames or [""])[0][-120:]

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        if self._errors is not None:
            self._errors.close()
        self._process = self._errors = None


def main(_: Sequence[str] = ()) -> int:
    """What the process does: questions on its standard input, answers on its standard output."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed goes with the errors
    faulthandler.enable()
    from tests.outside.graphs.trial import Settings, Trial, default_only

    def note(stage: str) -> None:
        answers.write(json.dumps({"stage": stage}) + "\n")

    for line in sys.stdin:
        asked = json.loads(line)
        settings = Settings(asked["gpu"], asked["orders"], asked["run"], asked["symbolic"])
        note("oracle")
        try:
            if "seed" in asked:
                graph = settings.graph(asked["seed"])
            else:
                graph = pickle.loads(base64.b64decode(asked["graph"]))
            if asked["default"]:
                found = default_only(graph, settings, note)
            else:
                found = Trial(graph, settings, note).outcome()
        except Exception as error:
            seed = asked.get("seed", -1)
            found = Outcome(seed, "invalid", f"{type(error).__name__}: {error}"[:500])
        answers.write(found.to_json() + "\n")
        if found.fatal:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
