"""Kernels are lowered each by itself, those of many parts without compaction, and are the same."""

import os
import threading

import pytest
import tvm
from check import H200
from goldens import golden_kernel, target_of
from tvm import tirx
from tvm.ir.instrument import PassTimingInstrument

from tvm_stitch.executable.compiler import _lowered
from tvm_stitch.target import full_target
from tvm_stitch.workarounds import aligned_vectors, quick_lowering
from tvm_stitch.workarounds.quick_lowering import ALONE, COMPACTION, MANY, each_passed, passed


def function(name, conditions):
    out = tirx.decl_buffer((8,), "float32", "out")
    place = tirx.Var("place", "int64")
    body = tirx.BufferStore(out, tirx.FloatImm("float32", 1.0), [place])
    for number in range(conditions):
        body = tirx.IfThenElse(place < number, body, None)
    return tirx.PrimFunc([out, place], body).with_attr("global_symbol", name)


def ways(*functions, written_out, exact=()):
    """For each function the passes that are left out where it is lowered, and what is beside it."""
    found = {}

    def passes(mod):
        left_out = set(tvm.transform.PassContext.current().disabled_pass)
        beside = {var.name_hint for var in mod.functions}
        found.update({name: (left_out, beside - {name}) for name in beside})
        return mod

    mod = tvm.IRModule({each.attrs["global_symbol"]: each for each in functions}).with_attr("a", 1)
    merged = passed(mod, passes, written_out, set(exact))
    assert {var.name_hint for var in merged.functions} == {v.name_hint for v in mod.functions}
    assert dict(merged.attrs) == {"a": 1}
    return found


def test_it_is_many_conditions_that_cost_and_kernels_that_need_none_of_it():
    names = {"many": MANY, "few": MANY - 1, "padded": MANY, "other": MANY}
    functions = (function(*each) for each in names.items())
    found = ways(*functions, written_out={"many", "few", "padded"}, exact={"many", "few", "other"})
    assert {name for name, (left_out, _) in found.items() if COMPACTION in left_out} == {"many"}


def test_kernels_are_lowered_each_by_itself_and_others_together():
    kernels, others = "ab", "cde"
    found = ways(*(function(name, 1) for name in kernels + others), written_out=set(kernels))
    assert not found["a"][1] and not found["b"][1] and found["c"][1] == {"d", "e"}


def test_what_was_alone_in_its_module_still_is_and_nothing_else():
    assert ways(function("many", MANY), written_out={"many"}, exact={"many"})["many"][0] == {
        COMPACTION
    }
    assert ways(function("few", 1), written_out={"few"})["few"][0] == set()
    assert ways(function("few", 1), written_out=set())["few"][0] == set()
    several = ways(function("many", MANY), function("few", 1), written_out={"many"})
    assert all(ALONE in left_out for left_out, _ in several.values())


def test_threads_have_the_settings_of_who_asks_unless_passes_are_watched(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    mod = tvm.IRModule({name: function(name, 1) for name in "abc"})
    heard = []

    def passes(part):
        context = tvm.transform.PassContext.current()
        said = context.opt_level, dict(context.config), tvm.target.Target.current(True)
        heard.append((threading.current_thread() is threading.main_thread(), *said))
        return part

    config, target = {"tirx.disable_storage_rewrite": True}, full_target(H200)
    for instruments, is_main in (([], False), ([PassTimingInstrument()], True)):
        context = tvm.transform.PassContext(opt_level=2, config=config, instruments=instruments)
        with target, context:
            each_passed(mod, passes)
        assert {main for main, *_ in heard} == {is_main}
        for _, level, found, where in heard:
            assert level == 2 and found == config and str(where) == str(target)
        heard.clear()


def test_what_fails_in_a_thread_fails():
    def passes(_):
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        each_passed(tvm.IRModule({name: function(name, 1) for name in "abc"}), passes)


def test_kernels_are_the_same(monkeypatch):
    names = [
        *("barrier_of_the_grid", "co_scheduled_rows", "column_sums", "panel", "persistent_rows"),
        *("product_after_product", "rounds", "softmax_warp", "transpose_of_halves"),
    ]
    kernels = {name: golden_kernel(name).with_attr("global_symbol", name) for name in names}
    target = full_target(target_of(names[0]))

    def lowered(cores):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        _, host, devices = _lowered(tvm.IRModule(kernels), target)
        return [str(host), *map(str, devices.values())]

    monkeypatch.setattr(quick_lowering, "MANY", 0)
    quick = lowered(4)
    monkeypatch.setattr(quick_lowering, "MANY", 1000)
    assert quick == lowered(1)
    monkeypatch.setattr(aligned_vectors, "passed", lambda mod, passes, *_: passes(mod))
    monkeypatch.setattr(aligned_vectors, "each_passed", lambda mod, passes: passes(mod))
    assert quick == lowered(1)
