"""The code blocks of README and the documentation: read, and run as a reader would run them.

A page's Python shares one namespace, its commands one folder, which holds a small model in every
format. A block of text after a block that ran shows what it prints; … stands for any characters,
and a line of … alone for any lines. A comment before a block says where it is not so:

    <!-- not run: needs a GPU -->       or another reason; this one is run where there is a GPU
    <!-- exits with 1 -->               of the last command

Where there is a GPU, figures may be others, and what stands below a heading "Without a GPU" prints
something else.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import tvm
from tvm import relax

from tvm_stitch.commands import cli

ROOT = Path(__file__).parents[2]
MADE = (ROOT / "docs/tutorials", ROOT / "docs/bench")  # by a build of the site
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if not set(MADE) & set(page.parents)
]
RUN = ("python", "sh")
FOR_GPUS, FOR_OTHERS = "needs a GPU", "Without a GPU"
_BLOCK = re.compile(
    r"^#+ (?P<heading>[^\n]*)$|"
    r"(?:^<!-- (?P<said>[^\n]*) -->\n)?"
    r"^(?P<fence>```+)(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$",
    re.M | re.S,
)


def masked_softmax(rows: int, columns: int) -> tvm.IRModule:
    """softmax(x + mask), the documents' example."""
    x = relax.Var("x", relax.TensorType((rows, columns), "float32"))
    mask = relax.Var("mask", relax.TensorType((columns,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, mask]):
        with builder.dataflow():
            masked = builder.emit(relax.op.add(x, mask))
            out = builder.emit_output(relax.op.nn.softmax(masked))
        builder.emit_func_output(out)
    return builder.get()


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int  # of the page
    said: str = ""  # in the comment before it
    section: str = ""  # the heading above it

    @property
    def reason(self) -> str:
        """Why it is not run; empty if it is."""
        return self.said.partition("not run: ")[2]

    @property
    def code(self) -> int:
        """What its last command exits with."""
        return int(self.said.partition("exits with ")[2] or 0)

    def runs(self, on_gpu: bool = False) -> bool:
        """Whether it is run on such a machine."""
        return self.language in RUN and self.reason in ("", FOR_GPUS if on_gpu else "")


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    section, found = "", []
    for each in _BLOCK.finditer(text):
        if each["heading"]:
            section = each["heading"]
            continue
        line = text.count("\n", 0, each.start("fence")) + 1
        language = each["language"].strip()
        found.append(Block(language, each["text"], line, each["said"] or "", section))
    return found


@dataclass
class Reader:
    """Somebody who runs a page from top to bottom, in the current folder."""

    page: Path
    on_gpu: bool = False
    names: dict[str, Any] = field(default_factory=dict)  # that the page takes for granted

    def __post_init__(self) -> None:
        # TVMScript asks for the module of a class, and for its source.
        module = ModuleType(f"page_{self.page.stem}")
        vars(module).update(self.names)
        sys.modules[module.__name__] = module
        self.names = vars(module)

    def read(self) -> None:
        """Run every block, and compare what it prints with what the page says."""
        printed: str | None = None
        for block in blocks(self.page):
            if block.runs(self.on_gpu):
                printed = self._output(block)
            elif block.language == "text" and printed is not None:
                if not self.on_gpu or block.section != FOR_OTHERS:
                    self._compare(block, printed)
                printed = None
            else:
                printed = None

    def _output(self, block: Block) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            if block.language == "python":
                file = Path(f"{self.page.stem}_line_{block.line}.py")
                file.write_text(block.text, encoding="utf-8")
                exec(compile(block.text, str(file), "exec"), self.names)
            else:
                commands = block.text.replace("\\\n", " ").splitlines()
                codes = [self._run(command) for command in commands if command.strip()]
                codes = [code for code in codes if code is not None]
                assert not any(codes[:-1]), self._at(block)
                assert codes[-1:] in ([], [block.code]), self._at(block)
        return out.getvalue()

    def _run(self, command: str) -> int | None:
        """A line of a shell: settings, a command, and where its output goes."""
        words = shlex.split(command, comments=True)
        settings = {}
        while words and re.match(r"[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            settings[name] = value
        if not words:
            return None
        if words[0] != "tvm-stitch":
            paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
            environment = {**os.environ, "PATH": os.pathsep.join(paths)}
            found = subprocess.run(
                command, shell=True, env=environment, stdout=subprocess.PIPE, text=True
            )
            print(found.stdout, end="")
            return found.returncode
        target = Path(words[words.index(">") + 1]) if ">" in words else None
        arguments = words[1 : words.index(">")] if target else words[1:]
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                code = cli.main(arguments)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        if target:
            target.write_text(out.getvalue(), encoding="utf-8")
        else:
            print(out.getvalue(), end="")
        return code

    def _compare(self, block: Block, printed: str) -> None:
        """Every line that the page shows is printed, in this order; spaces may differ."""
        said = "".join(
            r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
            for line in _lines(block.text)
        )
        if self.on_gpu:
            said = re.sub(r"\d+(\\\.\d+)?", r"[\\d.]+", said)
        found = "".join(f"{line}\n" for line in _lines(printed))
        assert re.search(f"^{said}", found, re.M), f"{self._at(block)} is not in:\n{printed}"

    def _at(self, block: Block) -> str:
        return f"{self.page.relative_to(ROOT)}, line {block.line}"


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.rstrip("\n").splitlines()]
