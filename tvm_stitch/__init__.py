"""Stitching for Apache TVM: memory-intensive operators become few, fast CUDA kernels."""

from tvm_stitch.errors import CompilerMissing, InputError, RelayError, SimtError, StitchError

__version__ = "0.1.0"

__all__ = ["CompilerMissing", "InputError", "RelayError", "SimtError", "StitchError"]
