"""The tool that makes, judges and shrinks random graphs: is it right itself?"""

import os
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import tvm

from tests.outside.graphs.__main__ import report, run, table
from tests.outside.graphs.extent import Extent, extent_of
from tests.outside.graphs.generate import Profile, generate
from tests.outside.graphs.graph import Call, Data, Graph, Input, Ref, Symbol, module_of, pruned
from tests.outside.graphs.judge import differences
from tests.outside.graphs.launches import Counted
from tests.outside.graphs.machines import Llvm, default_lowered, fed
from tests.outside.graphs.meaning import MEANINGS, evaluated
from tests.outside.graphs.minimize import smallest
from tests.outside.graphs.number import Noise, Number, exact, product, rounded, spread, summed
from tests.outside.graphs.outcome import OK, Outcome
from tests.outside.graphs.script import script
from tests.outside.graphs.trial import Settings
from tests.outside.graphs.worker import Worker
from tvm_stitch.reference import reference

N = Extent.symbol("n")


def vector(op: str, size: int = 64, dtype: str = "float32", **attrs) -> Graph:
    """One operator of one input."""
    given = Input(dtype, (Extent.of(size),), Data("normal"))
    return Graph(1, (given, Call(op, (Ref(0),), tuple(attrs.items()))), (1,))


def arrays_of(graph: Graph, numbers) -> list:
    values = graph.inputs
    return fed([numbers[place].value for place in values], [v.dtype for v in values.values()])


# What is expected


@pytest.mark.spread(6)
@pytest.mark.parametrize("seed", range(24))
def test_numpy_says_what_tvm_says_in_float64(seed):
    graph = generate(seed, Profile(extreme=0.0))
    numbers = evaluated(graph)
    got = reference(module_of(graph), arrays_of(graph, numbers))
    assert not differences(got, [numbers[output] for output in graph.outputs])


@pytest.mark.parametrize("op", ["nn.softmax", "exp", "tanh", "sigmoid"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_bounds_are_no_wider_than_some_roundings(op, dtype):
    (_, number) = evaluated(vector(op, dtype=dtype))
    ulp = {"float32": 2.0**-23, "float16": 2.0**-10}[dtype]
    assert (number.bound < 24 * ulp * np.maximum(np.abs(number.value), 0.05)).all()


def half_product() -> Graph:
    """16 rows times 512 columns of float16."""
    left = Input("float16", (Extent.of(16), Extent.of(512)), Data("normal"))
    right = Input("float16", (Extent.of(512), Extent.of(8)), Data("normal"))
    return Graph(1, (left, right, Call("matmul", (Ref(0), Ref(1)), ())), (2,))


def test_halves_are_summed_in_float32_unless_tvm_does():
    graph = half_product()
    strict, wide = (evaluated(graph, noise=Noise(halves=halves))[2] for halves in (False, True))
    assert wide.bound.mean() > 10 * strict.bound.mean()


def test_a_product_of_what_may_be_off_is_off_by_both():
    near = Number("float32", np.zeros(1), np.full(1, 1e-8))
    assert 1e-16 <= float(product(near, near, "float32").bound[0]) < 1e-15


def test_a_value_less_itself_may_be_zero_where_it_is_infinite():
    given = exact(np.array([np.inf, np.nan, 1.0]), "float32")
    found = MEANINGS["subtract"](Noise(), given, given)
    other = MEANINGS["subtract"](Noise(), given, exact(given.value, "float32"))
    assert np.isinf(found.bound).tolist() == [True, True, False]
    assert (other.bound == 0).all()


@pytest.mark.parametrize("op", ["floor", "sign", "atan2", "greater_equal"])
@pytest.mark.parametrize("fast", [False, True])
def test_a_denormal_counts_as_zero_only_for_fast_maths(op, fast):
    small = exact(np.array([-1e-39]), "float32")
    others = {"atan2": [small], "greater_equal": [exact(np.zeros(1), "float32")]}.get(op, [])
    found = MEANINGS[op](Noise(fast=fast), small, *others)
    assert (found.bound[0] >= 1) == fast


def test_a_cancellation_is_allowed_what_it_loses():
    x = rounded(np.array([1000.0, 1000.001]), np.zeros(2), "float32", 2.0)
    value, bound = spread(lambda v: v - 1000.0, (x,))
    assert abs(value[1] - 1e-3) < 1e-6 and 1e-4 < bound[1] < 1e-3


def test_a_sum_without_one_element_is_wrong():
    x = exact(np.ones(4096), "float32")
    total = summed(x, (0,), False, "float32")
    assert differences([np.array(4096.0)], [total]) == []
    (wrong,) = differences([np.array(4095.0)], [total])
    assert (wrong.got, wrong.want) == (4095.0, 4096.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_must_stay_in_place(value):
    want = exact(np.array([value, 1.0]), "float32")
    assert not differences([np.array([value, 1.0])], [want])
    assert differences([np.array([0.0, 1.0])], [want])
    assert differences([np.array([value, value])], [want])


def test_an_index_of_equals_is_the_first_and_of_what_may_be_equal_any():
    given = Input("float32", (Extent.of(3),), Data("normal", literal=[2.0, 2.0, 1.0]))
    graph = Graph(0, (given, Call("argmax", (Ref(0),), (("axis", 0),))), (1,))
    number = evaluated(graph)[1]
    assert differences([np.array(1)], [number]) and not differences([np.array(0)], [number])
    place = replace(graph.values[1], args=(Ref(1),))
    computed = replace(graph, values=(given, Call("sin", (Ref(0),)), place), outputs=(2,))
    assert np.isinf(evaluated(computed)[2].bound)


def test_fast_maths_is_allowed_more_on_a_gpu():
    graph = vector("log", dtype="float32")
    given = replace(graph.inputs[0], data=Data("positive"))
    graph = replace(graph, values=(given, graph.values[1]))
    exactly, fast = evaluated(graph)[1], evaluated(graph, noise=Noise(fast=True))[1]
    assert (fast.bound > exactly.bound).all()


# The graphs


def test_extents_are_polynomials():
    symbols = {"n": tvm.tirx.Var("n", "int64"), "m": tvm.tirx.Var("m", "int64")}
    extent = N * 2 * Extent.symbol("m") + N + 3
    assert str(extent) == "m*n*2 + n + 3" and extent.size({"n": 4, "m": 5}) == 47
    assert extent_of(extent.expr(symbols)) == extent
    assert extent_of(tvm.tirx.max(symbols["n"], 1)) is None


@pytest.mark.parametrize("seed", range(12))
def test_a_script_builds_the_same_module(seed):
    graph = generate(seed)
    text = script(graph).split("\ntarget = ")[0]
    names: dict = {}
    exec(text, names)
    assert str(names["mod"]) == str(module_of(graph))


# Processes


@dataclass(frozen=True)
class Bad:
    """What ends or stops the process that unpickles it."""

    seed: int
    way: str

    def __reduce__(self):
        return (os.abort, ()) if self.way == "abort" else (time.sleep, (600,))


@pytest.mark.slow
def test_what_ends_a_process_costs_one_graph():
    worker = Worker(Settings(), timeout=60.0)
    try:
        found = worker._ask(Bad(3, "abort"), 3, False)
        assert (found.seed, found.kind) == (3, "died") and "SIGABRT" in found.detail
        assert worker.ask(vector("exp")).kind == OK
        worker.timeout = 3.0
        found = worker._ask(Bad(4, "sleep"), 4, False)
        assert (found.seed, found.kind) == (4, "hang")
    finally:
        worker.close()


def test_the_report_counts(tmp_path, monkeypatch):
    def answer(self, seed, default=False):
        kind = {2: "wrong", 4: "tvm", 5: "tvm-other", 6: "executor"}.get(seed, OK)
        return Outcome(seed, kind, "" if kind == OK else "bad", f"where {seed}", operators=5)

    monkeypatch.setattr(Worker, "ask", answer)
    found = run(range(7), Settings(), jobs=2, timeout=1.0, time_limit=None)
    assert [outcome.seed for outcome in found] == [*range(7)]
    summary = table(found, 1.0)
    assert "7 graphs, 1 s: 1 ours, 2 TVM's as well, 1 not judged, 3 right" in summary
    assert "1 wrong" in summary and "3 ok" in summary
    assert "1 tvm-other: where 5  [5]" in summary
    report(tmp_path / "found.json", found, summary)
    text = (tmp_path / "found.json").read_text()
    assert '"wrong": [\n   2\n  ]' in text
    assert run(range(4), Settings(), 1, 1.0, time_limit=1e-9) == []


# Less of it


class Pretended:
    """A worker for which whatever holds an operator is wrong."""

    def __init__(self, operator: str) -> None:
        self.operator, self.asked = operator, 0

    def ask(self, graph: Graph) -> Outcome:
        self.asked += 1
        return Outcome(graph.seed, "wrong" if self.operator in graph.operators else OK)


def test_the_least_graph_has_nothing_but_what_fails():
    seed = next(s for s in range(100) if _suits(generate(s)))
    graph = generate(seed)
    worker = Pretended("nn.softmax")
    least, last = smallest(graph, worker.ask(graph), worker, time.monotonic() + 60)
    assert last.kind == "wrong" and least.operators == ("nn.softmax",)
    assert not least.symbols and len(least.bindings) == 1
    (given,) = least.inputs.values()
    assert all((extent.constant or 0) <= 1 for extent in given.shape)


def _suits(graph: Graph) -> bool:
    return "nn.softmax" in graph.operators and len(graph.operators) > 6 and bool(graph.symbols)


def test_a_symbol_keeps_the_parameter_that_gives_its_size():
    given = Input("float32", (N,), Data("normal"))
    double = Input("float32", (N * 2,), Data("normal"))
    graph = Graph(0, (given, double, Call("exp", (Ref(1),))), (2,), (Symbol("n", (3, 5)),))
    assert len(pruned(graph).inputs) == 2
    numbers = evaluated(pruned(graph), binding=1)
    machine = Llvm(module_of(pruned(graph)))
    assert not differences(machine(arrays_of(graph, numbers)), [numbers[2]])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_kernel_of_tvms_that_sums_in_halves_is_seen(dtype):
    given = Input(dtype, (Extent.of(64), Extent.of(64)), Data("normal"))
    graph = Graph(1, (given, Call("matmul", (Ref(0), Ref(0)), ())), (1,))
    lowered = default_lowered(module_of(graph), "sm_70")
    assert Counted.of(lowered).in_halves == (dtype == "float16")
