"""What a terminal gets: colours, and none elsewhere."""

import io
import re

from tvm_stitch.commands.terminal import coloured

TEXT = """\
before  TVM's default pipeline

1  stitched_add_kernel
   why  before

Left to TVM:
+ a
- b
~ c
ok"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured(TEXT, io.StringIO()) == TEXT
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured(TEXT, Terminal()) == TEXT


def test_headings_kernels_and_verdicts_are_coloured(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = coloured(TEXT, Terminal())
    found = re.findall(r"\033\[(\d+)m(.*?)\033\[0m", text)
    assert found == [
        ("1", "before"), ("1", "1  stitched_add_kernel"), ("1", "Left to TVM:"),
        ("32", "+ a"), ("31", "- b"), ("33", "~ c"), ("32", "ok"),
    ]  # fmt: skip
    assert re.sub(r"\033\[\d+m", "", text) == TEXT
