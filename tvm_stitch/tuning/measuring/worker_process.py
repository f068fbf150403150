"""Where messages are answered: a Worker is a process of its own, here a child behind pipes.

In: messages for a Handler. Out: its answers, or WorkerLost where the process died, hung or went
away. A lost worker starts afresh with the next message.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import IO, Any, Protocol

from tvm_stitch.tuning.measuring.message import Message

TAIL_BYTES = 2000


class WorkerLost(Exception):
    """The process behind a worker is gone, with what it was doing."""


class ServerLost(Exception):
    """A whole machine is gone, or does not reply: no fault of what it was doing."""


class Worker(Protocol):
    """Something that answers a Handler's messages."""

    prepared: str  # what has been prepared since the process started; a new process has nothing

    def ask(self, message: Message, timeout: float) -> Message:
        """The answer; raises WorkerLost or ServerLost."""

    def put(self, path: str) -> str:
        """A file of this machine, by the name that the process finds it under."""

    def close(self) -> None:
        """End the process."""


class WorkerProcess:
    """A worker in a child process of this machine."""

    def __init__(self) -> None:
        self.prepared = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._pending = b""

    def ask(self, message: Message, timeout: float) -> Message:
        """The answer; a child that takes longer is killed."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            line = self._read_line(process, time.monotonic() + timeout)
        except (BrokenPipeError, EOFError):
            raise WorkerLost(self._exit_message()) from None
        except TimeoutError:
            self.close()
            raise WorkerLost(f"took longer than {timeout:.0f} s") from None
        answer: Message = json.loads(line)
        return answer

    def put(self, path: str) -> str:
        """The same name: the child sees this machine's files."""
        return path

    def close(self) -> None:
        """Kill the child, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout, self._errors):
                if pipe is not None:
                    _close(pipe)
        self._process, self.prepared, self._pending = None, "", b""

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tvm_stitch.tuning.measuring.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Compilers and BLAS would each take all cores.
            env={**os.environ, "OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"},
        )
        return self._process

    def _read_line(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        assert process.stdout is not None
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise TimeoutError
            read = os.read(process.stdout.fileno(), 1 << 16)
            if not read:
                raise EOFError
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _exit_message(self) -> str:
        """How the child ended, with the last line that it printed."""
        process, errors = self._process, self._errors
        assert process is not None and errors is not None
        code = process.wait()
        size = errors.seek(0, os.SEEK_END)
        errors.seek(max(0, size - TAIL_BYTES))
        lines = errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        self.close()
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"its process ended with {ending}: {last}"[:300]


def _close(pipe: Any) -> None:
    with suppress(BrokenPipeError):
        pipe.close()
