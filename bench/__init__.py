"""Benchmarks: stitched kernels beside PyTorch, torch.compile, XLA and TVM's own pipelines.

`python -m bench` measures every case on one GPU in one run and writes JSON, tables and plots.
`bench.main(argv)` is the same program for callers; it returns the exit code.
"""

from __future__ import annotations


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark program with these arguments (without: the process's own)."""
    from bench.cli import main as run

    return run(argv)
