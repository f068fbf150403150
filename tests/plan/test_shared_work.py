"""What modules of one model have in common is planned and written once, and comes out the same."""

import pytest
import tvm
import tvm_ffi
from check import H200
from zoo import layer_norm, softmax

from tvm_stitch import Options, transform
from tvm_stitch.build import pipeline
from tvm_stitch.kernel import build
from tvm_stitch.plan import planner, region_plan
from tvm_stitch.plan.shared import once, shared_work


@pytest.fixture
def counted(monkeypatch):
    """How often regions were planned, and kernels written."""
    counts = {"regions": 0, "kernels": 0}

    def counting(name, function):
        def call(*arguments, **named):
            counts[name] += 1
            return function(*arguments, **named)

        return call

    monkeypatch.setattr(region_plan, "plan_region", counting("regions", region_plan.plan_region))
    monkeypatch.setattr(transform, "kernel_of", counting("kernels", build.kernel_of))
    return counts


def lowered(module, options=None) -> tvm.IRModule:
    return pipeline(H200, options or Options(cache="off"))(module)


def test_a_second_module_of_a_model_finds_what_the_first_one_planned(counted):
    apart = lowered(softmax("float32").module)
    once_each = dict(counted)
    with shared_work():
        assert tvm_ffi.structural_equal(lowered(softmax("float32").module), apart)
        assert tvm_ffi.structural_equal(lowered(softmax("float32").module), apart)
    assert counted == {name: 2 * count for name, count in once_each.items()}


def test_other_modules_and_options_are_planned_themselves(counted):
    with shared_work():
        lowered(softmax("float32").module)
        before = counted["regions"]
        lowered(layer_norm("float32").module)
        assert counted["regions"] > before
        before = counted["regions"]
        lowered(softmax("float32").module, Options(cache="off", launch_us=2.0))
        assert counted["regions"] > before


def test_what_the_clock_cut_short_is_no_other_modules(counted, monkeypatch):
    after = planner.Deadline.after
    with shared_work():
        with monkeypatch.context() as patched:
            patched.setattr(planner.Deadline, "after", lambda _seconds: after(0.0))
            lowered(softmax("float32").module)
        assert counted["regions"] == 0
        lowered(softmax("float32").module)
        assert counted["regions"] > 0


def test_nothing_is_remembered_outside_of_a_scope():
    found = []
    for _ in range(2):
        once(lambda: "key", lambda: found.append(1))
    assert len(found) == 2
