"""What the check of an emitted kernel refuses is planned anew."""

from dataclasses import replace

from check import H200, primfuncs
from planned import DEVICE, assert_sound, graph_and_plan, random_module
from tvm import relax
from tvm.relax import op
from zoo import graph, softmax64

from tvm_stitch.kernel import stitched
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS, choose
from tvm_stitch.kernel.distinct_parts import distinct_parts, part_sorts
from tvm_stitch.kernel.stitched import StitchedKernel
from tvm_stitch.stages.stage import Refused


def refusing(monkeypatch, name: str, reason: str = "not today") -> None:
    """The check of a kernel refuses those that hold a stage of this name and another."""
    real = StitchedKernel.check

    def check(kernel, _seen=None):
        names = [stage.name for program in kernel.programs for stage in program.stages]
        wrong = any(name in each for each in names) and len(names) > 1
        return Refused(reason) if wrong else real(kernel)

    monkeypatch.setattr(StitchedKernel, "check", check)


def test_what_the_last_look_refuses_is_planned_anew(monkeypatch):
    """Its operators go on in other kernels, not as one slow function."""
    module = graph("float32", [(64, 256)], lambda emit, x: emit(op.nn.softmax(x)), softmax64).module
    (alone,) = graph_and_plan(module)[1].groups
    refusing(monkeypatch, "red")  # the reductions of a softmax
    found, plan = graph_and_plan(module)
    assert_sound(found, plan)
    assert len(plan.groups) > 1 and alone.nodes not in {group.nodes for group in plan.groups}
    sizes = {len(group.nodes) for group in plan.groups}
    assert max(sizes) < len(alone.nodes)


def test_a_region_whose_kernels_never_pass_is_left_to_tvm(monkeypatch):
    monkeypatch.setattr(StitchedKernel, "check", lambda *_: Refused("not today"))
    module = random_module(4, operators=20)
    found, plan = graph_and_plan(module)
    assert_sound(found, plan)
    assert not plan.groups
    assert "not today" in {fallback.reason for fallback in plan.fallbacks}


def test_kernels_that_are_refused_side_by_side_have_launches_of_their_own(monkeypatch):
    def build(emit, x, y):
        return emit(op.nn.softmax(x)), emit(op.sum(y, axis=-1))

    module = graph("float32", [(9, 70), (5, 33)], build, lambda *_: ()).module
    (together,) = graph_and_plan(module)[1].groups
    looked = []

    def check(kernel, _seen=None):
        looked.append(len(kernel.programs))
        return Refused("not today") if len(kernel.programs) > 1 else None

    monkeypatch.setattr(StitchedKernel, "check", check)
    found, plan = graph_and_plan(module)
    assert_sound(found, plan)
    assert looked.count(2) == 1 and len(plan.groups) == 2
    assert sorted(node for group in plan.groups for node in group.nodes) == sorted(together.nodes)


def norms(*shapes):
    """The programs of a kernel that divides tensors by their norms, and its schedule."""

    def build(emit, *tensors):
        for number, x in enumerate(tensors):
            square = emit(op.multiply(emit(op.multiply(x, x)), relax.const(0.1 + 0.1 * number)))
            yield emit(op.divide(x, emit(op.sqrt(emit(op.sum(square, axis=-1, keepdims=True))))))

    module = graph("float32", shapes, lambda *given: tuple(build(*given)), lambda *_: ()).module
    (function,) = primfuncs(module, H200, before="StitchSchedule").values()
    programs = read_programs(function)
    return programs, choose(programs, DEVICE)


def test_of_parts_of_one_sort_one_is_looked_at():
    programs, schedule = norms((9, 70), (9, 70), (5, 33), (9, 70))
    kept, taken = distinct_parts(programs, schedule)
    assert kept == (programs[0], programs[2]) and len(taken.parts) == 2
    assert taken.parts == (schedule.parts[0], schedule.parts[2])


def test_parts_that_held_in_another_kernel_are_not_looked_at_again():
    programs, schedule = norms((9, 70), (5, 33), (9, 70))
    seen = set(part_sorts(*norms((5, 33), (5, 33))))
    assert len(seen) == 1
    assert distinct_parts(programs, schedule, seen)[0] == programs[:1]
    # Of a kernel that is known altogether the first is: what parts have in common shows in it.
    seen |= set(part_sorts(programs, schedule))
    assert distinct_parts(programs[1:], replace(schedule, parts=schedule.parts[1:]), seen)[0] == (
        programs[1],
    )


def test_of_rounds_that_are_known_there_is_something_that_crosses_the_barrier():
    """There is no workspace for nothing."""

    def build(emit, x):
        total = emit(op.sum(emit(op.multiply(x, x))))
        return emit(op.divide(x, emit(op.sqrt(total))))

    module = graph("float32", [(512, 4096)], build, lambda *_: ()).module
    (function,) = primfuncs(module, H200, before="StitchSchedule").values()
    programs = read_programs(function)
    schedule = choose(programs, DEVICE)
    assert schedule.blocks and programs[0].crossing
    # In a kernel of more, what comes first need not cross.
    quiet = (replace(program, crossing=()) for program in programs)
    programs, schedule = (*quiet, *programs), replace(schedule, parts=schedule.parts * 2)
    seen = set(part_sorts(programs, schedule))
    kept, taken = distinct_parts(programs, schedule, seen)
    assert any(program.crossing for program in kept) and len(kept) == len(taken.parts)


def test_what_does_not_hold_is_looked_at_in_every_kernel(monkeypatch):
    programs, schedule = norms((9, 70), (5, 33))
    kernel = StitchedKernel(DEVICE, NO_BOUNDS, programs, schedule)
    seen: set = set()
    monkeypatch.setattr(stitched, "check_kernel", lambda *_: Refused("not today"))
    assert kernel.check(seen) == Refused("not today") and not seen
    monkeypatch.undo()
    assert kernel.check(seen) is None and len(seen) == 2


def test_parts_that_read_otherwise_are_of_other_sorts():
    def build(emit, x, y, z):
        doubled = emit(op.add(x, x))
        added = emit(op.add(y, z))
        return emit(op.nn.softmax(doubled)), emit(op.nn.softmax(added))

    module = graph("float32", [(9, 70)] * 3, build, lambda *_: ()).module
    (function,) = primfuncs(module, H200, before="StitchSchedule").values()
    programs = read_programs(function)
    kept, _ = distinct_parts(programs, choose(programs, DEVICE))
    assert len(kept) == len(programs) == 2


def test_of_kernels_that_differ_in_sizes_which_divide_alike_one_is_looked_at(monkeypatch):
    shapes = ((9, 264), (9, 280), (9, 272), (9, 263))
    looked = []

    def check(kernel, _seen=None):
        looked.append(kernel.programs[0].space.key[1])
        return None

    monkeypatch.setattr(StitchedKernel, "check", check)

    def build(emit, *tensors):
        return [emit(op.nn.softmax(tensor)) for tensor in tensors]

    module = graph("float32", shapes, build, lambda *_: ()).module
    graph_and_plan(module)
    assert sorted(set(looked)) == ["263", "264", "272"]


def test_a_refusal_holds_of_all_kernels_of_a_sort(monkeypatch):
    def build(emit, x, y):
        return emit(op.nn.softmax(x)), emit(op.nn.softmax(y))

    module = graph("float32", [(9, 264), (9, 280)], build, lambda *_: ()).module
    looked = []

    def check(kernel, _seen=None):
        looked.append(kernel.sort)
        return Refused("not today")

    monkeypatch.setattr(StitchedKernel, "check", check)
    _, plan = graph_and_plan(module)
    assert not plan.groups and len(looked) == len(set(looked))
