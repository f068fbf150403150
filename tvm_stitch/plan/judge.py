"""Whether a set of nodes could be one kernel, and what it would cost: the planner's only questions
to kernel/.

In: a Region and a set of its nodes. Out: a Verdict: the values that the kernel writes, and those
that must be computed once more elsewhere; or the reason why not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.op_pattern import Pattern
from tvm_stitch.kernel.build import check_emitted
from tvm_stitch.kernel.choose import Bounds, choose_both
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.ir.stage import Refused, constant, product
from tvm_stitch.kernel.partition import make_programs
from tvm_stitch.plan.price import stitched_us
from tvm_stitch.plan.region import Nodes, Region, Value, bits

# A result that does not fit the kernel's rows may be computed again in a kernel of its own if it is
# at most this share of the kernel's largest result, and no reduction stands behind it.
SPARE_SHARE = 1 / 8
REDUCTIONS = (Pattern.ROW_REDUCTION, Pattern.COLUMN_REDUCTION, Pattern.PRODUCT)


@dataclass(frozen=True, eq=False)
class Verdict:
    """A set of nodes that can be one kernel."""

    outputs: tuple[Value, ...]
    spare: tuple[Value, ...]  # used outside as well, but written by other kernels
    programs: tuple[Program, ...]
    schedule: Schedule
    packed: tuple[Mapping, ...]  # of its programs, where others share its launch
    cost_us: float

    @property
    def parts(self) -> int:
        """How many unrelated parts it has; what comes in rounds is one."""
        return 1 if self.schedule.blocks else len(self.programs)


class Judge:
    """Answers from memory where it can: the planner asks about the same sets again."""

    def __init__(
        self, region: Region, device: Device, bounds: Bounds, schemes: tuple[str, ...]
    ) -> None:
        self.region, self.device, self.bounds, self.schemes = region, device, bounds, schemes
        self.known: dict[tuple[Nodes, tuple[Value, ...]], Verdict | Refused] = {}
        self.confirmed: set[Verdict] = set()

    def __call__(self, nodes: Nodes, outputs: tuple[Value, ...] | None = None) -> Verdict | Refused:
        """The verdict on a set of nodes, convexity aside, that writes what others use, or less."""
        wanted = self.region.leaving(nodes) if outputs is None else outputs
        key = nodes, wanted
        if key not in self.known:
            self.known[key] = self._judge(nodes, wanted)
        return self.known[key]

    def revoked(self, verdicts: Iterable[Verdict]) -> list[Refused]:
        """Why verdicts do not hold after all: each is looked at as the kernel that it becomes."""
        found: list[Refused] = []
        for verdict in verdicts:
            if verdict in self.confirmed:
                continue
            refused = check_emitted(verdict.programs, verdict.schedule, self.device)
            if refused is None:
                self.confirmed.add(verdict)
                continue
            found.append(refused)
            for key, known in self.known.items():
                if known is verdict:
                    self.known[key] = refused
        return found

    def reduces(self, nodes: Nodes) -> bool:
        """Whether a set holds a reduction."""
        return any(self.region.nodes[place].pattern in REDUCTIONS for place in bits(nodes))

    def _judge(self, nodes: Nodes, outputs: tuple[Value, ...]) -> Verdict | Refused:
        if not outputs:
            return Refused("nothing of it is used")
        verdict = self._kernel(nodes, outputs, ())
        if not isinstance(verdict, Refused) or self.reduces(nodes):
            return verdict
        main, spare = self._split(outputs)
        for value in spare:
            alone = self(self.behind(value, nodes), (value,))
            if isinstance(alone, Refused):
                return alone
        return self._kernel(nodes, main, spare) if spare else verdict

    def behind(self, value: Value, nodes: Nodes) -> Nodes:
        """The nodes of a set that a value depends on."""
        return (self.region.ancestors[value.node] | 1 << value.node) & nodes

    def _kernel(
        self, nodes: Nodes, outputs: tuple[Value, ...], spare: tuple[Value, ...]
    ) -> Verdict | Refused:
        region = self.region
        stages = tuple(stage for place in bits(nodes) for stage in region.nodes[place].stages)
        programs = make_programs(stages, tuple(map(region.buffer, outputs)), self.schemes)
        if isinstance(programs, Refused):
            return programs
        choice = choose_both(programs, self.device, self.bounds, self.schemes)
        if isinstance(choice, Refused):
            return choice
        cost = stitched_us(programs, choice.alone, self.device)
        return Verdict(outputs, spare, programs, choice.alone, choice.packed, cost)

    def _split(self, outputs: tuple[Value, ...]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Outputs of an element-wise kernel's own size, and the small rest."""
        sizes = [constant(product(self.region.buffer(value).ty.shape)) for value in outputs]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return outputs, ()
        most = max(known)
        small = [size < most and size <= most * SPARE_SHARE for size in known]
        main = tuple(value for value, is_small in zip(outputs, small, strict=True) if not is_small)
        spare = tuple(value for value, is_small in zip(outputs, small, strict=True) if is_small)
        return main, spare
