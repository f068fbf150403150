"""How an operator reads its attributes.

In: what the file says (text leaves defaults out, JSON writes all). Out: typed values. An attribute
that nobody asked for and that is not empty is an error: ignoring it could change the result.
"""

from __future__ import annotations

from typing import Any

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay.ast import AttributeValue

# Written by Relay's own tuners, or of meaning to its build only; no result depends on them.
_WITHOUT_EFFECT = frozenset(
    {
        "auto_scheduler_rewritten_layout",
        "meta_schedule_original_shape",
        "schedule_rule",
        "span",
        "type_args",
    }
)


class Attributes:
    """The attributes of one call, with a record of which were read."""

    def __init__(self, values: dict[str, AttributeValue]) -> None:
        self._values = values
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """The value as it stands, or the default where it is absent or null."""
        self._read.add(name)
        value = self._values.get(name)
        return default if value is None else value

    def ignore(self, *names: str) -> None:
        """Say that these attributes cannot change the result here."""
        self._read.update(names)

    def integer(self, name: str, default: Any = None) -> Any:
        """An integer; a list of one is taken for its element."""
        value = self.get(name, default)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise RelayError(f"attribute {name} should be an integer, not {value!r}")

    def number(self, name: str, default: Any = None) -> Any:
        """A number."""
        value = self.get(name, default)
        if value is None or isinstance(value, (int, float)):
            return None if value is None else float(value)
        raise RelayError(f"attribute {name} should be a number, not {value!r}")

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value; JSON writes 0 and 1."""
        value = self.get(name, default)
        if isinstance(value, (bool, int)):
            return bool(value)
        raise RelayError(f"attribute {name} should be True or False, not {value!r}")

    def text(self, name: str, default: Any = "") -> Any:
        """A string; the empty string is the default too."""
        value = self.get(name, default)
        if value is None or isinstance(value, str):
            return value or default
        raise RelayError(f"attribute {name} should be a string, not {value!r}")

    def integers(self, name: str, default: Any = None) -> Any:
        """A list of integers; one integer is a list of one."""
        value = self.get(name, default)
        if isinstance(value, int) and not isinstance(value, bool):
            value = [value]
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(item, int) and not isinstance(item, bool) for item in value
        ):
            raise RelayError(f"attribute {name} should be a list of integers, not {value!r}")
        return list(value)

    def pairs(self, name: str) -> list[tuple[int, int]]:
        """A list of pairs of integers."""
        value = self.get(name, [])
        if not isinstance(value, list) or not all(
            isinstance(item, list) and len(item) == 2 and all(isinstance(n, int) for n in item)
            for item in value
        ):
            raise RelayError(
                f"attribute {name} should be a list of [before, after] pairs, not {value!r}"
            )
        return [(before, after) for before, after in value]

    def finish(self) -> None:
        """Refuse what was written but not read."""
        for name, value in self._values.items():
            if name in self._read or name in _WITHOUT_EFFECT:
                continue
            if value in (None, "", 0, 0.0, False) or value == []:
                continue
            known = ", ".join(sorted(self._read)) or "no attributes"
            raise RelayError(f"attribute {name}={value!r} is not known here; known: {known}")

    def names(self) -> list[str]:
        """What is written."""
        return list(self._values)
