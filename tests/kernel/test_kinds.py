"""What makes a new kind of kernel known: a line in kernel/kinds, and a class of its mapping."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from check import primfuncs
from zoo import softmax

from tvm_stitch.kernel import partition
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.ir import mapping
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.read_mapping import mapping_from
from tvm_stitch.kernel.kinds import KINDS, kind_of
from tvm_stitch.kernel.rows.kind import ROWS
from tvm_stitch.stages.stage import Refused


@pytest.fixture
def function():
    (found,) = primfuncs(softmax("float32", 6, 100).module, before="StitchSchedule").values()
    return found


def with_kind(monkeypatch, **changes):
    kinds = (replace(ROWS, **changes), *KINDS)
    monkeypatch.setattr(partition, "KINDS", kinds)


def test_what_a_kind_claims_is_its_own(function, monkeypatch):
    refused = Refused("maxima, of which this kind makes nothing")
    claims = {"claims": lambda stage: stage.combiner == "max"}
    with_kind(monkeypatch, **claims, program=lambda *_: refused)
    assert read_programs(function) == refused
    with_kind(monkeypatch, claims=lambda stage: stage.combiner == "min")
    assert not isinstance(read_programs(function), Refused)


def test_what_a_kind_wants_is_taken_if_some_kind_supports_it(function, monkeypatch):
    seen, own = [], []

    def own_program(stages, outputs):
        own.append(make_program(stages, outputs))
        return own[0]

    def is_wanted(made):
        seen.append((made.is_supported, kind_of(made.program)))
        return True

    with_kind(monkeypatch, is_wanted=is_wanted, program=lambda *_: Refused("it cannot"))
    assert not isinstance(read_programs(function), Refused)
    with_kind(monkeypatch, is_wanted=is_wanted, program=own_program)
    assert read_programs(function) == tuple(own)
    assert seen == [(True, ROWS), (True, ROWS)]


def test_a_mapping_is_read_once_it_is_a_class(monkeypatch):
    monkeypatch.setitem(mapping.KINDS, "spiral", None)  # which is undone

    @dataclass(frozen=True)
    class Spiral(Mapping):
        steps: int
        kind = "spiral"

    assert mapping_from(Spiral(32, 4).data) == Spiral(32, 4)
