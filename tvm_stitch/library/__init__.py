"""cuBLASLt and cuDNN, called from compiled modules by way of a shim in C++ (native/)."""

from tvm_stitch.library.shim import build_object


def addons() -> list[str]:
    """What to give `export_library(file, addons=...)` of an executable that TVM built.

    With it a library calls cuBLASLt and cuDNN in processes that do not import this package.
    """
    return [str(build_object())]
