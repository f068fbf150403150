"""Plans saved, loaded, pinned and compared."""

import json
from dataclasses import replace

import pytest
from check import H200, plan_of, stitched
from planned import random_module
from zoo import layer_norm, softmax

import tvm_stitch
from tvm_stitch import InputError, Options, SavedPlan

MODULE = random_module(5, operators=20)


@pytest.fixture(scope="module")
def plan() -> SavedPlan:
    return tvm_stitch.explain(MODULE, H200).plan


def damaged(plan: SavedPlan, change) -> SavedPlan:
    """The plan after somebody edited its JSON."""
    data = json.loads(plan.to_json())
    change(data["blocks"][0])
    return SavedPlan.from_json(json.dumps(data))


def test_saved_and_loaded_it_is_the_same(plan, tmp_path):
    path = tmp_path / "plan.json"
    plan.save(path)
    assert SavedPlan.load(path) == plan
    assert plan.blocks and plan.blocks[0].groups


def test_a_pinned_plan_is_followed(plan):
    pinned = plan_of(MODULE, options=Options(plan=plan))
    planned = plan_of(MODULE)
    assert [group.nodes for group in pinned.groups] == [group.nodes for group in planned.groups]
    assert pinned.kept == planned.kept and pinned.fallbacks == planned.fallbacks


def test_another_plan_is_followed_though_the_solver_knows_better(plan):
    greedy = tvm_stitch.explain(MODULE, H200, Options(solver="greedy")).plan
    assert greedy != plan
    pinned = plan_of(MODULE, options=Options(plan=greedy))
    assert [g.nodes for g in pinned.groups] == [g.nodes for g in greedy.blocks[0].groups]


def test_a_plan_of_another_model_is_refused(plan):
    with pytest.raises(InputError, match="another graph"):
        stitched(random_module(6, operators=20), options=Options(plan=plan))
    renamed = SavedPlan((replace(plan.blocks[0], name="other/0"),))
    with pytest.raises(InputError, match=r"no block main/0; it has other/0"):
        stitched(MODULE, options=Options(plan=renamed))


def test_plans_that_would_be_wrong_are_refused(plan):
    def leave_out_an_output(block):
        block["groups"][0]["outputs"].pop(0)

    def write_twice(block):
        block["groups"].append(block["groups"][0])

    def name_what_is_not_there(block):
        block["groups"][0]["outputs"][0][0] = 999

    for change, message in [
        (leave_out_an_output, "none writes|leaves out"),
        (write_twice, "twice"),
        (name_what_is_not_there, "does not exist"),
    ]:
        with pytest.raises(InputError, match=message):
            stitched(MODULE, options=Options(plan=damaged(plan, change)))


def test_kernels_that_wait_for_each_other_are_refused():
    report = tvm_stitch.explain(softmax("float32").module, H200)
    (group,) = report.plan.blocks[0].groups
    first, *middle, last = group.nodes
    ends = replace(group, nodes=(first, last), outputs=((first, 0), (last, 0)))
    between = replace(group, nodes=tuple(middle), outputs=tuple((n, 0) for n in middle))
    broken = SavedPlan((replace(report.plan.blocks[0], groups=(ends, between)),))
    with pytest.raises(InputError, match="wait for each other"):
        stitched(softmax("float32").module, options=Options(plan=broken))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "version 2"),
        ('{"version": 1, "blocks": []}', "version 2"),
        ('{"version": 2}', "damaged"),
        ('{"version": 2, "blocks": [{"name": "main/0"}], "left": []}', "incomplete: fingerprint"),
        ('{"version": 2, "blocks": 3, "left": []}', "damaged"),
        ('{"version": 2, "blocks": [], "left": [["a", "b"]]}', "damaged"),
    ],
)
def test_what_is_no_plan(text, message):
    with pytest.raises(InputError, match=message):
        SavedPlan.from_json(text)


def test_numbers_must_be_numbers(plan):
    with pytest.raises(InputError, match="damaged"):
        damaged(plan, lambda block: block["groups"][0]["nodes"].append("1"))
    with pytest.raises(InputError, match="cannot read"):
        SavedPlan.load("no/such/plan.json")
    with pytest.raises(InputError, match="SavedPlan, not str"):
        Options(plan="plan.json")


def test_comparing_names_the_kernels_of_one_plan_alone(plan):
    assert plan.compare(plan).count("\n") == 0
    greedy = tvm_stitch.explain(MODULE, H200, Options(solver="greedy")).plan
    text = greedy.compare(plan)
    assert "us predicted" in text and "\n  - " in text and "\n  + " in text
    other = tvm_stitch.explain(layer_norm("float32").module, H200).plan
    assert "different graphs" in plan.compare(other)
    assert "one of the plans only" in plan.compare(SavedPlan(()))
