"""Why two kernels are not one, by what the planner said of their operators.

In: kernels, cuts, and what flows from one kernel to the other. Out: a reason, or none: it is never
made up. Must not know the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm_stitch.graph.front.functions.operator_names import operator_name
from tvm_stitch.kernel.tensor_core.tiles import ON_TENSOR_CORES
from tvm_stitch.plan.plan import Cut
from tvm_stitch.report.data import Kernel
from tvm_stitch.report.findings.operators import PRODUCT, Operator

# Cuts name a product's kernel by its epilogue, and views only where there is nothing else; a
# transpose may be one, by its shape.
_UNNAMED = (
    {PRODUCT},
    {"reshape", "expand_dims", "squeeze", "flatten"},
    {"permute_dims", "transpose"},
)


@dataclass(frozen=True)
class Between:
    """What goes from one kernel to another: places among the kernels, and the size."""

    writer: int
    reader: int
    bytes: int | None  # of a single value, if that is known
    is_factor: bool  # whether a matrix product of the reader multiplies it


def factors(held: Sequence[Operator]) -> frozenset[int]:
    """The parameters of a function that its matrix products multiply, as they are or moved."""
    waiting = [place for place, each in enumerate(held) if each.name == PRODUCT]
    seen: set[int] = set()
    while waiting:
        place = waiting.pop()
        if place not in seen:
            seen.add(place)
            waiting += held[place].reads
    return frozenset(parameter for place in seen for parameter in held[place].parameters)


class Reasons:
    """The reasons of a module's edges."""

    def __init__(self, kernels: Sequence[Kernel], cuts: Sequence[Cut]) -> None:
        self._kernels = kernels
        self._held = [_computed(kernel.ops) for kernel in kernels]
        self._cuts = [(_computed(cut.writer), _computed(cut.reader), cut) for cut in cuts]
        self._of_writer: dict[int, list[tuple[Counter[str], Cut]]] = {}
        self._found: dict[Between, str] = {}

    def of(self, between: Between) -> str:
        """Why two kernels are not one; empty if that is not known."""
        if between not in self._found:
            self._found[between] = self._reason(between)
        return self._found[between]

    def _reason(self, between: Between) -> str:
        writer, reader = self._kernels[between.writer], self._kernels[between.reader]
        for kernel in (writer, reader):
            if not kernel.stitched:
                whose = "the library's" if kernel.by_library else "TVM's own"
                return f"{kernel.name} is {whose}: {kernel.why}"
        if between.is_factor and ON_TENSOR_CORES in reader.mapping:
            return _by_tensor_cores(writer, reader)
        fitting = [
            cut
            for reads, cut in self._written_by(between.writer)
            if between.bytes in (None, cut.bytes) and self._computes(between.reader, reads)
        ]
        best = max(fitting, key=lambda cut: len(cut.writer) + len(cut.reader), default=None)
        return best.reason if best else _by_tensor_cores(writer, reader)

    def _written_by(self, writer: int) -> list[tuple[Counter[str], Cut]]:
        """The cuts behind a kernel, with the operators that read."""
        if writer not in self._of_writer:
            self._of_writer[writer] = [
                (reads, cut) for writes, reads, cut in self._cuts if self._computes(writer, writes)
            ]
        return self._of_writer[writer]

    def _computes(self, place: int, operators: Counter[str]) -> bool:
        """Whether a kernel is that of these operators, or one of those that share its launch is."""
        kernel, held = self._kernels[place], self._held[place]
        is_shared = kernel.scheme == "independent" or kernel.ops.count(PRODUCT) > 1
        return operators <= held if is_shared else operators == held


def _by_tensor_cores(writer: Kernel, reader: Kernel) -> str:
    """The reason that such kernels have by themselves, which no cut tells."""
    if ON_TENSOR_CORES in reader.mapping:
        return "a product on tensor cores reads its operands from memory: it begins a kernel"
    if ON_TENSOR_CORES in writer.mapping:
        return "a product on tensor cores ends with its element-wise epilogue"
    return ""


def _computed(nodes: Iterable[str]) -> Counter[str]:
    """How often operators occur; those that cuts leave unnamed only where nothing else does."""
    names = Counter(map(operator_name, nodes))
    for unnamed in _UNNAMED:
        names = Counter({name: n for name, n in names.items() if name not in unnamed}) or names
    return names
