"""From a workload to Relax: the one way every TVM system gets the same module.

In: a workload and its inputs. Out: an IRModule whose "main" takes the inputs in order and returns
a tuple of the outputs.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import torch

from bench.case import Workload
from bench.symbolic import Dims, as_far_as_allowed


def exported(
    workload: Workload, inputs: tuple[torch.Tensor, ...], dims: Dims | None = None
) -> torch.export.ExportedProgram:
    """The workload as torch.export sees it; gradients are traced away before.

    `dims` are the dimensions of each input that may change.
    """
    module = workload.module()
    with warnings.catch_warnings():
        # Notes on PyTorch's own deprecations and on constants, nothing a user could act on.
        warnings.simplefilter("ignore")
        with torch.no_grad():
            if workload.differentiates:
                module = traced(workload, inputs, "real" if dims is None else "symbolic")
            if dims is None:
                return torch.export.export(module, inputs)
            try:  # the module takes any number of inputs
                return torch.export.export(module, inputs, dynamic_shapes=(dims,))
            except torch._dynamo.exc.UserError:
                shapes = (as_far_as_allowed(dims),)
                return torch.export.export(module, inputs, dynamic_shapes=shapes)


def traced(
    workload: Workload, inputs: tuple[torch.Tensor, ...], mode: str = "real"
) -> torch.fx.GraphModule:
    """The workload as a graph of core operators, its gradients taken."""
    from torch._decomp import core_aten_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    decompose = make_fx(
        workload.function, decomposition_table=core_aten_decompositions(), tracing_mode=mode
    )
    return decompose(*inputs)


def module_of(workload: Workload) -> Any:
    """The workload as a Relax module; moves no data."""
    inputs = tuple(
        torch.empty(array.shape, dtype=getattr(torch, array.dtype), device="meta")
        for array in workload.arrays
    )
    return to_relax(workload, inputs)


def to_relax(workload: Workload, inputs: tuple[torch.Tensor, ...], dims: Dims | None = None) -> Any:
    """The workload as a Relax module; `dims` are symbolic.

    Some functions of symbolic dimensions TVM's importer does not read: tvm_stitch's own does.
    """
    if dims is None:
        return _by_tvm(workload, inputs, None)
    with contextlib.suppress(Exception):  # of many kinds: assertions, too
        module = _by_tvm(workload, inputs, dims)
        if _knows_extents(module):
            return module
    import tvm_stitch.torch

    return tvm_stitch.torch.load(exported(workload, inputs, dims))


def _knows_extents(module: Any) -> bool:
    """Whether the importer knew the extents of every tensor, which TVM's LegalizeOps must.

    Of some that are numbers it makes symbols, which are called by the number.
    """
    from tvm import relax

    params = [extent for param in module["main"].params for extent in param.ty.shape]
    if any(getattr(extent, "name", "n").isdigit() for extent in params):
        return False
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    types = [binding.var.ty for binding in bindings]
    tensors = [each for each in types if isinstance(each, relax.TensorType)]
    return all(isinstance(each.shape, relax.ShapeExpr) for each in tensors)


def _by_tvm(workload: Workload, inputs: tuple[torch.Tensor, ...], dims: Dims | None) -> Any:
    from tvm.relax.frontend.torch import from_exported_program

    # The importer warns of every operator it approximates; its errors are exceptions.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_exported_program(
            exported(workload, inputs, dims),
            custom_convert_map={
                "amax.default": _amax,
                "mm.default": _product,
                "bmm.default": _product,
                "addmm.default": _add_product,
                "convolution.default": _convolution,
                "conv2d.default": _convolution,
                "index_put.default": _index_put,
                "native_layer_norm.default": _layer_norm,
                "_fused_rms_norm.default": _rms_norm,
            },
        )


def to_relax_by_shape(workload: Workload, dims: Dims | None = None) -> Any:
    """The workload as a Relax module, its inputs never made: for full sizes without a GPU."""
    # Not in their mode, which makes numbers of what torch.export has as symbols.
    return to_relax(workload, never_made(workload), dims)


def by_itself(workload: Workload, inputs: tuple[torch.Tensor, ...]) -> Any:
    """The workload as tvm_stitch's own reader has it, which needs no torch.export."""
    import tvm_stitch.torch

    with torch.set_grad_enabled(workload.differentiates):
        return tvm_stitch.torch.trace(workload.function, *inputs)


def never_made(workload: Workload) -> tuple[torch.Tensor, ...]:
    """Inputs of which there are shapes alone."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        arrays = workload.arrays
        return tuple(torch.empty(a.shape, dtype=getattr(torch, a.dtype)) for a in arrays)


def _amax(node: Any, importer: Any) -> Any:
    """amax, which the importer lacks: a maximum without the positions."""
    from tvm import relax

    axes = list(node.args[1]) if len(node.args) > 1 and node.args[1] else None
    keep = node.args[2] if len(node.args) > 2 else False
    return importer.block_builder.emit(
        relax.op.max(importer.env[node.args[0]], axes, keepdims=keep)
    )


def _matmul(left: Any, right: Any, importer: Any) -> Any:
    """A product accumulated in float32 and stored as its operands were.

    The importer's own leaves a float32 result, which then meets half operands and is refused.
    """
    from tvm import relax

    emit, dtype = importer.block_builder.emit, str(left.ty.dtype)
    if dtype not in ("float16", "bfloat16"):
        return emit(relax.op.matmul(left, right))
    return emit(relax.op.astype(emit(relax.op.matmul(left, right, "float32")), dtype))


def _product(node: Any, importer: Any) -> Any:
    """mm and bmm."""
    left, right = node.args
    return _matmul(importer.env[left], importer.env[right], importer)


def _add_product(node: Any, importer: Any) -> Any:
    """addmm as linear layers give it, without factors."""
    from tvm import relax

    if node.kwargs:
        raise NotImplementedError(f"addmm with {sorted(node.kwargs)}")
    bias, left, right = (importer.env[argument] for argument in node.args)
    return importer.block_builder.emit(relax.op.add(bias, _matmul(left, right, importer)))


def _convolution(node: Any, importer: Any) -> Any:
    """A two-dimensional convolution of halves, stored as such; the rest is the importer's."""
    from tvm import relax

    image, kernel, bias, stride, padding, dilation, *more = importer.retrieve_args(node)
    dtype, plain = str(image.ty.dtype), node.target.__name__ == "convolution.default"
    transposed, groups = (more[0], more[2]) if plain else (False, more[0] if more else 1)
    if dtype not in ("float16", "bfloat16") or transposed or len(kernel.ty.shape) != 4:
        return importer._convolution(node) if plain else importer._conv2d(node)
    emit = importer.block_builder.emit
    out = emit(
        relax.op.nn.conv2d(image, kernel, stride, padding, dilation, groups, out_dtype="float32")
    )
    out = emit(relax.op.astype(out, dtype))
    return out if bias is None else emit(relax.op.add(out, relax.op.reshape(bias, (1, -1, 1, 1))))


def _layer_norm(node: Any, importer: Any) -> Any:
    """Layer norm with its statistics, which a backward pass reads and the importer leaves out."""
    from tvm import relax

    normal = importer._native_layer_norm(node)
    if all(user.args[1] == 0 for user in node.users):
        return (normal,)
    emit, x = importer.block_builder.emit, importer.env[node.args[0]]
    axes = list(range(-len(node.args[1]), 0))
    epsilon = relax.const(node.args[4], x.ty.dtype)
    variance = emit(relax.op.variance(x, axes, keepdims=True))
    inverse = emit(relax.op.rsqrt(emit(relax.op.add(variance, epsilon))))
    return normal, emit(relax.op.mean(x, axes, keepdims=True)), inverse


def _rms_norm(node: Any, importer: Any) -> Any:
    """RMS norm as torch.export leaves it where inputs lie on a GPU; only its result is used."""
    from tvm import relax

    x, shape, weight, epsilon = importer.retrieve_args(node)
    axes = list(range(-len(shape), 0))
    return (importer.block_builder.emit(relax.op.nn.rms_norm(x, weight, axes, epsilon)),)


def _index_put(node: Any, importer: Any) -> Any:
    """Rows added into a table (the gradient of an embedding); the rest is the importer's."""
    from tvm import relax

    table, indices, values, *accumulate = node.args
    if len(indices) != 1 or accumulate != [True]:
        return importer._index_put(node)
    positions = importer.block_builder.emit(relax.op.expand_dims(importer.env[indices[0]], -1))
    return importer.block_builder.emit(
        relax.op.scatter_nd(importer.env[table], positions, importer.env[values], "add")
    )
