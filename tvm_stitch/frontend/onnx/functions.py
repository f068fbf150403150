"""Functions of a model, and operators that TVM's importer does not know, written out.

In: a ModelProto. Out: one without functions of its own, in which an operator that the importer
lacks, and that ONNX defines by simpler ones, is these. Must not know Relax.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx.inliner

# The importer takes it for the operator of the same name in com.microsoft.
_MISREAD = {("", "Attention")}
_MOST_ROUNDS = 8  # functions of functions of functions

Operator = tuple[str, str]  # domain and name


def written_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its functions inlined, and the operators that need it."""
    from tvm.relax.frontend.onnx import onnx_frontend

    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    known = onnx_frontend._get_convert_map()
    versions = {each.domain: each.version for each in model.opset_import}
    for _ in range(_MOST_ROUNDS):
        wanted = {
            operator
            for operator in _operators(model.graph)
            if (operator[1] not in known or operator in _MISREAD)
            and _is_function(operator, versions)
        }
        if not wanted:
            break
        try:
            model = onnx.inliner.inline_selected_functions(
                model, sorted(wanted), inline_schema_functions=True
            )
        except RuntimeError:  # of the inliner, where an input is left out: the importer says what
            break
    return model


def _operators(graph: onnx.GraphProto) -> Iterator[Operator]:
    """The operators of a graph and of the graphs in it."""
    for node in graph.node:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _operators(inner)


def _is_function(operator: Operator, versions: dict[str, int]) -> bool:
    domain, name = operator
    try:
        schema: Any = onnx.defs.get_schema(name, versions.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
