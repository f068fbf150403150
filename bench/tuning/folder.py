"""The folder of a tuning run: what was measured, a file for each case until it is packed.

In: a folder. Out: its Records, apart by what they were measured for, and its Kernels. A run writes
plain files as it goes, so that nothing of it is lost; `pack` makes two compressed ones of them.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tvm_stitch.tuning.records import Record
from tvm_stitch.tuning.store import Store, parse, pruned

RECORDS, KERNELS, BEST = "records.jsonl.gz", "kernels.json.gz", "best.jsonl"
# Instead of the seed of a search.
EXHAUSTIVE, CONFIRMED = -1, -2
FEATURE_DIGITS = 4


@dataclass(frozen=True)
class Kernel:
    """One kernel of a case, as stored."""

    case: str
    group: str
    key: str  # of the workload, as in the records
    title: str
    space: int
    floor_us: float | None
    function: str  # as tvm.ir.save_json writes it


@dataclass(frozen=True)
class Measured:
    """All records of a folder."""

    searched: tuple[Record, ...]
    exhausted: tuple[Record, ...]  # of spaces that were measured as a whole
    confirmed: tuple[Record, ...]  # the best schedules, once more beside the chosen ones


@dataclass(frozen=True)
class Folder:
    """Where a run keeps what it finds."""

    path: Path

    def searches(self, case: str) -> Store:
        """The records of a case's searches."""
        return self._store("searches", case)

    def exhausted(self, case: str) -> Store:
        """The records of its whole spaces."""
        return self._store("exhausted", case)

    def confirmed(self, case: str) -> Store:
        """Its best schedules, measured once more beside the chosen ones."""
        return self._store("confirmed", case)

    def _store(self, kind: str, case: str) -> Store:
        (self.path / kind).mkdir(parents=True, exist_ok=True)
        return Store(self.path / kind / f"{case}.jsonl")

    def add_kernels(self, case: str, kernels: list[Kernel]) -> None:
        """Keep the kernels of a case."""
        place = self.path / "kernels"
        place.mkdir(parents=True, exist_ok=True)
        partial = place / f"{case}.partial"
        partial.write_text(_text(kernels))
        partial.replace(place / f"{case}.json")

    def kernels(self) -> list[Kernel]:
        """The kernels of all cases; a later run's stand for an earlier one's."""
        texts = [path.read_text() for path in sorted((self.path / "kernels").glob("*.json"))]
        packed = self.path / KERNELS
        if packed.exists():
            texts.insert(0, gzip.decompress(packed.read_bytes()).decode())
        found = [Kernel(**item) for text in texts for item in json.loads(text)]
        return list({(kernel.case, kernel.key): kernel for kernel in found}.values())

    def records(self) -> Measured:
        """All that was measured, each record once."""
        paths = [path for path in sorted(self.path.glob("*/*.jsonl")) if path.is_file()]
        found = [record for path in paths for record in Store(path).read().records]
        packed = self.path / RECORDS
        if packed.exists():
            found = [*parse(gzip.decompress(packed.read_bytes())).records, *found]
        found = list(dict.fromkeys(map(_rounded, found)))
        return Measured(
            tuple(record for record in found if record.seed >= 0),
            tuple(record for record in found if record.seed == EXHAUSTIVE),
            tuple(record for record in found if record.seed == CONFIRMED),
        )

    def pack(self) -> tuple[Path, Path, Path]:
        """Two files of all that is here, and a store of the best; the plain ones stay."""
        measured = self.records()
        records = (*measured.searched, *measured.exhausted, *measured.confirmed)
        lines = "".join(record.to_line() + "\n" for record in records)
        paths = self.path / RECORDS, self.path / KERNELS
        for path, text in zip(paths, (lines, _text(self.kernels())), strict=True):
            partial = path.with_suffix(".partial")
            # Without the time of day, so that the same content is the same file.
            partial.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
            partial.replace(path)
        best = "".join(record.to_line() + "\n" for record in pruned(measured.searched))
        (self.path / BEST).write_text(best)
        return *paths, self.path / BEST

    def unpack(self) -> int:
        """Make plain files of the compressed ones, for a run to go on from; how many records."""
        measured = self.records()
        by_case: dict[str, list[Kernel]] = {}
        for kernel in self.kernels():
            by_case.setdefault(kernel.case, []).append(kernel)
        for case, kernels in by_case.items():
            self.add_kernels(case, kernels)
            keys = {kernel.key for kernel in kernels}
            for store, records in (
                (self.searches(case), measured.searched),
                (self.exhausted(case), measured.exhausted),
                (self.confirmed(case), measured.confirmed),
            ):
                known = set(map(_rounded, store.read().records))
                store.append(r for r in records if r.workload in keys and r not in known)
        return sum(map(len, (measured.searched, measured.exhausted, measured.confirmed)))


def _text(kernels: list[Kernel]) -> str:
    return json.dumps([asdict(kernel) for kernel in kernels], indent=0)


def _rounded(record: Record) -> Record:
    """With features to as many digits as trees can tell apart."""
    cost = None if record.cost is None else round(record.cost, FEATURE_DIGITS)
    features = tuple((name, round(value, FEATURE_DIGITS)) for name, value in record.features)
    return replace(record, cost=cost, features=features)
