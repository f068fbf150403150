"""Every operator that is read has a case in Relay's text format, checked against NumPy."""

import re
from pathlib import Path

import pytest
import tvm_ffi
from relay.all_cases import GENERATORS
from relay.case import Random, check, write
from relay.saving import saved_json

import tvm_stitch.frontend.relay as frontend
from tvm_stitch import relay
from tvm_stitch.frontend.relay.ops import FAMILIES, OPERATORS, REFUSED

_TABLE = Path(frontend.__file__).parent / "OPERATORS.md"
_ONE_EACH = [
    pytest.param(generate, id=f"{name}-{i}")
    for name, generators in sorted(GENERATORS.items())
    for i, generate in enumerate(generators)
]


@pytest.mark.spread(70)
@pytest.mark.parametrize("generate", _ONE_EACH)
def test_agrees_with_numpy(generate):
    check(generate(Random(0)))


@pytest.mark.spread(70)
@pytest.mark.parametrize("generate", _ONE_EACH)
def test_json_and_text_are_one_module(generate):
    for seed in range(3):
        text = write(generate(Random(seed)))
        from_text, from_json = relay.load(text), relay.load(saved_json(text))
        assert tvm_ffi.structural_equal(from_text, from_json), f"{text}\n{from_json.script()}"


def test_every_operator_has_a_case():
    assert sorted(GENERATORS) == sorted(OPERATORS)
    assert len(OPERATORS) >= 150


def test_no_operator_is_both_read_and_refused():
    assert not set(OPERATORS) & set(REFUSED)
    assert sum(map(len, FAMILIES.values())) == len(OPERATORS)


def test_table_lists_every_operator():
    rows = re.findall(r"^\| `([\w.]+)` \| (\w+) \| (.*) \|$", _TABLE.read_text(), re.MULTILINE)
    assert {name for name, state, _ in rows if state == "read"} == set(OPERATORS)
    assert {name: why for name, state, why in rows if state == "refused"} == REFUSED
    assert len(rows) == len(OPERATORS) + len(REFUSED)
