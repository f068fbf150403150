"""``relay.load`` and ``relay.build``: the two doors of this package."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import tvm

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay.arrays import Parameters, load_params
from tvm_stitch.frontend.relay.ast import Module
from tvm_stitch.frontend.relay.convert import convert
from tvm_stitch.frontend.relay.formats.json_reader import read_json
from tvm_stitch.frontend.relay.formats.text import read_text
from tvm_stitch.frontend.relay.graph_module import GraphModule

_LONGEST_PATH = 4096
_TEXT_BEGINS = ("#[", "def ", "def@", "type ", "/*", "//")


def load(source: str | PathLike[str] | bytes, params: Parameters | None = None) -> tvm.IRModule:
    """A saved Relay module as a Relax module.

    ``source`` is a file's path or its text: JSON that ``tvm.ir.save_json`` wrote (TVM 0.7 to 0.19)
    or Relay's text format. ``params`` are arrays by name, or the path or bytes of a file that
    ``relay.save_param_dict`` wrote; they become constants and the rest of ``main``'s parameters
    stay inputs.
    """
    arrays = None if params is None else load_params(params)
    return convert(_read(source), arrays)


def is_relay(text: str) -> bool:
    """Whether a text looks like what Relay saved: its text format, or JSON of its objects."""
    if text[:1024].lstrip().startswith(("#[version", "def @")):
        return True
    return '"type_key"' in text and '"relay.' in text


def build(
    mod: Any,
    target: Any = "llvm",
    params: Parameters | None = None,
    options: Any = None,
    database: Any = None,
) -> GraphModule:
    """Compile a saved Relay module, or a Relax module that ``load`` made of one.

    With target "llvm" TVM's default pipeline compiles it; with "cuda" it is stitched, by
    ``options`` and with the tuning records of ``database``.
    """
    if isinstance(mod, tvm.IRModule):
        if params is not None:
            mod = tvm.relax.transform.BindParams("main", load_params(params))(mod)
    else:
        mod = load(mod, params)
    try:
        compiled_for = tvm.target.Target(target)
    except Exception as error:
        raise RelayError(f"target {target!r} is not known to TVM") from error
    if str(compiled_for.kind) == "cuda":
        # Here, so that reading modules does not need the compiler.
        from tvm_stitch.build import compile as stitch

        library = stitch(mod, target, options=options, database=database)
        return GraphModule(library, tvm.cuda())
    if options is not None or database is not None:
        raise RelayError(f"options and database are for target cuda, not {compiled_for.kind}")
    return GraphModule(tvm.compile(mod, target=compiled_for))


def _read(source: Any) -> Module:
    text, name = _text(source)
    start = text[:1024].lstrip()
    if start.startswith("{"):
        return read_json(text, name)
    if start.startswith(_TEXT_BEGINS):
        return read_text(text, name)
    raise RelayError(
        f"{name} is neither tvm.ir.save_json's JSON (which begins with {{) nor Relay's text format "
        '(which begins with #[version = "0.0.5"])'
    )


def _text(source: Any) -> tuple[str, str]:
    """The text to read, and what to call it."""
    if isinstance(source, (bytes, bytearray)):
        return _decoded(bytes(source), "the given bytes"), "the given bytes"
    if isinstance(source, str):
        start = source[:1024].lstrip()
        is_path = "\n" not in source and len(source) <= _LONGEST_PATH
        if not is_path or start.startswith(("{", *_TEXT_BEGINS[:-1])):
            return source, "the given text"
    elif not isinstance(source, PathLike):
        raise RelayError(
            "a saved Relay module is a path, a text or bytes, not " + type(source).__name__
        )
    path = Path(source)
    try:
        return _decoded(path.read_bytes(), str(path)), str(path)
    except OSError as error:
        raise RelayError(f"{path} cannot be read: {error.strerror}") from error


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RelayError(
            f"{name} is not text (byte {error.start}); a compiled library or a parameter file "
            "cannot be loaded as a module"
        ) from None
