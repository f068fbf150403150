"""TVM imported in half the time, where this package is the first to import it.

Whatever fails in TVM's C++ has a stack with the lines of the source. The first one takes 0.65
seconds, as the symbols of all libraries are read for it, PyTorch's among them; importing TVM has
113 that it drops at once. Meanwhile those questions are answered here. Global functions are listed
once and not for each of 50 modules, and nothing looks for garbage among what has just been made.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from tvm_ffi import get_global_func, registry

# Needs a library that TVM loads later: the attempt fails, and is meant to.
ABSENT = "tvm.runtime.disco"
_API = "tvm.ir._ffi_api"
_GET, _SET = "ir.GetOp", "ir.RegisterOpAttr"
# The one attribute that TVM's C++ has given a value of the same level.
_IS_SET = "tirx.s_tir.ldg32", "TScriptPrinterName"


@contextmanager
def quick_import() -> Iterator[None]:
    """Meanwhile what importing TVM asks in vain is not asked, unless it is imported already."""
    if "tvm" in sys.modules:
        yield
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        with (
            mock.patch.object(registry, "list_global_func_names", _listed_once()),
            mock.patch.object(registry, "get_global_func", _answered()),
        ):
            sys.modules[ABSENT] = None  # type: ignore[assignment]  # cannot be imported
            yield
    finally:
        del sys.modules[ABSENT]
        if collects:
            gc.enable()
        for name in (_GET, _SET):
            if _API in sys.modules:
                setattr(sys.modules[_API], name.removeprefix("ir."), get_global_func(name))


def _listed_once() -> Callable[[], list[str]]:
    """The names of global functions, listed anew where there are more."""
    usual = registry.list_global_func_names
    count, found = -1, []

    def names() -> list[str]:
        nonlocal count, found
        now = get_global_func("ffi.FunctionListGlobalNamesFunctor")()(-1)
        if now != count:
            count, found = now, usual()
        return found

    return names


def _answered() -> Callable[..., Any]:
    """Global functions; the two that fail while TVM is imported fail in Python."""
    known: set[str] = set()

    def of_operator(name: str) -> Any:
        if name not in known:
            known.update(map(str, get_global_func("ir.ListOpNames")()))
        if name not in known:
            raise AttributeError(f"TVM has no operator {name}")
        return get_global_func(_GET)(name)

    def set_attribute(operator: str, attribute: str, *value: Any) -> Any:
        if (operator, attribute) == _IS_SET:
            raise AttributeError(f"{attribute} of {operator} has a value")
        return get_global_func(_SET)(operator, attribute, *value)

    mine = {_GET: of_operator, _SET: set_attribute}

    def found(name: str, allow_missing: bool = False) -> Any:
        return mine.get(name) or get_global_func(name, allow_missing)

    return found
