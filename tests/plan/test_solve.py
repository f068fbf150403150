"""The integer program against brute force, on abstract kernels with arbitrary costs."""

import itertools
import random
import sys
import time

import highspy
import pytest
from brute_force import brute_force

from tvm_stitch.plan import integer_program
from tvm_stitch.plan.deadline import Deadline
from tvm_stitch.plan.integer_program import IntegerProgram, SolverMissing
from tvm_stitch.plan.problem import Choice, Problem, feasible, in_order
from tvm_stitch.plan.solve import SEARCH_LIMIT, is_proven_by_prices, solve

MOST_CHOICES = 13  # brute force goes through all sets of them


def kernel(cost, nodes, writes, edges):
    """A kernel of some nodes of a graph; a node's result has the node's number."""
    nodes = frozenset(nodes)
    reads = frozenset(a for a, b in edges if b in nodes and a not in nodes)
    return Choice(cost, reads, frozenset(writes), nodes)


def random_problem(seed, partition=False):
    """A random graph of up to 9 nodes: every node alone, and random sets of any shape.

    Sets need not be convex: two of them may wait for each other. What a set writes is all that is
    used outside of it, or, as a kernel that others duplicate would, only some of that.
    """
    rng = random.Random(seed)
    count = rng.randint(2, 9)
    edges = [
        (a, b) for a, b in itertools.combinations(range(count), 2) if rng.random() < 2.2 / count
    ]
    users = {a: {y for x, y in edges if x == a} for a in range(count)}
    ends = {a for a in range(count) if not users[a] or rng.random() < 0.1}
    choices = [kernel(rng.uniform(1, 3), {a}, {a}, edges) for a in range(count)]
    for _ in range(rng.randint(1, MOST_CHOICES - count)):
        nodes = set(rng.sample(range(count), rng.randint(2, count)))
        writes = {a for a in nodes if a in ends or users[a] - nodes}
        if not partition and len(writes) > 1 and rng.random() < 0.5:
            writes = set(rng.sample(sorted(writes), rng.randint(1, len(writes))))
        choices.append(kernel(rng.uniform(1, 2 + len(nodes)), nodes, writes, edges))
    required = set(ends)
    for a, b in sorted(edges, reverse=True):
        required |= {a} if b in required else set()
    return Problem(tuple(choices), frozenset(ends), partition, required=frozenset(required))


@pytest.mark.parametrize("partition", [False, True], ids=["cover", "partition"])
@pytest.mark.parametrize(
    "start",
    [pytest.param(start, marks=pytest.mark.slow if start else ()) for start in range(0, 500, 100)],
)
def test_the_optimum_is_that_of_brute_force(start, partition):
    cycles = 0
    for seed in range(start, start + 100):
        problem = random_problem(seed, partition)
        found = solve(problem)
        assert found is not None and found.status == "optimal"
        assert found.cost == pytest.approx(brute_force(problem), rel=1e-6), seed
        assert feasible(problem, found.chosen)
        assert in_order(problem, found.chosen) == found.chosen
        assert found.gap == pytest.approx(0, abs=1e-6)
        cycles += found.cuts
    assert cycles, "no problem had kernels that wait for each other: the test tests too little"


def covers_of_pairs(seed):
    """Sets of pairs and triples, of which half of each of several would do: odd circles."""
    rng = random.Random(seed)
    alone = [Choice(1.4, frozenset(), frozenset({n})) for n in range(5)]
    sets = [
        Choice(rng.uniform(1, 1.2 * size), frozenset(), frozenset(rng.sample(range(5), size)))
        for size in (2, 2, 2, 2, 3, 3)
    ]
    return Problem((*alone, *sets), frozenset(range(5)))


def test_fractions_of_kernels_are_decided_by_branch_and_bound(monkeypatch):
    """Also of those alone that the relaxation's prices leave, from any solution to start from."""
    searched, left_out, unbeaten = 0, 0, 0
    program = IntegerProgram.program

    def counted(self, seconds, without=(), is_relaxed=False):
        nonlocal searched, left_out
        searched += not is_relaxed
        left_out += len(without)
        return program(self, seconds, without, is_relaxed)

    monkeypatch.setattr(IntegerProgram, "program", counted)
    for seed in range(100):
        problem = covers_of_pairs(seed)
        best = brute_force(problem)
        first = solve(problem)
        for incumbent in (None, range(5), first.chosen):
            found = solve(problem, incumbent)
            assert found.status == "optimal" and feasible(problem, found.chosen)
            assert found.cost == pytest.approx(best, rel=1e-6) == pytest.approx(found.bound)
            unbeaten += incumbent is first.chosen and found.chosen == first.chosen
    assert searched >= 50 and left_out >= 50 and unbeaten == 100


def test_prices_prove_nothing_but_optima():
    """Of all plans that brute force goes through, only the best are said to be."""
    proven = 0
    for seed in range(40):
        problem = random_problem(seed)
        best = brute_force(problem)
        for mask in range(1 << len(problem.choices)):
            chosen = [number for number in range(len(problem.choices)) if mask >> number & 1]
            if problem.cost(chosen) > 1.2 * best or not feasible(problem, chosen):
                continue
            if in_order(problem, chosen) is None:
                continue
            if is_proven_by_prices(problem, chosen):
                proven += 1
                assert problem.cost(chosen) == pytest.approx(best, rel=1e-6), seed
    assert proven


EDGES = [(0, 1), (2, 3)]  # two chains; a kernel may take the first of one and the last of the other
CROSSED = [kernel(1, {0, 3}, {0, 3}, EDGES), kernel(1, {1, 2}, {1, 2}, EDGES)]
ALONE = [kernel(3, {node}, {node}, EDGES) for node in range(4)]


def test_kernels_that_wait_for_each_other_are_not_taken():
    found = solve(Problem((*CROSSED, *ALONE), frozenset({1, 3})))
    assert found.cuts == 1
    # One crossed pair, and what it reads from a kernel of its own.
    assert found.cost == pytest.approx(5, abs=1e-3)
    assert in_order(Problem((*CROSSED, *ALONE), frozenset({1, 3})), (0, 1)) is None


def test_what_only_a_circle_can_do_cannot_be_done():
    assert solve(Problem(tuple(CROSSED), frozenset({1, 3}))) is None


def test_a_value_that_nothing_writes_cannot_be_needed():
    assert solve(Problem((Choice(1, frozenset(), frozenset({"a"})),), frozenset({"b"}))) is None


def test_computing_again_pays_where_it_is_cheaper_than_storing():
    edges = [(0, 1), (0, 2)]
    apart = [kernel(2, {node}, {node}, edges) for node in range(3)]
    again = [kernel(2.5, {0, 1}, {1}, edges), kernel(2.5, {0, 2}, {2}, edges)]
    choices = (*apart, *again)
    cover = solve(Problem(choices, frozenset({1, 2})))
    assert set(cover.chosen) == {3, 4}
    partition = solve(Problem(choices, frozenset({1, 2}), partition=True))
    assert set(partition.chosen) == {0, 1, 2}


def test_the_bound_of_memory_is_kept():
    edges = [(0, 1)]
    cheap = [Choice(1, frozenset(), frozenset({0}), memory=100), kernel(1, {1}, {1}, edges)]
    problem = Problem((*cheap, kernel(5, {0, 1}, {1}, edges)), frozenset({1}), memory=99)
    assert solve(problem).chosen == (2,)
    assert solve(Problem(problem.choices, problem.needed, memory=100)).chosen == (0, 1)
    assert solve(Problem(tuple(cheap), frozenset({1}), memory=99)) is None


def test_no_time_leaves_the_incumbent():
    problem = random_problem(3)
    alone = tuple(n for n, c in enumerate(problem.choices) if len(c.covers) == 1)
    found = solve(problem, alone, Deadline.after(0))
    assert found.status == "time limit"
    assert sorted(found.chosen) == sorted(alone)
    assert found.cost == problem.cost(alone)
    assert solve(problem, None, Deadline.after(0)) is None


def test_an_incumbent_that_breaks_the_rules_is_ignored():
    problem = Problem((*CROSSED, *ALONE), frozenset({1, 3}))
    for incumbent in [(0, 1), (0,), ()]:
        assert solve(problem, incumbent).cost == pytest.approx(5, abs=1e-3)


def test_little_time_never_gives_worse_than_the_incumbent():
    """A set cover that no solver proves in 50 ms."""
    rng = random.Random(0)
    choices = [Choice(10, frozenset(), frozenset({n})) for n in range(150)]
    choices += [
        Choice(rng.uniform(20, 40), frozenset(), frozenset(rng.sample(range(150), 12)))
        for _ in range(600)
    ]
    problem = Problem(tuple(choices), frozenset(range(150)))
    start = time.monotonic()
    found = solve(problem, range(150), Deadline.after(0.05))
    assert time.monotonic() - start < 5
    assert found.status == "time limit"
    assert found.cost <= problem.cost(range(150))
    assert 0 <= found.bound <= found.cost and 0 <= found.gap <= 1
    assert feasible(problem, found.chosen)


def test_the_same_problem_has_the_same_answer():
    for seed in range(20):
        assert solve(random_problem(seed)) == solve(random_problem(seed))


def test_a_missing_solver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverMissing, match="HiGHS is not installed"):
        solve(random_problem(1))


def test_a_solver_of_another_version_is_named(monkeypatch):
    monkeypatch.delattr(highspy, "HighsLp")
    with pytest.raises(SolverMissing, match="HiGHS failed: AttributeError"):
        solve(random_problem(1))


def test_a_solver_that_fails_is_named(monkeypatch):
    def fail(self):
        raise RuntimeError("out of order")

    monkeypatch.setattr(highspy.Highs, "run", fail)
    with pytest.raises(SolverMissing, match="out of order"):
        solve(random_problem(1))


def test_a_solver_that_errs_is_named(monkeypatch):
    """HiGHS 1.16 did, of solutions that it was given to start from."""
    solution = highspy.Highs.getSolution

    def other(self):
        found = solution(self)
        found.col_value = [1.0] * len(found.col_value)
        return found

    monkeypatch.setattr(highspy.Highs, "getSolution", other)
    with pytest.raises(SolverMissing, match=r"it says that what costs .* costs"):
        solve(random_problem(1))


def test_a_solver_without_an_answer_in_time_leaves_the_incumbent(monkeypatch):
    monkeypatch.setattr(highspy.Highs, "run", lambda self: None)
    problem = random_problem(1)
    alone = tuple(n for n, c in enumerate(problem.choices) if len(c.covers) == 1)
    assert solve(problem) is None
    found = solve(problem, alone)
    assert found.status == "search limit" and feasible(problem, found.chosen)


def chain(length: int) -> Problem:
    """Items one behind the other; kernels of one, two or three of them, by chance, each by itself.

    A kernel that computes an item reads the one before.
    """
    rng = random.Random(length)
    choices = []
    for first in range(length):
        for size in (1, 2, 3):
            last = min(first + size, length)
            reads = frozenset({first - 1} if first else ())
            covers = frozenset(range(first, last))
            cost = rng.uniform(1, 2) * len(covers) ** 0.5
            choices.append(Choice(cost, reads, frozenset({last - 1}), covers))
    return Problem(tuple(choices), frozenset({length - 1}), required=frozenset(range(length)))


def test_of_a_long_chain_the_bound_is_its_cost():
    problem = chain(120)
    found = solve(problem, deadline=Deadline.after(20))
    best = [0.0]
    for last in range(120):
        reach = (c for c in problem.choices if last in c.writes)
        best.append(min(best[last + 1 - len(c.covers)] + c.cost for c in reach))
    assert found.status == "optimal"
    assert found.cost == pytest.approx(best[-1], abs=1e-3) == pytest.approx(found.bound, abs=1e-3)


@pytest.mark.slow
def test_a_search_ends_at_the_same_place_however_fast_the_machine(monkeypatch):
    monkeypatch.setattr(integer_program, "MOST_NODES", 1)
    rng = random.Random(0)
    sets = [
        Choice(rng.uniform(20, 40), frozenset(), frozenset(rng.sample(range(40), 5)))
        for _ in range(120)
    ]
    alone = [Choice(10, frozenset(), frozenset({n})) for n in range(40)]
    problem = Problem((*alone, *sets), frozenset(range(40)))
    found = [solve(problem, range(40)) for _ in range(2)]
    assert found[0] == found[1] and found[0].status == SEARCH_LIMIT
    assert found[0].bound < found[0].cost


def test_halves_of_kernels_ask_for_all_that_they_read():
    """Two that compute the same from one value: half of its writer would serve half of each."""
    choices = (
        Choice(10.0, frozenset(), frozenset({"a"}), frozenset({"a"})),
        Choice(1.0, frozenset({"a"}), frozenset({"b"}), frozenset({"b"})),
        Choice(1.0, frozenset({"a"}), frozenset({"b", "c"}), frozenset({"b"})),
    )
    problem = Problem(choices, frozenset({"b"}), required=frozenset({"b"}))
    highs = IntegerProgram(problem, deterministic=True).program(10.0)
    for column in range(len(choices)):
        highs.changeColIntegrality(column, highspy.HighsVarType.kContinuous)
    highs.run()
    assert highs.getInfo().objective_function_value == pytest.approx(11.0, abs=1e-4)


def test_of_sets_those_that_hold_no_other_are_kept():
    sets = [frozenset(each) for each in ("ab", "abc", "c", "bd", "cd")]
    assert set(integer_program._least(sets)) == {frozenset("ab"), frozenset("c"), frozenset("bd")}
