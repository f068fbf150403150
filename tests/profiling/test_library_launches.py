"""Kernels of NVIDIA's libraries count as those of the entries whose calls launched them."""

from dataclasses import replace

import pytest

from tvm_stitch.profiling.data import Event, Run
from tvm_stitch.profiling.join import joined
from tvm_stitch.profiling.library_launches import with_library_launches
from tvm_stitch.report import Report
from tvm_stitch.report.data import Flow, Kernel


def report(*launches):
    """What launches these kernels in order; those of the library are in capitals."""
    names = list(dict.fromkeys(launches))
    kernels = tuple(
        Kernel(name, (), "library" if name.isupper() else "warp", "", 64, 64, 1.0, 2.0, "")
        for name in names
    )
    flow = Flow(tuple(names.index(name) for name in launches))
    return replace(Report.of_nothing("H200"), kernels=kernels, flow=flow)


def events(*names):
    return [Event(name, 2.0 * place, 1.0) for place, name in enumerate(names)]


@pytest.mark.parametrize(
    ("expected", "launched", "named"),
    [
        ("a GEMM b", "a nvjet b", "a GEMM b"),
        ("GEMM a CONV", "nvjet a Memset xmma reduce", "GEMM a CONV"),
        ("a GEMM CONV b", "a nvjet xmma b", "a GEMM CONV b"),
        ("a GEMM CONV b", "a nvjet Memset xmma b", "a GEMM Memset CONV b"),
        ("a GEMM CONV b", "a nvjet reduce xmma b", "a nvjet reduce xmma b"),  # whose is reduce?
        ("a GEMM a GEMM a", "a nvjet a cutlass a", "a GEMM a GEMM a"),
        ("a b", "a thrust b", "a thrust b"),
        ("a GEMM b", "b nvjet a", "b nvjet a"),  # not the order that was expected
    ],
)
def test_what_runs_between_two_kernels_belongs_to_the_calls_between_them(expected, launched, named):
    found = with_library_launches(events(*launched.split()), report(*expected.split()))
    assert [event.name for event in found] == named.split()


def test_several_kernels_of_a_call_are_one_launch():
    run = Run(tuple(events("a", "Memset", "splitk", "reduce", "b")))
    profile = joined([run], "a clock", "H200", report("a", "GEMM", "b"))
    (product,) = (kernel for kernel in profile.kernels if kernel.name == "GEMM")
    assert (product.launches, product.measured_us, product.predicted_us) == (1, 3.0, 2.0)
    assert product.library == "Memset, splitk, reduce"
    assert profile.gaps_us == 4.0 and "GEMM: Memset, splitk, reduce" in str(profile)
