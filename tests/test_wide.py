"""Long rows: clusters, rows in shared memory, copies that arrive while threads work."""

from dataclasses import replace

import pytest
from check import H200, check, schedule_of, the_kernel
from zoo import layer_norm, residual_rms_norm, softmax

from tvm_stitch.device import device_of
from tvm_stitch.kernel import build
from tvm_stitch.kernel.legal import Legality
from tvm_stitch.kernel.schedule import Schedule


@pytest.fixture
def laid_out(monkeypatch):
    """Lays every kernel out in its own way."""

    def with_fields(**changes):
        def choose(programs, *_):
            (program,) = programs
            found = build_choose(programs, *_)
            mapping = replace(found.parts[0], batch=1, ahead=False, resident=0, **changes)
            wide = mapping.cluster * mapping.threads * mapping.vector
            legality = Legality(program, device_of(H200))
            reach = legality.columns + (mapping.vector - 1 if mapping.peeled else 0)
            mapping = replace(mapping, steps=-(-reach // wide))
            assert legality.refusal(mapping) is None, legality.refusal(mapping)
            return Schedule((mapping,))

        build_choose = build.choose
        monkeypatch.setattr(build, "choose", choose)

    return with_fields


SHARED = {"residence": "shared", "recompute": True, "rows": 1}


@pytest.mark.parametrize("graph", (softmax, layer_norm, residual_rms_norm))
@pytest.mark.parametrize(
    "cluster, threads, columns", ((1, 64, 1027), (2, 64, 1024), (16, 128, 999))
)
def test_blocks_of_a_cluster(laid_out, graph, columns, cluster, threads):
    scheme = "cluster" if cluster > 1 else "regional"
    laid_out(scheme=scheme, cluster=cluster, threads=threads, **SHARED)
    case = graph("bfloat16", 3, columns)
    assert schedule_of(the_kernel(case.module)).parts[0].cluster == cluster
    check(case)


@pytest.mark.parametrize("graph", (softmax, layer_norm))
@pytest.mark.parametrize("cluster, columns", ((1, 1000), (2, 8), (4, 10000)))
def test_rows_copied_asynchronously(laid_out, graph, columns, cluster):
    scheme = "cluster" if cluster > 1 else "regional"
    laid_out(scheme=scheme, cluster=cluster, threads=64, asynchronous=True, **SHARED)
    case = graph("bfloat16", 3, columns)
    assert schedule_of(the_kernel(case.module)).parts[0].asynchronous
    check(case)


@pytest.mark.parametrize("columns", (7, 1000, 1027))
@pytest.mark.parametrize("residence", ("register", "shared"))
def test_maximum_and_sum_in_one_pass(laid_out, residence, columns):
    laid_out(
        scheme="regional", threads=64, rows=1, online=True, residence=residence, recompute=True
    )
    check(softmax("bfloat16", 3, columns))
