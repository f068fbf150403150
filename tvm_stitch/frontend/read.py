"""A file of any kind that holds a model, as a Relax module: what it is, its content tells.

In: a path. Out: the module, or an InputError that says what the file is not. Must not know what
becomes of the module.
"""

from __future__ import annotations

import ast
import json
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import tvm

from tvm_stitch.errors import InputError, first_line, last_line
from tvm_stitch.frontend.relay import is_relay
from tvm_stitch.frontend.relay import load as load_relay

KINDS = (
    "an ONNX model (.onnx), a program saved by torch.export.save (.pt2), a Relax module saved by "
    "tvm.ir.save_json or as TVMScript (.py), a module saved by Relay"
)
_JSON_KIND = "a Relax module saved by tvm.ir.save_json"
# How a ModelProto begins: with the field ir_version.
_ONNX_BEGINS = b"\x08"
_DECORATORS = ("ir_module", "function", "prim_func")


def read(path: str) -> tvm.IRModule:
    """The model in a file as a Relax module."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; a model is {KINDS}") from None
    if zipfile.is_zipfile(path):
        return _exported(path)
    if content.startswith(_ONNX_BEGINS) or Path(path).suffix == ".onnx":
        return _onnx(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text, and no model: expected {KINDS}") from None
    if is_relay(text):
        return load_relay(path)
    if text.lstrip().startswith(("{", "[")):
        return _json(path, text)
    module = _script(path, text)
    if module is None:
        raise InputError(f"{path} holds no model: expected {KINDS}; {_JSON_KIND} begins with {{")
    return module


def _exported(path: str) -> tvm.IRModule:
    from tvm_stitch import torch as front  # first: it says what to install

    saved = import_module("tvm_stitch.frontend.torch.saved")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch, about itself
        return front.load(saved.read_program(path))


def _onnx(path: str) -> tvm.IRModule:
    from tvm_stitch import onnx as front

    loading = import_module("tvm_stitch.frontend.onnx.load")
    try:
        return front.load(path)
    except loading.NoOnnxModel as error:
        raise InputError(f"{error}; expected {KINDS}") from None


def _json(path: str, text: str) -> tvm.IRModule:
    try:
        mod = tvm.ir.load_json(text)
    except Exception as error:
        if _is_report(text):
            raise InputError(
                f"{path} is a report or a profile, no model: `tvm-stitch diff OLD NEW` compares two"
            ) from None
        raise InputError(
            f"{path} is not {_JSON_KIND} (with TVM {tvm.__version__}): {first_line(error)}"
        ) from None
    if not isinstance(mod, tvm.IRModule):
        raise InputError(f"{path} holds a {type(mod).__name__}, not {_JSON_KIND}")
    return mod


def _is_report(text: str) -> bool:
    """Whether this is what `explain --json` or `profile --json` wrote."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and {"version", "device", "kernels"} <= data.keys()


def _script(path: str, text: str) -> tvm.IRModule | None:
    """TVMScript in a text, which is not run as a program; None if there is none."""
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    found = [each for each in statements if _is_script(each)]
    if not found:
        return None
    if len(found) > 1:
        raise InputError(f"{path} holds {len(found)} definitions in TVMScript: leave one there")
    # Constants come as JSON in a variable of this name.
    constants = next(filter(None, map(_metadata, statements)), None)
    first = _first_line(found[0]) - 1
    lines = [""] * first + text.splitlines()[first : found[0].end_lineno]  # numbered as in the file
    try:
        known = {"metadata": tvm.ir.load_json(constants)} if constants else {}
        with _called(path):
            parsed = tvm.script.from_source("\n".join(lines), {**_names(), **known})
    except Exception as error:
        raise InputError(f"{path} is TVMScript that TVM cannot read: {last_line(error)}") from None
    return parsed if isinstance(parsed, tvm.IRModule) else tvm.IRModule({"main": parsed})


@contextmanager
def _called(path: str) -> Iterator[None]:
    """Meanwhile the places of a text that TVM parses are in this file: it has no way to say so."""
    from tvm.script.parser.core import entry

    class Named(entry.Source):
        def __init__(self, program: Any) -> None:
            super().__init__(program)
            self.source_name = path

    known = entry.Source
    entry.Source = Named
    try:
        yield
    finally:
        entry.Source = known


def _is_script(statement: ast.stmt) -> bool:
    if not isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
        return False
    names = [ast.unparse(each).split("(")[0].split(".")[-1] for each in statement.decorator_list]
    return any(name in _DECORATORS for name in names)


def _first_line(statement: ast.stmt) -> int:
    assert isinstance(statement, (ast.ClassDef, ast.FunctionDef))
    return min(each.lineno for each in statement.decorator_list)


def _metadata(statement: ast.stmt) -> str | None:
    """The JSON in `metadata = tvm.ir.load_json("...")`."""
    if not isinstance(statement, ast.Assign) or ast.unparse(statement.targets[0]) != "metadata":
        return None
    value = statement.value
    text = value.args[0] if isinstance(value, ast.Call) and value.args else None
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else None


def _names() -> dict[str, object]:
    """What TVMScript calls its dialects."""
    from tvm.script import ir, relax, tirx

    return {"I": ir, "R": relax, "T": tirx, "tvm": tvm}
