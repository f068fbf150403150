"""NumPy arrays in, guarded copies for a kernel out, and back again afterwards.

Every array lies alone between two guard zones, so that a kernel which leaves it meets neither
another array nor memory of the process.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tvm_stitch.errors import InputError, SimtError
from tvm_stitch.simt.source import Parameter

_POISONED = 1 << 16  # bytes beside an array that hold all ones: NaN in every float format
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # named since Python 3.13

_KINDS = {
    "float": "f", "double": "f", "half": "f", "__half": "f", "bool": "bui", "char": "bui",
    "signed char": "bui", "unsigned char": "bui", "uchar": "bui", "int8_t": "bui",
    "uint8_t": "bui",
}  # fmt: skip
_BFLOAT = ("nv_bfloat16", "__nv_bfloat16")


class RawArray(ctypes.Structure):
    """`simt_array` of runtime/abi.h."""

    _fields_ = [
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("element_bytes", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class _Region:
    """One array's place in the arena, and all parameters that were given it."""

    array: np.ndarray
    offset: int
    names: tuple[str, ...]


class Arena:
    """Guarded copies of a launch's arrays; two parameters given one array share one copy."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        grouped: dict[tuple[int, int], list[str]] = {}
        for name, array in arrays.items():
            grouped.setdefault(_extent(array), []).append(name)
        _refuse_overlap(arrays, grouped)
        regions, offset = [], 0
        for names in grouped.values():
            array = arrays[names[0]]
            guard = max(1 << 20, min(array.nbytes, 1 << 28))
            offset = _page(offset + guard)
            regions.append(_Region(array, offset, tuple(names)))
            offset += array.nbytes + guard
        self._regions = tuple(regions)
        try:
            self._memory = mmap.mmap(
                -1, _page(offset + 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
            )
        except (OSError, ValueError) as error:
            raise SimtError(f"no memory for {offset} bytes of arrays: {error}") from error
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self.begin: int = self._bytes.ctypes.data
        self.end: int = self.begin + self._bytes.size
        for region in self._regions:
            self._fill(region)

    def _fill(self, region: _Region) -> None:
        begin, size = region.offset, region.array.nbytes
        self._bytes[begin - _POISONED : begin] = 0xFF
        self._bytes[begin + size : begin + size + _POISONED] = 0xFF
        source = np.ascontiguousarray(region.array).reshape(-1)
        self._bytes[begin : begin + size] = source.view(np.uint8)

    def address(self, name: str) -> int:
        """Where the kernel finds the array of a parameter."""
        region = next(r for r in self._regions if name in r.names)
        return self.begin + region.offset

    def raw(self) -> ctypes.Array[RawArray]:
        """The arrays as the runtime takes them."""
        return (RawArray * len(self._regions))(
            *(
                RawArray(self.begin + r.offset, r.array.nbytes, max(r.array.itemsize, 1))
                for r in self._regions
            )
        )

    @property
    def names(self) -> tuple[str, ...]:
        """A name for every array, in the order of `raw`."""
        return tuple(r.names[0] for r in self._regions)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The caller's arrays, in the order of `raw`."""
        return tuple(r.array for r in self._regions)

    def trespasses(self) -> tuple[tuple[int, int], ...]:
        """(array, byte offset) of guard bytes that changed: all that a run without checks sees."""
        found = []
        for index, region in enumerate(self._regions):
            begin, end = region.offset, region.offset + region.array.nbytes
            for start in (begin - _POISONED, end):
                changed = np.flatnonzero(self._bytes[start : start + _POISONED] != 0xFF)
                if changed.size:
                    found.append((index, int(start - begin + changed[0])))
        return tuple(found)

    def copy_back(self) -> None:
        """Writes what the kernel left into the caller's arrays."""
        for region in self._regions:
            size = region.array.nbytes
            result = self._bytes[region.offset : region.offset + size]
            if region.array.flags.writeable:
                region.array[...] = result.view(region.array.dtype).reshape(region.array.shape)
            elif not np.array_equal(
                result, np.ascontiguousarray(region.array).view(np.uint8).ravel()
            ):
                raise InputError(
                    f"the kernel writes {region.names[0]}, but the array given for it is "
                    "read-only; pass a writeable array"
                )


def _page(value: int) -> int:
    return (value + 4095) // 4096 * 4096


def _extent(array: np.ndarray) -> tuple[int, int]:
    low, high = (
        np.lib.array_utils.byte_bounds(array)
        if hasattr(np.lib, "array_utils")
        else (
            np.byte_bounds(array)  # type: ignore[attr-defined]
        )
    )
    return (id(array), 0) if array.nbytes == 0 else (low, high)


def _refuse_overlap(
    arrays: Mapping[str, np.ndarray], grouped: Mapping[tuple[int, int], list[str]]
) -> None:
    extents = sorted((e for e in grouped if e[1]), key=lambda e: e[0])
    for (_, end), later in itertools.pairwise(extents):
        if later[0] < end:
            raise InputError(
                f"the arrays of {grouped[later][0]} and another parameter overlap in part; "
                "pass the same array twice or separate ones"
            )
    for names in grouped.values():
        first = arrays[names[0]]
        for name in names[1:]:
            other = arrays[name]
            if (other.shape, other.strides, other.dtype) != (
                first.shape, first.strides, first.dtype
            ):  # fmt: skip
                raise InputError(
                    f"{name} and {names[0]} are different views of one array; copy one of them"
                )


def check_array(parameter: Parameter, value: object) -> np.ndarray:
    """The array given for a pointer parameter, if its element type fits the kernel's."""
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"parameter {parameter.name} is a pointer ({parameter.type}*): "
            f"pass a NumPy array, not {type(value).__name__}"
        )
    bytes_expected = parameter.element_bytes
    kinds = _KINDS.get(parameter.type)
    is_bfloat = str(value.dtype) == "bfloat16"
    if parameter.type in _BFLOAT:
        fits = is_bfloat or value.dtype == np.uint16
        hint = "pass ml_dtypes.bfloat16, or uint16 made by simt.to_bfloat16"
    else:
        same_size = bytes_expected is None or value.itemsize == bytes_expected
        fits = same_size and (kinds is None or value.dtype.kind in kinds) and not is_bfloat
        hint = "convert it with astype"
        if kinds is None and bytes_expected in (4, 8) and value.dtype.kind == "f":
            fits = parameter.type.rstrip("234") in ("half", "float")
    if not fits:
        raise InputError(
            f"parameter {parameter.name} is {parameter.type}*, but its array has dtype "
            f"{value.dtype}; {hint}"
        )
    return value


def scalar(parameter: Parameter, value: object) -> ctypes._SimpleCData:
    """A scalar parameter in memory, as the kernel's entry reads it."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, (int, float, np.number, np.bool_)):
        raise InputError(
            f"parameter {parameter.name} is a scalar ({parameter.type}): "
            f"pass a number, not {type(value).__name__}"
        )
    if parameter.type == "float":
        return ctypes.c_float(float(value))
    if parameter.type == "double":
        return ctypes.c_double(float(value))
    if parameter.type in ("half", "__half"):
        return ctypes.c_uint16(int(np.float16(value).view(np.uint16)))
    if parameter.type in _BFLOAT:
        return ctypes.c_uint16(int(to_bfloat16(np.array([value], np.float32))[0]))
    size = parameter.element_bytes or 8
    if not float(value).is_integer():
        raise InputError(f"parameter {parameter.name} is {parameter.type}, not {value!r}")
    kinds = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
    return kinds[min(size, 8)](int(value) & (1 << 8 * min(size, 8)) - 1)


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """float32 values rounded to bfloat16, as uint16 bit patterns."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(array), np.uint16(0x7FFF), rounded)


def from_bfloat16(array: np.ndarray) -> np.ndarray:
    """The float32 values of bfloat16 bit patterns (uint16), or of an ml_dtypes.bfloat16 array."""
    return (np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
