"""Mappings from JSON, of today and of earlier versions.

In: what a record or a schedule holds. Out: a Mapping of the kind that it says, whose class is known
as soon as its room is imported.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tvm_stitch.errors import InputError
from tvm_stitch.json_data import checked
from tvm_stitch.kernel.ir.mapping import (
    KINDS,
    RENAMED,
    SCHEMES,
    ColumnSums,
    Flat,
    Mapping,
    Panel,
    Rows,
    RowSegment,
    SmallMatmul,
    Transposed,
)

# In the order in which mappings are told apart that were written before they said their kind. No
# new one is among them.
_UNNAMED: tuple[type[Mapping], ...] = (
    Flat, Transposed, RowSegment, ColumnSums, SmallMatmul, Rows, Panel,
)  # fmt: skip


def mapping_from(data: Any) -> Mapping:
    """Read one from JSON; refuse unknown or missing fields and wrong types."""
    if not isinstance(data, dict):
        raise InputError("mapping must be a JSON object")
    if "kind" not in data:
        return _of_no_kind({RENAMED.get(str(name), str(name)): data[name] for name in data})
    kind = KINDS.get(data["kind"]) if isinstance(data["kind"], str) else None
    if kind is None:
        raise InputError(f"mapping kind must be one of {[*KINDS]}")
    own = {name: value for name, value in data.items() if name != "kind"}
    return checked(kind, own, "mapping", renamed=RENAMED)


def _of_no_kind(data: dict[str, Any]) -> Mapping:
    """A mapping from when all had the same fields: the first kind that reads as it did.

    Rows in shared memory and small products may look the same; only the latter were ever chosen.
    """
    scheme = data.get("scheme")
    if scheme is None or not set(data) >= {"threads", "rows", "vector", "steps"}:
        raise InputError("mapping is incomplete: it says no kind")
    for kind in _UNNAMED:
        own = {field.name for field in fields(kind)}
        mapping = checked(kind, {n: value for n, value in data.items() if n in own}, "mapping")
        others = {name: value for name, value in data.items() if name not in own}
        if kind is Rows and scheme in SCHEMES:
            del others["scheme"]  # of TVM's own kernels it says more than their threads
        if all(getattr(mapping, name, None) == value for name, value in others.items()):
            return mapping
    raise InputError(f"mapping is of no kind that there is: {data}")
