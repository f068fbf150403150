"""Files that are kept for the next time, whole or not at all, and bounded in size.

In: bytes by a name that says all that they were made of. Out: the same bytes, or None. Several
processes may share a folder, and be killed at any moment: a file gets its name when it is whole, a
lock ends with the process that has it, and a file that is damaged counts as none. Nothing that goes
wrong here keeps anybody from compiling. Must not know what the bytes mean.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tvm_stitch.errors import InputError

FOLDER, SIZE = "TVM_STITCH_CACHE", "TVM_STITCH_CACHE_BYTES"
OFF = "off"
# What people write as well who mean that.
_ALSO_OFF = ("0", "no", "false")
DEFAULT_SIZE = 4 << 30
# What is left when files are removed because there are too many bytes.
KEPT_SHARE = 0.9
# A file may be so large, or it would push out everything else.
LARGEST_SHARE = 0.25
# Every file ends with the hash of what is before, and this. Loaders of ELF read past neither.
_END = b"stitch01"
_HASH_BYTES = 32
_LOCKS = "locks"
_MAKING = "making-"
_ABANDONED_S = 3600.0  # a folder of something in the making is its maker's for so long


class CacheWarning(UserWarning):
    """The cache could not be read or written as it should."""


@dataclass(frozen=True)
class Contents:
    """How much a cache holds of one kind."""

    kind: str
    files: int
    bytes: int


class Store:
    """A folder of named files. A name is a kind, a slash, and what tells files of it apart."""

    def __init__(self, folder: str | os.PathLike[str], most_bytes: int | None = None) -> None:
        """Opening makes no folder; the first file does."""
        self.folder = Path(folder).expanduser()
        self.most_bytes = _most_bytes() if most_bytes is None else most_bytes
        self._bytes: int | None = None  # about; other processes write as well
        self._checked: set[tuple[int, int, int]] = set()
        self._warned = False

    def read(self, name: str) -> bytes | None:
        """What was written under a name, if all of it is there."""
        path = self.path(name)
        try:
            found = path.read_bytes()
        except OSError:
            return None
        data = found[: -len(_END) - _HASH_BYTES]
        if found[len(data) :] != _ending(data):
            self._warn(f"{path} is damaged: it is made anew")
            _remove(path)
            return None
        with suppress(OSError):
            os.utime(path)  # what was used last is removed last
        return data

    def write(self, name: str, data: bytes) -> None:
        """Keep bytes; of several writers of one name the last one's stay."""
        if len(data) > LARGEST_SHARE * self.most_bytes:
            return
        try:
            with self._scratch(name) as scratch:
                scratch.write_bytes(data)
                self._keep(name, scratch)
        except OSError as error:
            self._warn(f"nothing can be kept in {self.folder}: {error.strerror}")

    def file(self, name: str) -> Path | None:
        """The file of a name, for who must load it as a file; what it holds is checked once."""
        path = self.path(name)
        with suppress(OSError):
            if _identity(path) in self._checked:
                os.utime(path)
                return path
            if self.read(name) is not None:
                self._checked.add(_identity(path))
                return path
        return None

    @contextmanager
    def making(self, name: str) -> Iterator[Path]:
        """A path whose file, once written by the caller, gets the name."""
        with self._scratch(name) as scratch:
            yield scratch
            self._keep(name, scratch)

    def path(self, name: str) -> Path:
        """Where the file of a name lies, if there is one."""
        return self.folder / name

    @property
    def is_writable(self) -> bool:
        """Whether anything can be kept."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
        return os.access(self.folder, os.W_OK)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Alone with a name: whoever else wants it waits, and then finds what was made.

        Names of a kind share a bounded number of locks. Where there can be none, nobody waits.
        """
        kind, _, rest = name.partition("/")
        path = self.folder / _LOCKS / f"{kind}-{hashlib.sha256(rest.encode()).hexdigest()[:3]}"
        with ExitStack() as held:
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                file = held.enter_context(path.open("ab"))
                fcntl.flock(file, fcntl.LOCK_EX)  # the system lets go, however a process ends
            yield

    def made(self, name: str, make: Callable[[], bytes | None]) -> bytes | None:
        """What is kept under a name; if there is none, it is made and kept, by one of many.

        None is not kept: whoever makes it has no use for it.
        """
        found = self.read(name)
        if found is not None:
            return found
        with self.lock(name):
            found = self.read(name)
            if found is None:
                found = make()
                if found is not None:
                    self.write(name, found)
        return found

    def contents(self) -> list[Contents]:
        """What is there, by kind."""
        sizes: dict[str, list[int]] = {}
        for path, status in self._files():
            kind = path.relative_to(self.folder).parts[0]
            sizes.setdefault(kind, []).append(status.st_size)
        return [Contents(kind, len(each), sum(each)) for kind, each in sorted(sizes.items())]

    def clear(self) -> None:
        """Remove all files but locks, which others may hold, and what others are just making."""
        for path, _ in self._files():
            if not path.parent.name.startswith(_MAKING) or _is_old(path.parent):
                _remove(path)
        for folder in self.folder.glob(f"*/{_MAKING}*"):
            if _is_old(folder):
                shutil.rmtree(folder, ignore_errors=True)
        self._bytes = None

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        found = []
        # Another process may remove files and folders meanwhile: os.walk passes over what is gone.
        for folder, _, names in os.walk(self.folder):
            if Path(folder).name == _LOCKS:
                continue
            for path in (Path(folder, name) for name in names):
                with suppress(OSError):
                    found.append((path, path.stat()))
        return found

    @contextmanager
    def _scratch(self, name: str) -> Iterator[Path]:
        """A path of one's own beside the one of a name; what a killed process leaves there ages."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=_MAKING) as folder:
            yield Path(folder) / path.name

    def _keep(self, name: str, scratch: Path) -> None:
        with scratch.open("r+b") as file:
            data = file.read()
            file.write(_ending(data))
        os.replace(scratch, self.path(name))
        self._bound(len(data))

    def _bound(self, more: int) -> None:
        """Remove what was not used for longest, if there is too much."""
        if self._bytes is None:
            self._bytes = sum(status.st_size for _, status in self._files())
        else:
            self._bytes += more
        if self._bytes <= self.most_bytes:
            return
        files = sorted(self._files(), key=lambda each: each[1].st_mtime_ns)
        self._bytes = sum(status.st_size for _, status in files)
        for path, status in files:
            if self._bytes <= KEPT_SHARE * self.most_bytes:
                break
            _remove(path)
            self._bytes -= status.st_size

    def _warn(self, message: str) -> None:
        """Once: more of the same helps nobody."""
        if not self._warned:
            warnings.warn(message, CacheWarning, stacklevel=3)
        self._warned = True


def store_of(chosen: str | os.PathLike[str] | None = None) -> Store | None:
    """The cache in a folder, or where the environment says, or the user's; None if it is off."""
    named = os.environ.get(FOLDER, "") if chosen is None else os.fspath(chosen)
    if named.lower() in (OFF, *_ALSO_OFF):
        return None
    return _opened(named or str(_users()), _most_bytes())


# The stores of this process, for they count what they write.
_STORES: dict[tuple[str, int], Store] = {}


def _opened(folder: str, most_bytes: int) -> Store:
    key = folder, most_bytes
    return _STORES.setdefault(key, Store(*key))


def _users() -> Path:
    """The user's cache, where the XDG base directories have it."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "tvm-stitch"


def _most_bytes() -> int:
    stated = os.environ.get(SIZE)
    if stated is None:
        return DEFAULT_SIZE
    if not stated.isdigit():
        raise InputError(f"{SIZE} must be a number of bytes, not {stated!r}")
    return int(stated)


def _identity(path: Path) -> tuple[int, int, int]:
    """A file's own, not its name's: another one in its place has another."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size


def _ending(data: bytes) -> bytes:
    return hashlib.sha256(data).digest() + _END


def _is_old(folder: Path) -> bool:
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime > _ABANDONED_S
    return False


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
