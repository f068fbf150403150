"""Number literals of Relay's text format.

Relay printed floating-point scalars with six significant digits: of the float32 nearest to
sqrt(1/2), 0.70710677, the text keeps ``0.707107f``. Every value that prints so is a right reading.
Where a constant that models are made of (1/n, sqrt(n) and the like) prints so too, it is taken:
that is what the module held before it was printed, and what its JSON form still holds.
"""

from __future__ import annotations

import math
import re

import numpy as np

from tvm_stitch.frontend.relay.arrays import dtype_of

_LITERAL = re.compile(r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)((?:bf|f|i|u)\d*)?$")
_SUFFIXES = {"f": "float32", "i": "int32", "u": "uint32", "bf16": "bfloat16"}
_PRINTED_DIGITS = 6
_LARGEST_DENOMINATOR = 4096


def _significant_digits(printed: str) -> int:
    mantissa = printed.partition("e")[0]
    return len(mantissa.replace(".", "").strip("0"))


def _constants() -> dict[str, float]:
    """What models are made of, by how Relay printed it."""
    # Where two print alike the later one stays, so the likelier ones come last.
    values = [(n - 1) / n for n in range(255, 2, -1)]
    for n in range(_LARGEST_DENOMINATOR, 1, -1):
        values += [math.sqrt(n), 1 / math.sqrt(n), 1 / n]
    values += [math.pi, math.e, math.log(2), math.log(10), 1 / math.log(2), math.pi / 2]
    values += [math.sqrt(2 / math.pi), 1 / math.sqrt(2 * math.pi), math.sqrt(math.pi) / 2]
    # The scale and alpha of SELU, whose published digits exceed six.
    values += [1.0507009873554805, 1.6732632423543772]
    table = {f"{value:.{_PRINTED_DIGITS}g}": value for value in values}
    # A shorter decimal was more likely written than rounded.
    return {text: v for text, v in table.items() if _significant_digits(text) == _PRINTED_DIGITS}


_PRINTED_CONSTANTS = _constants()


def restore(value: float) -> float:
    """The well-known constant that prints as this value does, or the value itself."""
    printed = f"{abs(value):.{_PRINTED_DIGITS}g}"
    if float(printed) != abs(value):
        return value
    return math.copysign(_PRINTED_CONSTANTS.get(printed, abs(value)), value)


def literal(text: str) -> tuple[int | float, str]:
    """The value and the dtype of a literal such as ``1``, ``2i64``, ``0.5f`` or ``1e-05f``."""
    match = _LITERAL.match(text)
    if match is None:
        raise ValueError(text)
    digits, suffix = match.groups()
    is_integer = digits.isdigit()
    if suffix is None:
        dtype = "int32" if is_integer else "float32"
    else:
        dtype = _SUFFIXES.get(suffix) or {"f": "float", "i": "int", "u": "uint"}[
            suffix[0]
        ] + suffix.lstrip("fiu")
    if dtype_of(dtype) is None:
        raise ValueError(text)
    if dtype.startswith(("int", "uint")):
        if not is_integer:
            raise ValueError(text)
        return int(digits), dtype
    return float(digits), dtype


def scalar(value: int | float, dtype: str) -> np.ndarray:
    """A rank-0 array of a literal's value, its lost digits restored; OverflowError if too large."""
    numpy_dtype = dtype_of(dtype)
    assert numpy_dtype is not None, dtype
    if isinstance(value, float) and dtype != "float16":
        value = restore(value)
    return np.array(value, numpy_dtype)
