"""What became of a PyTorch model: its parts, and what stayed PyTorch's.

In: what the backend notes down. Out: TorchReport, plain data with a text for people. Must not know
how anything is compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_stitch.errors import StitchError, first_line, last_line
from tvm_stitch.report import Report


@dataclass(frozen=True)
class PartReport:
    """One part that was converted."""

    graph: str  # "inference", "forward" or "backward", with the number of the graph
    operators: tuple[str, ...]  # ATen's names, views among them
    failure: str = ""  # why it runs as PyTorch's operators after all
    kernels: Report | None = None  # what stitching makes of it, where explain asked
    module: Any = None  # the same part in Relax, where explain asked: what tvm_stitch.tune takes

    @property
    def stitched(self) -> bool:
        """Whether it runs as compiled by us."""
        return not self.failure


@dataclass(frozen=True)
class LeftReport:
    """An operator that stays PyTorch's."""

    operator: str
    reason: str
    calls: int


@dataclass(frozen=True)
class TorchReport:
    """A model under torch.compile(backend="tvm_stitch"); `str()` is a text for people."""

    graphs: tuple[str, ...]
    parts: tuple[PartReport, ...]
    left: tuple[LeftReport, ...]
    notes: tuple[str, ...] = ()  # what is true of a whole graph

    def __str__(self) -> str:
        ours = sum(part.stitched for part in self.parts)
        lines = [f"{_counted(len(self.graphs), 'graph')}, {_counted(ours, 'stitched part')}"]
        for number, part in enumerate(self.parts):
            counted = Counter(part.operators)
            names = ", ".join(f"{n} {name}" if n > 1 else name for name, n in counted.items())
            lines.append(f"part {number} ({part.graph}): {names}")
            if part.failure:
                lines.append(f"  runs as PyTorch's operators: {part.failure}")
            elif part.kernels is not None:
                lines += [f"  {line}" for line in str(part.kernels).splitlines()]
        lines += [f"PyTorch's: {each.calls} {each.operator}: {each.reason}" for each in self.left]
        return "\n".join([*lines, *self.notes])

    def to_json(self) -> dict[str, Any]:
        """The whole report as what json.dump writes."""
        return {
            "graphs": list(self.graphs),
            "parts": [
                {
                    "graph": part.graph,
                    "operators": list(part.operators),
                    "failure": part.failure,
                    "kernels": None if part.kernels is None else part.kernels.to_json(),
                }
                for part in self.parts
            ],
            "left": [vars(each) for each in self.left],
            "notes": list(self.notes),
        }


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass
class GraphLog:
    """What is noted down of one graph, be it compiled or taken up from an earlier process.

    left: the operators that stay PyTorch's, with the reasons, counted.
    notes: what people could do for a faster one.
    """

    name: str
    parts: list[PartReport] = field(default_factory=list)
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def failed(self, number: int, failure: str) -> PartReport:
        """A part was compiled, but cannot be run."""
        self.parts[number] = replace(self.parts[number], failure=failure)
        return self.parts[number]

    def called(self, name: str) -> GraphLog:
        """The same of a graph with another name."""
        parts = [replace(part, graph=name) for part in self.parts]
        return GraphLog(name, parts, self.left.copy(), self.notes.copy())


@dataclass
class Log:
    """What is noted down while graphs are compiled."""

    graphs: list[GraphLog] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def name(self, kind: str) -> str:
        """What the next graph of this kind is called."""
        return f"{kind} {sum(each.name.startswith(kind) for each in self.graphs)}"

    def begin(self, kind: str) -> GraphLog:
        """The log of a graph that comes next."""
        self.graphs.append(GraphLog(self.name(kind)))
        return self.graphs[-1]

    def report(self) -> TorchReport:
        """All of it."""
        counted = sum((each.left for each in self.graphs), Counter[tuple[str, str]]())
        left = tuple(LeftReport(*key, calls) for key, calls in sorted(counted.items()))
        names = tuple(each.name for each in self.graphs)
        parts = tuple(part for each in self.graphs for part in each.parts)
        notes = [*self.notes, *(note for each in self.graphs for note in each.notes)]
        return TorchReport(names, parts, left, tuple(dict.fromkeys(notes)))


def said(error: Exception) -> str:
    """What an error says in a line."""
    return first_line(error) if isinstance(error, StitchError) else last_line(error)


def shown(operators: Sequence[str]) -> str:
    """The names of some operators."""
    names = list(dict.fromkeys(operators))
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
