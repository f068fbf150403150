"""C++ in, loadable objects out: g++, and the cache on disk, which several processes may share.

Knows nothing of kernels: a translation unit is a text, an object is named by the hash of all that
went into it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from tvm_stitch.cache.store import Store, store_of
from tvm_stitch.errors import CompilerMissing, SimtError

KIND = "executor"
_RUNTIME = Path(__file__).parent / "runtime"
_RUNTIME_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
# Even a kernel that asks the runtime for nothing needs it to be launched.
_LINK_FLAGS = ("-shared", "-Wl,--no-as-needed")
_KERNEL_FLAGS = (
    "-std=c++17", "-pipe", "-O1", "-g1", "-gdwarf-4", "-w", "-fPIC", *_LINK_FLAGS, "-fno-plt",
    "-fvisibility=hidden",
    "-fno-strict-aliasing", "-ffp-contract=off", "-fno-exceptions", "-fwrapv",
    "-fno-tree-sra",  # a vector load stays one access, as on the device
    "-fno-var-tracking", "-fno-var-tracking-assignments",  # most of the time, for nothing we use
)  # fmt: skip
# Characters of a kernel that TVM has unrolled: to optimise it takes longer than to run it as it is.
_LONG = 1 << 15
# The hooks are the runtime's own; libtsan and libubsan are not linked.
_CHECKS = (
    "-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0",
    "--param", "tsan-distinguish-volatile=1",
    "-fsanitize=bounds,alignment",
)  # fmt: skip


def compiler() -> str:
    """The C++ compiler: g++ on the path, or what $TVM_STITCH_CXX names (another version of g++)."""
    name = os.environ.get("TVM_STITCH_CXX", "g++")
    found = shutil.which(name)
    if found is None:
        raise CompilerMissing(
            f"the CPU executor needs a C++17 compiler and {name!r} is not on the path; install "
            "g++ (Debian/Ubuntu: `apt-get install g++`, Fedora: `dnf install gcc-c++`), "
            "or let TVM_STITCH_CXX name it"
        )
    return found


def _store() -> Store:
    """Where objects are kept: with all else that is, or, as they must be files, for a while."""
    store = store_of()
    if store is not None and store.is_writable:
        return store
    folder = Path(tempfile.gettempdir()) / f"tvm-stitch-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return Store(folder)


@lru_cache(maxsize=1)
def _runtime_text() -> str:
    files = sorted(_RUNTIME.glob("*.h")) + sorted(_RUNTIME.glob("*.cc"))
    return "".join(f"{file.name}\n{file.read_text()}" for file in files)


@lru_cache(maxsize=4)
def _compiler_version(path: str) -> str:
    return subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True).stdout


def build_runtime(ucontext: bool = False) -> Path:
    """The shared object that runs fibers; `ucontext` takes the portable switch everywhere."""
    flags = (*_RUNTIME_FLAGS, "-DSIMT_UCONTEXT") if ucontext else _RUNTIME_FLAGS
    sources = [str(file) for file in sorted(_RUNTIME.glob("*.cc"))]

    def arguments(_scratch: Path, name: str) -> list[str]:
        return [f"-Wl,-soname,{name}", *sources]

    return _build("libsimt-{}.so", _runtime_text(), flags, arguments)


def build_kernel(cpp: str, check: bool = True, ucontext: bool = False) -> Path:
    """The shared object of one kernel, linked to the runtime beside it."""
    runtime = build_runtime(ucontext)
    flags = (*_KERNEL_FLAGS, *_CHECKS) if check else _KERNEL_FLAGS
    if not check and len(cpp) > _LONG:
        flags = (*flags, "-O0")
    header = _build_header(flags)

    def arguments(scratch: Path, _name: str) -> list[str]:
        unit = scratch / "kernel.cu"
        unit.write_text(cpp)
        # Where the compiler will not have the parsed header, it finds the text in the next folder.
        includes = ["-I", str(header.parent), "-I", str(_RUNTIME), "-include", "device.h"]
        # Without the default libraries the sanitizers' own runtimes stay out, and linking is
        # quick; what a kernel needs of the C library comes with the executor's object.
        linked = [str(runtime), "-nostdlib", "-Wl,-rpath,$ORIGIN"]
        return [*includes, "-x", "c++", str(unit), "-x", "none", *linked]

    # With the runtime's name, an object never meets another version of it.
    return _build("kernel-{}.so", f"{runtime.name}\n{cpp}", flags, arguments)


def build_many(sources: list[str], check: bool = True, jobs: int | None = None) -> list[Path]:
    """Several kernels, `jobs` at a time (all processors when left out)."""
    build_runtime()
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda cpp: build_kernel(cpp, check), sources))


def _build_header(flags: tuple[str, ...]) -> Path:
    """What every kernel includes, parsed: that took a third of the time of a small kernel."""
    header = str(_RUNTIME / "device.h")
    flags = tuple(flag for flag in flags if flag not in _LINK_FLAGS)

    def arguments(_scratch: Path, _name: str) -> list[str]:
        return ["-x", "c++-header", header]

    return _build("device-{}/device.h.gch", f"{header}\n{_runtime_text()}", flags, arguments)


def _build(
    name: str,
    key: str,
    flags: tuple[str, ...],
    arguments: Callable[[Path, str], list[str]],
) -> Path:
    """The file of that name in the cache, with the hash of flags and key for {}.

    `arguments` are the compiler's own of a folder for scratch and the file's name.
    """
    cxx = compiler()
    text = "\n".join([cxx, _compiler_version(cxx), *flags, key])
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    store, kept = _store(), f"{KIND}/{name.format(digest)}"
    found = store.file(kept)
    if found is None:
        with store.lock(kept):
            found = store.file(kept) or _compiled(store, kept, [cxx, *flags], arguments)
    return found


def _compiled(
    store: Store, kept: str, command: list[str], arguments: Callable[[Path, str], list[str]]
) -> Path:
    with store.making(kept) as made:
        _run([*command, *arguments(made.parent, made.name), "-o", str(made)])
    return store.path(kept)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    raise SimtError(
        "the C++ compiler refused the kernel (lines are those of the CUDA source):\n  "
        + "\n  ".join(errors[:10] or done.stderr.splitlines()[:10])
    )
