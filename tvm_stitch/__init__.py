"""Stitching for Apache TVM: memory-bound operators become a few fast CUDA kernels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# First: it says in one line what is wrong with TVM.
import tvm_stitch.workarounds.installed  # noqa: F401

# isort: split
from tvm_stitch import simt, transform
from tvm_stitch.build import compile, pipeline
from tvm_stitch.errors import (
    CompilerMissing,
    InputError,
    OnnxError,
    RelayError,
    SimtError,
    StitchError,
    TorchError,
)
from tvm_stitch.library import shim
from tvm_stitch.options import Options
from tvm_stitch.plan.saved import SavedPlan
from tvm_stitch.timing import log_as_told
from tvm_stitch.verify import verify

if TYPE_CHECKING:  # for editors; see __getattr__
    from tvm_stitch import onnx, relay, torch
    from tvm_stitch.profiling.profile import profile
    from tvm_stitch.report.explain import explain
    from tvm_stitch.tuning.tune import tune

__version__ = "0.1.0"

__all__ = [
    "CompilerMissing",
    "InputError",
    "OnnxError",
    "Options",
    "RelayError",
    "SavedPlan",
    "SimtError",
    "StitchError",
    "TorchError",
    "compile",
    "explain",
    "onnx",
    "pipeline",
    "profile",
    "relay",
    "simt",
    "torch",
    "transform",
    "tune",
    "verify",
]


log_as_told()
shim.register()

# These take up to seconds to import, and few programs want all of them; what torch and onnx need is
# not always installed.
_MODULES = ("onnx", "relay", "torch")
_FUNCTIONS = {"explain": "report", "profile": "profiling.profile", "tune": "tuning.tune"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tvm_stitch.{name}")
    if name in _FUNCTIONS:
        return getattr(import_module(f"tvm_stitch.{_FUNCTIONS[name]}"), name)
    raise AttributeError(f"module 'tvm_stitch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
