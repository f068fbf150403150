"""TVM's importer of ONNX, which also says the node that each call comes from.

In: a model as `load` prepares it. Out: a Relax module whose calls have spans.
"""

from __future__ import annotations

from typing import Any

import onnx
import tvm
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from tvm_stitch.errors import OnnxError
from tvm_stitch.frontend.placing import Line, PlacingBuilder, span

OLDEST_IR = 3  # of ONNX 1.1, the oldest that TVM reads


def imported(model: onnx.ModelProto, keep_params_in_input: bool) -> tvm.IRModule:
    """As tvm.relax.frontend.onnx.from_onnx does, for the operator set that the model names."""
    if model.ir_version < OLDEST_IR:
        raise OnnxError(f"the model is of ONNX's IR {model.ir_version}, TVM reads {OLDEST_IR}")
    for node in model.graph.node:  # names are optional, those of results are not
        node.name = node.name or next(filter(None, node.output), "")
    sets = (each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    importer = _Importer(None, "float32", keep_params_in_input=keep_params_in_input)
    return importer.from_onnx(model.graph, next(sets, 1))


class _Importer(ONNXGraphImporter):
    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.bb = PlacingBuilder()

    def _convert_operator(
        self, op_name: str, inputs: list[Any], attrs: dict[str, Any], opset: int
    ) -> Any:
        name = attrs["tvm_custom"]["name"]
        # A node has no line.
        self.bb.span = span(Line(name)) if name else None
        try:
            return super()._convert_operator(op_name, inputs, attrs, opset)
        finally:
            self.bb.span = None
