"""What the last look at a kernel refuses is planned anew."""

from planned import assert_sound, graph_and_plan, random_module
from tvm.relax import op
from zoo import graph, softmax64

from tvm_stitch.plan import pack as packs
from tvm_stitch.plan.search import judge as judges
from tvm_stitch.stages.stage import Refused


def refusing(monkeypatch, name: str, reason: str = "not today") -> None:
    """The last look at a kernel refuses those that hold a stage of this name and another."""
    real = judges.check_emitted

    def look(programs, schedule, device):
        names = [stage.name for program in programs for stage in program.stages]
        wrong = any(name in each for each in names) and len(names) > 1
        return Refused(reason) if wrong else real(programs, schedule, device)

    monkeypatch.setattr(judges, "check_emitted", look)


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
    monkeypatch.setattr(judges, "check_emitted", lambda *_: Refused("not today"))
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

    def look(programs, schedule, device):
        looked.append(len(programs))
        return Refused("not today")

    monkeypatch.setattr(packs, "check_emitted", look)
    found, plan = graph_and_plan(module)
    assert_sound(found, plan)
    assert looked == [2] and len(plan.groups) == 2
    assert sorted(node for group in plan.groups for node in group.nodes) == sorted(together.nodes)
