"""What later processes need of an executable that they shall not compile: it can be pickled.

In: the instructions of a virtual machine, and the names of the libraries that a Store has for it.
Out: the executable, if they are still there. Must not know what either was compiled from.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import relax

from tvm_stitch.cache.store import Store
from tvm_stitch.executable import shared_object
from tvm_stitch.library import shim

_LOAD = "ffi.Module.load_from_bytes.relax.VMExecutable"


@dataclass(frozen=True)
class KeptExecutable:
    """The instructions, and the libraries whose functions they call."""

    instructions: bytes
    libraries: tuple[str, ...]
    calls_libraries: bool

    def linked(self, store: Store) -> relax.VMExecutable | None:
        """The executable, which cannot be exported; None if what it calls is no longer there."""
        if self.calls_libraries and shim.failure() is not None:
            return None
        machine = tvm.get_global_func(_LOAD)(self.instructions)
        for name in self.libraries:
            library = shared_object.kept(name, store)
            if library is None:
                return None
            machine.import_module(library)
        return relax.VMExecutable(machine)


def instructions_of(machine: relax.VMExecutable) -> bytes:
    """Those of an executable that nothing is linked to yet, as they are loaded again."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "instructions")
        machine.mod.write_to_file(str(file))
        return file.read_bytes()
