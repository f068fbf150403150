"""The cases of ONNX's backend suite: a model, inputs, and the outputs that ONNX expects.

In: the onnx package, which makes the node cases and holds the others as files. Out: Cases by name.
Must not know TVM.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

# "real" is left out: it downloads its models.
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


@dataclass(frozen=True)
class DataSet:
    """What a model is given, and what ONNX says that it returns."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]


@dataclass(frozen=True)
class Case:
    """One case of the suite."""

    name: str
    kind: str
    model: onnx.ModelProto
    data: tuple[DataSet, ...]
    rtol: float
    atol: float


@cache
def suite() -> dict[str, Any]:
    """Every case as onnx describes it, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX's own data overflow on purpose
        found = {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}
    return dict(sorted(found.items()))


def kinds() -> dict[str, str]:
    """The kind of every case, by name."""
    return {name: case.kind for name, case in suite().items()}


def load(name: str) -> Case:
    """A case with its model and data."""
    test = suite()[name]
    if test.model is None:
        folder = Path(test.model_dir)
        model = onnx.load(folder / "model.onnx")
        data = tuple(_read_set(model, each) for each in sorted(folder.glob("test_data_set_*")))
    else:
        model = test.model
        data = tuple(DataSet(_arrays(ins), _arrays(outs)) for ins, outs in test.data_sets)
    return Case(name, test.kind, model, data, test.rtol, test.atol)


def with_constants(case: Case) -> Case:
    """The case with all inputs but the first as constants of the model."""
    (data,) = case.data
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    names = [value.name for value in model.graph.input]
    for name, value in list(zip(names, data.inputs, strict=True))[1:]:
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    del model.graph.input[1:]
    return replace(case, model=model, data=(DataSet(data.inputs[:1], data.outputs),))


def _arrays(values: Sequence[Any]) -> list[Any]:
    """Values as arrays; those of narrow dtypes come as ONNX's own tensors."""
    return [
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        for value in values
    ]


def _read_set(model: onnx.ModelProto, folder: Path) -> DataSet:
    inputs = _read(folder, "input", [value.type for value in model.graph.input])
    return DataSet(inputs, _read(folder, "output", [value.type for value in model.graph.output]))


def _read(folder: Path, prefix: str, types: Sequence[onnx.TypeProto]) -> list[Any]:
    count = len(list(folder.glob(f"{prefix}_*.pb")))
    return [_value(folder / f"{prefix}_{n}.pb", types[n]) for n in range(count)]


def _value(path: Path, kind: onnx.TypeProto) -> Any:
    text = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(text))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(text))
    return numpy_helper.to_array(onnx.TensorProto.FromString(text))
