"""ONNX's place in this package: ``load`` a model as a Relax module."""

from tvm_stitch.frontend.onnx import load

__all__ = ["load"]
