"""What ARCHITECTURE.md says is so: its files and rooms exist, its example is what comes out."""

import re
import textwrap
from pathlib import Path

import tvm
from check import program_of, schedule_of, the_kernel
from test_arrows import KERNEL
from tvm import relax

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def example() -> tvm.IRModule:
    """softmax(x + mask)"""
    x = relax.Var("x", relax.TensorType((128, 1024), "float32"))
    mask = relax.Var("mask", relax.TensorType((1024,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, mask]):
        with builder.dataflow():
            masked = builder.emit(relax.op.add(x, mask))
            out = builder.emit_output(relax.op.nn.softmax(masked))
        builder.emit_func_output(out)
    return builder.get()


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
    assert textwrap.dedent(program).strip() == str(program_of(example()))
    mapping = schedule_of(the_kernel(example())).parts[0]
    (fields,) = re.findall(r"`(\"kind\":[^`]*)`", TEXT.replace("\n   ", " "))
    for name, value in re.findall(r'"(\w+)": "?(\w+)', fields):
        assert str(getattr(mapping, name)) == value
