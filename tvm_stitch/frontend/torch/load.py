"""An ExportedProgram as a Relax module.

In: what torch.export made. Out: a module whose `main` takes the program's inputs. Must not know
dynamo.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import tvm
from torch.export.graph_signature import InputKind, OutputKind
from tvm import relax

from tvm_stitch.checked_index import on_host
from tvm_stitch.errors import InputError
from tvm_stitch.frontend.torch.convert import convert, refusal
from tvm_stitch.frontend.torch.decompositions import exported_decompositions
from tvm_stitch.frontend.torch.lists import by_tensor
from tvm_stitch.frontend.torch.writer import ENTRY

CUDA, LLVM = "cuda", "llvm"
_STORED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def load(
    exported_program: torch.export.ExportedProgram,
    keep_params_as_input: bool = False,
    device: str = CUDA,
) -> tvm.IRModule:
    """The Relax module of an ExportedProgram.

    `main` takes the program's tensor inputs, in order, and returns a tuple: the program's results,
    and after them the new values of the buffers (and inputs) that it changes. Parameters and
    buffers become constants; with `keep_params_as_input` they stay parameters of `main`, after the
    inputs, and `relax.frontend.detach_params` finds their values. A TorchError names what has no
    counterpart in Relax.

    Positions (of an embedding, a gather) are checked where they are used, which is written
    differently for a GPU and for the CPU: `device` is "cuda", or "llvm" for a module that TVM's
    LLVM target compiles.
    """
    if device not in (CUDA, LLVM):
        raise InputError(f"unknown device {device!r}; known are {[CUDA, LLVM]}")
    if not isinstance(exported_program, torch.export.ExportedProgram):
        kind = type(exported_program).__name__
        raise InputError(
            f"load takes what torch.export.export returns, not {kind}: export the model first"
        )
    with _views_that_may_copy(exported_program.graph):
        program = exported_program.run_decompositions(exported_decompositions())
    _drop_assertions(program.graph)
    by_tensor(program.graph, accepted=lambda node: refusal(node) is None)
    converted = convert(program.graph, stored=False)
    function = _ordered(converted.module[ENTRY], program)
    values = _values(program)
    stored = [param for param in function.params if param.name in values]
    tensors = [_tensor(values[param.name]) for param in stored]
    inputs = len(function.params) - len(stored)
    function = function.with_attr("num_input", inputs)
    module = converted.module.clone()
    if keep_params_as_input:
        module[ENTRY] = function.with_attr("params", tensors)
        return on_host(module) if device == LLVM else module
    module[ENTRY] = function
    module = relax.transform.Normalize()(module)
    names = {param.name: tensor for param, tensor in zip(stored, tensors, strict=True)}
    module = relax.transform.BindParams(ENTRY, names)(module)
    return on_host(module) if device == LLVM else module


@contextmanager
def _views_that_may_copy(graph: torch.fx.Graph) -> Iterator[None]:
    """Views as reshapes: operators that are written out may leave other strides than PyTorch's.

    Its attention writes heads side by side, of which a view is a matrix; ours does not.
    """
    views = graph.find_nodes(op="call_function", target=torch.ops.aten.view.default)
    for node in views:
        node.target = torch.ops.aten.reshape.default
    try:
        yield
    finally:
        for node in views:
            node.target = torch.ops.aten.view.default


def _drop_assertions(graph: torch.fx.Graph) -> None:
    """Leave out what asserts of tensors what tracing has seen of them: their dtype and device."""
    asserted = torch.ops.aten._assert_tensor_metadata.default
    for node in graph.find_nodes(op="call_function", target=asserted):
        graph.erase_node(node)


def _values(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Stored tensors by the names of their placeholders."""
    found = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in _STORED:
            target = spec.target
            stored = program.state_dict if target in program.state_dict else program.constants
            found[spec.arg.name] = stored[target]
    return found


def _tensor(value: torch.Tensor) -> Any:
    """A copy on the CPU: what becomes of the model later is not the module's concern."""
    return tvm.runtime.from_dlpack(value.detach().cpu().contiguous().clone())


def _ordered(function: relax.Function, program: torch.export.ExportedProgram) -> relax.Function:
    """Inputs before what is stored, results before what is changed."""
    stored = _values(program)
    params = sorted(function.params, key=lambda param: param.name in stored)
    body = function.body
    specs = [spec for spec in program.graph_signature.output_specs if hasattr(spec.arg, "name")]
    fields = sorted(
        zip(specs, body.body.fields, strict=True),
        key=lambda pair: pair[0].kind is not OutputKind.USER_OUTPUT,
    )
    results = [field for _spec, field in fields]
    kind = relax.TupleType([field.ty for field in results])
    sequence = relax.SeqExpr(body.blocks, relax.Tuple(results))
    return relax.Function(params, sequence, kind, function.is_pure, function.attrs)
