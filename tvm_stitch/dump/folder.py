"""Where the stages of a compilation are written: a numbered folder of its own.

In: the folder that the user named. Out: files in `FOLDER/0001`, `FOLDER/0002` and so on, one for
each compilation, whichever thread or process it runs in. Must not know what is written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tvm_stitch.errors import InputError
from tvm_stitch.options import Options

VARIABLE = "TVM_STITCH_DUMP"


def wanted(options: Options | None) -> Path | None:
    """The folder that the options name, or else the environment; None: nothing is written."""
    named = options.dump if options is not None and options.dump is not None else None
    given = named if named is not None else os.environ.get(VARIABLE) or None
    return None if given is None else Path(given)


def require_writable(options: Options | None) -> None:
    """InputError if stages are to be written where they cannot be."""
    root = wanted(options)
    if root is None:
        return
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(root, error) from None
    if not os.access(root, os.W_OK | os.X_OK):
        raise InputError(_message(root, "Permission denied"))


@dataclass(frozen=True)
class Folder:
    """The folder of one compilation."""

    path: Path

    @staticmethod
    def within(root: Path) -> Folder:
        """The next of a user's folder; nobody else gets the same."""
        try:
            root.mkdir(parents=True, exist_ok=True)
            taken = [int(each.name) for each in root.iterdir() if each.name.isdigit()]
            number = max(taken, default=0)
            while True:
                number += 1
                path = root / f"{number:04}"
                try:
                    path.mkdir()
                except FileExistsError:
                    continue
                return Folder(path)
        except OSError as error:
            raise _unwritable(root, error) from None

    def write(self, name: str, text: str) -> None:
        """One stage; what stands there of an earlier attempt is replaced."""
        path = self.path / name
        try:
            path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(_message(path, error.strerror or str(error)))


def _message(path: Path, why: str) -> str:
    return (
        f"cannot write the stages of the compilation to {path}: {why}; name another folder, by "
        f"--dump, {VARIABLE} or Options(dump=...)"
    )
