"""What is read from a PrimFunc's blocks, and what is refused."""

import pytest
import tvm
from tvm import te, tirx, topi
from tvm.script import tirx as T

from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused, constant, find_reads, flatten, product, substitute


def stages_of(*tensors):
    """The stages of a tensor expression."""
    return read_stages(te.create_prim_func(list(tensors)))


def reason(function) -> str:
    """Why a function is refused."""
    refused = read_stages(function)
    assert isinstance(refused, Refused), refused
    return refused.reason


def test_an_element_wise_block():
    x = te.placeholder((4, 5), "float32", "x")
    (stage,) = stages_of(x, topi.exp(x))
    assert not stage.is_reduction
    assert list(map(constant, stage.extents)) == [4, 5]
    assert constant(stage.size) == 20 and constant(stage.reduced_size) == 1
    (read,) = stage.reads
    assert read.buffer.name == "x" and list(read.load.indices) == list(stage.axes)


@pytest.mark.parametrize(
    "reduce, combiner",
    [(topi.sum, "sum"), (topi.max, "max"), (topi.min, "min"), (topi.prod, "prod")],
)
def test_reductions(reduce, combiner):
    x = te.placeholder((4, 5, 6), "float32", "x")
    (stage,) = stages_of(x, reduce(x, axis=[1, 2]))
    assert stage.combiner == combiner
    assert constant(stage.size) == 4 and constant(stage.reduced_size) == 30
    assert stage.identity is not None
    assert repr(stage).endswith(f"= {combiner} over [5, 6]")


@pytest.mark.parametrize("reduce, combiner", [(topi.all, "all"), (topi.any, "any")])
def test_logical_reductions(reduce, combiner):
    x = te.placeholder((4, 5), "bool", "x")
    (stage,) = stages_of(x, reduce(x, axis=1))
    assert stage.combiner == combiner


def test_several_blocks_in_order():
    x = te.placeholder((4, 5), "float32", "x")
    squares = topi.multiply(x, x)
    first, second = stages_of(x, topi.sum(squares, axis=1))
    assert first.output == second.reads[0].buffer


def test_symbolic_extents():
    n = tirx.Var("n", "int64")
    x = te.placeholder((n, 5), "float32", "x")
    (stage,) = stages_of(x, topi.sum(x, axis=1))
    assert tvm.sym.Analyzer().can_prove_equal(stage.size, n)


def test_loads_in_branches_are_guarded():
    x = te.placeholder((4, 5), "float32", "x")
    (stage,) = stages_of(x, topi.nn.pad(x, (0, 1)))
    assert [read.guarded for read in find_reads(stage.value)] == [True]


def test_the_guard_of_a_load_holds_wherever_it_is_read():
    """A load that stands in two places is read where either is."""
    x = te.placeholder((4,), "float32", "x")
    (stage,) = stages_of(x, te.compute((4,), lambda i: x[i], "y"))
    (load,) = (read.load for read in stage.reads)
    (axis,) = stage.axes
    low, zero = axis < 2, tirx.const(0, "float32")

    def guard(value):
        (read,) = find_reads(value)
        return read.guard

    def both(condition, other):
        return tirx.if_then_else(condition, tirx.if_then_else(other, load, zero), zero)

    assert guard(load + both(low, axis < 1)) is None
    either = guard(tirx.if_then_else(low, load, both(axis > 2, axis > 0)))
    places = [substitute(either, {axis: tirx.const(place, "int32")}) for place in range(4)]
    simplify = tvm.sym.Analyzer().simplify
    assert [bool(simplify(place)) for place in places] == [True, True, False, True]


def test_flatten_and_product():
    assert constant(product((2, 3, 4))) == 24
    place = flatten((1, 2, 3), (2, 3, 4))
    assert constant(tvm.sym.Analyzer().simplify(place)) == 23


def test_argmax_is_not_a_single_store():
    x = te.placeholder((4, 5), "float32", "x")
    assert "is not a single store" in reason(te.create_prim_func([x, topi.argmax(x, axis=1)]))


def test_no_elements():
    x = te.placeholder((0, 5), "float32", "x")
    assert "has no elements" in reason(te.create_prim_func([x, topi.exp(x)]))


def test_nothing_to_reduce():
    x = te.placeholder((5, 0), "float32", "x")
    assert "has no elements" in reason(te.create_prim_func([x, topi.sum(x, axis=1)]))


def test_no_root_block():
    function = tirx.PrimFunc([], tirx.Evaluate(0))
    assert reason(function) == "its TIR has no root block"


@T.prim_func(s_tir=True)
def bound(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, "threadIdx.x"):
        with T.sblock("copy"):
            v = T.axis.spatial(4, i)
            y[v] = x[v]


@T.prim_func(s_tir=True)
def outside(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    with T.sblock("root"):
        for i in range(4):
            y[i] = x[i]


@T.prim_func(s_tir=True)
def predicate(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("copy"):
            v = T.axis.spatial(4, i)
            T.where(i < 3)
            y[v] = x[v]


@T.prim_func(s_tir=True)
def shifted(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("copy"):
            v = T.axis.spatial(4, 3 - i)
            y[v] = x[v]


@T.prim_func(s_tir=True)
def scan(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("copy"):
            v = T.axis.scan(4, i)
            y[v] = x[v]


@T.prim_func(s_tir=True)
def part(x: T.Buffer((4,), "float32"), y: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.sblock("copy"):
            v = T.axis.spatial(4, i)
            y[v] = x[v]


@T.prim_func(s_tir=True)
def backwards(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("copy"):
            v = T.axis.spatial(4, i)
            y[3 - v] = x[v]


@T.prim_func(s_tir=True)
def in_place(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("add"):
            v = T.axis.spatial(4, i)
            y[v] = y[v] + x[v]


@T.prim_func(s_tir=True)
def difference(x: T.Buffer((4, 5), "float32"), y: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 5):
        with T.sblock("reduce"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                y[v] = T.float32(0)
            y[v] = y[v] - x[v, r]


@T.prim_func(s_tir=True)
def last(x: T.Buffer((4, 5), "float32"), y: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 5):
        with T.sblock("reduce"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                y[v] = T.float32(0)
            y[v] = x[v, r] + T.float32(1)


@pytest.mark.parametrize(
    "function, expected",
    [
        (bound, "a loop is bound, vectorised or does not start at 0"),
        (outside, "its TIR holds a BufferStore outside of blocks"),
        (predicate, "block copy has a predicate"),
        (shifted, "block copy does not walk its domain plainly"),
        (scan, "block copy has an axis that is neither spatial nor reduced"),
        (part, "block copy does not write its whole output in order"),
        (backwards, "block copy does not write its whole output in order"),
        (in_place, "block add updates its output in place"),
        (difference, "block reduce reduces by something else than sum, max, min, prod, all, any"),
        (last, "block reduce does not accumulate into its output"),
    ],
    ids=lambda value: getattr(value, "attrs", None) and value.attrs["global_symbol"],
)
def test_refused(function, expected):
    assert expected in reason(function)
