"""Solvers that are missing, no time, options without sense: a simple rule or a clear error."""

import sys

import pytest
import tvm
from check import H200
from planned import DEVICE, GREEDY, assert_sound, graph_and_plan, random_module
from tvm import relax
from tvm.relax import op

from tvm_stitch import InputError, Options, compile, explain
from tvm_stitch.graph.front.read import StitchGraph
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.plan.planner import plan_graph


def test_a_missing_solver_leaves_the_simple_rule(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.warns(UserWarning, match="HiGHS is not installed"):
        found, plan = graph_and_plan(random_module(3, operators=20))
    assert_sound(found, plan)
    assert "HiGHS is not installed" in plan.solved.status
    assert plan.solved.cost_us == pytest.approx(plan.solved.greedy_us)


def test_no_time_leaves_the_simple_rule():
    module = random_module(3, operators=20)
    with pytest.warns(UserWarning, match="time limit of 0"):
        found, plan = graph_and_plan(module, Options(time_limit_s=0))
    assert_sound(found, plan)
    assert plan.solved.status == "time limit"
    simple = graph_and_plan_groups(found, GREEDY)
    assert [(g.nodes, g.outputs, g.cost_us) for g in plan.groups] == [
        (g.nodes, g.outputs, g.cost_us) for g in simple
    ]


def graph_and_plan_groups(found: StitchGraph, options: Options):
    return plan_graph(found, DEVICE, NO_BOUNDS, options).groups


@pytest.mark.parametrize(
    "wrong",
    [
        {"solver": "gurobi"},
        {"time_limit_s": -1},
        {"time_limit_s": float("nan")},
        {"solver": ["highs"]},
        {"largest_kernel": -1},
        {"largest_kernel": 1.5},
        {"largest_kernel": True},
        {"recomputed": 2.0},
        {"largest_kernel": None},
        {"schemes": "warp"},
        {"schemes": ("warp", "weft")},
        {"schemes": 5},
        {"schemes": [["warp"]]},
        {"time_limit_s": None},
        {"deterministic": "yes"},
        {"measure": 1},
        {"largest_kernel": 0},
        {"workspace_bytes": -1},
        {"workspace_bytes": 1e6},
        {"extents": 5},
        {"extents": {"n": 128}},
        {"extents": {"n": "128"}},
        {"extents": {"n": ()}},
        {"extents": {"n": (1, 0)}},
        {"extents": {"n": (1.5,)}},
        {"extents": {3: (1,)}},
    ],
)
def test_options_that_make_no_sense(wrong):
    (name,) = wrong
    with pytest.raises(InputError, match=name):
        Options(**wrong)


def bound(*bindings):
    """A module of these values, the last of which it returns."""
    block = relax.DataflowBlock([relax.VarBinding(var, value) for var, value in bindings])
    result = bindings[-1][0]
    function = relax.Function([X], relax.SeqExpr([block], result), result.ty)
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


TYPE = relax.TensorType((4, 5), "float32")
X, RESULT = relax.Var("x", TYPE), relax.Var("result", TYPE)
MIDDLE = relax.DataflowVar("middle", TYPE)


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        ([(MIDDLE, op.add(X, RESULT)), (RESULT, op.exp(MIDDLE))], "result is not defined"),
        ([(RESULT, op.add(X, MIDDLE))], "middle is not defined"),
        ([(RESULT, op.exp(X)), (RESULT, op.tanh(X))], "result is defined more than once"),
    ],
    ids=["a cycle", "from nowhere", "twice"],
)
@pytest.mark.parametrize("entry", [compile, explain])
def test_graphs_that_are_none(entry, bindings, message):
    with pytest.raises(InputError, match=f"not well formed: .*{message}"):
        entry(bound(*bindings), H200)
