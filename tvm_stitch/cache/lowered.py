"""Relax modules as a pipeline leaves them, by what went into it.

In: a module, and all else that the pipeline's work depends on, as text. Out: what the pipeline
makes of it, from the Store if it is kept there. Large constants, such as weights, count by their
hash and are not written: those that come out as they went in are put in again.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm_ffi.serialization import from_json_graph_str

from tvm_stitch.cache.store import Store
from tvm_stitch.cache.versions import versions

KIND = "modules"
# Bytes of a constant that is no part of the text.
LARGE = 1 << 12
# Stands where a large constant was, before its number; no shape begins with it.
_PLACE = -0x57171C4


def lowered(
    mod: tvm.IRModule,
    made_of: Sequence[str],
    lower: Callable[[tvm.IRModule], tvm.IRModule],
    store: Store,
    is_final: Callable[[], bool] = lambda: True,
) -> tvm.IRModule:
    """What `lower` makes of a module; kept only if, once it is made, it is final."""
    large = _Large()
    text = large.taken_out_of(mod, is_input=True)
    key = json.dumps([versions(), *made_of, large.hashes, text])
    made: list[tvm.IRModule] = []

    def make() -> bytes | None:
        made.append(lower(mod))
        return zlib.compress(large.taken_out_of(made[0]).encode(), 1) if is_final() else None

    kept = store.made(f"{KIND}/{hashlib.sha256(key.encode()).hexdigest()}", make)
    if made or kept is None:
        return made[0]
    return large.put_into(zlib.decompress(kept).decode())


class _Large:
    """The large constants of a module that is lowered, by number."""

    def __init__(self) -> None:
        self.hashes: list[str] = []
        self._tensors: list[Any] = []
        self._numbers: dict[str, int] = {}  # by hash
        # By address and form: while a module is lowered nothing moves.
        self._hashed: dict[tuple[int, str], str] = {}

    def taken_out_of(self, mod: tvm.IRModule, is_input: bool = False) -> str:
        """A module as text, in which a number stands for a constant of the input."""

        def numbered(constant: tvm.ir.GenericConst) -> tvm.ir.GenericConst:
            tensor = constant.value
            if not isinstance(tensor, tvm_ffi.Tensor) or _bytes(tensor) < LARGE:
                return constant
            digest = self._hash(tensor)
            if is_input and digest not in self._numbers:
                self._numbers[digest] = len(self._tensors)
                self._tensors.append(tensor)
                self.hashes.append(digest)
            if digest not in self._numbers:  # folded: it is in no input
                return constant
            place = tvm_ffi.Shape([_PLACE, self._numbers[digest]])
            return tvm.ir.GenericConst(place, constant.ty, constant.span)

        return tvm.ir.save_json(_mapped(mod, numbered))

    def put_into(self, text: str) -> tvm.IRModule:
        """The module of a text, with the constants in their places."""

        def restored(constant: tvm.ir.GenericConst) -> tvm.ir.GenericConst:
            place = constant.value
            if not isinstance(place, tvm_ffi.Shape) or tuple(place[:1]) != (_PLACE,):
                return constant
            return tvm.ir.GenericConst(self._tensors[place[1]], constant.ty, constant.span)

        # tvm.ir.load_json looks for older releases' modules first, in Python; here is none.
        return _mapped(from_json_graph_str(text), restored)

    def _hash(self, tensor: Any) -> str:
        form = f"{tensor.dtype} {tuple(tensor.shape)} "
        key = tensor.data_ptr(), form  # views of one tensor begin where it does
        if key not in self._hashed:
            self._hashed[key] = form + hashlib.sha256(tensor.numpy()).hexdigest()
        return self._hashed[key]


def _mapped(mod: tvm.IRModule, of_constant: Callable[[Any], Any]) -> tvm.IRModule:
    return tvm_ffi.structural_map(mod, ((tvm.ir.GenericConst, of_constant),))


def _bytes(tensor: Any) -> int:
    return math.prod(tensor.shape) * tensor.dtype.itemsize
