"""The binary forms of tensors and of parameter files, read into NumPy arrays.

In: bytes as ``NDArray::Save`` and ``relay.save_param_dict`` wrote them. Out: arrays. Every length
in the bytes is checked against what is there before it is believed.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tvm_stitch.errors import RelayError

_TENSOR_MAGIC = 0xDD5E40F096B4A13F
_DICTIONARY_MAGIC = 0xF7E58D4F05049CB7
_MAX_DIMENSIONS = 64

# DLPack's type codes. 6 is its later code for bool, which Relay wrote as a one-bit integer.
_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_DTYPES: dict[tuple[int, int], Any] = {
    **{(_INT, bits): np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{(_UINT, bits): np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{(_FLOAT, bits): np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    (_BFLOAT, 16): np.dtype(ml_dtypes.bfloat16),
    (_INT, 1): np.dtype(bool),
    (_UINT, 1): np.dtype(bool),
    (_BOOL, 8): np.dtype(bool),
}

Parameters = Mapping[str, Any] | str | PathLike[str] | bytes | bytearray
"""What ``params`` may be: arrays by name, or what ``relay.save_param_dict`` wrote."""


def dtype_of(name: str) -> np.dtype | None:
    """NumPy's dtype of a Relay dtype name, or None where there is none."""
    if name == "bfloat16":
        return np.dtype(ml_dtypes.bfloat16)
    if name in ("uint1", "int1"):
        return np.dtype(bool)
    try:
        return np.dtype(name)
    except TypeError:
        return None


class Reader:
    """A cursor over bytes that refuses to read past their end."""

    def __init__(self, data: bytes | bytearray | memoryview, what: str) -> None:
        self.data = memoryview(data)
        self.position = 0
        self.what = what

    def take(self, size: int) -> memoryview:
        """The next ``size`` bytes."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise RelayError(
                f"{self.what} ends early: {size} bytes are announced at byte {self.position} and "
                f"{len(self.data) - self.position} are left; the file is truncated or damaged"
            )
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def numbers(self, layout: str) -> tuple[int, ...]:
        """The next little-endian integers, by a ``struct`` layout."""
        layout = "<" + layout
        return struct.unpack(layout, self.take(struct.calcsize(layout)))


def read_tensor(reader: Reader) -> np.ndarray:
    """The tensor at the cursor."""
    magic, _ = reader.numbers("QQ")
    if magic != _TENSOR_MAGIC:
        raise RelayError(f"{reader.what}: what should be a tensor does not begin like one")
    _, _, ndim = reader.numbers("iii")
    code, bits, lanes = reader.numbers("BBH")
    dtype = _DTYPES.get((code, bits))
    if dtype is None or lanes != 1:
        raise RelayError(
            f"{reader.what}: a tensor has type code {code} with {bits} bits and {lanes} lanes, "
            "which no NumPy dtype holds"
        )
    if not 0 <= ndim <= _MAX_DIMENSIONS:
        raise RelayError(f"{reader.what}: a tensor claims {ndim} dimensions")
    shape = reader.numbers(f"{ndim}q")
    (size,) = reader.numbers("q")
    count = 1
    for extent in shape:
        count *= extent
    if min(shape, default=0) < 0 or size != count * dtype.itemsize:
        raise RelayError(
            f"{reader.what}: a {dtype.name} tensor of shape {list(shape)} claims {size} bytes"
        )
    return np.frombuffer(reader.take(size), dtype).reshape(shape).copy()


def _read_dictionary(data: bytes | bytearray, what: str) -> dict[str, np.ndarray]:
    reader = Reader(data, what)
    magic, _ = reader.numbers("QQ") if len(data) >= 16 else (0, 0)
    if magic != _DICTIONARY_MAGIC:
        raise RelayError(
            f"{what} is not a parameter file: relay.save_param_dict writes another beginning"
        )
    (count,) = reader.numbers("Q")
    names = []
    for _ in range(count):
        (length,) = reader.numbers("Q")
        names.append(bytes(reader.take(length)).decode("utf-8", "replace"))
    (tensors,) = reader.numbers("Q")
    if tensors != count:
        raise RelayError(f"{what} has {count} names and {tensors} tensors; the file is damaged")
    return {name: read_tensor(reader) for name in names}


def load_params(params: Parameters) -> dict[str, np.ndarray]:
    """Parameters by name: from a mapping of arrays, a file's path, or a file's bytes."""
    if isinstance(params, Mapping):
        return {str(name): _as_array(str(name), value) for name, value in params.items()}
    if isinstance(params, (bytes, bytearray)):
        return _read_dictionary(params, "the given parameter bytes")
    if not isinstance(params, (str, PathLike)):
        raise RelayError(
            "params must be a mapping from name to array, or the path or bytes of a file that "
            f"relay.save_param_dict wrote, not {type(params).__name__}"
        )
    path = Path(params)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RelayError(f"parameters {path} cannot be read: {error.strerror}") from error
    return _read_dictionary(data, str(path))


def _as_array(name: str, value: Any) -> np.ndarray:
    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    if array.dtype == object or (array.dtype.kind in "USV" and array.dtype != ml_dtypes.bfloat16):
        raise RelayError(f"parameter {name} is not an array of numbers but {type(value).__name__}")
    return array
