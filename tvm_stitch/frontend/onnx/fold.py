"""What a model computes of shapes, computed before it is read.

In: a ModelProto. Out: the same model with Shape and what depends on it alone as constants, as far
as ONNX's shape inference and the values of constants tell. TVM's importer knows shapes as
something of its own kind, with which few operators can do anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.inliner import inline_local_functions
from onnx.reference import ReferenceEvaluator

# Elements of the largest constant that is computed with: shapes, axes, masks, not weights.
_LARGEST = 1 << 16
_ROUNDS = 20
_NOT_FOLDED = {
    "If", "Loop", "Scan", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout",
}  # fmt: skip


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without arithmetic on shapes, as far as it can be done beforehand."""
    if model.functions:
        model = inline_local_functions(model)
    folding = _Folding(model)
    for _ in range(_ROUNDS):  # what is known of shapes grows with every round
        if not folding.round():
            break
    return folding.model


class _Folding:
    """A model on its way, with what is known of its values.

    A value is an array; where elements are extents that only running tells, an array of objects,
    in which they are names, or None.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self._opset = {each.domain: each.version for each in model.opset_import}
        self._values: dict[str, np.ndarray] = {}
        self._made: set[str] = set()
        for each in model.graph.initializer:
            if int(np.prod(each.dims)) <= _LARGEST and not each.external_data:
                self._values[each.name] = numpy_helper.to_array(each)

    def round(self) -> bool:
        """Fold what can be folded now; whether anything was."""
        self._shapes = _inferred(self.model)
        outputs = {value.name for value in self.model.graph.output}
        kept, changed = [], False
        for node in self.model.graph.node:
            value = self._value(node)
            if value is not None:
                self._values[node.output[0]] = value
            if _is_known(value) and node.output[0] not in outputs:
                changed = True
                continue
            changed = self._known_shape(node) or changed
            kept.append(node)
        del self.model.graph.node[:]
        self.model.graph.node.extend(kept)
        self._store()
        return changed

    def _store(self) -> None:
        """Constants that nodes still ask for become initializers."""
        asked = {name for node in self.model.graph.node for name in _asked(node)}
        there = {each.name for each in self.model.graph.initializer}
        there |= {name for node in self.model.graph.node for name in node.output}
        for name in asked - there:
            if name in self._values and _is_known(self._values[name]):
                array = np.asarray(self._values[name])
                self.model.graph.initializer.append(numpy_helper.from_array(array, name))

    def _value(self, node: onnx.NodeProto) -> np.ndarray | None:
        """What the only result of a node is, as far as that is known."""
        if (
            len(node.output) != 1
            or node.op_type in _NOT_FOLDED
            or node.domain not in ("", "ai.onnx")
        ):
            return None
        if node.op_type == "Constant":
            return _constant(node)
        if node.op_type in ("Shape", "Size"):
            return self._shape(node)
        given = [self._values.get(name) for name in node.input if name]
        if not given or any(value is None for value in given):
            return None
        try:
            if all(map(_is_known, given)):
                return self._evaluated(node, given)
            return _PARTLY[node.op_type](node, *given) if node.op_type in _PARTLY else None
        except Exception:  # then the importer has a word in it
            return None

    def _shape(self, node: onnx.NodeProto) -> np.ndarray | None:
        dims = self._shapes.get(node.input[0])
        if dims is None:
            return None
        if node.op_type == "Size":
            known = all(isinstance(dim, int) for dim in dims)
            return np.array(int(np.prod(dims)), np.int64) if known else None
        ends = {each.name: each.i for each in node.attribute}
        return _array(dims[ends.get("start", 0) : ends.get("end", len(dims))])

    def _evaluated(self, node: onnx.NodeProto, given: list[Any]) -> np.ndarray | None:
        names = [name for name in node.input if name]
        run = ReferenceEvaluator(node, opsets=self._opset)
        (result,) = run.run(None, dict(zip(names, given, strict=True)))
        result = np.asarray(result)
        # TVM cannot load what it saved of a constant without elements; of shapes none is left.
        is_empty = not result.size and np.issubdtype(result.dtype, np.floating)
        return result if result.size <= _LARGEST and not is_empty else None

    def _known_shape(self, node: onnx.NodeProto) -> bool:
        """Name the one extent of a reshape that is left open; whether that was done."""
        if node.op_type != "Reshape" or any(each.name == "allowzero" for each in node.attribute):
            return False
        wanted, dims = self._values.get(node.input[1]), self._shapes.get(node.input[0])
        if wanted is None or _is_known(wanted):
            return False
        shape = list(wanted)
        for place, extent in enumerate(shape):
            if isinstance(extent, str) and dims and place < len(dims) and dims[place] == extent:
                shape[place] = 0
        open_ = [place for place, extent in enumerate(shape) if not isinstance(extent, int)]
        if len(open_) > 1 or (open_ and -1 in shape):
            return False
        for place in open_:
            shape[place] = -1
        name = f"{node.output[0]}_shape_{len(self._made)}"
        self._made.add(name)
        self._values[name] = np.array(shape, np.int64)
        node.input[1] = name
        return True


def _asked(node: onnx.NodeProto) -> list[str]:
    """The values that a node reads, its branches and loops included."""
    graphs = [each.g for each in node.attribute if each.HasField("g")]
    inner = [name for graph in graphs for each in graph.node for name in _asked(each)]
    results = [value.name for graph in graphs for value in graph.output]
    return [*node.input, *inner, *results]


def _is_known(value: Any) -> bool:
    return value is not None and value.dtype != object


def _array(dims: list[Any]) -> np.ndarray:
    known = all(isinstance(dim, int) for dim in dims)
    array = np.empty(len(dims), np.int64 if known else object)
    array[:] = dims
    return array


def _constant(node: onnx.NodeProto) -> np.ndarray | None:
    (attribute,) = node.attribute
    kinds: dict[str, Callable[[], np.ndarray]] = {
        "value": lambda: numpy_helper.to_array(attribute.t),
        "value_int": lambda: np.array(attribute.i, np.int64),
        "value_ints": lambda: np.array(attribute.ints, np.int64),
        "value_float": lambda: np.array(attribute.f, np.float32),
        "value_floats": lambda: np.array(attribute.floats, np.float32),
    }
    if attribute.name not in kinds:
        return None
    value = kinds[attribute.name]()
    # As an initializer it is as large as in the node.
    return value if value.dtype != object else None


def _inferred(model: onnx.ModelProto) -> dict[str, list[Any]]:
    """The shapes that ONNX infers: numbers, names, and None for what is not known."""
    try:
        inferred = shape_inference.infer_shapes(_without_weights(model), data_prop=True)
    except Exception:
        inferred = model
    graph = inferred.graph
    found = {each.name: list(each.dims) for each in model.graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if value.type.HasField("tensor_type") and kind.HasField("shape"):
            found[value.name] = [_extent(dim) for dim in kind.shape.dim]
    return found


def _extent(dim: Any) -> Any:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return dim.dim_param or None


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with large constants as inputs: inference copies what it is given."""
    light = onnx.ModelProto()
    light.ir_version, graph = model.ir_version, model.graph
    light.opset_import.extend(model.opset_import)
    light.graph.name = graph.name
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    light.graph.value_info.extend(graph.value_info)
    taken = {value.name for value in graph.input}
    for each in graph.initializer:
        if int(np.prod(each.dims)) <= _LARGEST:
            light.graph.initializer.append(each)
        elif each.name not in taken:
            value = helper.make_tensor_value_info(each.name, each.data_type, list(each.dims))
            light.graph.input.append(value)
    return light


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)


def _gather(node: onnx.NodeProto, data: np.ndarray, at: np.ndarray) -> np.ndarray:
    return _settled(np.asarray(np.take(data, at, axis=_attribute(node, "axis", 0)), object))


def _concat(node: onnx.NodeProto, *parts: np.ndarray) -> np.ndarray:
    whole = [part.astype(object) for part in parts]
    return _settled(np.concatenate(whole, axis=_attribute(node, "axis", 0)))


def _unsqueeze(_node: onnx.NodeProto, data: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.expand_dims(data, tuple(int(axis) for axis in at))


def _squeeze(_node: onnx.NodeProto, data: np.ndarray, *at: np.ndarray) -> np.ndarray:
    return np.squeeze(data, tuple(int(axis) for axis in at[0]) if at else None)


def _slice(
    _node: onnx.NodeProto, data: np.ndarray, starts: np.ndarray, ends: np.ndarray, *rest: np.ndarray
) -> np.ndarray | None:
    if data.ndim != 1 or len(starts) != 1:
        return None
    step = int(rest[1][0]) if len(rest) > 1 else 1
    return _settled(data[int(starts[0]) : int(ends[0]) : step])


def _same(_node: onnx.NodeProto, data: np.ndarray) -> np.ndarray:
    return data


def _settled(value: np.ndarray) -> np.ndarray:
    """Numbers alone are an array of numbers."""
    known = all(isinstance(each, (int, np.integer)) for each in value.flat)
    return value.astype(np.int64) if known else value


# Operators on shapes of which some extents are not known.
_PARTLY: dict[str, Callable[..., np.ndarray | None]] = {
    "Gather": _gather,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Cast": _same,
    "Identity": _same,
}
