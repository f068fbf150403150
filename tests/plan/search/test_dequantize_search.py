"""Products of few rows take in what makes halves of their weights, where that is theirs alone."""

import numpy as np
import pytest
from check import H200, HALVES, check, primfuncs
from tensor_products import projected
from tvm import relax
from tvm.relax import op
from zoo import Case, graph_of

from tvm_stitch import Options, transform
from tvm_stitch.plan.planner import plan_graph
from tvm_stitch.plan.regions.levels import find_regions
from tvm_stitch.report import explain

RNG = np.random.default_rng(0)


def weight_only(dtype: str, rows: int, depth: int, columns: int, shown: bool = False) -> Case:
    """A layer with weights of int8 and a scale for each column, as PyTorch's users write it."""
    weights = RNG.integers(-128, 128, (columns, depth)).astype("int8")

    def build(emit, x, w, scales):
        halves = emit(op.astype(w, dtype))
        result = emit(op.multiply(projected(emit, x, emit(op.permute_dims(halves)), dtype), scales))
        return [result, halves] if shown else result

    def expected(x, w, scales):
        result = x @ w.T * scales
        return (result, w) if shown else result

    scales = RNG.random(columns) / 100
    inputs = [((rows, depth), dtype, None), (weights.shape, "int8", weights)]
    return graph_of([*inputs, ((columns,), dtype, scales)], build, expected)


def names(case: Case, options: Options | None = None) -> list[str]:
    """The functions that a module calls."""
    return sorted(primfuncs(case.module, target=H200, options=options))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("rows, depth, columns", [(2, 136, 72), (7, 1032, 264), (16, 72, 1000)])
def test_one_kernel_that_is_right(dtype, rows, depth, columns):
    check(weight_only(dtype, rows, depth, columns), kernels=1, orders=2)


def test_groups_of_a_row_have_scales():
    """Two neighbours of int4 a byte, 32 of which have a scale: shifts, a stack and reshapes."""
    rows, depth, columns, group = 5, 256, 136, 32
    packed = RNG.integers(0, 256, (columns, depth // 2)).astype("uint8")
    scales = RNG.random((columns, depth // group)).astype("float16")

    def build(emit, x, q, s):
        low = emit(op.astype(emit(op.bitwise_and(q, relax.const(15, "uint8"))), "float16"))
        high = emit(op.astype(emit(op.right_shift(q, relax.const(4, "uint8"))), "float16"))
        whole = emit(op.reshape(emit(op.stack([low, high], -1)), (columns, depth // group, group)))
        scaled = emit(op.multiply(whole, emit(op.expand_dims(s, -1))))
        weights = emit(op.reshape(scaled, (columns, depth)))
        return projected(emit, x, emit(op.permute_dims(weights)), "float16")

    def expected(x, q, s):
        nibbles = np.stack([q % 16, q // 16], -1).reshape(columns, depth)
        return x @ (nibbles * np.repeat(s, group, 1)).T

    case = graph_of(
        [((rows, depth), "float16", None), (packed.shape, "uint8", packed),
         (scales.shape, "float16", scales)],
        build, expected,
    )  # fmt: skip
    check(case, kernels=1, orders=2)


def test_a_gated_unit_is_one_kernel():
    """Two matrices of int8 by one input, and what is element-wise of both."""
    rows, depth, columns = 4, 136, 264
    gates, ups = (RNG.integers(-128, 128, (columns, depth)).astype("int8") for _ in range(2))

    def build(emit, x, gate, up, s, t):
        def layer(weights, scales):
            halves = emit(op.multiply(emit(op.astype(weights, "float16")), scales))
            return projected(emit, x, emit(op.permute_dims(halves)), "float16")

        return emit(op.multiply(emit(op.nn.silu(layer(gate, s))), layer(up, t)))

    def expected(x, gate, up, s, t):
        gated = x @ (gate * s).T
        return gated / (1 + np.exp(-gated)) * (x @ (up * t).T)

    scales = [((columns, 1), "float16", RNG.random((columns, 1)) / 500) for _ in range(2)]
    inputs = [((rows, depth), "float16", None)]
    inputs += [(gates.shape, "int8", gates), (ups.shape, "int8", ups), *scales]
    check(graph_of(inputs, build, expected), kernels=1, orders=2)


@pytest.mark.parametrize("rows", [17, 64])
def test_more_rows_multiply_weights_that_are_written(rows):
    """A tensor core's rows are many blocks then, each of which would compute all weights."""
    assert len(names(weight_only("float16", rows, 256, 264))) == 2


def test_weights_that_others_want_are_written():
    case = weight_only("float16", 4, 256, 264, shown=True)
    assert len(names(case)) == 2
    check(case, kernels=None, orders=1)


def test_no_kernel_of_few_rows_no_weights_on_the_way():
    """Switched off, the product is TVM's, and so are its weights."""
    schemes = tuple(each for each in Options().schemes if each not in ("regional", "library"))
    case = weight_only("float16", 4, 256, 264)
    assert len(names(case, Options(schemes=schemes))) > 1


def test_a_pinned_plan_is_followed():
    case = weight_only("float16", 4, 256, 264)
    plan = explain(case.module, H200).plan
    assert [len(group.nodes) for group in plan.blocks[0].groups] == [3]
    assert len(names(case, Options(plan=plan))) == 1


def test_regions_that_others_plan_are_of_the_same_graph(monkeypatch):
    """As in processes of their own, which read the graph anew."""
    asked = []

    def planned(graph, device, bounds, options, explained, timed, known, source):
        asked.append((graph, device, bounds, options, source))
        return plan_graph(graph, device, bounds, options, explained, timed, known, source)

    monkeypatch.setattr(transform, "plan_graph", planned)
    names(weight_only("float16", 4, 256, 264))
    ((graph, device, bounds, options, source),) = asked
    assert [node.name for node in graph.nodes if node.is_composite] == ["matmul_cast"]
    regions = find_regions(graph)
    job = source.job(regions, device, bounds, options, {}, 60.0)
    assert [each.indices for each in job.regions] == [each.indices for each in regions]


def test_the_report_says_what_is_read():
    """Bytes of the kernel are those of int8."""
    found = explain(weight_only("float16", 4, 1024, 2048).module, H200)
    (kernel,) = found.kernels
    assert kernel.name.startswith("stitched_matmul_cast")
    assert "16 columns of all rows" in kernel.mapping
    least = 1024 * 2048 + 2 * (4 * 1024 + 2048 + 4 * 2048)
    assert kernel.floor_us == pytest.approx(least / 4.8e12 * 1e6, rel=0.3)
