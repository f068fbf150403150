"""What is kept holds for one version of all that made it, and settings of it; here is which."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import tvm

_PACKAGE = Path(__file__).parents[1]
_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "numpy", "highspy")
_SUFFIXES = (".py", ".json")


@lru_cache(maxsize=1)
def versions() -> str:
    """This package to the letter, and the releases of what it works with."""
    read = hashlib.sha256()
    for path in sorted(path for path in _PACKAGE.rglob("*") if path.suffix in _SUFFIXES):
        read.update(f"{path.relative_to(_PACKAGE)}\n".encode() + path.read_bytes())
    return " ".join([read.hexdigest(), *map(metadata.version, _PACKAGES)])


def pass_settings() -> str:
    """What the caller has set for all passes."""
    context = tvm.transform.PassContext.current()
    passes = sorted(map(str, context.required_pass)), sorted(map(str, context.disabled_pass))
    config = sorted((str(name), str(value)) for name, value in context.config.items())
    return f"{context.opt_level} {passes} {config}"
