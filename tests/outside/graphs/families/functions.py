"""NumPy's functions by the names of the element-wise operators that they are."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_erf = np.vectorize(math.erf, otypes=["float64"])


def erf(x: np.ndarray) -> np.ndarray:
    """The error function."""
    return _erf(x) if x.size else np.zeros(x.shape)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """GELU by its usual approximation."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# Function, and its error in ulps, in absolute numbers, and in FAST, the loss of fast maths.
FLOATING: dict[str, tuple[Callable, float, float, float]] = {
    "exp": (np.exp, 4, 0, 0),
    "log": (np.log, 3, 0, 1),
    "sqrt": (np.sqrt, 2, 0, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 3, 0, 0),
    "sin": (np.sin, 3, 0, 1),
    "cos": (np.cos, 3, 0, 1),
    "tan": (np.tan, 4, 0, 4),
    "asin": (np.arcsin, 4, 0, 0),
    "acos": (np.arccos, 4, 0, 0),
    "atan": (np.arctan, 4, 0, 0),
    "sinh": (np.sinh, 6, 0, 0),
    "cosh": (np.cosh, 6, 0, 0),
    "tanh": (np.tanh, 4, 0, 1),
    "asinh": (np.arcsinh, 6, 1e-6, 1),
    "acosh": (np.arccosh, 6, 1e-6, 1),
    "atanh": (np.arctanh, 6, 1e-6, 1),
    "sigmoid": (sigmoid, 6, 0, 0),
    "erf": (erf, 4, 3e-7, 0),
    "nn.gelu_tanh": (gelu_tanh, 6, 0, 0),
    "nn.silu": (lambda x: np.where(np.isinf(x) & (x < 0), np.nan, x * sigmoid(x)), 6, 0, 0),
    "nn.selu": (
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        4, 3e-7, 1,
    ),
}  # fmt: skip
# What is exact, of floating values and of integers.
EXACT: dict[str, Callable] = {
    "abs": np.abs,
    "negative": np.negative,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "sign": np.sign,
    "square": np.square,
    "nn.relu": lambda x: np.maximum(x, 0),
    "nn.relu6": lambda x: np.clip(x, 0, 6),
}


ARITHMETIC: dict[str, Callable] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
COMPARED: dict[str, Callable] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
LOGICAL: dict[str, Callable] = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
BITWISE: dict[str, Callable] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
