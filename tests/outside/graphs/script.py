"""A graph as a script that runs by itself: the module, inputs, and what shows the failure."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.outside.graphs.extent import Extent
from tests.outside.graphs.graph import UPPER_BOUND, Call, Const, Graph, Input, Item, Ref, Value
from tests.outside.graphs.meaning import evaluated
from tests.outside.graphs.number import FLOATS, Number

_HEAD = """\
import ml_dtypes
import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

import tvm_stitch
"""
_TAIL = """
target = tvm.target.Target({{"kind": "cuda", "arch": "{arch}"}})
options = tvm_stitch.Options({options})
tvm_stitch.compile(mod, target, options)
{inputs}
print(tvm_stitch.verify(mod, target, inputs, orders=1, options=options))
"""


def script(graph: Graph, note: str = "") -> str:
    """Python that builds the module, compiles it, and verifies it at the first sizes."""
    lines = [*(f"# {line}" for line in note.splitlines()), _HEAD]
    for symbol in graph.symbols:
        lines.append(f'{symbol.name} = tvm.tirx.Var("{symbol.name}", "int64")')
    for number, (place, value) in enumerate(graph.inputs.items()):
        lines.append(
            f'v{place} = relax.Var("p{number}", '
            f'relax.TensorType({_tuple(value.shape)}, "{value.dtype}"))'
        )
    params = ", ".join(f"v{place}" for place in graph.inputs)
    bounds = {symbol.name: symbol.bound for symbol in graph.symbols if symbol.bound is not None}
    attrs = f', {{"{UPPER_BOUND}": {bounds}}}' if bounds else ""
    lines += [
        "builder = relax.BlockBuilder()",
        f'with builder.function("main", [{params}]{attrs}):',
        "    with builder.dataflow():",
    ]
    for place, value in enumerate(graph.values):
        if not isinstance(value, Input):
            lines.append(f"        v{place} = {_expression(value)}")
    results = ", ".join(f"v{place}" for place in graph.outputs)
    one = len(graph.outputs) == 1
    lines += [
        f"        out = builder.emit_output({results if one else f'relax.Tuple([{results}])'})",
        "    builder.emit_func_output(out)",
        "mod = builder.get()",
    ]
    options = ", ".join(f"{name}={value!r}" for name, value in graph.options)
    lines.append(_TAIL.format(arch=graph.arch, options=options, inputs=_inputs(graph)))
    return "\n".join(lines)


def _expression(value: Value) -> str:
    if isinstance(value, Const):
        return f'relax.const(np.array({value.value!r}), "{value.dtype}")'
    if isinstance(value, Item):
        return f"builder.emit(relax.TupleGetItem(v{value.of.index}, {value.item}))"
    assert isinstance(value, Call)
    arguments = [*map(_argument, value.args)]
    arguments += [f"{name}={_argument(attr)}" for name, attr in value.attrs]
    return f"builder.emit(op.{value.op}({', '.join(arguments)}))"


def _argument(given: Any) -> str:
    if isinstance(given, Ref):
        return f"v{given.index}"
    if isinstance(given, Extent):
        return str(given)
    if isinstance(given, list | tuple):
        return (
            _tuple(given) if isinstance(given, tuple) else f"[{', '.join(map(_argument, given))}]"
        )
    return repr(given)


def _tuple(parts: Any) -> str:
    shown = ", ".join(map(_argument, parts))
    return f"({shown},)" if len(parts) == 1 else f"({shown})"


def _inputs(graph: Graph) -> str:
    """Small inputs by their numbers, larger ones as chance makes them."""
    numbers = evaluated(graph)
    lines = ["rng = np.random.default_rng(0)", "inputs = ["]
    for place, value in graph.inputs.items():
        number = numbers[place]
        assert isinstance(number, Number)
        lines.append(f"    {_array(value, number.value)},")
    return "\n".join([*lines, "]"])


def _array(value: Input, array: np.ndarray) -> str:
    dtype = f"ml_dtypes.{value.dtype}" if value.dtype == "bfloat16" else f'"{value.dtype}"'
    if array.size <= 64:
        text = np.array2string(array, separator=", ", threshold=100, max_line_width=90)
        text = text.replace("nan", "np.nan").replace("inf", "np.inf")
        return f"np.array({text}).reshape({array.shape}).astype({dtype})"
    if value.dtype in FLOATS:
        return f"rng.standard_normal({array.shape}).astype({dtype})"
    return f"rng.integers(0, {max(int(array.max()), 0) + 1}, {array.shape}).astype({dtype})"
