"""Are these outputs right? Element by element, against what NumPy says and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.outside.graphs.graph import numpy_dtype
from tests.outside.graphs.number import SMALLEST, Number

# Times the first-order bound: what it leaves out, such as products of errors.
SAFETY = 4.0


@dataclass(frozen=True)
class Difference:
    """The worst element of an output that is wrong."""

    output: int
    dtype: str
    at: tuple[int, ...]
    got: float
    want: float
    allowed: float
    count: int  # of elements that are wrong
    size: int

    def __str__(self) -> str:
        return (
            f"output {self.output} ({self.dtype}): {self.count} of {self.size} elements wrong, at "
            f"{list(self.at)} {self.got:.9g} instead of {self.want:.9g} ± {self.allowed:.2g}"
        )


def differences(outputs: Sequence[np.ndarray], numbers: Sequence[Number]) -> list[Difference]:
    """What is wrong; shapes and dtypes must be right as well."""
    if len(outputs) != len(numbers):
        raise AssertionError(f"{len(outputs)} outputs instead of {len(numbers)}")
    pairs = enumerate(zip(outputs, numbers, strict=True))
    found = (_difference(place, got, want) for place, (got, want) in pairs)
    return [each for each in found if each is not None]


def _difference(place: int, got: np.ndarray, want: Number) -> Difference | None:
    if got.shape != want.value.shape:
        size = want.value.size
        return Difference(place, f"shape {got.shape}", (), np.nan, np.nan, 0.0, size, size)
    if not got.size:
        return None
    if want.dtype == "bfloat16" and got.dtype == np.uint16:
        got = got.view(numpy_dtype("bfloat16"))  # the executor hands out its bits
    real, value = got.astype("float64"), want.real
    allowed = SAFETY * want.bound + (SMALLEST[want.dtype] if want.floating else 0)
    with np.errstate(all="ignore"):
        apart = np.abs(real - value)
        same = (real == value) | (np.isnan(real) & np.isnan(value)) | np.isinf(want.bound)
        excess = np.where(same | (apart <= allowed), 0, apart / np.maximum(allowed, 1e-300))
    excess = np.where(np.isnan(excess), np.inf, excess)
    if want.dtype in ("int64", "uint64"):
        # What float64 does not hold is compared as it is.
        excess = np.where((want.bound == 0) & (got != want.value), np.inf, excess)
    wrong = int((excess > 0).sum())
    if not wrong:
        return None
    at = np.unravel_index(int(np.argmax(excess)), excess.shape)
    place_at = tuple(int(n) for n in at)
    return Difference(
        place, want.dtype, place_at, float(real[at]), float(value[at]), float(allowed[at]), wrong,
        got.size,
    )  # fmt: skip
