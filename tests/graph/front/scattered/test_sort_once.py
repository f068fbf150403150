"""Indices that send updates to rows several times: sorted once, and summed as they lie then."""

from dataclasses import replace

import numpy as np
import pytest
from check import H200, check
from tvm import relax
from tvm.relax import op
from zoo import graph_of

from tvm_stitch import explain
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.graph.front.scattered import sort_once
from tvm_stitch.kernel.scattered import kind
from tvm_stitch.options import Options
from tvm_stitch.verify import rounded, stitched_for_cpu

SORTS = "sort_by_row"


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch):
    monkeypatch.setattr(sort_once, "FEWEST", 1)
    monkeypatch.setattr(sort_once, "FEWEST_CALLS", 2)


def random(rows, count):
    return np.random.default_rng(count + rows).integers(0, rows, count)


def softmax(rows, indices, columns=4, dtype="float32", of="int64", places=()):
    """Of the edges that end in a node: the largest, and the sum of what is left of others."""
    count = len(indices)
    places = places or (count,)

    def build(emit, at, x, y):
        zeros = emit(op.zeros(relax.ShapeExpr((rows, columns)), dtype))
        most = emit(op.scatter_nd(zeros, at, x, "max"))
        scaled = emit(op.multiply(x, y))
        total = emit(op.scatter_nd(zeros, at, emit(op.exp(scaled)), "add"))
        return emit(op.divide(most, emit(op.add(total, relax.const(1.0, dtype)))))

    def expected(at, x, y):
        most, total, at = np.zeros((rows, columns)), np.ones((rows, columns)), at.reshape(-1)
        np.maximum.at(most, at.astype(int), x.reshape(count, columns))
        np.add.at(total, at.astype(int), np.exp(x * y).reshape(count, columns))
        return most / total

    inputs = [
        ((*places, 1), of, indices.reshape(*places, 1).astype(of)),
        ((*places, columns), dtype, None),
        ((*places, 1), dtype, None),
    ]
    return graph_of(inputs, build, expected)


def launched(case, options=None):
    """The names of all kernels, without their ending."""
    found = explain(case.module, H200, options)
    assert not found.fallbacks
    return [kernel.name.removesuffix("_kernel") for kernel in found.kernels]


@pytest.mark.spread(3)
@pytest.mark.parametrize("columns", [1, 5, 32, 33, 200])
@pytest.mark.parametrize("rows, count", [(1, 1), (7, 31), (300, 1027), (1000, 33)])
def test_rows_add_up_what_is_sorted(rows, count, columns):
    case = softmax(rows, random(rows, count), columns)
    assert launched(case)[0] == SORTS
    check(case, kernels=None)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("of", ["int32", "int64"])
def test_halves_are_summed_in_float32(dtype, of):
    check(softmax(40, random(40, 300), 12, dtype, of), kernels=None)


def test_indices_may_have_several_dimensions():
    check(softmax(40, random(40, 300), 6, places=(20, 15)), kernels=None)


@pytest.mark.parametrize("columns", [4, 64])
def test_rows_that_many_indices_name(columns):
    """All threads of a block share each."""
    many = np.random.default_rng(5).permutation([*np.repeat([3, 9, 90], 300), *random(100, 90)])
    check(softmax(100, many, columns), kernels=None)


@pytest.mark.parametrize("columns, threads", [(200, (64,)), (4, (256,)), (16, (32,))])
def test_blocks_of_all_sizes(monkeypatch, columns, threads):
    monkeypatch.setattr(kind, "SORTED_THREADS", threads)
    check(softmax(61, random(61, 500), columns), kernels=None)


def test_what_goes_to_no_row_goes_nowhere():
    indices = random(60, 500) - 10
    case = softmax(33, np.clip(indices, 0, 32))
    arrays = rounded(case.module, case.arrays)
    inside = (indices >= 0) & (indices < 33)
    arrays[0] = indices.reshape(-1, 1)
    most, total = np.zeros((33, 4)), np.ones((33, 4))
    np.maximum.at(most, indices[inside], arrays[1][inside])
    np.add.at(total, indices[inside], np.exp(arrays[1] * arrays[2])[inside])
    runner = Runner(stitched_for_cpu(case.module, H200), H200)
    found = [runner.run(arrays, seed)[0] for seed in range(3)]
    assert not runner.hazards
    for each in found:
        np.testing.assert_array_equal(each, found[0])
        np.testing.assert_allclose(each, most / total, rtol=1e-5, atol=1e-5)


def test_sums_are_reduced_along_their_rows():
    """What is made of them is in the same kernel."""
    indices, count = random(61, 700), 700

    def build(emit, at, x, bias):
        zeros = emit(op.zeros(relax.ShapeExpr((61, 40)), "float32"))
        first = emit(op.nn.softmax(emit(op.add(emit(op.scatter_nd(zeros, at, x, "add")), bias))))
        halves = emit(op.multiply(x, relax.const(0.5, "float32")))
        return emit(op.add(first, emit(op.scatter_nd(zeros, at, halves, "min"))))

    def expected(at, x, bias):
        total, least, at = np.zeros((61, 40)), np.zeros((61, 40)), at[:, 0].astype(int)
        np.add.at(total, at, x)
        np.minimum.at(least, at, x * 0.5)
        exps = np.exp(total + bias - (total + bias).max(1, keepdims=True))
        return exps / exps.sum(1, keepdims=True) + least

    inputs = [((count, 1), "int64", indices.reshape(-1, 1))]
    inputs += [((count, 40), "float32", None), ((40,), "float32", None)]
    case = graph_of(inputs, build, expected)
    assert any("scatter_nd" in name and "exp_sum" in name for name in launched(case))
    check(case, kernels=None)


def two_layers(count=400, computed=False):
    """Messages along edges, there and back, twice: the indices of both ends are sorted."""
    source, target = random(50, count), random(30, count)

    def build(emit, source, target, x):
        zeros = [emit(op.zeros(relax.ShapeExpr((rows, 8)), "float32")) for rows in (50, 30)]
        if computed:
            source = emit(op.add(source, relax.const(1, "int64")))
            source = emit(op.subtract(source, relax.const(1, "int64")))
        for _ in range(2):
            there = emit(op.scatter_nd(zeros[1], target, x, "add"))
            sent = emit(op.take(there, emit(op.squeeze(target, [1])), 0))
            back = emit(op.scatter_nd(zeros[0], source, emit(op.tanh(sent)), "add"))
            x = emit(op.take(back, emit(op.squeeze(source, [1])), 0))
        return x

    def expected(source, target, x):
        source, target = source[:, 0].astype(int), target[:, 0].astype(int)
        for _ in range(2):
            there, back = np.zeros((30, 8)), np.zeros((50, 8))
            np.add.at(there, target, x)
            np.add.at(back, source, np.tanh(there[target]))
            x = back[source]
        return x

    inputs = [((count, 1), "int64", each.reshape(-1, 1)) for each in (source, target)]
    return graph_of([*inputs, ((count, 8), "float32", None)], build, expected)


@pytest.mark.parametrize("computed", [False, True])
def test_several_are_sorted_by_one_kernel(computed):
    case = two_layers(computed=computed)
    names = launched(case)
    assert names.count(SORTS) == 1
    (sorts,) = (k for k in explain(case.module, H200).kernels if k.name.startswith(SORTS))
    assert "400 updates by 30 rows and 400 updates by 50 rows" in sorts.why
    assert sorts.scheme == "global"
    assert sorts.predicted_us
    check(case, kernels=None)


def test_what_is_not_worth_it_is_not_sorted(monkeypatch):
    """One call, few updates, many of them, or no barriers of the grid."""
    assert SORTS not in launched(softmax(40, random(40, 300)), without("global"))
    for fewest, most in ((301, 400), (1, 299)):
        monkeypatch.setattr(sort_once, "FEWEST", fewest)
        monkeypatch.setattr(sort_once, "MOST", most)
        assert SORTS not in launched(softmax(40, random(40, 300)))


def without(scheme):
    options = Options()
    return replace(options, schemes=tuple(each for each in options.schemes if each != scheme))


def test_what_updates_are_made_of_has_a_cost():
    """What is computed for every element of an update, from wherever memory says."""

    def sums(computed):
        count, rows = 40000, 5000

        def build(emit, at, chosen, x):
            zeros = emit(op.zeros(relax.ShapeExpr((rows, 64)), "float32"))
            if computed:
                x = emit(op.tanh(emit(op.exp(emit(op.multiply(emit(op.take(x, chosen, 0)), x))))))
            total = emit(op.scatter_nd(zeros, at, x, "add"))
            return emit(op.add(total, emit(op.scatter_nd(zeros, at, x, "max"))))

        shapes = ((count, 1), "int64"), ((count,), "int64"), ((count, 64), "float32")
        arrays = random(rows, count).reshape(-1, 1), random(count, count), None
        inputs = [(*shape, values) for shape, values in zip(shapes, arrays, strict=True)]
        return graph_of(inputs, build, lambda *_: ())

    plain, dear = (explain(sums(each).module, H200).kernels for each in (False, True))
    least = [sum(k.predicted_us for k in found if k.name[:4] != "sort") for found in (plain, dear)]
    assert least[1] > 1.1 * least[0]
