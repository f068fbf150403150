"""Whether what a module computed in its own dtypes is what it should have computed.

Comes in: an output, the exact one in float64, and what random rounding made of the latter. Goes
out: for every element, the error and how large it may be.

An element counts as right if it is near one of its candidates: the exact value, and the values of
the runs that rounded at random. Near means:

- within `UNITS` units of roundoff of the candidate, in the output's dtype; and beyond that
- within `SPREAD` times what rounding moves this element by (the root mean square of the runs'
  distances from the exact value), but never more than `SHARE` of its largest candidate or of the
  output's median magnitude, whichever is larger: of what cancels there may be nothing left;
- and `USUAL_UNITS` units of roundoff of that median, in case that all runs missed a cancellation.

So the bound follows from the dtype and the condition of the computation, element by element: where
large values cancel it is wide, beside them it is not. Where a comparison, a floor or an argmax
tips over by rounding, the candidates are what lies on both sides. What is no floating-point number
has to equal a candidate. Infinities and not-a-number have to agree with one in place; a value
beyond the largest of the dtype is infinite there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

UNITS = 4.0
SPREAD = 6.0  # of eight runs: by chance their mean square is a fraction of what it would be of many
SHARE = 0.25
USUAL_UNITS = 2.0


@dataclass(frozen=True)
class Format:
    """A floating-point dtype: its unit of roundoff, largest number, and smallest that is kept."""

    unit: float
    largest: float
    smallest: float


# Kernels may flush what is below float32's smallest normal number to 0.
FORMATS = {
    "float64": Format(2.0**-50, float(np.finfo("float64").max), 2.0**-1022),
    "float32": Format(2.0**-24, 2.0**128 - 2.0**104, 2.0**-126),
    "bfloat16": Format(2.0**-8, 2.0**128 - 2.0**120, 2.0**-126),
    "float16": Format(2.0**-11, 65504.0, 2.0**-24),
}


@dataclass(frozen=True)
class Judged:
    """Of every element: how far it is from the candidate that explains it best, and may be."""

    error: np.ndarray
    allowed: np.ndarray

    @property
    def wrong(self) -> np.ndarray:
        """Which elements no candidate explains."""
        return ~(self.error <= self.allowed)

    @property
    def worst(self) -> int:
        """The element with the largest share of what is allowed."""
        return int(np.argmax(_share(self.error, self.allowed)))


def typical(exact: np.ndarray) -> float:
    """The median magnitude of an output, on which one large element has no influence."""
    known = np.abs(exact.astype("float64")) if exact.dtype.kind in "fiu" else np.zeros(0)
    known = known[np.isfinite(known) & (known > 0)]
    return float(np.median(known)) if known.size else 0.0


def judge(
    got: np.ndarray, exact: np.ndarray, runs: Sequence[np.ndarray], dtype: str, usual: float = 0.0
) -> Judged:
    """Judge the elements of a flat output; `runs` are values of the same elements.

    `usual` is the magnitude of a typical element of the output, of which these may be some.
    """
    if dtype not in FORMATS:
        equal = np.stack([got == candidate for candidate in (exact, *runs)]).any(axis=0)
        distance = np.abs(got.astype("float64") - exact.astype("float64"))
        return Judged(np.where(equal, 0.0, np.maximum(distance, 1.0)), np.zeros(got.shape))
    form = FORMATS[dtype]
    candidates = np.stack([exact, *runs]).astype("float64")
    moved = _moved(candidates, usual) + USUAL_UNITS * form.unit * usual
    found = [_against(got.astype("float64"), each, moved, form) for each in candidates]
    best = np.argmin([_share(*each) for each in found], axis=0)[None]
    errors, allowed = (np.stack(each) for each in zip(*found, strict=True))
    return Judged(*(np.take_along_axis(each, best, axis=0)[0] for each in (errors, allowed)))


def _share(error: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """How much of what is allowed an error takes."""
    with np.errstate(all="ignore"):
        return np.where(error == 0, 0.0, error / allowed)


def _moved(candidates: np.ndarray, usual: float) -> np.ndarray:
    """How far rounding may move each element, as far as the runs know."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(candidates) & np.isfinite(candidates[:1])
        distances = np.where(finite, candidates - candidates[:1], 0.0)
        # The first is the exact value itself.
        count = np.maximum(finite[1:].sum(axis=0), 1)
        spread = np.sqrt((distances**2).sum(axis=0) / count)
        largest = np.abs(np.where(finite, candidates, 0.0)).max(axis=0)
    return np.minimum(SPREAD * spread, SHARE * np.maximum(largest, usual))


def _against(
    got: np.ndarray, candidate: np.ndarray, moved: np.ndarray, form: Format
) -> tuple[np.ndarray, np.ndarray]:
    """The error against one candidate, and what is allowed."""
    with np.errstate(all="ignore"):
        magnitude = np.where(np.isfinite(candidate), np.abs(candidate), 0.0)
        bound = UNITS * (form.unit * np.minimum(magnitude, form.largest) + form.smallest) + moved
        error = np.abs(got - candidate)
        beyond = magnitude + bound > form.largest
        same = (got == candidate) | (np.isnan(got) & np.isnan(candidate))
        overflown = beyond & np.isinf(got) & (np.sign(got) == np.sign(candidate))
        error = np.where(same | overflown, 0.0, error)
    return np.where(np.isnan(error), np.inf, error), bound
