"""C++ in, loadable objects out: g++, and the objects that are kept, which processes may share.

An object is named by the hash of all that went into it. Must not know what the sources are for.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from tvm_stitch.cache.store import Store, store_of
from tvm_stitch.errors import CompilerMissing, StitchError


class Refusal(StitchError):
    """The compiler took no liking to a source: its output."""

    def lines(self) -> list[str]:
        """The first errors, or else the first lines."""
        said = str(self).splitlines()
        return [line for line in said if "error" in line][:10] or said[:10]


def compiler() -> str:
    """The C++ compiler: g++ on the path, or what $TVM_STITCH_CXX names (another version of g++)."""
    name = os.environ.get("TVM_STITCH_CXX", "g++")
    found = shutil.which(name)
    if found is None:
        raise CompilerMissing(
            f"a C++17 compiler is needed and {name!r} is not on the path; install "
            "g++ (Debian/Ubuntu: `apt-get install g++`, Fedora: `dnf install gcc-c++`), "
            "or let TVM_STITCH_CXX name it"
        )
    return found


def has_compiler() -> bool:
    """Whether there is one."""
    with suppress(CompilerMissing):
        return bool(compiler())
    return False


def built(
    name: str,
    key: str,
    flags: Sequence[str],
    arguments: Callable[[Path, str], list[str]],
) -> Path:
    """The kept file of that name, with the hash of compiler, flags and key for {}; Refusal if none.

    `arguments` are the compiler's own of a folder for scratch and the file's name.
    """
    cxx = compiler()
    text = "\n".join([cxx, _compiler_version(cxx), *flags, key])
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    store, kept = _store(), name.format(digest)
    found = store.file(kept)
    if found is None:
        with store.lock(kept):
            found = store.file(kept) or _compiled(store, kept, [cxx, *flags], arguments)
    return found


def compiled_apart(sources: Sequence[Path], scratch: Path, flags: Sequence[str]) -> list[Path]:
    """Sources as object files in a folder, each by a compiler of its own, all at once."""
    objects = [scratch / f"{source.stem}.o" for source in sources]
    commands = [
        [compiler(), *flags, "-c", str(source), "-o", str(made)]
        for source, made in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(len(commands)) as pool:
        list(pool.map(_run, commands))
    return objects


def linked(objects: Sequence[Path], made: Path) -> None:
    """Object files as a shared object; Refusal if the linker has something against them."""
    _run([compiler(), "-shared", *map(str, objects), "-o", str(made)])


def _compiled(
    store: Store, kept: str, command: list[str], arguments: Callable[[Path, str], list[str]]
) -> Path:
    with store.making(kept) as made:
        _run([*command, *arguments(made.parent, made.name), "-o", str(made)])
    return store.path(kept)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Refusal(done.stderr)


def _store() -> Store:
    """Where objects are kept: with all else that is, or, as they must be files, for a while."""
    store = store_of()
    if store is not None and store.is_writable:
        return store
    folder = Path(tempfile.gettempdir()) / f"tvm-stitch-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return Store(folder)


@lru_cache(maxsize=4)
def _compiler_version(path: str) -> str:
    return subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True).stdout
