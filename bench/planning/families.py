"""Graphs that grow: of each family one of about so many operators, as planning sees them.

In: a number of operators. Out: a Relax module. Compound operators are counted as they are written
out: a softmax of float32 is five operators, a layer norm eight.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import tvm
from tvm import relax
from tvm.relax import op

ROWS, COLUMNS = 512, 256
MATRIX = (ROWS, COLUMNS)
Emit = Callable[[Any], Any]
Family = Callable[[int], tvm.IRModule]


def _module(shapes: Sequence[tuple[int, ...]], build: Callable[..., Any]) -> tvm.IRModule:
    """A function of inputs of these shapes; `build` takes emit and them, and gives the outputs."""
    builder = relax.BlockBuilder()
    types = [relax.TensorType(shape, "float32") for shape in shapes]
    inputs = [relax.Var(f"x{number}", ty) for number, ty in enumerate(types)]
    with builder.function("main", inputs):
        with builder.dataflow():
            outputs = build(builder.emit, *inputs)
            result = builder.emit_output(outputs if isinstance(outputs, relax.Var) else [*outputs])
        builder.emit_func_output(result)
    return builder.get()


def _const(value: float) -> Any:
    return relax.const(value, "float32")


def elementwise_chain(operators: int) -> tvm.IRModule:
    """Each operator reads the last one's result; every fourth adds a number of its own."""
    kinds: list[Callable[[Any], Any]] = [op.exp, op.tanh, op.nn.relu]

    def build(emit: Emit, x: Any) -> Any:
        for number in range(operators):
            place = number % 4
            x = emit(kinds[place](x) if place < 3 else op.add(x, _const(number / operators)))
        return x

    return _module([MATRIX], build)


def softmax_chain(operators: int) -> tvm.IRModule:
    """The softmax of a softmax, and so on."""

    def build(emit: Emit, x: Any) -> Any:
        for _ in range(max(1, operators // 5)):
            x = emit(op.nn.softmax(x))
        return x

    return _module([MATRIX], build)


def alternating_reductions(operators: int) -> tvm.IRModule:
    """Sums over rows and over columns in turn, each added to what it was made of."""

    def build(emit: Emit, x: Any) -> Any:
        for number in range(max(1, operators // 2)):
            x = emit(op.add(x, emit(op.sum(x, axis=number % 2, keepdims=True))))
        return x

    return _module([MATRIX], build)


def random_dag(operators: int) -> tvm.IRModule:
    """Operators on results of the last 32, by chance: element-wise, sums of rows, a few softmaxes.

    What nobody reads is an output.
    """
    rng = random.Random(operators)
    unary = [op.exp, op.tanh, op.nn.relu, op.sigmoid, op.sqrt, op.abs]
    binary = [op.add, op.multiply, op.subtract, op.maximum]

    def build(emit: Emit, *inputs: Any) -> Any:
        values, used, count = list(inputs), set(inputs), 0
        while count < operators:
            kind, near = rng.random(), values[-32:]
            x, y = rng.choice(near), rng.choice(near)
            used |= {x} if kind < 0.4 or kind >= 0.85 else {x, y}
            if kind < 0.4:
                found, more = rng.choice(unary)(x), 1
            elif kind < 0.85:
                found, more = rng.choice(binary)(x, y), 1
            elif kind < 0.95:
                found, more = op.subtract(x, emit(op.sum(x, axis=1, keepdims=True))), 2
            else:
                found, more = op.nn.softmax(x), 5
            values.append(emit(found))
            count += more
        return [value for value in values if value not in used]

    return _module([MATRIX] * 4, build)


def _widths(count: int) -> list[tuple[int, ...]]:
    """Shapes as models have them: matrices and vectors of few sizes."""
    kinds = [(768, 768), (768,), (3072, 768), (3072,), (768, 3072), (768,), (768,), (1000, 768)]
    return [kinds[number % len(kinds)] for number in range(count)]


def adam(operators: int) -> tvm.IRModule:
    """One step of Adam over as many tensors, 14 operators each."""
    shapes = _widths(max(1, operators // 14))

    def build(emit: Emit, *inputs: Any) -> Any:
        outputs = []
        for p, g, m, v in zip(*(inputs[i::4] for i in range(4)), strict=True):
            scaled = emit(op.multiply(g, _const(0.1)))
            m = emit(op.add(emit(op.multiply(m, _const(0.9))), scaled))
            square = emit(op.multiply(emit(op.multiply(g, g)), _const(0.001)))
            v = emit(op.add(emit(op.multiply(v, _const(0.999))), square))
            root = emit(op.sqrt(emit(op.multiply(v, _const(1000.0)))))
            ratio = emit(
                op.divide(emit(op.multiply(m, _const(10.0))), emit(op.add(root, _const(1e-8))))
            )
            outputs += [emit(op.subtract(p, emit(op.multiply(ratio, _const(1e-3))))), m, v]
        return outputs

    return _module([shape for shape in shapes for _ in range(4)], build)


def lamb(operators: int) -> tvm.IRModule:
    """One step of LAMB over as many tensors: two norms scale every update."""
    return _lamb(operators // 19, clips=False)


def clipped_lamb(operators: int) -> tvm.IRModule:
    """The same where a norm of all gradients scales them first, so that all is connected."""
    return _lamb(operators // 23, clips=True)


def _lamb(tensors: int, clips: bool) -> tvm.IRModule:
    shapes = _widths(max(1, tensors))

    def squares(emit: Emit, x: Any) -> Any:
        return emit(op.sum(emit(op.multiply(x, x))))

    def norm(emit: Emit, x: Any) -> Any:
        return emit(op.sqrt(squares(emit, x)))

    def clipped(emit: Emit, gradients: Sequence[Any]) -> list[Any]:
        total = reduce(lambda x, y: emit(op.add(x, y)), [squares(emit, g) for g in gradients])
        scale = emit(op.divide(_const(1.0), emit(op.sqrt(total))))
        return [emit(op.multiply(g, scale)) for g in gradients]

    def build(emit: Emit, *inputs: Any) -> Any:
        outputs = []
        weights, gradients, *moments = (list(inputs[i::4]) for i in range(4))
        gradients = clipped(emit, gradients) if clips else gradients
        for p, g, m, v in zip(weights, gradients, *moments, strict=True):
            scaled = emit(op.multiply(g, _const(0.1)))
            m = emit(op.add(emit(op.multiply(m, _const(0.9))), scaled))
            square = emit(op.multiply(emit(op.multiply(g, g)), _const(0.001)))
            v = emit(op.add(emit(op.multiply(v, _const(0.999))), square))
            root = emit(op.add(emit(op.sqrt(v)), _const(1e-6)))
            update = emit(op.divide(m, root))
            trust = emit(op.divide(norm(emit, p), norm(emit, update)))
            step = emit(op.multiply(emit(op.multiply(update, trust)), _const(1e-3)))
            outputs += [emit(op.subtract(p, step)), m, v]
        return outputs

    return _module([shape for shape in shapes for _ in range(4)], build)


def equal_layers_without_products(operators: int) -> tvm.IRModule:
    """Layers of a softmax, a residual, a layer norm and GELU."""

    def build(emit: Emit, x: Any, scale: Any, shift: Any) -> Any:
        for _ in range(max(1, operators // 20)):
            total = emit(op.add(x, emit(op.nn.softmax(x))))
            x = emit(op.nn.gelu(emit(op.nn.layer_norm(total, scale, shift, axes=[-1]))))
        return x

    return _module([MATRIX, (COLUMNS,), (COLUMNS,)], build)


def recurrence(operators: int) -> tvm.IRModule:
    """Layers of a selective state space, as in Mamba: 64 steps of slices and a decayed state."""
    count, channels, state = max(1, operators // 16), 1536, 16
    steps = [min(64, count - first) for first in range(0, count, 64)]

    def part(emit: Emit, x: Any, step: int) -> Any:
        at = op.strided_slice(x, [1], [step], [step + 1])
        return emit(op.squeeze(emit(at), [1]))

    def layer(emit: Emit, count: int, inputs: Sequence[Any], decay: Any) -> Any:
        x, delta, b, c = inputs
        hidden, outputs = None, []
        for step in range(count):
            moved = emit(op.expand_dims(part(emit, delta, step), -1))
            kept = emit(op.exp(emit(op.multiply(moved, decay))))
            inner = emit(op.expand_dims(part(emit, b, step), 1))
            seen = emit(op.multiply(emit(op.expand_dims(part(emit, x, step), -1)), moved))
            new = emit(op.multiply(seen, inner))
            hidden = new if hidden is None else emit(op.add(emit(op.multiply(kept, hidden)), new))
            gate = emit(op.expand_dims(part(emit, c, step), 1))
            outputs.append(emit(op.sum(emit(op.multiply(hidden, gate)), axis=-1)))
        return emit(op.stack(outputs, axis=1))

    def build(emit: Emit, decay: Any, *inputs: Any) -> Any:
        layers = zip(steps, *(inputs[i::4] for i in range(4)), strict=True)
        return [layer(emit, count, each, decay) for count, *each in layers]

    wide = [(1, count, channels) for count in steps]
    narrow = [(1, count, state) for count in steps]
    shapes = [s for pair in zip(wide, wide, narrow, narrow, strict=True) for s in pair]
    return _module([(channels, state), *shapes], build)


def scaled_reductions(operators: int) -> tvm.IRModule:
    """Sums of the rows of one input, each scaled by a number of its own."""

    def build(emit: Emit, x: Any) -> Any:
        count = max(1, operators // 2)
        scaled = (emit(op.multiply(x, _const(1 + n / count))) for n in range(count))
        return [emit(op.sum(each, axis=-1)) for each in scaled]

    return _module([MATRIX], build)


LAYER = 22  # operators of a layer with products


def _layers(operators: int, different: bool) -> tvm.IRModule:
    """So many layers of two products, a softmax, a residual, a norm and GELU."""
    count = max(1, operators // LAYER)
    widths = [COLUMNS + 8 * number * different for number in range(count + 1)]
    pairs = list(itertools.pairwise(widths))
    own = [[(rows, to), (to, to), (to,), (to,)] for rows, to in pairs]

    def build(emit: Emit, x: Any, *weights: Any) -> Any:
        for first, second, scale, shift in zip(*(weights[i::4] for i in range(4)), strict=True):
            mixed = emit(op.nn.softmax(emit(op.matmul(x, first))))
            total = emit(op.add(emit(op.matmul(mixed, second)), mixed))
            x = emit(op.nn.gelu(emit(op.nn.layer_norm(total, scale, shift, axes=[-1]))))
        return x

    return _module([(ROWS, widths[0]), *(shape for layer in own for shape in layer)], build)


def equal_layers(operators: int) -> tvm.IRModule:
    """Layers with products, all of one width."""
    return _layers(operators, different=False)


def different_layers(operators: int) -> tvm.IRModule:
    """Layers with products, each wider than the one before."""
    return _layers(operators, different=True)


FAMILIES: dict[str, Family] = {
    "element-wise chain": elementwise_chain,
    "softmax chain": softmax_chain,
    "alternating reductions": alternating_reductions,
    "random DAG": random_dag,
    "Adam": adam,
    "LAMB": lamb,
    "LAMB, clipped": clipped_lamb,
    "equal layers without products": equal_layers_without_products,
    "recurrence": recurrence,
    "scaled reductions": scaled_reductions,
    "equal layers": equal_layers,
    "different layers": different_layers,
}
