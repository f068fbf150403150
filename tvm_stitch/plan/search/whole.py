"""Regions that one kernel does best, seen without a search: most of a model's.

In: a Region and its Judge. Out: the kernel of the whole region, or None where a plan of more
kernels might cost less. Must not know how such plans are found.

Two kernels take two launches, and move together at least what one must and what goes from one to
the other (read_twice.py); of many operators they have as many instructions, too, and as many steps
that wait for each other. Where one takes less than that, nothing else needs to be tried. The kernel
of a product may take over what follows it: those plans are looked at as well, unless several
products could.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from tvm_stitch.kernel.kernel import Least
from tvm_stitch.options import Options
from tvm_stitch.plan.regions.region import Nodes, Region
from tvm_stitch.plan.search.epilogue import epilogues
from tvm_stitch.plan.search.judge import Judge, Verdict
from tvm_stitch.plan.search.read_twice import bytes_read_twice
from tvm_stitch.stages.extents import Extents, is_open
from tvm_stitch.stages.stage import Refused

# So many take their time to compute, and two kernels compute the same; of fewer it is tried whether
# two compute less, as they need not compute again what one kernel does not keep.
MANY_OPERATORS = 64
# Beyond so many times what its bytes and two launches take, a kernel is suspected of computing
# again: a norm before 3 x 3 by channels, nine times in each pass of the norm behind it, was planned
# at 39 ms in one kernel without a look at the two that take 50 us.
MUCH_WORK = 4


def one_kernel(region: Region, judge: Judge, options: Options) -> Verdict | None:
    """The kernel of everything but views at the end, if there is one."""
    nodes = region.without_views(region.everything)
    if not 0 < nodes.bit_count() <= options.largest_kernel:
        return None
    verdict = judge(nodes)
    if isinstance(verdict, Refused) or verdict.spare or verdict.kernel.parts > 1:
        return None
    return verdict


def whole_kernel(region: Region, judge: Judge, options: Options) -> Verdict | None:
    """The same, if no plan of the region costs less."""
    verdict = one_kernel(region, judge, options)
    if verdict is None:
        return None
    nodes = region.without_views(region.everything)
    others = _others_us(region, judge, options, nodes, verdict)
    cost = verdict.cost_us + options.launch_us
    return verdict if all(other is not None and cost <= other for other in others) else None


def _others_us(
    region: Region, judge: Judge, options: Options, nodes: Nodes, verdict: Verdict
) -> Iterator[float | None]:
    """What no other plan can cost less than, one kind of plan after the other; None: not known."""
    yield _two_kernels_us(nodes, verdict, judge, options)
    before: Nodes = 0
    for epilogue in epilogues(region, judge):
        apart, before = before & ~epilogue.nodes, epilogue.nodes  # then there may be both
        rest = judge(nodes & ~epilogue.nodes) if nodes & ~epilogue.nodes and not apart else None
        if not isinstance(rest, Verdict):
            yield None
            return
        ended = epilogue.cost_us - (len(epilogue.numbers) - 1) * options.launch_us
        yield ended + rest.cost_us + options.launch_us
        two = _two_kernels_us(nodes & ~epilogue.nodes, rest, judge, options)
        yield None if two is None else ended + two


def _two_kernels_us(nodes: Nodes, verdict: Verdict, judge: Judge, options: Options) -> float | None:
    """What two kernels or more cannot beat that do what one does, which computes these nodes."""
    kernel, points = verdict.kernel, judge.bounds.points
    if is_open(kernel.buffers, points):
        return None
    found = [(kernel.least(point), point) for point in points or (judge.bounds.likely,)]
    known = [(least, point) for least, point in found if least is not None]
    if len(known) < len(found):
        return None
    device = judge.device
    launches = 2 * (options.launch_us + device.timing.launch_us + device.timing.block_us)
    fresh = kernel.planned_us - verdict.cost_us  # for what is in the L2 they need not wait either
    many = judge.region.everything.bit_count() >= MANY_OPERATORS

    def divided_us(least: Least, point: Extents) -> float:
        if many and least.work_us <= MUCH_WORK * (least.memory_us + launches):
            return least.work_us
        again = bytes_read_twice(judge.region, nodes, point)
        return least.memory_us + again / device.bandwidth * 1e6

    return launches - fresh + fmean(divided_us(least, point) for least, point in known)
