"""Kernels of many parts are lowered without compaction, and no other function of their module."""

import pytest
import tvm
from goldens import golden_kernel, target_of
from tvm import tirx

from tvm_stitch.executable.link import _lowered
from tvm_stitch.target import full_target
from tvm_stitch.workarounds import quick_lowering
from tvm_stitch.workarounds.quick_lowering import COMPACTION, MANY, passed


def function(name, conditions):
    out = tirx.decl_buffer((8,), "float32", "out")
    place = tirx.Var("place", "int64")
    body = tirx.BufferStore(out, tirx.FloatImm("float32", 1.0), [place])
    for number in range(conditions):
        body = tirx.IfThenElse(place < number, body, None)
    return tirx.PrimFunc([out, place], body).with_attr("global_symbol", name)


def ways(*functions, written_out):
    """For each function the passes that are left out where it is lowered."""
    found = {}

    def passes(mod):
        left_out = list(tvm.transform.PassContext.current().disabled_pass)
        found.update({var.name_hint: left_out for var in mod.functions})
        return mod

    mod = tvm.IRModule({each.attrs["global_symbol"]: each for each in functions})
    merged = passed(mod, passes, written_out)
    assert {var.name_hint for var in merged.functions} == {v.name_hint for v in mod.functions}
    return found


def test_it_is_many_conditions_that_cost_and_kernels_that_need_none_of_it():
    many, few, other = function("many", MANY), function("few", MANY - 1), function("other", MANY)
    found = ways(many, few, other, written_out={"many", "few"})
    assert {name for name, left_out in found.items() if COMPACTION in left_out} == {"many"}


def test_what_was_alone_in_its_module_still_is_and_nothing_else():
    assert ways(function("many", MANY), written_out={"many"}) == {"many": [COMPACTION]}
    assert ways(function("few", 1), written_out={"few"}) == {"few": []}
    several = ways(function("many", MANY), function("few", 1), written_out={"many"})
    assert all("tirx.AnnotateEntryFunc" in left_out for left_out in several.values())


@pytest.mark.parametrize("name", ["co_scheduled_rows", "panel", "rounds"])
def test_the_kernel_is_the_same(name, monkeypatch):
    target = full_target(target_of(name))
    tir = tvm.IRModule({"f": golden_kernel(name).with_attr("global_symbol", "f")})
    (usual,) = _lowered(tir, target)[2].values()
    monkeypatch.setattr(quick_lowering, "MANY", 0)
    (quick,) = _lowered(tir, target)[2].values()
    assert str(usual) == str(quick)
