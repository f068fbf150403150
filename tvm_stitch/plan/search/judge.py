"""Whether a set of nodes could be one kernel, and what it would cost: the planner's only questions
to kernel/.

In: a Region and a set of its nodes. Out: a Verdict: the values that the kernel writes, and those
that must be computed once more elsewhere; or the reason why not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from tvm_stitch.device import Device
from tvm_stitch.kernel.build import choose_kernel
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.implementations import PRODUCTS
from tvm_stitch.kernel.kernel import Kernel
from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits, own_products
from tvm_stitch.plan.search.price import default_kernel_us, ended_us, inputs
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Refused, Stage, Var, constant, product

# A result that does not fit the kernel's rows may be computed again in a kernel of its own if it is
# at most this share of the kernel's largest result, and no reduction stands behind it.
SPARE_SHARE = 1 / 8
REDUCTIONS = (Pattern.ROW_REDUCTION, Pattern.COLUMN_REDUCTION, Pattern.PRODUCT)
# Sets of which the verdict is remembered beyond their region.
MOST_ANSWERS = 4096

Answer = TypeVar("Answer")
Products = tuple[int, ...]  # of the graph


@dataclass(frozen=True, eq=False)
class Verdict:
    """A set of nodes that can be one kernel."""

    outputs: tuple[Value, ...]
    spare: tuple[Value, ...]  # used outside as well, but written by other kernels
    kernel: Kernel
    cost_us: float


class Answers:
    """What was found of sets of nodes, by their structure, whichever region they are in.

    The oldest go when there are many: equal sets are mostly near each other.
    """

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}
        self._checks: dict[Hashable, Refused | None] = {}
        self._seen: set[Hashable] = set()  # sorts of parts of kernels that hold
        self.refuses = False  # some check has refused a kernel

    def checked(self, kernel: Kernel) -> Refused | None:
        """Why the check of a kernel refuses it; made once for each sort."""
        if kernel.sort not in self._checks:
            refused = self._checks[kernel.sort] = kernel.check(self._seen)
            self.refuses |= refused is not None
        return self._checks[kernel.sort]

    def revoked(self, kernel: Kernel) -> Refused | None:
        """The same of a kernel of which none of its sort may have been checked yet."""
        return self._checks.get(kernel.sort) if self.refuses else None

    def of(self, key: Hashable, find: Callable[[], Answer]) -> Answer:
        """The answer to a question, found if it is not known."""
        if key not in self._found:
            if len(self._found) >= MOST_ANSWERS:
                del self._found[next(iter(self._found))]
            self._found[key] = find()
        answer: Answer = self._found[key]
        return answer


class Judge:
    """Answers from memory where it can: the planner asks about the same sets again."""

    def __init__(
        self,
        region: Region,
        device: Device,
        bounds: Bounds,
        schemes: tuple[str, ...],
        answers: Answers | None = None,
    ) -> None:
        self.region, self.device, self.bounds, self.schemes = region, device, bounds, schemes
        self.answers = answers or Answers()
        self.known: dict[tuple[Nodes, tuple[Value, ...]], Verdict | Refused] = {}
        self._products: dict[int, Kernel | Refused] = {}
        self._ends: dict[tuple[Products, Nodes, tuple[Value, ...]], Verdict | Refused] = {}

    def __call__(self, nodes: Nodes, outputs: tuple[Value, ...] | None = None) -> Verdict | Refused:
        """The verdict on a set of nodes, convexity aside, that writes what others use, or less."""
        wanted = self.region.leaving(nodes) if outputs is None else outputs
        key = nodes, wanted
        if key not in self.known:
            found = self._judge(nodes, wanted)
            if isinstance(found, Verdict) and (fresh := self._fresh(nodes)):
                saved = found.kernel.planned_us - found.kernel.after_us(fresh)
                found = replace(found, cost_us=found.cost_us - saved)
            self.known[key] = found
        return self.known[key]

    def _fresh(self, nodes: Nodes) -> int:
        """Bytes that a set reads of what a product's kernel has just written, ended or not."""
        fresh = filter(self._of_products.__contains__, inputs(self.region, nodes))
        return sum(map(self.bounds.representative.bytes, fresh))

    @cached_property
    def _of_products(self) -> frozenset[Var]:
        """Results of the region's own products, and what follows of their size."""
        region = self.region
        graph = region.graph
        found: set[Var] = set()
        for index in own_products(region):
            result = graph.buffer(graph.nodes[index].results[0])
            found.add(result)
            behind = region.readers[result]
            for place in bits(region.readers[result]):
                behind |= region.descendants[place]
            found.update(
                region.buffer(v) for place in bits(behind) for v in region.values_of[place]
            )
        return frozenset(found)

    def product(self, index: int) -> Kernel | Refused:
        """The kernel of a product of the graph, by itself: on tensor cores, or the library's."""
        if index not in self._products:
            node = self.region.graph.nodes[index]
            result = (self.region.graph.buffer(node.results[0]),)
            # Of equal products the first one's, whose cost is that of all.
            self._products[index] = self.answers.of(
                ("product", self.region.product(index)),
                lambda: choose_kernel(
                    node.stages, result, self.device, self.bounds, self.schemes, PRODUCTS
                ),
            )
        return self._products[index]

    def products(self) -> list[Kernel]:
        """The kernels of the region's own products that have one here."""
        found = map(self.product, own_products(self.region))
        return [kernel for kernel in found if not isinstance(kernel, Refused)]

    def ending(
        self, products: Products, nodes: Nodes, outputs: tuple[Value, ...] | None = None
    ) -> Verdict | Refused:
        """The verdict on products of the graph and a set of nodes at the end of their kernel."""
        wanted = self.region.leaving(nodes) if outputs is None else outputs
        key = products, nodes, wanted
        if key not in self._ends:
            self._ends[key] = self._ending(products, nodes, wanted)
        return self._ends[key]

    def _ending(
        self, products: Products, nodes: Nodes, outputs: tuple[Value, ...]
    ) -> Verdict | Refused:
        alone, graph = list[Kernel](), self.region.graph
        for kernel in map(self.product, products):
            if isinstance(kernel, Refused):
                return kernel
            alone.append(kernel)
        multiplied = [graph.nodes[index] for index in products]
        own = (stage for node in multiplied for stage in node.stages)
        stages = (*own, *self._stages(nodes))
        written = tuple(map(self.region.buffer, outputs))
        kernel = choose_kernel(stages, written, self.device, self.bounds, self.schemes, PRODUCTS)
        if isinstance(kernel, Refused):
            return kernel
        tensors = (each for node in multiplied for each in (*node.operands, *node.results))
        cost_us = ended_us(kernel, alone, map(graph.buffer, tensors))
        return Verdict(outputs, (), kernel, cost_us)

    def revoked(self, verdicts: Iterable[Verdict]) -> list[Refused]:
        """Why verdicts do not hold after all: each is looked at as the kernel that it becomes."""
        found: list[Refused] = []
        for kernel in dict.fromkeys(verdict.kernel for verdict in verdicts):
            refused = self.answers.checked(kernel)
            if refused is not None:
                found.append(refused)
        if found:
            self._revoke()
        return found

    def _revoke(self) -> None:
        """What is known of sets whose kernels are of a sort that does not hold."""
        for answers in (self.known, self._ends):
            for key, known in answers.items():  # type: ignore[attr-defined]
                refused = isinstance(known, Verdict) and self.answers.revoked(known.kernel)
                if refused:
                    answers[key] = refused  # type: ignore[index]

    def default_us(self, nodes: Nodes, outputs: tuple[Value, ...]) -> float:
        """What TVM's own kernel of a set takes."""
        key = "default", self.region.structure(nodes, outputs)
        find = partial(default_kernel_us, self.region, nodes, outputs, self.device, self.bounds)
        return self.answers.of(key, find)

    def reduces(self, nodes: Nodes) -> bool:
        """Whether a set holds a reduction."""
        return any(self.region.nodes[place].pattern in REDUCTIONS for place in bits(nodes))

    def _judge(self, nodes: Nodes, outputs: tuple[Value, ...]) -> Verdict | Refused:
        """The verdict on the first set of this structure, with this one's values."""
        if not outputs:
            return Refused("nothing of it is used")
        key = self.region.structure(nodes, outputs)
        found, given = self.answers.of(key, lambda: (self._judged(nodes, outputs), outputs))
        if isinstance(found, Verdict) and (refused := self.answers.revoked(found.kernel)):
            return refused
        if isinstance(found, Refused) or given is outputs:
            return found
        own = dict(zip(given, outputs, strict=True))
        written, spare = (tuple(own[v] for v in values) for values in (found.outputs, found.spare))
        return replace(found, outputs=written, spare=spare)

    def _judged(self, nodes: Nodes, outputs: tuple[Value, ...]) -> Verdict | Refused:
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
        return Verdict(outputs, spare, kernel, kernel.planned_us)

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
