"""What TVM asks of NVRTC, seen and changed before it is done.

TVM has no way to give NVRTC headers, nor to learn what it would ask of it: it writes the options,
and calls the library, in one function. Its calls go through here, of the threads that want it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple


class Program(NamedTuple):
    """What NVRTC compiles: a source, the headers that it is made with, and options."""

    source: bytes
    name: bytes
    texts: list[bytes]
    names: list[bytes]
    options: list[bytes]


class _Asked(Exception):
    """A program was all that somebody wanted to know."""


_headers: ContextVar[Mapping[str, str]] = ContextVar("headers")
_programs: ContextVar[list[Program] | None] = ContextVar("programs", default=None)


@contextmanager
def with_headers(headers: Mapping[str, str]) -> Iterator[bool]:
    """Meanwhile programs of this thread find these first; whether NVRTC is there at all."""
    token = _headers.set(headers)
    try:
        yield is_seen()
    finally:
        _headers.reset(token)


def program_of(compile_: Callable[[str], Any], code: str) -> Program | None:
    """What this function of TVM's would have NVRTC compile; None if it asks somebody else."""
    if not is_seen():
        return None
    programs: list[Program] = []
    token = _programs.set(programs)
    try:
        compile_(code)
    except Exception:  # what is wrong with the source, NVRTC says when it compiles it
        return programs[-1] if programs and programs[-1].options else None
    finally:
        _programs.reset(token)
    return None


@cache
def is_seen() -> bool:
    """Whether NVRTC is here; its calls go through here from now on."""
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        return False
    create, compile_ = nvrtc.nvrtcCreateProgram, nvrtc.nvrtcCompileProgram

    def created(source: bytes, name: bytes, count: int, texts: Any, names: Any) -> Any:
        headers = _headers.get({})
        if headers and not count:
            texts = [text.encode() for text in headers.values()]
            names = [each.encode() for each in headers]
            count = len(names)
        programs = _programs.get()
        if programs is None:
            return create(source, name, count, texts, names)
        programs.append(Program(source, name, list(texts or ()), list(names or ()), []))
        return nvrtc.nvrtcResult.NVRTC_SUCCESS, None

    def compiled(program: Any, count: int, options: list[bytes]) -> Any:
        programs = _programs.get()
        if programs is None:
            return compile_(program, count, options)
        programs[-1].options.extend(options)
        raise _Asked

    nvrtc.nvrtcCreateProgram, nvrtc.nvrtcCompileProgram = created, compiled
    return True
