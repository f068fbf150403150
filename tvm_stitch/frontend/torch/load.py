"""An ExportedProgram, or a function of tensors, as a Relax module.

In: what torch.export made, or a function and inputs for it. Out: a module whose `main` takes the
same inputs. Must not know dynamo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import tvm
from torch import fx
from torch._functorch._aot_autograd.functional_utils import from_fun, has_data_mutation, to_fun
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves
from tvm import relax

from tvm_stitch.checked_index import on_host
from tvm_stitch.errors import InputError, TorchError
from tvm_stitch.frontend.torch.convert import convert, refusal
from tvm_stitch.frontend.torch.decompositions import (
    AttentionWrittenOut,
    exported_decompositions,
)
from tvm_stitch.frontend.torch.rewrites.bags import with_bags_written_out
from tvm_stitch.frontend.torch.rewrites.lists import by_tensor
from tvm_stitch.frontend.torch.writer import ENTRY, operator_name

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
    _check_device(device)
    if not isinstance(exported_program, torch.export.ExportedProgram):
        kind = type(exported_program).__name__
        raise InputError(
            f"load takes what torch.export.export returns, not {kind}: export the model first"
        )
    with _views_that_may_copy(exported_program.graph):
        program = exported_program.run_decompositions(exported_decompositions())
    converted = _converted(program.graph)
    function = _ordered(converted[ENTRY], program)
    values = _values(program)
    stored = [param for param in function.params if param.name in values]
    tensors = [_tensor(values[param.name]) for param in stored]
    inputs = len(function.params) - len(stored)
    function = function.with_attr("num_input", inputs)
    module = converted.clone()
    if keep_params_as_input:
        module[ENTRY] = function.with_attr("params", tensors)
        return on_host(module) if device == LLVM else module
    module[ENTRY] = function
    names = {param.name: tensor for param, tensor in zip(stored, tensors, strict=True)}
    return _with_constants(module, names, device)


def trace(function: Callable[..., Any], *inputs: torch.Tensor, device: str = CUDA) -> tvm.IRModule:
    """The Relax module of what a function or a model does to some tensors.

    The gradients that it takes are operators too: `main` of a training step holds its backward
    pass. `main` takes the inputs, in order, and returns a tuple of the tensors that the function
    returns, however they are nested. Tensors that are the function's own, a model's parameters
    among them, become constants. Nothing is computed, and inputs may be FakeTensors; a branch goes
    the way that their shapes say. A TorchError names what has no counterpart in Relax, and inputs
    and buffers that would be changed in place.

    It takes a fraction of the seconds of `torch.export`, which looks for what may change: `load`
    knows symbolic dimensions, and buffers that a model changes. `device` is as for `load`.
    """
    _check_device(device)
    if wrong := [type(each).__name__ for each in inputs if not isinstance(each, torch.Tensor)]:
        raise InputError(f"trace takes tensors for inputs, not {wrong[0]}")
    own: dict[str, torch.Tensor] = {}
    if isinstance(function, torch.nn.Module):
        own = {**dict(function.named_parameters()), **dict(function.named_buffers())}
    run = _functional(function, [f"input {n}" for n in range(len(inputs))], list(own))
    table = exported_decompositions()
    tracing = make_fx(run, table, tracing_mode="fake", _allow_non_fake_inputs=True)
    try:
        traced = tracing(*inputs, *own.values())
    except GuardOnDataDependentSymNode as error:
        reason = str(error).splitlines()[0]
        raise TorchError(
            f"what it does depends on values, not on shapes alone: {reason}"
        ) from error
    _refuse_random(traced.graph)
    placeholders = traced.graph.find_nodes(op="placeholder")[len(inputs) :]
    constants = {node.name: value for node, value in zip(placeholders, own.values(), strict=True)}
    constants |= _as_placeholders(traced)
    traced.graph.eliminate_dead_code()
    tensors = {name: _tensor(value) for name, value in constants.items()}
    return _with_constants(_converted(traced.graph), tensors, device)


def _converted(graph: fx.Graph) -> tvm.IRModule:
    """The module of a graph, whose `main` takes and returns tensors in their own shapes."""
    _drop_assertions(graph)
    with_bags_written_out(graph, accepted=lambda node: refusal(node) is None)
    by_tensor(graph, accepted=lambda node: refusal(node) is None)
    return convert(graph, stored=False).module


def _functional(
    function: Callable[..., Any], inputs: list[str], own: list[str]
) -> Callable[..., list[Any]]:
    """A function of the inputs and a model's own tensors that changes none of them in place."""

    def run(*tensors: torch.Tensor) -> list[Any]:
        with AttentionWrittenOut(), FunctionalTensorMode():
            given = [to_fun(each) for each in tensors]
            taken = given[: len(inputs)]
            if own:
                state = dict(zip(own, given[len(inputs) :], strict=True))
                returned = torch.func.functional_call(function, state, tuple(taken))
            else:
                returned = function(*taken)
            for name, each in zip((*inputs, *own), given, strict=True):
                if has_data_mutation(each):
                    raise TorchError(f"{name} is changed in place, of which a trace says nothing")
            return [from_fun(each) for each in tree_leaves(returned)]

    return run


def _refuse_random(graph: fx.Graph) -> None:
    """A module has no generator to draw from."""
    for node in graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            name = operator_name(node.target)
            raise TorchError(
                f"{name} draws random numbers: trace a model in eval(), without dropout"
            )


def _check_device(device: str) -> None:
    if device not in (CUDA, LLVM):
        raise InputError(f"unknown device {device!r}; known are {[CUDA, LLVM]}")


def _with_constants(module: tvm.IRModule, constants: dict[str, Any], device: str) -> tvm.IRModule:
    """The module with some parameters as constants, by their names."""
    module = relax.transform.Normalize()(module)
    module = relax.transform.BindParams(ENTRY, constants)(module)
    return on_host(module) if device == LLVM else module


def _as_placeholders(traced: fx.GraphModule) -> dict[str, Any]:
    """Make placeholders of the tensors that a function has of its own; their values by name."""
    values, last = {}, traced.graph.find_nodes(op="placeholder")[-1:]
    for node in traced.graph.find_nodes(op="get_attr"):
        value = getattr(traced, str(node.target))
        if not isinstance(value, torch.Tensor):  # a graph that an operator may call
            readers = ", ".join(str(reader.target) for reader in node.users)
            raise TorchError(f"{readers}: it has no counterpart in Relax")
        at = traced.graph.inserting_after(last[0]) if last else traced.graph.inserting_before()
        with at:
            placeholder = traced.graph.placeholder(str(node.target))
        placeholder.meta["val"] = node.meta.get("val", value)
        node.replace_all_uses_with(placeholder)
        traced.graph.erase_node(node)
        values[placeholder.name], last = value, [placeholder]
    return values


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
