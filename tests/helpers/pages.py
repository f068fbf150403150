"""Reports as JSON, made without compiling anything: for tests of the page and of diff."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tvm_stitch.json_data import listed
from tvm_stitch.report.data import Edge, Flow
from tvm_stitch.report.findings.fold import folded

SCHEMES = ("local", "warp", "regional", "cluster", "global")


def kernel(number: int, operators: int = 4, **fields: Any) -> dict[str, Any]:
    """A kernel of a chain of operators."""
    names = ["max", "subtract", "exp", "sum", "divide"]
    ops = [names[at % len(names)] for at in range(operators)]
    stages = [
        {"operator": name, "type": "float32[64, 128]", "reads": [at - 1] if at else [],
         "scheme": "warp" if name in ("max", "sum") else "", "sources": [0]}
        for at, name in enumerate(ops)
    ]  # fmt: skip
    return {
        "name": f"kernel_{number}", "ops": ops, "scheme": SCHEMES[number % len(SCHEMES)],
        "mapping": "32 threads per row", "bytes_min": 65536, "bytes_planned": 65536,
        "floor_us": 1.0, "predicted_us": 2.0 + number % 7, "why": "a row is reduced 2 times",
        "launches": 1, "schemes": {}, "origin": "chosen", "together": "fused 2 us, separate 9 us",
        "launches_saved": 3, "bytes_saved": 1000, "stages": stages, "operations": 1e5,
    } | fields  # fmt: skip


def report(launches: list[int], kernels: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A report of a chain of launches, each of which also reads what the third before it wrote."""
    edges = [
        {"writer": writer, "reader": reader, "values": [f"lv{writer}"], "bytes": 32768,
         "reason": "one kernel would take 9.0 us, two take 4.0 us plus a launch"}
        for reader in range(len(launches))
        for writer in (reader - 1, reader - 3)
        if writer >= 0
    ]  # fmt: skip
    flow = Flow(tuple(launches), tuple(Edge(**edge) for edge in edges))
    return {
        "version": 1, "versions": "tvm_stitch 0.1.0 and TVM 0.27.0",
        "target": "sm_90", "device": "H200",
        "before": {"kernels": 9, "launches": 2 * len(launches), "failure": ""},
        "launches": len(launches), "kernels": kernels,
        "fallbacks": [{"op": "sort", "reason": "block sort_gpu is not a single store"}],
        "for_library": [], "cuts": [], "measured": [], "plans": [],
        "passed": [listed(asdict(each)) for each in flow.passed],
        "flow": {"launches": launches, "edges": edges, "folded": _folded(launches)},
        "sources": [{"text": "lv1 = nn.softmax(lv)", "place": "model.py:31",
                     "line": "y = self.attend(x)", "module": "layers.0.attention"}],
        "passes": [{"name": "StitchOps", "stage": "planning", "seconds": 1.5, "runs": 1}],
        "limits": {"bandwidth": 4.26e12, "float32": 6.7e13},
    } | fields  # fmt: skip


def _folded(launches: list[int]) -> Any:
    return listed(asdict(Flow(folded=folded(launches))))["folded"]
