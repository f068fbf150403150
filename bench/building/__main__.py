"""Builds models one after the other, each in a fresh process; see the package."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import environment
from bench.building.child import INDUCTOR, OURS, TORCH_MODEL
from bench.building.table import line, markdown
from bench.libraries import keep

# Where compilers keep what they have made.
CACHES = (
    "TVM_STITCH_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH",
    "JAX_COMPILATION_CACHE_DIR",
)  # fmt: skip
COLD, SECOND = "cold", "second process"


@dataclass(frozen=True)
class Todo:
    """A model to build by a system, with the caches in a folder."""

    model: str
    system: str
    what: str
    cache: Path


def builds(
    models: Iterable[str], systems: Iterable[str], again: Iterable[str], folder: Path
) -> Iterator[Todo]:
    """Every model by every system with empty caches, by some once more with what was kept."""
    systems, again = list(systems), list(again)
    for number, model in enumerate(models):
        for system in systems:
            if system in (OURS, INDUCTOR) or not model.startswith(TORCH_MODEL):
                cache = folder / f"{number}.{system}"
                yield Todo(model, system, COLD, cache)
                if system in again:
                    yield Todo(model, system, SECOND, cache)


def measured(todo: Todo, seconds: float) -> dict[str, Any]:
    """The row of one build."""
    variables = {name: str(todo.cache / name.lower()) for name in CACHES}
    env = {**os.environ, **variables}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # no user waits for that twice
    command = [sys.executable, "-m", "bench.building.child", todo.model, todo.system]
    row = {"model": todo.model, "system": todo.system, "what": todo.what}
    try:
        found = subprocess.run(
            [*command, str(time.monotonic())],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=seconds,
            env=env,
        )
    except subprocess.TimeoutExpired:
        return {**row, "failed": "the time was up"}
    told = found.stdout.strip()
    return {**row, **(json.loads(told) if told else {"failed": f"exit code {found.returncode}"})}


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code: 1 where a build failed."""
    parser = argparse.ArgumentParser("bench.building", description=__doc__)
    parser.add_argument("models", nargs="+", metavar="NAME", help="bert, torch:bert:step, …")
    parser.add_argument("--systems", default=f"{OURS},{INDUCTOR}", help="default: %(default)s")
    parser.add_argument("--again", default=OURS, help="a second process, too: %(default)s")
    parser.add_argument("--seconds", type=float, default=3600, help="no build begins after these")
    parser.add_argument("--limit", type=float, default=300, help="seconds of one build")
    parser.add_argument("--output", type=Path, metavar="JSON", help="a table goes beside it")
    options = parser.parse_args(argv)
    has_gpu = environment.missing_for_measuring() is None
    systems = options.systems.split(",") if has_gpu else [OURS]
    cores, end = len(os.sched_getaffinity(0)), time.monotonic() + options.seconds
    about = environment.about_run(sys.argv[1:], program="bench.building")
    about |= {"cores": cores, "load": os.getloadavg(), "gpu": has_gpu}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for todo in builds(options.models, systems, options.again.split(","), Path(folder)):
            left = end - time.monotonic()
            if left <= 0:
                break
            rows.append(measured(todo, min(left, options.limit)))
            print(line(rows[-1]), flush=True)
            keep(options.output, {**about, "rows": rows})
    if options.output is not None:
        options.output.with_suffix(".md").write_text("\n".join(markdown(rows)) + "\n")
    return int(any("failed" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
