"""An ONNX model as a Relax module.

In: a path or a ModelProto. Out: what TVM's importer makes of it, after the arithmetic on shapes is
done; or an OnnxError that names what cannot be read.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm

from tvm_stitch.errors import InputError, OnnxError, last_line

try:
    import onnx
except ImportError as error:
    raise InputError(
        "tvm_stitch.onnx needs onnx, which is not installed: pip install 'tvm-stitch[onnx]'"
    ) from error

from tvm_stitch.frontend.onnx.fold import folded
from tvm_stitch.frontend.onnx.functions import written_out
from tvm_stitch.frontend.onnx.importer import imported
from tvm_stitch.frontend.onnx.pure import with_pure_shapes


class NoOnnxModel(OnnxError):
    """A file that is something else than an ONNX model."""


def load(
    model: str | Path | Any,
    shapes: Mapping[str, Sequence[int]] | None = None,
    keep_params_in_input: bool = False,
) -> tvm.IRModule:
    """The Relax module of an ONNX model.

    `main` takes the model's inputs in order. Dimensions that the model names ("batch") are
    symbolic, unless `shapes` says what they are, by the names of inputs. Weights become constants;
    with `keep_params_in_input` they stay parameters of `main`, after the inputs, and
    `relax.frontend.detach_params` finds their values.
    """
    proto = _fixed(_read(model), shapes or {})
    said = io.StringIO()
    try:
        small = folded(written_out(proto))
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ONNX's checker, about what is read all the same
            return with_pure_shapes(imported(small, keep_params_in_input))
    except InputError:
        raise
    except Exception as error:
        raise OnnxError(f"TVM's importer cannot read the model: {last_line(error)}") from error


def _read(model: Any) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy
    try:
        read = onnx.load(str(model))
    except OSError as error:
        raise InputError(f"cannot read {model}: {error.strerror or error}") from None
    except Exception as error:
        raise NoOnnxModel(f"{model} is not an ONNX model: {last_line(error)}") from None
    if not read.graph.output:
        raise NoOnnxModel(f"{model} is not an ONNX model: it has no graph with outputs")
    return read


def _fixed(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """The model with inputs of these shapes, and the dimensions that go by the same names."""
    inputs = {value.name: value for value in model.graph.input}
    found: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            raise InputError(f"the model has no input {name!r}; it has {list(inputs)}")
        dims = inputs[name].type.tensor_type.shape.dim
        if len(dims) != len(shape):
            raise InputError(f"input {name!r} has {len(dims)} dimensions, not {len(shape)}")
        for dim, extent in zip(dims, shape, strict=True):
            known = dim.dim_value if dim.HasField("dim_value") else found.get(dim.dim_param, extent)
            if known != extent:
                raise InputError(f"a dimension of input {name!r} is {known}, not {extent}")
            if dim.dim_param:
                found[dim.dim_param] = int(extent)
            dim.dim_value = int(extent)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in found:
                dim.dim_value = found[dim.dim_param]
    return model
