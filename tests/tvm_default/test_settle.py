"""What stitching would make worse goes exactly the way TVM would have taken it."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from check import H200, check, is_stitched, primfuncs, stitched
from planned import random_module
from tvm import relax
from tvm.relax import op
from zoo import Case, Graph, graph, softmax64

import tvm_stitch
from tvm_stitch import Options, transform
from tvm_stitch.graph.back import dissolve
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tvm_default import settle


def normalised_and_divided() -> Case:
    """A batch norm over a symbolic axis beside a quotient of single numbers."""
    g = Graph()
    x = g.input("x", (2, 1, (tvm.tirx.Var("m", "int64"), 33)), "float32")
    vectors = [g.input(name, (1,), "float32", np.ones(1)) for name in "abcd"]

    def build(emit, x, *vectors):
        normal = emit(op.nn.batch_norm(x, *vectors, axis=1, epsilon=1e-3, training=False))
        least = emit(op.min(vectors[1], axis=[-1], keepdims=True))
        return emit(relax.TupleGetItem(normal, 0)), emit(op.divide(vectors[1], least))

    case = g.case(build, ((x - 1) / np.sqrt(1 + 1e-3) + vectors[1], np.ones(1)))
    main = case.module["main"].with_attr("tir_var_upper_bound", {"m": 1027})
    return replace(case, module=tvm.IRModule({"main": main}))


@pytest.mark.parametrize(
    ("build", "shape", "dtype"),
    [
        (op.nn.softmax, (40, 50), "float64"),
        (op.nn.log_softmax, (40, 50), "float64"),
        (lambda x: op.tanh(op.mean(x, 1)), (4, 30, 50), "float32"),
        (lambda x: op.sum(op.multiply(x, x), 1), (4, 30, 50), "float32"),
        (lambda x: op.nn.softmax(x, 1), (4, 30, 50), "float32"),
        (lambda x: op.nn.softmax(x, 1), (4, 30, 50), "float16"),
        (lambda x: op.logical_and(op.greater(x, x), op.less(x, op.add(x, x))), (40, 50), "int16"),
        (lambda x: op.logical_and(op.greater(x, x), op.less(x, op.add(x, x))), (40, 50), "uint32"),
    ],
)
def test_no_more_launches_than_tvm_makes(build, shape, dtype):
    x = relax.Var("x", relax.TensorType(shape, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(build(x))
        builder.emit_func_output(output)
    report = tvm_stitch.explain(builder.get(), H200)
    assert report.launches <= report.before.launches
    for kernel in report.kernels:
        assert kernel.stitched or not kernel.name.startswith("stitched_")


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.slow if seed > 5 else ()) for seed in range(12)]
)
def test_random_graphs_never_launch_more_than_tvm(seed):
    report = tvm_stitch.explain(random_module(seed), H200)
    assert report.before.launches is None or report.launches <= report.before.launches


def test_a_float64_operator_goes_whole():
    case = graph("float64", [(40, 50)], lambda emit, x: emit(op.nn.softmax(x)), softmax64)
    assert set(primfuncs(case.module)) == {"softmax"}
    report = tvm_stitch.explain(case.module, H200)
    assert [(f.op, "float64" in f.reason) for f in report.fallbacks] == [("softmax", True)]
    assert [number for number, _ in report.plan.left] == [0]
    # A pinned plan says as well what was left whole.
    pinned = tvm_stitch.explain(case.module, H200, Options(plan=report.plan))
    assert pinned.kernels == report.kernels


def test_what_tvm_refuses_stays_written_out():
    """TVM has no layer norm of float64."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((6, 40), "float64"))
    weight = relax.Var("w", relax.TensorType((40,), "float64"))
    with builder.function("main", [x, weight]):
        with builder.dataflow():
            output = builder.emit_output(op.nn.layer_norm(x, weight, weight, axes=[-1]))
        builder.emit_func_output(output)
    assert tvm_stitch.verify(builder.get(), H200, orders=1).ok


def refuse_merged(monkeypatch, reason: str) -> None:
    """No function that FuseTIR merged into a group can be made a kernel of."""
    real = transform.kernel_of

    def kernel_of(func, *arguments):
        is_group = str(func.attrs.get("global_symbol", "")) == "" and _operators(func) > 3
        return Refused(reason) if is_group else real(func, *arguments)

    monkeypatch.setattr(transform, "kernel_of", kernel_of)


def _operators(func: tvm.tirx.PrimFunc) -> int:
    return str(func).count("T.sblock(") - 1


@pytest.mark.slow
def test_a_group_refused_when_emitted_is_taken_apart(monkeypatch):
    refuse_merged(monkeypatch, "for a test")
    n = tvm.tirx.Var("n", "int64")
    case = graph(
        "float32",
        [((n, 7), 50)],
        lambda emit, x: (emit(op.nn.softmax(emit(op.exp(x)))), emit(op.sum(x, axis=1))),
        lambda x: (softmax64(np.exp(x)), x.sum(1)),
    )
    functions = primfuncs(case.module)
    assert functions and not any(name.startswith("stitched_") for name in functions)
    assert any(name.startswith("fused_") for name in functions)
    assert sum(map(is_stitched, functions.values())) >= 1
    check(case, kernels=None)


def test_the_module_remembers_its_groups_until_they_are_kernels():
    case = graph("float32", [(40, 50)], lambda emit, x: emit(op.nn.softmax(x)), softmax64)
    grouped = stitched(case.module, before="FuseOps")
    (name,) = dissolve.group_names(grouped)
    assert name.startswith("stitched_")
    assert len(grouped.script()) > 0
    assert not dissolve.group_names(stitched(case.module))


@pytest.mark.slow
def test_a_batch_norm_beside_a_quotient():
    """Emission refused the two as one kernel, and TVM's schedules made 0 of a 1."""
    case = normalised_and_divided()
    report = tvm_stitch.explain(case.module, H200)
    assert report.launches <= 2
    check(case, kernels=None)


def two_pairs() -> Case:
    """Two softmaxes, a product behind each, and the softmax of a ReLU behind each of these."""

    def build(emit, x, y, w):
        products = [emit(op.matmul(emit(op.nn.softmax(each)), w)) for each in (x, y)]
        return tuple(emit(op.nn.softmax(emit(op.nn.relu(each)))) for each in products)

    def exact(x, y, w):
        return tuple(softmax64(np.maximum(softmax64(each) @ w, 0)) for each in (x, y))

    return graph("float32", [(300, 300), (200, 300), (300, 300)], build, exact)


@pytest.mark.slow
def test_kernels_that_cannot_share_a_launch_leave_others_theirs(monkeypatch):
    """Where merging spoils one launch that several kernels share, only these are kept apart."""
    real = settle.refused_groups
    shared = tvm_stitch.explain(two_pairs().module, H200).launches

    def refuses_smaller(mod, groups, chooser):
        """The first pair: no group of softmaxes alone is larger."""
        found = [group for group in groups if group.has_several]
        least = min((len(group.nodes) for group in found), default=0)
        smaller = {group.name: "for a test" for group in found if len(group.nodes) == least}
        return smaller if len(found) == 2 else real(mod, groups, chooser)

    monkeypatch.setattr(settle, "refused_groups", refuses_smaller)
    report = tvm_stitch.explain(two_pairs().module, H200)
    assert report.launches == shared + 1
    assert [k.scheme for k in report.kernels if k.stitched].count("independent") == 1
    check(two_pairs(), kernels=None)
