"""The record store: one file of JSON lines that is only ever appended to.

In: Records. Out: Records, and the lines that are none with the reason. Several processes may write
at once, and be killed at any moment: a record is one write under a lock of the file, and a line
that a killed writer left unfinished is closed by the next one.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tvm_stitch.errors import InputError
from tvm_stitch.tuning.records import Record, best_first, read_record

BEGINNING = b'{"capability"'  # of every record's line, whose keys are sorted


@dataclass(frozen=True)
class Unreadable:
    """A line of a store that is no record."""

    line: int
    reason: str
    text: bytes

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True)
class Contents:
    """All that a store holds, in the order of writing."""

    records: tuple[Record, ...]
    unreadable: tuple[Unreadable, ...]


class Store:
    """A record store by its path. Opening makes no file; the first record does."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> Contents:
        """Every record; a file that does not exist yet holds none."""
        try:
            with self.path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                contents = parse(file.read())
        except FileNotFoundError:
            return Contents((), ())
        except OSError as error:
            raise InputError(f"cannot read the records {self.path}: {error.strerror}") from None
        lines = contents.unreadable
        if lines and not contents.records and not any(_is_of_a_store(each.text) for each in lines):
            raise InputError(f"{self.path} is no record store: {lines[0]}")
        return contents

    def append(self, records: Iterable[Record]) -> None:
        """Add records, each of them whole or not at all."""
        with self._locked() as descriptor:
            for record in records:
                line = record.to_line().encode() + b"\n"
                # A writer that was killed may have left a line without its end.
                self._write(descriptor, line if _ends_with_newline(descriptor) else b"\n" + line)
            os.fsync(descriptor)

    def _write(self, descriptor: int, text: bytes) -> None:
        try:
            complete = os.write(descriptor, text) == len(text)
        except OSError as error:
            raise InputError(f"cannot write records to {self.path}: {error.strerror}") from None
        if not complete:
            raise InputError(f"cannot write records to {self.path}: the disk is full")

    def prune(self) -> tuple[int, int]:
        """Keep the analytic choice and the best of every workload; records before and after.

        Lines that are no records of this version stay: a newer tvm_stitch may read them.
        """
        self.existing()
        with self._locked():
            # Not through read(): a second open file would wait for the lock.
            contents = parse(self.path.read_bytes())
            kept = pruned(contents.records)
            lines = [record.to_line().encode() for record in kept]
            self._replace([*lines, *(each.text for each in contents.unreadable)])
        return len(contents.records), len(kept)

    def merge(self, others: Iterable[Store]) -> int:
        """Add the records of other stores that are not here yet; how many there were."""
        known = {record.to_line() for record in self.read().records}
        new: dict[str, Record] = {}
        for other in others:
            for record in other.existing().records:
                if record.to_line() not in known:
                    new.setdefault(record.to_line(), record)
        self.append(new.values())
        return len(new)

    def existing(self) -> Contents:
        """Every record of a store that must be there."""
        if not self.path.is_file():
            raise InputError(
                f"there is no record store {self.path}: make one with "
                f"`tvm-stitch tune MODEL --database {self.path}`"
            )
        return self.read()

    def _replace(self, lines: list[bytes]) -> None:
        """Another file in this one's place: readers see the old one or the new one."""
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(line + b"\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, self.path.stat().st_mode & 0o777)
            os.replace(name, self.path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The open file, for this process alone."""
        while True:
            try:
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                descriptor = os.open(self.path, flags, 0o644)
            except OSError as error:
                raise InputError(f"cannot write records to {self.path}: {error.strerror}") from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self._is_current(descriptor):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        """Whether the locked file still has the path's name: pruning puts another in its place."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False


def parse(text: bytes) -> Contents:
    """The records of a file's text."""
    records, unreadable = [], []
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            records.append(read_record(line))
        except InputError as error:
            unreadable.append(Unreadable(number, str(error), line))
    return Contents(tuple(records), tuple(unreadable))


def _is_of_a_store(line: bytes) -> bool:
    """Whether a line that is no record may be what a killed or a newer writer left."""
    beginning = line[: len(BEGINNING)]
    return BEGINNING.startswith(beginning) or b'"version"' in line


def pruned(records: Iterable[Record]) -> list[Record]:
    """Of every workload on every GPU: the last analytic choice and the best, by each unit."""
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        key = (record.workload, record.gpu, record.capability, record.package, record.unit)
        groups.setdefault(key, []).append(record)
    kept: list[Record] = []
    for group in groups.values():
        analytic = [record for record in group if record.trial == 0 and record.ok][-1:]
        kept += dict.fromkeys([*analytic, *best_first(group)[:1]])
    return kept


def _ends_with_newline(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
