"""The table of operators: every core operator is in it, once, and the document says the same."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.frontend.torch import operator_name  # noqa: E402
from tvm_stitch.frontend.torch.decompositions import decompositions  # noqa: E402
from tvm_stitch.frontend.torch.ops import FAMILIES, LEFT, OPERATORS  # noqa: E402
from tvm_stitch.frontend.torch.table import table  # noqa: E402

# Of sizes, which are no tensors.
OF_SIZES = {"sym_numel", "sym_size.int", "sym_storage_offset", "sym_stride.int"}


def core_operators():
    schemas = (s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::"))
    overloads = (
        getattr(
            getattr(torch.ops.aten, s.name.removeprefix("aten::")), s.overload_name or "default"
        )
        for s in schemas
        # Those that write into their operands AOTAutograd makes functional.
        if not s.name.endswith("_") and not s.overload_name.endswith("out")
    )
    return [each for each in overloads if torch.Tag.core in each.tags]


def test_every_core_operator_is_in_the_table():
    written_out = {operator_name(op) for op in decompositions()}
    missing = {
        name
        for name in map(operator_name, core_operators())
        if name not in {*OPERATORS, *LEFT, *written_out, *OF_SIZES}
    }
    assert not missing


def test_no_operator_is_there_twice():
    assert len(OPERATORS) == sum(map(len, FAMILIES.values()))
    assert not OPERATORS.keys() & LEFT.keys()


def test_the_document_is_the_table():
    path = Path(__file__).parents[3] / "tvm_stitch" / "frontend" / "torch" / "OPERATORS.md"
    assert path.read_text(encoding="utf-8") == table()
