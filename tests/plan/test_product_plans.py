"""Products on tensor cores are kernels among which the planner chooses, with what follows them."""

import numpy as np
import pytest
from check import H200, HALVES, check, plan_of, primfuncs
from planned import assert_sound, graph_and_plan
from tensor_products import linear, projected
from tvm import relax
from tvm.relax import op
from zoo import Case, graph, norm64, softmax64

import tvm_stitch
from bench.planning.families import LAYER, equal_layers
from tvm_stitch import Options
from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import choose_kernel
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.stitched import stitched_kernel
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE, TensorKernel, tensor_kernel
from tvm_stitch.plan.search import judge
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.read_stages import outputs_of, read_stages

DEVICE = device_of(H200)


def residual_by_another_shape(dtype: str) -> Case:
    """A projection of flat tokens, which get their shape back before the residual is added."""

    def build(emit, x, w, r):
        y = emit(op.reshape(projected(emit, x, w, dtype), (4, 50, 136)))
        return emit(op.add(y, r))

    shapes = [(200, 72), (72, 136), (4, 50, 136)]
    return graph(dtype, shapes, build, lambda x, w, r: (x @ w).reshape(r.shape) + r)


def before_and_after(dtype: str) -> Case:
    """An activation, and what it was computed from, as training needs it."""

    def build(emit, x, w, b):
        h = emit(op.add(projected(emit, x, w, dtype), b))
        return h, emit(op.nn.relu(h))

    def expected(x, w, b):
        return x @ w + b, np.maximum(x @ w + b, 0)

    return graph(dtype, [(150, 200), (200, 136), (136,)], build, expected)


def normalised(dtype: str, depths: tuple[int, ...] = (200,)) -> Case:
    """Products of several depths, each with a residual and a norm: equal but for the products."""

    def build(emit, r, *factors):
        found = []
        for x, w in zip(factors[::2], factors[1::2], strict=True):
            h = emit(op.add(projected(emit, x, w, dtype), r))
            wide = emit(op.astype(h, "float32"))
            centred = emit(op.subtract(wide, emit(op.mean(wide, -1, keepdims=True))))
            variance = emit(op.mean(emit(op.multiply(centred, centred)), -1, keepdims=True))
            scale = emit(op.rsqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))
            found.append(emit(op.astype(emit(op.multiply(centred, scale)), dtype)))
        return tuple(found)

    def expected(r, *factors):
        pairs = zip(factors[::2], factors[1::2], strict=True)
        return tuple(norm64(x @ w + r, np.float64(np.float32(1e-5))) for x, w in pairs)

    shapes = [(130, 136)]
    for depth in depths:
        shapes += [(130, depth), (depth, 136)]
    return graph(dtype, shapes, build, expected)


def scores(dtype: str) -> Case:
    """A softmax of products: nothing that a product's kernel could end with but the rounding."""

    def build(emit, x, w):
        return emit(op.nn.softmax(projected(emit, x, w, dtype), -1))

    return graph(dtype, [(130, 200), (200, 136)], build, lambda x, w: softmax64(x @ w))


@pytest.mark.slow
@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("make", [residual_by_another_shape, before_and_after])
def test_one_kernel_of_what_tvm_would_not_fuse(make, dtype):
    case = make(dtype)
    check(case, kernels=1, orders=2)
    (function,) = primfuncs(case.module).values()
    assert TILES_ATTRIBUTE in function.attrs
    (group,) = plan_of(case.module).groups
    assert "fused" in group.why


@pytest.mark.slow
@pytest.mark.parametrize("depths", [(200,), (200, 72), (72, 200, 264)])
def test_a_residual_goes_to_the_product_and_the_norm_stays_a_kernel(depths):
    case = normalised("float16", depths)
    check(case, kernels=None, orders=2)
    graph_, plan = graph_and_plan(case.module)
    assert_sound(graph_, plan)
    # All products with their residuals share a launch, and all norms are one kernel.
    assert [group.kernels for group in plan.groups] == [len(depths), 1] and not plan.fallbacks


@pytest.mark.slow
def test_a_product_whose_readers_reduce_is_a_kernel_with_the_rounding():
    check(scores("float16"), kernels=2, orders=2)


def test_a_plan_counts_its_products():
    """Whatever the product's kernel ends with, the plan costs at least what it takes alone."""
    case = linear("float16", 2048, 1024, 2048)
    plan = plan_of(case.module)
    (kernel,) = tvm_stitch.explain(case.module, H200).kernels
    assert plan.solved.cost_us >= kernel.predicted_us > 10
    assert plan.solved.cost_us <= plan.solved.greedy_us


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [Options(partition=True), Options(solver="greedy"), Options(workspace_bytes=1 << 20)]
)
def test_other_rules(options):
    check(normalised("float16", (200, 72)), kernels=None, orders=1, options=options)


def test_without_shared_memory_there_are_none():
    schemes = tuple(scheme for scheme in SCHEMES if scheme != "regional")
    plan = plan_of(residual_by_another_shape("float16").module, options=Options(schemes=schemes))
    assert all("matmul" not in group.function for group in plan.groups)


@pytest.mark.slow
def test_a_pinned_plan_with_products_is_followed():
    case = normalised("float16")
    plan = tvm_stitch.explain(case.module, H200).plan
    pinned = Options(plan=tvm_stitch.SavedPlan.from_json(plan.to_json()))
    names = set(primfuncs(case.module, options=pinned))
    assert names == set(primfuncs(case.module))
    check(case, kernels=None, orders=1, options=pinned)


@pytest.mark.parametrize("rows, depth, columns", [(64, 64, 128), (4096, 64, 64), (65536, 32, 64)])
def test_small_products_take_the_cheaper_of_both_ways(rows, depth, columns):
    module = linear("float16", rows, depth, columns).module
    (function,) = primfuncs(module, before="StitchSchedule").values()
    stages = read_stages(function)
    outputs = outputs_of(function, stages)
    found = choose_kernel(stages, outputs, DEVICE)
    product = tensor_kernel(stages, outputs, DEVICE, NO_BOUNDS, SCHEMES)
    assert isinstance(product, TensorKernel)
    stitched = stitched_kernel(stages, outputs, DEVICE, NO_BOUNDS, SCHEMES)
    assert found.cost_us == min(stitched.cost_us, product.cost_us)
    (kernel,) = primfuncs(module).values()
    assert (TILES_ATTRIBUTE in kernel.attrs) == isinstance(found, TensorKernel)


def test_equal_products_that_nothing_takes_are_asked_about_once(monkeypatch):
    asked: list[int] = []

    def counted(stages, *rest):
        asked.extend(is_product(stage) for stage in stages)
        return choose_kernel(stages, *rest)

    monkeypatch.setattr(judge, "choose_kernel", counted)
    plan_of(equal_layers(3 * LAYER))
    assert sum(asked) == 1
