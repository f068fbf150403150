"""A case: an expression in Relay's text format, its inputs, and what NumPy says it is.

A generator makes one from a source of random shapes and values; ``write`` makes a module of it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import tvm
from tvm import relax

from tvm_stitch import relay

_BINDING = re.compile(r"%([A-Za-z_]\w*)")


@dataclass
class Case:
    """``body`` is an expression over the inputs, possibly after bindings (``%0 = ...;``)."""

    body: str
    inputs: dict[str, np.ndarray]
    expected: list[np.ndarray]
    metadata: dict[str, str] = field(default_factory=dict)
    tolerance: float = 1e-5


Generator = Callable[["Random"], Case]


def case(body: str, *expected, tolerance: float = 1e-5, **inputs) -> Case:
    """A case with its inputs by name."""
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    return Case(body, arrays, [np.asarray(e) for e in expected], tolerance=tolerance)


class Random:
    """Random shapes and values, small enough for hundreds of cases."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def int(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, *choices):
        return choices[self.int(0, len(choices) - 1)]

    def flag(self) -> bool:
        return bool(self.int(0, 1))

    def shape(self, low: int = 1, high: int = 4, largest: int = 6) -> tuple[int, ...]:
        return tuple(self.int(1, largest) for _ in range(self.int(low, high)))

    def axis(self, ndim: int) -> int:
        """An axis, counted from either end."""
        return self.int(-ndim, ndim - 1)

    def floats(self, shape=None, low: float = -2.0, high: float = 2.0, dtype="float32"):
        shape = self.shape() if shape is None else shape
        return np.asarray(self.rng.uniform(low, high, shape)).astype(dtype)

    def ints(self, shape=None, low: int = -9, high: int = 9, dtype="int32"):
        shape = self.shape() if shape is None else shape
        return np.asarray(self.rng.integers(low, high + 1, shape)).astype(dtype)

    def bools(self, shape=None):
        shape = self.shape() if shape is None else shape
        return np.asarray(self.rng.integers(0, 2, shape)).astype(bool)

    def broadcast(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Two shapes that broadcast."""
        full = self.shape(1, 4)
        left = tuple(1 if self.int(0, 3) == 0 else n for n in full)
        right = tuple(
            m if m != 1 and self.int(0, 3) else n for n, m in zip(full, left, strict=True)
        )
        right = tuple(1 if self.int(0, 4) == 0 else n for n in full)
        return left, right[self.int(0, len(right) - 1) :]


def dtype_name(array: np.ndarray) -> str:
    return "bfloat16" if array.dtype == ml_dtypes.bfloat16 else array.dtype.name


def tensor_type(array: np.ndarray) -> str:
    dims = ", ".join(map(str, array.shape)) + ("," if array.ndim == 1 else "")
    return f"Tensor[({dims}), {dtype_name(array)}]"


def function(name: str, given: Case) -> str:
    """The case as a global function."""
    params = ", ".join(f"%{key}: {tensor_type(value)}" for key, value in given.inputs.items())
    return f"def @{name}({params}) {{\n  {given.body}\n}}\n"


def write(given: Case) -> str:
    """The case as a module."""
    return '#[version = "0.0.5"]\n' + function("main", given)


def run(mod: tvm.IRModule, inputs, entry: str = "main") -> list[np.ndarray]:
    """The outputs of a module, compiled for this machine."""
    return execute(relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu()), inputs, entry)


def execute(machine: relax.VirtualMachine, inputs, entry: str) -> list[np.ndarray]:
    result = machine[entry](*[tvm.runtime.tensor(array) for array in inputs])
    return [tensor.numpy() for tensor in _flat(result)]


def _flat(result):
    if isinstance(result, tvm.runtime.Tensor):
        return [result]
    return [tensor for item in result for tensor in _flat(item)]


def agrees(given: Case, outputs: list[np.ndarray]) -> str:
    """What is wrong with the outputs, or an empty string."""
    if len(outputs) != len(given.expected):
        return f"{len(outputs)} outputs instead of {len(given.expected)}"
    for i, (have, want) in enumerate(zip(outputs, given.expected, strict=True)):
        if have.shape != want.shape:
            return f"output {i} has shape {have.shape} instead of {want.shape}"
        if have.dtype != want.dtype:
            return f"output {i} has dtype {have.dtype} instead of {want.dtype}"
        if have.dtype.kind in "iub":
            if not np.array_equal(have, want):
                return f"output {i} is\n{have}\ninstead of\n{want}"
            continue
        have, want = have.astype("float64"), want.astype("float64")
        limit = given.tolerance * max(1.0, float(np.nanmax(np.abs(want), initial=0.0)))
        if not np.allclose(have, want, rtol=0, atol=limit, equal_nan=True):
            return f"output {i} is off by {np.nanmax(np.abs(have - want)):.3g} of {limit:.3g}"
    return ""


def check(given: Case) -> None:
    """The case loads, runs, and agrees with NumPy."""
    text = write(given)
    wrong = agrees(given, run(relay.load(text), given.inputs.values()))
    assert not wrong, f"{text}\n{wrong}"
