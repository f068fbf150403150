"""Modules that are imported when first used.

JAX is optional: the JAX functions stand beside the PyTorch ones, and neither file may fail
where only one of the two is installed.
"""

from __future__ import annotations

import importlib
from typing import Any


class Lazy:
    """Stands for a module and imports it at the first attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


jax = Lazy("jax")
jnp = Lazy("jax.numpy")
lax = Lazy("jax.lax")
jnn = Lazy("jax.nn")
