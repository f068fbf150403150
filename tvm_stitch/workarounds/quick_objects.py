"""TVM's objects asked for their class, and arrays gone through, in a third of the time.

The classes of TVM's objects are abstract base classes, of which others may register themselves as
subclasses: Python looks that up in caches wherever an object is not just of the class. Nobody
registers. Arrays give element after element through four functions. A model has millions of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm_ffi import Array, Object, container

_ELEMENT, _SIZE = container._ffi_api.ArrayGetItem, container._ffi_api.ArraySize


def ask_objects_quickly() -> None:
    """Mend TVM's classes for the whole process; to do so twice does no harm."""
    type(Object).__instancecheck__ = type.__instancecheck__  # type: ignore[assignment]
    Array.__iter__ = _elements


def _elements(array: Any) -> Iterator[Any]:
    """All elements of an array, which never changes."""
    return iter([_ELEMENT(array, number) for number in range(_SIZE(array))])
