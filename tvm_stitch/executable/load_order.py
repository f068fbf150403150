"""Whether kernels that begin with a wait do so in machine code, where ptxas has moved loads.

In: CUDA source, and what it was compiled to. Out: the kernels that may access global memory before
they have waited for the grids in front. ptxas takes what is loaded by a restricted pointer that its
kernel only reads as invariant: no asm keeps such a load behind it, be it volatile or clobber
memory. CUDA 13.0 moved them where branches stood before the wait, for every GPU tried from 9.0 to
12.0, and none where the wait came first or nothing was restricted. Kernels that wait elsewhere are
their authors': they may load before. Knows nothing of who compiles.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

# What was kept is used as long as this stays: raise it with what `early` accepts.
VERSION = "1"

_WAITS = "tvm_builtin_ptx_griddepcontrol_wait();"  # as TVM writes it
# A kernel whose wait nothing stands before but what declares memory.
_WAITS_FIRST = re.compile(
    r'^extern "C" __global__ void (?:\w+\([^()\n]*\) )*(\w+)\([^()\n]*\) \{\s*'
    r"(?:(?:extern )?(?:__shared__ )?(?:__align__|alignas)\(\d+\) [\w ]+ \w+\[\d*\];\s*)*"
    + re.escape(_WAITS),
    re.MULTILINE,
)
_SECTION = b".text."
_ELF = b"\x7fELF\x02\x01"  # of 64 bits, little endian
_FATBIN = b"\x50\xed\x55\xba"
_CUBIN = 2  # kind of a fatbin's entry; PTX is 1

# An instruction has 16 bytes. The lowest 9 bits say which it is, and 3 more the form of operands.
_WAIT = 0x02E  # ACQBULK
_ACCESSES = frozenset((
    0x180, 0x181, 0x17E, 0x1A5,  # LD, LDG, LDG of 256 bits, LDGMC
    0x185, 0x186, 0x17F,  # ST, STG, STG of 256 bits
    0x18A, 0x1A8, 0x1A9, 0x18E, 0x1A6,  # ATOM, ATOMG, its compare and swap, RED, by multimem
    0x1AE, 0x1BA, 0x1BB,  # LDGSTS, UBLKCP, UBLKRED
    0x1B4, 0x1B5, 0x1B6,  # UTMALDG, UTMASTG, UTMAREDG
))  # fmt: skip
# CALL, BRA, BRX, RET, BRXU: what they lead to is not followed.
_JUMPS = frozenset((0x143, 0x144, 0x147, 0x149, 0x150, 0x158))


def waiting(source: str) -> list[str]:
    """The kernels of a source that wait before anything else."""
    return _WAITS_FIRST.findall(source) if _WAITS in source else []


def early(code: bytes, kernels: Sequence[str]) -> list[str] | None:
    """Those of these kernels that may access global memory before they wait.

    None if nobody knows: the code is no cubin, nor a fatbin of cubins, or has no such waits.
    """
    try:
        texts = [_texts(cubin) for cubin in _cubins(bytes(code))]
        found = {name for text in texts for name in kernels if _is_early(text[name])}
    except (struct.error, KeyError, ValueError):
        return None
    return sorted(found) if texts else None


def _is_early(text: memoryview) -> bool:
    for (word,) in struct.iter_unpack("<Q8x", text):
        operation = word & 0x1FF
        if operation == _WAIT:
            return False
        if operation in _ACCESSES or operation in _JUMPS:
            return True
    raise ValueError("a kernel without a wait")


def _cubins(code: bytes) -> Iterator[memoryview]:
    """The code by itself, or what a fatbin has of it for each GPU."""
    view = memoryview(code)
    if not code.startswith(_FATBIN):
        yield view
        return
    (at,) = struct.unpack_from("<H", code, 6)
    while at < len(code):
        kind, header, size = struct.unpack_from("<H2xIQ", code, at)
        if kind != _CUBIN:
            raise ValueError("what the driver compiles")
        yield view[at + header : at + header + size]
        at += header + size


def _texts(cubin: memoryview) -> dict[str, memoryview]:
    """The instructions of each function, by its name."""
    if bytes(cubin[: len(_ELF)]) != _ELF:
        raise ValueError("compressed, or something else")
    (sections,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, titles = struct.unpack_from("<HHH", cubin, 0x3A)
    heads = [struct.unpack_from("<I20xQQ", cubin, sections + size * n) for n in range(count)]
    parts = [cubin[start : start + length] for _title, start, length in heads]
    names = bytes(parts[titles])
    found = {}
    for (title, *_), part in zip(heads, parts, strict=True):
        name = names[title : names.index(b"\0", title)]
        if name.startswith(_SECTION):
            found[name.removeprefix(_SECTION).decode()] = part
    return found
