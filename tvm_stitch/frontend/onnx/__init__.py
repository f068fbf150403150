"""ONNX models in, Relax out: TVM's importer, behind a folding of what it would refuse."""

from tvm_stitch.frontend.onnx.load import load

__all__ = ["load"]
