"""TVM's default pipeline runs when somebody asks what was before, and once."""

from check import H200
from documents import masked_softmax
from tvm.relax import op
from tvm.s_tir import dlight
from zoo import graph

from tvm_stitch.report import explain
from tvm_stitch.report.data import TVMS_PIPELINE
from tvm_stitch.report.findings import before


def test_it_runs_only_if_somebody_asks(monkeypatch):
    runs = []
    passes = before.cuda_pipeline.legalize_passes
    monkeypatch.setattr(
        before.cuda_pipeline, "legalize_passes", lambda cuda: runs.append(1) or passes(cuda)
    )
    report = explain(masked_softmax(64, 128), "sm_90")
    assert report.launches == 1 and not runs
    assert report.before.launches == report.before.launches == 2
    assert str(report) and len(runs) == 1


def test_a_module_that_its_owner_changed_meanwhile_is_as_it_was():
    mod = masked_softmax(64, 128)
    report = explain(mod, "sm_90")
    for var in mod.get_global_vars():
        del mod[var]
    assert report.before.launches == 2


def test_its_time_is_among_the_others_where_it_is_told():
    report = explain(masked_softmax(64, 128), "sm_90")
    assert TVMS_PIPELINE not in {each.stage for each in report.passes}
    told = {each["stage"]: each["seconds"] for each in report.to_json()["passes"]}
    assert told[TVMS_PIPELINE] == report.before.seconds > 0


def test_a_schedule_that_fails_on_one_kernel_hides_none(monkeypatch):
    def fails(*_):
        raise AssertionError

    monkeypatch.setattr(dlight.gpu.GeneralReduction, "apply", fails)
    before = explain(masked_softmax(64, 128), "sm_90").before
    assert (before.launches, before.failure) == (4, "")  # by the last rule


def test_what_tvm_would_inline_without_end_is_not_scheduled():
    """Of a tree of operators, such as a scan, TVM computes all leaves for each element."""

    def build(emit, x):
        for _ in range(10):
            x = emit(op.add(emit(op.exp(x)), emit(op.negative(x))))
        return x

    case = graph("float32", [(64, 64)], build, lambda x: x)
    found = explain(case.module, H200).before
    assert found.kernels is None and "1,024 loads" in found.failure
