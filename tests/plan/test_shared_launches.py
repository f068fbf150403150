"""Products that wait for nothing of each other share a launch where that should be faster."""

import numpy as np
import pytest
from check import H200, HALVES, check, plan_of, primfuncs
from planned import DEVICE, assert_sound, graph_and_plan
from tensor_products import projected
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph, softmax64

import tvm_stitch
from tvm_stitch import Options
from tvm_stitch.kernel.build import choose_kernel
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.tensor_core.build import read_products
from tvm_stitch.plan.pack import LONGEST_US
from tvm_stitch.stages.stage import Refused


def query_key_value(dtype: str, widths: tuple[int, ...] = (136, 40, 72), rows=50) -> Case:
    """Projections of one input to several widths, each with its bias."""

    def build(emit, x, *given):
        pairs = zip(given[::2], given[1::2], strict=True)
        return tuple(emit(op.add(projected(emit, x, w, dtype), b)) for w, b in pairs)

    def expected(x, *given):
        return tuple(x @ w + b for w, b in zip(given[::2], given[1::2], strict=True))

    shapes = [(rows, 72), *(shape for width in widths for shape in ((72, width), (width,)))]
    return graph(dtype, shapes, build, expected)


def lone(dtype: str) -> Case:
    """Sums in float32 that nothing follows: no region's kernel computes them."""

    def build(emit, x, y, w, v):
        return emit(op.matmul(x, w, "float32")), emit(op.matmul(y, v, "float32"))

    shapes = [(50, 72), (40, 136), (72, 40), (136, 130)]
    return graph(dtype, shapes, build, lambda x, y, w, v: (x @ w, y @ v))


def lone_and_ended(dtype: str) -> Case:
    """A product that a softmax reads, and one with its bias: one runs before the other could."""

    def build(emit, x, w, v, b):
        p = emit(op.nn.softmax(emit(op.matmul(x, w, "float32")), -1))
        return p, emit(op.add(projected(emit, x, v, dtype), b))

    shapes = [(50, 72), (72, 136), (72, 40), (40,)]
    return graph(dtype, shapes, build, lambda x, w, v, b: (softmax64(x @ w), x @ v + b))


def one_after_the_other(dtype: str) -> Case:
    """Each product waits for the one before."""

    def build(emit, x, w, v):
        h = emit(op.nn.relu(projected(emit, x, w, dtype)))
        return h, emit(op.nn.relu(projected(emit, h, v, dtype)))

    def expected(x, w, v):
        h = np.maximum(x @ w, 0)
        return h, np.maximum(h @ v, 0)

    return graph(dtype, [(50, 72), (72, 136), (136, 40)], build, expected)


def residual_of_the_other(dtype: str) -> Case:
    """What one product ends with reads what the other one gives."""

    def build(emit, x, w, v):
        first = emit(op.nn.relu(projected(emit, x, w, dtype)))
        return first, emit(op.add(projected(emit, x, v, dtype), first))

    def expected(x, w, v):
        return np.maximum(x @ w, 0), x @ v + np.maximum(x @ w, 0)

    return graph(dtype, [(50, 72), (72, 136), (72, 136)], build, expected)


def long_after(dtype: str) -> Case:
    """Of two projections of the same input, one is wanted after another product alone."""

    def build(emit, x, e, w, v, u):
        h = emit(op.nn.relu(projected(emit, x, w, dtype)))
        y = projected(emit, h, v, dtype)
        return emit(op.add(y, emit(op.nn.relu(projected(emit, e, u, dtype)))))

    def expected(x, e, w, v, u):
        return np.maximum(x @ w, 0) @ v + np.maximum(e @ u, 0)

    shapes = [(50, 72), (50, 40), (72, 136), (136, 136), (40, 136)]
    return graph(dtype, shapes, build, expected)


def products_of_launches(case: Case, options: Options | None = None) -> list[int]:
    """How many products each function with products has."""
    functions = primfuncs(case.module, options=options, before="StitchSchedule").values()
    found = [read_products(function) for function in functions]
    return sorted(len(each) for each in found if not isinstance(each, Refused))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
def test_query_key_and_value_of_several_widths(dtype):
    case = query_key_value(dtype)
    check(case, kernels=1, orders=2)
    (group,) = plan_of(case.module).groups
    assert group.kernels == 3 and group.cost_us < group.separate_us
    assert_sound(*graph_and_plan(case.module))


@pytest.mark.slow
def test_rows_that_run_time_tells():
    case = query_key_value("float16", rows=(tirx.Var("m", "int64"), 50))
    check(case, kernels=1, orders=2)
    assert products_of_launches(case) == [3]


def test_products_that_no_region_computes():
    case = lone("bfloat16")
    check(case, kernels=1, orders=2)
    graph_, plan = graph_and_plan(case.module)
    assert_sound(graph_, plan)
    assert not plan.fallbacks and plan.groups[0].kernels == 2
    assert not {index for index, _ in plan.reasons} & set(plan.groups[0].nodes)


def test_a_product_alone_stays_what_it_is():
    def build(emit, x, w):
        return emit(op.matmul(x, w, "float32"))

    plan = plan_of(graph("float16", [(50, 72), (72, 136)], build, lambda x, w: x @ w).module)
    assert not plan.groups and len(plan.fallbacks) == 1


def test_one_that_a_region_computes_joins_one_that_none_does():
    case = lone_and_ended("float16")
    check(case, kernels=2, orders=2)
    assert products_of_launches(case) == [2]


@pytest.mark.parametrize("make", [one_after_the_other, residual_of_the_other])
def test_products_that_wait_for_each_other_do_not_share(make):
    case = make("float16")
    check(case, kernels=None, orders=1)
    assert products_of_launches(case) == [1, 1]


@pytest.mark.slow
def test_what_is_wanted_late_may_run_early():
    case = long_after("float16")
    check(case, kernels=None, orders=2)
    graph_, plan = graph_and_plan(case.module)
    assert_sound(graph_, plan)
    assert products_of_launches(case) == [1, 2]


def test_long_ones_keep_their_own_tiles():
    def build(emit, x, w, v):
        return tuple(emit(op.nn.relu(projected(emit, x, each, "float16"))) for each in (w, v))

    shapes = [(131072, 32), (32, 2048), (32, 2048)]
    plan = plan_of(graph("float16", shapes, build, lambda *_: ()).module)
    assert [group.kernels for group in plan.groups] == [1, 1]
    assert all(group.cost_us > LONGEST_US for group in plan.groups)


def test_without_the_scheme_each_has_its_own_launch():
    options = Options(schemes=tuple(scheme for scheme in SCHEMES if scheme != "independent"))
    case = query_key_value("float16")
    assert products_of_launches(case, options) == [1, 1, 1]
    check(lone("float16"), kernels=2, orders=1, options=options)


def test_a_pinned_plan_is_followed():
    case = lone_and_ended("float16")
    plan = tvm_stitch.explain(case.module, H200).plan
    pinned = Options(plan=tvm_stitch.SavedPlan.from_json(plan.to_json()))
    assert products_of_launches(case, pinned) == [2]
    check(case, kernels=2, orders=1, options=pinned)


def test_the_report_says_which_products_share_a_launch():
    report = tvm_stitch.explain(query_key_value("float16").module, H200)
    (kernel,) = report.kernels
    assert kernel.launches == 1 and kernel.scheme == "independent"
    assert kernel.why.startswith(
        "3 products share a launch, each on blocks of its own, and the input p0: products of"
    )
    for width in (136, 40, 72):
        assert f"50 x 72 x {width}" in kernel.why


def steps_of_a_product(rows: int, steps: int) -> Case:
    """What a recurrence takes of one product, step by step: some whole, of some a gate."""

    def build(emit, x, w):
        all_steps = emit(op.reshape(emit(op.matmul(x, w)), (rows, steps, 192)))
        found = []
        for step in range(6):
            now = emit(op.strided_slice(all_steps, axes=[1], begin=[step], end=[step + 1]))
            if step % 3:
                flat = emit(op.reshape(now, (rows, 192)))
                now = emit(op.strided_slice(flat, axes=[1], begin=[64], end=[128]))
            found.append(now)
        return tuple(found)

    def expected(x, w):
        whole = (x @ w).reshape(rows, steps, 192)
        return tuple(whole[:, n, 64:128] if n % 3 else whole[:, n : n + 1] for n in range(6))

    return graph("float32", [(rows * steps, 300), (300, 192)], build, expected)


@pytest.mark.slow
def test_kernels_that_read_and_compute_the_same_view_are_judged_together():
    """One kernel computes for itself a view that the other reads: both in one is no kernel."""
    found, plan = graph_and_plan(steps_of_a_product(256, 32).module)
    assert_sound(found, plan)
    for group in plan.groups:
        stages = tuple(stage for index in group.nodes for stage in found.nodes[index].stages)
        outputs = tuple(map(found.buffer, group.outputs))
        assert not isinstance(choose_kernel(stages, outputs, DEVICE, NO_BOUNDS), Refused)
    check(steps_of_a_product(40, 6), kernels=None)
