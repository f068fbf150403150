"""Program counters in, lines of the CUDA source out: by addr2line, when a report needs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path


class SourceLines:
    """The source lines of some program counters of a loaded object."""

    def __init__(self, library: Path, base: int, counters: Iterable[int]) -> None:
        self._base = base
        addresses = tuple(sorted({self._address(pc) for pc in counters if pc}))
        self._chains = dict(zip(addresses, _chains(str(library), addresses), strict=True))

    def _address(self, counter: int) -> int:
        # Hooks see return addresses; one byte before lies the call.
        return counter - self._base - 1

    def chain(self, counter: int) -> tuple[int, ...]:
        """The line, then those it was inlined into."""
        return self._chains.get(self._address(counter), ()) if counter else ()

    def line(self, counter: int) -> int:
        """The line; 0 if it is not known."""
        chain = self.chain(counter)
        return chain[0] if chain else 0

    def caller(self, counter: int) -> int:
        """The line of the kernel that a line of an inlined function belongs to; 0 without one."""
        chain = self.chain(counter)
        return chain[-1] if len(chain) > 1 else 0


@lru_cache(maxsize=256)
def _chains(library: str, addresses: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    if not addresses:
        return ()
    command = ["addr2line", "-i", "-a", "-e", library, *(hex(a) for a in addresses)]
    try:
        output = subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:  # without binutils hazards lack their lines
        output = ""
    chains: list[list[int]] = []
    for text in output.splitlines():
        if text.startswith("0x"):
            chains.append([])
        elif os.path.basename(text.split(":")[0]) == "kernel.cu":
            number = text.rsplit(":", 1)[1].split()[0]
            chains[-1].append(int(number) if number.isdigit() else 0)
    if len(chains) != len(addresses):
        return ((),) * len(addresses)
    return tuple(tuple(chain) for chain in chains)
