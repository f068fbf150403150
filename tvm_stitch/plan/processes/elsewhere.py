"""Regions of a large graph, planned by several processes at a time.

In: regions of a graph, and where it was read from. Out: the plans of those that were planned
elsewhere. They are those that would be found here: where one is not, it is planned here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_stitch import timing
from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.library import shim
from tvm_stitch.options import Options
from tvm_stitch.plan.deadline import Deadline
from tvm_stitch.plan.processes.job import Found, Job, Source
from tvm_stitch.plan.region_plan import holding_plan
from tvm_stitch.plan.regions.region import Region
from tvm_stitch.plan.search.judge import Judge
from tvm_stitch.processes.forks import FORKS
from tvm_stitch.workarounds.few_collections import few_collections

# Nodes beside the longest of regions from which on it is worth it to read a graph twice: a node of
# the graph takes 0.6 ms to be sent and read, one of a region 5 to be planned.
LEAST_SAVED = 150


class Elsewhere:
    """What is found of a graph's regions; nothing if it is not worth it, or nobody is there yet."""

    def __init__(
        self,
        source: Source | None,
        regions: Sequence[Region],
        device: Device,
        bounds: Bounds,
        options: Options,
        deadline: Deadline,
    ) -> None:
        self._source, self._regions = source, regions
        self._for = device, bounds, options
        self._deadline = deadline
        self._found: dict[int, Found] = {}

    def plan(self, number: int, wanted: Callable[[], Sequence[int]]) -> Found | None:
        """That of a region, by its number; `wanted` are all that nobody has planned yet."""
        if self._source is not None and FORKS.is_ready:
            source, self._source = self._source, None  # asked once
            numbers = wanted()
            if _is_worth_it([self._size(n) for n in numbers]):
                self._found = self._ask(source, numbers)
        return self._found.get(number)

    def _ask(self, source: Source, wanted: Sequence[int]) -> dict[int, Found]:
        job = source.job(self._regions, *self._for, shim.reasons(), self._deadline.seconds)
        if job is None:
            return {}
        shared = FORKS.share(read, job)
        # The largest first: in the end nobody waits for one that could have been begun before.
        order = sorted(wanted, key=self._size, reverse=True)
        asked = {FORKS.ask(planned, number, shared=shared): number for number in order}
        before, most = len(self._regions) - len(wanted), len(self._regions)
        found: dict[int, Found] = {}
        for done, (question, plan) in enumerate(FORKS.answers(asked)):
            timing.step(timing.PLANNING, before + done, most)
            if plan is not None:
                found[asked[question]] = plan
        FORKS.drop(shared)
        return found

    def _size(self, number: int) -> int:
        return len(self._regions[number].indices)


def _is_worth_it(sizes: Sequence[int]) -> bool:
    """Whether several processes take so much less time for regions of these sizes."""
    return sum(sizes) - max((sum(sizes) // FORKS.most, *sizes)) >= LEAST_SAVED


def read(job: Job) -> Job:
    """In another process: a job whose regions have been read."""
    assert job.regions
    return job


def planned(job: Job, number: int) -> Found | None:
    """In another process: a region's plan; None if a check has refused a kernel, which others of
    the graph's regions then do without."""
    region, options = job.regions[number], job.options
    judge = Judge(region, job.device, job.bounds, options.ways)
    with shim.told(job.libraries), few_collections():
        plan = holding_plan(region, judge, options, Deadline.after(job.seconds))
    return None if judge.answers.refuses else Found.of(plan)
