"""Data classes from JSON, read strictly: all fields there, none unknown, each of its type.

Schedules, tiles, plans and records come from files that anybody may have written. What is wrong
with one is an InputError that names the field; nothing is executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any, TypeVar

from tvm_stitch.errors import InputError

T = TypeVar("T")
Reader = Callable[[Any], Any]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def parsed(text: str | bytes, what: str) -> Any:
    """What a text says in JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not JSON: {error}") from None


def checked(
    kind: type[T],
    data: Any,
    what: str,
    readers: Mapping[str, Reader] = _NOTHING,
    renamed: Mapping[str, str] = _NOTHING,
) -> T:
    """A data class from the JSON object of its fields.

    A field is read by its type, or by its own of `readers`, whose ValueError says what is wrong.
    `renamed` are names that fields had when older files were written.
    """
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    if isinstance(data, dict):
        data = {renamed.get(name, name): value for name, value in data.items()}
    unknown = sorted(set(data) - set(known)) if isinstance(data, dict) else None
    if unknown is None or unknown:
        instead = "" if unknown is None else f", without {', '.join(unknown)}"
        raise InputError(f"{what} must be a JSON object with the fields {sorted(known)}{instead}")
    missing = [
        name
        for name, field in known.items()
        if name not in data and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise InputError(f"{what} is incomplete: {', '.join(missing)}")
    return kind(
        **{
            name: _field(value, str(known[name].type), f"{what} field {name}", readers.get(name))
            for name, value in data.items()
        }
    )


def _field(value: Any, kind: str, what: str, reader: Reader | None) -> Any:
    if reader is not None:
        try:
            return reader(value)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{what}: {error}") from None
    try:
        return _READERS[kind](value)
    except ValueError:
        raise InputError(f"{what} must be {kind}, not {_shown(value)}") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def count(value: Any) -> int:
    """A number of things, such as nodes: a whole number, not negative."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{_shown(value)} is not a count")
    return value


def positive(value: Any) -> int:
    """A count of at least one."""
    if count(value) == 0:
        raise ValueError("0 is not a positive count")
    return int(value)


def _exactly(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError
        return value

    return read


def _float(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _tuple(of: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise ValueError
        return tuple(map(of, value))

    return read


_READERS: dict[str, Reader] = {
    "str": _exactly(str),
    "int": _exactly(int),
    "bool": _exactly(bool),
    "float": _float,
    "tuple[int, ...]": _tuple(_exactly(int)),
    "tuple[str, ...]": _tuple(_exactly(str)),
}


def listed(value: Any) -> Any:
    """Tuples as the lists that JSON makes of them, at any depth."""
    if isinstance(value, dict):
        return {name: listed(each) for name, each in value.items()}
    return [listed(each) for each in value] if isinstance(value, (list, tuple)) else value
