"""What ARCHITECTURE.md says is so: its files and rooms exist, its example is what comes out."""

import re
import textwrap

from check import program_of, schedule_of, the_kernel
from documents import masked_softmax
from rooms import KERNEL, ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_files_exist():
    found = re.findall(r"`((?:kernel|graph|plan|tuning)/[\w/]+(?:\.py)?)/?`", TEXT)
    assert len(found) > 30
    for path in found:
        assert (ROOT / "tvm_stitch" / path).exists(), path


def test_every_room_is_described():
    for room in (room.removeprefix("kernel.") for line in KERNEL for room in line):
        assert re.search(rf"\b{room}\b", TEXT), room


def test_the_questions_are_thirteen():
    table = TEXT.split("## Thirteen questions")[1].split("##")[0]
    assert len(re.findall(r"^\| (?!Where|---)", table, re.M)) == 13


def test_the_example_is_what_comes_out():
    (program,) = re.findall(r"```\n(   program over .*?)```", TEXT, re.S)
    assert textwrap.dedent(program).strip() == str(program_of(masked_softmax(128, 1024)))
    mapping = schedule_of(the_kernel(masked_softmax(128, 1024))).parts[0]
    (fields,) = re.findall(r"`(\"kind\":[^`]*)`", TEXT.replace("\n   ", " "))
    for name, value in re.findall(r'"(\w+)": "?(\w+)', fields):
        assert str(getattr(mapping, name)) == value
