"""Whether TVM and the GPU's driver are those that this package needs. Importing this module asks.

Other releases have other classes: what follows would be an ImportError or an AttributeError from
deep inside, or, with another apache-tvm-ffi, a crash. pyproject.toml names the same versions. Of a
GPU that it cannot use, TVM says no more than that there is none.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from importlib import metadata

from tvm_stitch.workarounds.quick_import import quick_import

with quick_import():
    import tvm

TVM = "0.27.0.post1"
FFI = "0.1.14.post1"
CUDA = 13  # that the wheels of apache-tvm are built with


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


def check_gpu(driver: tuple[int, int] | None, is_wheel: bool, has_runtime: bool) -> None:
    """A warning where there is a driver, for this CUDA, that TVM cannot use."""
    if driver is None:
        return
    if is_wheel and driver[0] < CUDA:
        found = ".".join(map(str, driver))
        warnings.warn(
            f"the NVIDIA driver is for CUDA {found}, and the wheel of apache-tvm {TVM} needs one "
            f"for CUDA {CUDA}: no kernel will run on this machine's GPU until it is updated",
            stacklevel=2,
        )
    elif not has_runtime:
        warnings.warn(
            "there is an NVIDIA driver, but TVM's CUDA runtime does not load: no kernel will run "
            f"on this machine's GPU; is libcudart.so.{CUDA} where LD_LIBRARY_PATH looks for it?",
            stacklevel=2,
        )


def driver_version() -> tuple[int, int] | None:
    """The CUDA that the driver is for; asking starts no driver, which a fork would not survive."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return None
    version = ctypes.c_int()
    try:
        code = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if code else (version.value // 1000, version.value % 1000 // 10)


def _version(package: str) -> str:
    """What pip says; nothing where TVM was built from its sources."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


check(tvm.__version__, _version("apache-tvm-ffi"))
check_gpu(
    driver_version(),
    is_wheel=bool(_version("apache-tvm")),
    has_runtime=tvm.get_global_func("device_api.cuda", allow_missing=True) is not None,
)
