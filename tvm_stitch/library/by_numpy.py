"""What the shim's functions compute, by NumPy: for machines without a GPU, and as their definition.

In: arrays and numbers, in the order of the shim's arguments. Out: the output is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tvm_stitch.errors import InputError

_ACTIVATIONS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda x: x,
    lambda x: np.maximum(x, 0),
    lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
)


def matmul(
    left: np.ndarray,
    right: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    output: np.ndarray,
    _workspace: np.ndarray,
    _factor_bits: int,
    _output_bits: int,
    is_bfloat: bool,
    *numbers: Any,
) -> None:
    """output = activation(scale * left * right + residual + bias), in float32."""
    *sizes, activation, tf32, _timed, scale = numbers
    calls, batch, rows, columns, depth, *places, line, stride, leap = sizes
    one = _matrices(_typed(left, is_bfloat), calls, batch, rows, depth, places[:5])
    other = _matrices(_typed(right, is_bfloat), calls, batch, columns, depth, places[5:])
    if tf32:
        one, other = _rounded_to_tf32(one), _rounded_to_tf32(other)
    found = np.float32(scale) * (one @ other.swapaxes(-1, -2))
    if residual is not None:
        added = _typed(residual, is_bfloat)
        found = found + _results(added, found.shape, (leap, stride, line)).astype(np.float32)
    if bias is not None:
        found = found + _typed(bias, is_bfloat).astype(np.float32)
    written = _results(_typed(output, is_bfloat), found.shape, (leap, stride, line))
    written[...] = _ACTIVATIONS[activation](found).astype(written.dtype)


def _matrices(
    array: np.ndarray, calls: int, batch: int, side: int, depth: int, place: Sequence[int]
) -> np.ndarray:
    """A factor as [calls, batch, side, depth], in float32."""
    start, by_depth, line, stride, leap = map(int, place)
    steps = (leap, stride, line, 1) if by_depth else (leap, stride, 1, line)
    return strided(array, (calls, batch, side, depth), steps, start).astype(np.float32)


def _rounded_to_tf32(array: np.ndarray) -> np.ndarray:
    """With 10 bits of mantissa, to nearest, as tensor cores take what they multiply."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = (bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)
    finite = np.isfinite(array)
    return np.where(finite, rounded.view(np.float32), array)


def _results(array: np.ndarray, shape: tuple[int, ...], steps: tuple[int, int, int]) -> np.ndarray:
    """What has an element for each result, in the order of the factors."""
    return strided(array, shape, (*steps, 1), 0)


def strided(
    array: np.ndarray, shape: tuple[int, ...], steps: tuple[int, ...], start: int
) -> np.ndarray:
    """Elements of an array at equal distances."""
    last = start + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    if last >= array.size:
        raise InputError("a tensor is smaller than what a library is told that it holds")
    flat = array.reshape(-1)[start:]
    return np.lib.stride_tricks.as_strided(flat, shape, [step * flat.itemsize for step in steps])


def _typed(array: np.ndarray, is_bfloat: bool) -> np.ndarray:
    """Bits as the numbers that they are."""
    return array.view(ml_dtypes.bfloat16) if is_bfloat and array.itemsize == 2 else array


FUNCTIONS: dict[str, Callable[..., None]] = {"matmul": matmul}
