"""DLight inlines what it did, and fails at nothing that has nothing to go into."""

import pytest
import tvm
from check import H200
from tvm import relax, s_tir
from tvm.relax import op
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.s_tir.dlight.base import common_schedules

from tvm_stitch.workarounds import quick_inlining


def chain(operators):
    """One function of several element-wise operators, not fused yet."""
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for each in operators:
                value = builder.emit(each(value))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    with H200:
        module = tvm.transform.Sequential(passes)(builder.get())
    return next(f for f in module.functions.values() if not isinstance(f, relax.Function))


def scheduled(function, try_inline):
    schedule = s_tir.Schedule(function)
    left = try_inline(schedule, normalize_prim_func(schedule))
    return schedule.mod["main"], len(left)


def as_tvm_does(schedule, blocks):
    """What TVM's own does: everything is tried."""
    for inline in (schedule.compute_inline, schedule.reverse_compute_inline):
        for place, block in enumerate(blocks):
            try:
                inline(block.block_rv)
            except Exception:
                continue
            return as_tvm_does(schedule, [*blocks[:place], *blocks[place + 1 :]])
    return blocks


@pytest.mark.parametrize("operators", [[op.exp], [op.exp, op.sqrt, op.negative]])
def test_what_is_inlined_is_what_tvm_inlines(operators):
    function = chain(operators)
    ours, left = scheduled(function, quick_inlining._try_inline)
    assert left == 1
    tvm.ir.assert_structural_equal(ours, scheduled(function, as_tvm_does)[0])


def test_rules_use_it_and_a_lone_block_is_not_tried():
    assert common_schedules.try_inline is quick_inlining._try_inline
    blocks = [type("Info", (), {"block_rv": 1})()]
    tried: list[int] = []
    assert not quick_inlining._inlined(blocks, lambda block: [], tried.append)
    assert len(blocks) == 1 and tried == []
