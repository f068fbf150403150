"""Whether TVM is the release that this package is written for. Importing this module asks.

Other releases have other classes: what follows would be an ImportError or an AttributeError from
deep inside, or, with another apache-tvm-ffi, a crash. pyproject.toml names the same versions.
"""

from __future__ import annotations

import warnings
from importlib import metadata

import tvm

TVM = "0.27.0.post1"
FFI = "0.1.14.post1"


def check(tvm_version: str, ffi_version: str) -> None:
    """ImportError for another TVM, a warning for another apache-tvm-ffi."""
    if tvm_version.split(".")[:2] != TVM.split(".")[:2]:
        raise ImportError(
            f"tvm_stitch needs apache-tvm {TVM} and found TVM {tvm_version}: "
            f"pip install apache-tvm=={TVM} apache-tvm-ffi=={FFI}"
        )
    if ffi_version and ffi_version != FFI:
        warnings.warn(
            f"tvm_stitch is tested with apache-tvm-ffi {FFI} and found {ffi_version}, with which "
            f"saving a module may crash: pip install apache-tvm-ffi=={FFI}",
            stacklevel=2,
        )


def _version(package: str) -> str:
    """What pip says; nothing where TVM was built from its sources."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


check(tvm.__version__, _version("apache-tvm-ffi"))
