"""Relay's layout strings: ``NCHW``, ``HWIO``, packed ones such as ``NCHW16c``.

In: a tensor and two layouts. Out: the tensor rearranged.
"""

from __future__ import annotations

import re

from tvm import relax, topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay.call import Expr, OpCall, rank

_PART = re.compile(r"(\d*)([A-Za-z])")


def is_plain(layout: str) -> bool:
    """Whether every axis is whole."""
    return layout.isalpha() and layout.isupper()


def check(layout: str, axes: str, what: str) -> None:
    """Refuse a layout that is not made of these axes."""
    found = "".join(sorted({letter.upper() for letter in layout if letter.isalpha()}))
    if found != "".join(sorted(axes)) or not _PART.sub("", layout) == "":
        raise RelayError(f"{what} {layout!r} is not a layout of the axes {', '.join(axes)}")


def rearrange(call: OpCall, value: Expr, source: str, target: str) -> Expr:
    """A tensor in another layout."""
    if source == target:
        return value
    sizes = sum(1 for letter in source if letter.isalpha())
    if sizes != rank(value):
        raise RelayError(f"layout {source!r} does not fit a tensor of rank {rank(value)}")
    if is_plain(source) and is_plain(target):
        if sorted(source) != sorted(target):
            raise RelayError(f"layouts {source!r} and {target!r} have different axes")
        return call.emit(relax.op.permute_dims(value, [source.index(axis) for axis in target]))
    return call.te(
        lambda a: topi.layout_transform(a, source, target), value, name="layout_transform"
    )


def spatial_axes(layout: str) -> list[int]:
    """Where the spatial axes of a data layout stand."""
    return [i for i, letter in enumerate(layout) if letter not in "NC"]
