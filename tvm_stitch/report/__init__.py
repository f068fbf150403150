"""What stitching makes of a module, for people and for programs."""

from tvm_stitch.report.data import Before, Kernel
from tvm_stitch.report.explain import explain
from tvm_stitch.report.report import Report

__all__ = ["Before", "Kernel", "Report", "explain"]
