"""The settings of TVM's passes as plain data, for other processes and for later.

In: the settings of now. Out: the same, entered somewhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm


@dataclass(frozen=True)
class PassSettings:
    """What passes are told."""

    level: int
    disabled: tuple[str, ...]
    config: dict[str, Any]

    @staticmethod
    def now() -> PassSettings | None:
        """Those of the context; None if somebody watches passes, or they are more than data."""
        context = tvm.transform.PassContext.current()
        config = {str(name): value for name, value in context.config.items()}
        is_plain = all(isinstance(each, bool | int) for each in config.values())
        if context.instruments or context.required_pass or not is_plain:
            return None
        return PassSettings(int(context.opt_level), tuple(map(str, context.disabled_pass)), config)

    def context(self) -> tvm.transform.PassContext:
        """A context of these."""
        return tvm.transform.PassContext(
            opt_level=self.level, disabled_pass=list(self.disabled), config=self.config
        )
