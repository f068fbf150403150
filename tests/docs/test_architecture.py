"""What ARCHITECTURE.md says is so: its files and rooms exist, its example is what comes out."""

import re
import textwrap

from check import program_of, schedule_of, the_kernel
from documents import masked_softmax
from rooms import KERNEL, ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
EXTENDING = (ROOT / "docs/concepts/extending.md").read_text(encoding="utf-8")


def test_the_files_exist():
    rooms = "|".join(path.name for path in (ROOT / "tvm_stitch").iterdir() if path.is_dir())
    found = re.findall(rf"`((?:{rooms})/[\w/]+(?:\.py)?)/?`", TEXT + EXTENDING)
    assert len(found) > 60
    for path in found:
        assert (ROOT / "tvm_stitch" / path).exists(), path


def test_every_room_is_described():
    for room in (room.removeprefix("kernel.") for line in KERNEL for room in line):
        assert re.search(rf"\b{room}\b", TEXT), room


# Of each question, what is written in the file that answers it and in no other of these rooms.
ANSWERS = {
    "threads a row": ("kernel/rows/choose.py", "def row_mappings("),
    "barrier are resident": ("kernel/codegen/footprint.py", "def blocks_per_sm("),
    "wide vector loads": ("kernel/rows/vector_width.py", "def vectors_of_rows("),
    "warps multiply": ("kernel/tensor_core/wgmma.py", "wgmma.mma_async"),
    "online softmax": ("kernel/analysis/online_reduction.py", "def apply_online("),
    "reversed traversal": ("graph/back/reverse_blocks.py", "def reverse_blocks("),
    "bank conflicts": ("kernel/tensor_core/smem_swizzle.py", "def _swizzled("),
    "asynchronous copies": ("kernel/rows/emit_async_copy.py", "def start_copies("),
    "length known at run time": ("kernel/codegen/length_dispatch.py", "def dispatch("),
    "computed again": ("kernel/analysis/keep_or_recompute.py", "def plan_phases("),
    "shuffles": ("kernel/codegen/warp_shuffle.py", "__shfl_xor_sync"),
    "budget of shared memory": ("kernel/footprint.py", "def footprint_of("),
}


def test_twelve_questions_are_answered_by_a_file_each():
    table = TEXT.split("## Twelve questions")[1].split("##")[0]
    asked = [row for row in table.splitlines() if re.match(r"\| (?!Where)", row)]
    rooms = [
        *(ROOT / "tvm_stitch/kernel").rglob("*.py"),
        *(ROOT / "tvm_stitch/graph").rglob("*.py"),
    ]
    sources = {str(p.relative_to(ROOT / "tvm_stitch")): p.read_text("utf-8") for p in rooms}
    assert len(asked) == len(ANSWERS) == 12
    for row, (question, (file, written)) in zip(asked, ANSWERS.items(), strict=True):
        assert question in row and f"`{file}`" in row
        assert [path for path, source in sources.items() if written in source] == [file]


def test_it_is_two_pages():
    assert len(TEXT.splitlines()) <= 150


def test_the_example_is_what_comes_out():
    (program,) = re.findall(r"```\n(   program over .*?)```", TEXT, re.S)
    assert textwrap.dedent(program).strip() == str(program_of(masked_softmax(128, 1024)))
    mapping = schedule_of(the_kernel(masked_softmax(128, 1024))).parts[0]
    (fields,) = re.findall(r"`(\"kind\":[^`]*)`", TEXT.replace("\n   ", " "))
    for name, value in re.findall(r'"(\w+)": "?(\w+)', fields):
        assert str(getattr(mapping, name)) == value
