"""Relay's text format as tokens.

In: text. Out: a list of tokens with their line and column, and where the metadata section begins.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from tvm_stitch.errors import RelayError

_METADATA = "#[metadata]"

# The order matters: the first alternative that fits is taken.
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<comment>/\*)
  | (?P<local>%[A-Za-z_][\w]*(?:\.[\w]+)*|%\d+)
  | (?P<global>@[A-Za-z_][\w.:/]*)
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:(?:bf|f|i|u)\d*)?)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
  | (?P<mark>->|=>|==|!=|<=|>=|\#\[|[()\[\]{}<>,;:=.+\-*/?&!])
    """,
    re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Token:
    """One token: its kind, its text and where it stands."""

    kind: str
    text: str
    offset: int


class Source:
    """A text with its name, which turns offsets into places that a reader can find."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self._line_starts: list[int] | None = None

    def place(self, offset: int) -> str:
        """``line 3, column 7``."""
        if self._line_starts is None:
            self._line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._line_starts, offset)
        return f"line {line}, column {offset - self._line_starts[line - 1] + 1}"

    def error(self, offset: int, message: str) -> RelayError:
        """An error that names this source and the place."""
        return RelayError(f"{self.name}, {self.place(offset)}: {message}")


def _end_of_comment(source: Source, start: int) -> int:
    """Where the comment that opens at ``start`` ends; comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(source.text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise source.error(start, "this comment is never closed")


def tokenize(source: Source) -> tuple[list[Token], int | None]:
    """The tokens before the metadata section, and the offset where its JSON begins, if any."""
    text, tokens, position = source.text, [], 0
    while position < len(text):
        if text.startswith(_METADATA, position):
            tokens.append(Token("end", "the metadata section", position))
            return tokens, position + len(_METADATA)
        match = _TOKEN.match(text, position)
        if match is None:
            found = "a string that is never closed" if text[position] == '"' else text[position]
            raise source.error(position, f"{found} is no part of Relay's text format")
        kind = match.lastgroup or ""
        if kind == "comment":
            position = _end_of_comment(source, position)
            continue
        if kind != "space":
            tokens.append(Token(kind, match.group(), position))
        position = match.end()
    tokens.append(Token("end", "the end of the text", position))
    return tokens, None


class Cursor:
    """A place among tokens, and the means to move on."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.at = 0

    @property
    def token(self) -> Token:
        """The token to read next."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Take the next token; the last one stays."""
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def sees(self, text: str, ahead: int = 0) -> bool:
        """Whether a mark or word comes next (or so far ahead)."""
        token = self.tokens[min(self.at + ahead, len(self.tokens) - 1)]
        return token.text == text and token.kind not in ("string", "end")

    def accept(self, text: str) -> bool:
        """Take a mark or word if it comes next."""
        if self.sees(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        """Take a mark or word that has to come next."""
        if not self.sees(text):
            raise self.error(f"expected {text!r}, found {self.token.text!r}")
        return self.next()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Take a token of a kind that has to come next."""
        if self.token.kind != kind:
            raise self.error(f"expected {what}, found {self.token.text!r}")
        return self.next()

    def error(self, message: str, token: Token | None = None) -> RelayError:
        """An error at a token, or at the next one."""
        return self.source.error((token or self.token).offset, message)

    def skip_block(self) -> bool:
        """Go behind the next block in braces; False if it is not closed."""
        depth = 0
        while self.token.kind != "end":
            text = self.next().text
            depth += {"{": 1, "}": -1}.get(text, 0)
            if text == "}" and depth == 0:
                return True
        return False

    def place(self, token: Token) -> str:
        """Where a token stands."""
        return self.source.place(token.offset)
