"""Where NVIDIA's libraries are on this machine.

In: the name of a library. Out: its file, or why there is none. They come with packages of their
own, which PyTorch brings along, with PyTorch itself, or with a CUDA toolkit. Opens none of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata, util
from pathlib import Path

from tvm_stitch.errors import InputError

FOLDER = "TVM_STITCH_LIBRARIES"
OFF = "off"


@dataclass(frozen=True)
class Library:
    """A library and how it may be found: newest release first."""

    title: str
    files: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def missing(self) -> str:
        """What a user should do where it is not found."""
        return (
            f"{self.title} is not found: pip install {self.packages[0]}, or name the folder of "
            f"{self.files[0]} in {FOLDER}"
        )


CUBLASLT = Library(
    "cuBLASLt",
    ("libcublasLt.so.13", "libcublasLt.so.12"),
    ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12"),
)
CUDNN = Library(
    "cuDNN",
    ("libcudnn.so.9",),
    ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"),
)


def is_off() -> bool:
    """Whether the environment says that libraries are not to be called."""
    return os.environ.get(FOLDER) == OFF


def find(library: Library) -> Path | None:
    """The file of a library; None if there is none, or they are switched off."""
    return None if is_off() else _found(library, os.environ.get(FOLDER, ""), _paths())


def _paths() -> tuple[str, ...]:
    """Settings of the environment that say where libraries are."""
    return tuple(os.environ.get(name, "") for name in ("CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH"))


@lru_cache
def _found(library: Library, folder: str, _environment: tuple[str, ...]) -> Path | None:
    if folder:
        stated = Path(folder).expanduser()
        if not stated.is_dir():
            raise InputError(f"{FOLDER} must name a folder, or be {OFF!r}, not {folder!r}")
        return _first(library, [stated])
    return _of_packages(library) or _first(library, _folders()) or _known_to_the_loader(library)


def _first(library: Library, folders: Iterable[Path]) -> Path | None:
    """The newest file in the first folder that has any."""
    candidates = (folder / name for folder in folders for name in library.files)
    return next((path for path in candidates if path.is_file()), None)


def _of_packages(library: Library) -> Path | None:
    for package in library.packages:
        try:
            files = metadata.distribution(package).files or ()
        except metadata.PackageNotFoundError:
            continue
        for name in library.files:
            for file in files:
                if file.name == name and Path(str(file.locate())).is_file():
                    return Path(str(file.locate()))
    return None


def _folders() -> Iterator[Path]:
    """Those of PyTorch, of the CUDA toolkit, and of the loader's path, in this order."""
    torch = util.find_spec("torch")  # found, not imported: that takes seconds
    for place in (torch.submodule_search_locations or ()) if torch else ():
        yield Path(place) / "lib"
    path, home, loader = _paths()
    nvcc = shutil.which("nvcc")
    toolkits = [path, home, str(Path(nvcc).resolve().parents[1]) if nvcc else "", "/usr/local/cuda"]
    for toolkit in filter(None, toolkits):
        yield Path(toolkit) / "lib64"
        yield Path(toolkit) / "lib"
    for place in filter(None, loader.split(os.pathsep)):
        yield Path(place)


def _known_to_the_loader(library: Library) -> Path | None:
    """What the cache of the system's loader lists."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True).stdout
    except OSError:
        return None
    for name in library.files:
        entry = re.search(rf"^\s*{re.escape(name)} \(.*x86-64.*\) => (\S+)$", listed, re.MULTILINE)
        entry = entry or re.search(rf"^\s*{re.escape(name)} \(.*\) => (\S+)$", listed, re.MULTILINE)
        if entry and Path(entry[1]).is_file():
            return Path(entry[1])
    return None
