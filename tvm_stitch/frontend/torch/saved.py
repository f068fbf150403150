"""A program that torch.export.save wrote, read back.

In: a path. Out: the ExportedProgram, or an InputError that says why there is none.
"""

from __future__ import annotations

import logging
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch

from tvm_stitch.errors import InputError, first_line

# PyTorch logs this, and raises an error that only refers to its log.
_UNKNOWN_CLASS = re.compile(r"Deserializing ([\w.]+)\.(\w+) in pytree is not registered")


def read_program(path: str | Path) -> torch.export.ExportedProgram:
    """The program in a file.

    PyTorch knows a class that the program returns, such as transformers' outputs, only after the
    class's module was imported: that is done here.
    """
    imported: set[str] = set()
    while True:
        said: list[str] = []
        try:
            return _load(path, said)
        except Exception as error:
            unknown = _UNKNOWN_CLASS.search("\n".join([*said, str(error)]))
            if unknown is None:
                raise InputError(
                    f"{path} is no program saved by torch.export.save: {first_line(error)}"
                ) from None
        module, name = unknown.groups()
        package = module.partition(".")[0]
        if module in imported or find_spec(package) is None:
            raise InputError(
                f"{path} returns {module}.{name}, which PyTorch cannot read here: install "
                f"{package}, or export a model that returns tensors"
            )
        imported.add(module)
        import_module(module)


def _load(path: str | Path, said: list[str]) -> torch.export.ExportedProgram:
    """Load a file; what PyTorch logs meanwhile is kept, and not printed."""

    def keep(record: logging.LogRecord) -> bool:
        said.append(logging.Formatter().format(record))
        return False

    log = logging.getLogger("torch.export")
    log.addFilter(keep)
    try:
        return torch.export.load(path)
    finally:
        log.removeFilter(keep)
