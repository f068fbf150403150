"""What stitching makes of a module, for people and for programs."""

from tvm_stitch.report.explain import explain
from tvm_stitch.report.report import Before, Kernel, Report

__all__ = ["Before", "Kernel", "Report", "explain"]
