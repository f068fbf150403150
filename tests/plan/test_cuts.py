"""Why operators are together, and why they are not."""

import pytest
from check import plan_of
from planned import graph_and_plan, layers, random_module
from tvm import relax
from tvm.relax import op
from zoo import graph


@pytest.mark.slow
def test_every_cut_has_a_reason():
    for seed in range(12):
        found, plan = graph_and_plan(random_module(seed, operators=20))
        written = [var for group in plan.groups for var in group.outputs]
        readers = {
            group.nodes
            for group in plan.groups
            for var in written
            if var not in group.outputs and found.users_of.get(var, frozenset()) & {*group.nodes}
        }
        assert bool(readers) <= bool(plan.cuts)
        for cut in plan.cuts:
            assert cut.reason and cut.writer and cut.reader and cut.bytes > 0 and cut.count > 0


def test_different_rows_are_the_reason_of_a_cut():
    def build(emit, x):
        rows = emit(op.sum(x, axis=-1))
        return emit(op.sum(rows, axis=0))

    (cut,) = graph_and_plan(graph("float32", [(64, 128)], build, lambda x: ()).module)[1].cuts
    assert cut.writer == cut.reader == ("sum",)
    assert "reduce different rows" in cut.reason


def test_a_product_between_is_the_reason_of_a_cut():
    plan = graph_and_plan(layers(3))[1]
    (cut,) = plan.cuts
    assert "matmul runs between them" in cut.reason and cut.count == 2
    assert cut.bytes == 65 * 80 * 4


def test_what_is_saved_is_counted():
    def build(emit, x):
        return emit(op.exp(emit(op.tanh(x))))

    (group,) = plan_of(graph("float32", [(64, 128)], build, lambda x: ()).module).groups
    assert group.launches_saved == 1
    assert group.bytes_saved == 2 * 64 * 128 * 4  # tanh's result, written and read
    assert "1 launch" in group.why


@pytest.mark.parametrize(("activation", "groups"), [("relu", 1), ("hardswish", 2)])
def test_what_windows_read_is_written_where_computing_it_for_each_costs_more(activation, groups):
    """By 3 x 3 windows each element is computed nine times."""

    def build(emit, x, w):
        if activation == "relu":
            y = emit(op.nn.relu(x))
        else:
            gate = emit(op.clip(emit(op.add(x, relax.const(3.0, "float16"))), 0.0, 6.0))
            y = emit(op.divide(emit(op.multiply(x, gate)), relax.const(6.0, "float16")))
        how = {"padding": 1, "groups": 64, "data_layout": "NHWC", "kernel_layout": "HWOI"}
        return emit(op.nn.conv2d(y, w, **how))

    case = graph("float16", [(32, 56, 56, 64), (3, 3, 64, 1)], build, lambda *_: ())
    assert len(plan_of(case.module).groups) == groups
