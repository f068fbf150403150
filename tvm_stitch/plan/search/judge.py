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
from tvm_stitch.kernel.build import (
    StitchedKernel,
    check_emitted,
    choose_kernel,
    choose_product,
)
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.ir.stage import Refused, Stage, constant, product
from tvm_stitch.kernel.tensor_core.build import TensorKernel, check_product
from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits, own_products
from tvm_stitch.plan.search.price import ended_us, stitched_us

# A result that does not fit the kernel's rows may be computed again in a kernel of its own if it is
# at most this share of the kernel's largest result, and no reduction stands behind it.
SPARE_SHARE = 1 / 8
REDUCTIONS = (Pattern.ROW_REDUCTION, Pattern.COLUMN_REDUCTION, Pattern.PRODUCT)


@dataclass(frozen=True, eq=False)
class Verdict:
    """A set of nodes that can be one kernel."""

    outputs: tuple[Value, ...]
    spare: tuple[Value, ...]  # used outside as well, but written by other kernels
    kernel: StitchedKernel | TensorKernel
    cost_us: float

    @property
    def parts(self) -> int:
        """How many unrelated parts it has."""
        return self.kernel.parts if isinstance(self.kernel, StitchedKernel) else 1


class Judge:
    """Answers from memory where it can: the planner asks about the same sets again."""

    def __init__(
        self, region: Region, device: Device, bounds: Bounds, schemes: tuple[str, ...]
    ) -> None:
        self.region, self.device, self.bounds, self.schemes = region, device, bounds, schemes
        self.known: dict[tuple[Nodes, tuple[Value, ...]], Verdict | Refused] = {}
        self.confirmed: set[Verdict] = set()
        self._products: dict[int, TensorKernel | Refused] = {}
        self._ends: dict[tuple[int, Nodes, tuple[Value, ...]], Verdict | Refused] = {}

    def __call__(self, nodes: Nodes, outputs: tuple[Value, ...] | None = None) -> Verdict | Refused:
        """The verdict on a set of nodes, convexity aside, that writes what others use, or less."""
        wanted = self.region.leaving(nodes) if outputs is None else outputs
        key = nodes, wanted
        if key not in self.known:
            self.known[key] = self._judge(nodes, wanted)
        return self.known[key]

    def product(self, index: int) -> TensorKernel | Refused:
        """The kernel on tensor cores of a product of the graph, by itself."""
        if index not in self._products:
            node = self.region.graph.nodes[index]
            result = (self.region.graph.buffer(node.results[0]),)
            self._products[index] = choose_product(node.stages, result, self.device, self.schemes)
        return self._products[index]

    def products(self) -> list[TensorKernel]:
        """The kernels of the region's own products that tensor cores take."""
        found = map(self.product, own_products(self.region))
        return [kernel for kernel in found if not isinstance(kernel, Refused)]

    def ending(
        self, index: int, nodes: Nodes, outputs: tuple[Value, ...] | None = None
    ) -> Verdict | Refused:
        """The verdict on a product of the graph and a set of nodes at the end of its kernel."""
        wanted = self.region.leaving(nodes) if outputs is None else outputs
        key = index, nodes, wanted
        if key not in self._ends:
            self._ends[key] = self._ending(index, nodes, wanted)
        return self._ends[key]

    def _ending(self, index: int, nodes: Nodes, outputs: tuple[Value, ...]) -> Verdict | Refused:
        alone = self.product(index)
        if isinstance(alone, Refused):
            return alone
        stages = (*self.region.graph.nodes[index].stages, *self._stages(nodes))
        written = tuple(map(self.region.buffer, outputs))
        kernel = choose_product(stages, written, self.device, self.schemes)
        if isinstance(kernel, Refused):
            return kernel
        return Verdict(outputs, (), kernel, ended_us(kernel, alone, self.device))

    def revoked(self, verdicts: Iterable[Verdict]) -> list[Refused]:
        """Why verdicts do not hold after all: each is looked at as the kernel that it becomes."""
        found: list[Refused] = []
        for verdict in verdicts:
            if verdict in self.confirmed:
                continue
            refused = self._check(verdict.kernel)
            if refused is None:
                self.confirmed.add(verdict)
                continue
            found.append(refused)
            for answers in (self.known, self._ends):
                for key, known in answers.items():  # type: ignore[attr-defined]
                    if known is verdict:
                        answers[key] = refused  # type: ignore[index]
        return found

    def _check(self, kernel: StitchedKernel | TensorKernel) -> Refused | None:
        if isinstance(kernel, TensorKernel):
            return check_product(kernel, self.device)
        return check_emitted(kernel.programs, kernel.schedule, self.device)

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
        written = tuple(map(region.buffer, outputs))
        kernel = choose_kernel(self._stages(nodes), written, self.device, self.bounds, self.schemes)
        if isinstance(kernel, Refused):
            return kernel
        if isinstance(kernel, TensorKernel):
            return Verdict(outputs, spare, kernel, kernel.cost_us)
        cost = stitched_us(kernel.programs, kernel.schedule, self.device)
        return Verdict(outputs, spare, kernel, cost)

    def _stages(self, nodes: Nodes) -> tuple[Stage, ...]:
        return tuple(stage for place in bits(nodes) for stage in self.region.nodes[place].stages)

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
