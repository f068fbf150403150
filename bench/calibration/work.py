"""What the cost model knows of a kernel, as data that a file can hold.

In: Variants. Out: Profiles as plain dicts. The model may learn to count something new after kernels
were measured: `recounted` counts again, without a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from bench.calibration.samples import Sample, Samples
from bench.calibration.variants import Variant, variants
from tvm_stitch.kernel.footprint import footprint_of
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.read_mapping import mapping_from
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.plan.search.dlight_baseline import default_kernel


def work_of(variant: Variant) -> Any:
    """The profile of every part of a stitched kernel, and what its blocks take; profile and mapping
    of TVM's own."""
    if variant.schedule is None:
        kernel = default_kernel(variant.stages)
        assert kernel is not None, "calibration has no symbolic kernels"
        return {"profile": asdict(kernel[0]), "mapping": kernel[1].data}
    return _stitched_work(variant.programs, variant.schedule)


def _stitched_work(programs: tuple[Program, ...], schedule: Schedule) -> dict[str, Any]:
    return {
        "profiles": list(map(_profile, programs, schedule.parts)),
        "footprint": asdict(footprint_of(programs, schedule)),
    }


def _profile(program: Program, mapping: Mapping) -> dict[str, Any]:
    found = kind_of(program).profile(program, mapping)
    assert found is not None, "calibration has no symbolic kernels"
    return asdict(found)


def recounted(samples: Samples) -> Samples:
    """The same measurements with the work of every kernel counted again.

    Kernels that this version of tvm_stitch no longer makes of the graphs are dropped.
    """
    from bench.calibration.worker import module_of_graph, target

    by_graph: dict[str, list[Sample]] = {}
    for sample in samples.kernels:
        by_graph.setdefault(sample.graph, []).append(sample)
    kernels: list[Sample] = []
    for graph, found in by_graph.items():
        kernels += _recounted(found, variants(module_of_graph(graph), target(), 0))
    return replace(samples, kernels=kernels)


def _recounted(samples: Sequence[Sample], found: Sequence[Variant]) -> list[Sample]:
    known = {(variant.function, variant.schedule is None): variant for variant in found}
    kept = []
    for sample in samples:
        variant = known.get((sample.function, sample.schedule is None))
        if variant is None:
            continue
        if sample.schedule is None:
            kept.append(replace(sample, work=work_of(variant)))
            continue
        schedule = Schedule(tuple(map(mapping_from, sample.schedule["parts"])))
        if len(schedule.parts) == len(variant.programs):
            kept.append(replace(sample, work=_stitched_work(variant.programs, schedule)))
    return kept
