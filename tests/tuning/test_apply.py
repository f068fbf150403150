"""Records at build time: the best legal one is applied, and nothing else."""

import json
import warnings
from dataclasses import replace

import pytest
import tvm
from check import A100, H200, schedule_of
from tuning_runs import MadeUpRunner, chosen, softmax_model
from tvm import relax, tirx

import tvm_stitch
from tvm_stitch.build import stitch_passes
from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.tuning.apply import RecordWarning, origin_of
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.search import Trial
from tvm_stitch.tuning.spaces.space import Space
from tvm_stitch.tuning.store import Store
from tvm_stitch.tuning.tune import record_of
from tvm_stitch.tuning.workloads import find_workloads

# Legal for a softmax of 4096 x 256, and not what is chosen.
UNUSUAL = Schedule((Rows(threads=16, rows=4, vector=2, steps=8),))
BETTER = Schedule((Rows(threads=32, rows=2, vector=4, steps=2),))
AGAIN = Schedule((Rows(256, 1, 1, 1, residence="nowhere", recompute=True),))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "records.jsonl")


def records(model=None, gpu="H200", target=H200, **costs):
    """Records of a model's only kernel: one for each schedule."""
    (workload,) = find_workloads(model or softmax_model(), target).workloads
    named = {"unusual": UNUSUAL, "better": BETTER, "again": AGAIN, "analytic": chosen(workload)}
    runner = MadeUpRunner(gpu=gpu)
    return [
        record_of(runner, workload, Trial(int(name != "analytic"), named[name], Outcome(cost)), 0)
        for name, cost in costs.items()
    ]


def kernel(store, model=None, target=H200):
    """The only kernel of a model, compiled with a store."""
    module = model or softmax_model()
    with target:
        for each in stitch_passes(target, database=store.path, default_schedules=False):
            module = each(module)
    (found,) = (f for f in module.functions.values() if isinstance(f, tirx.PrimFunc))
    return found


def applied(store, model=None, target=H200):
    """Schedule and origin, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecordWarning)
        found = kernel(store, model, target)
    return schedule_of(found), origin_of(found)


def passed_over(store, why, model=None, target=H200):
    """The record is not applied, and a warning says why."""
    with pytest.warns(RecordWarning, match=why):
        found = kernel(store, model, target)
    assert origin_of(found) == "chosen"


# What is applied


def test_rows_that_are_read_again_in_every_phase_are_explained(store):
    store.append(records(again=1.0, analytic=4.0))
    (entry,) = tvm_stitch.explain(softmax_model(), H200, database=store.path).kernels
    assert entry.origin == "tuned" and "row read again in every phase" in entry.mapping
    assert set(entry.schemes.values()) == {"regional"}


def test_the_best_record_is_applied(store):
    store.append(records(unusual=3.0, better=2.0, analytic=4.0))
    assert applied(store) == (BETTER, "tuned")


def test_where_the_analytic_choice_won_it_stays(store):
    store.append(records(unusual=3.0, analytic=2.0))
    schedule, origin = applied(store)
    assert schedule not in (UNUSUAL, BETTER)
    assert origin == "tuned"


def test_times_win_over_counts(store):
    counted = [replace(r, unit="accesses", cost=1.0) for r in records(unusual=3.0)]
    store.append(counted)
    assert applied(store) == (UNUSUAL, "tuned by accesses")
    store.append(records(better=2.0))
    assert applied(store) == (BETTER, "tuned")


def test_records_hold_whatever_the_model_calls_its_values(store):
    store.append(records(unusual=3.0))
    x = relax.Var("activations", relax.TensorType((4096, 256), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.softmax(x, -1), "probabilities")
        builder.emit_func_output(out)
    assert applied(store, builder.get()) == (UNUSUAL, "tuned")


def test_explain_says_what_was_tuned(store):
    store.append(records(unusual=3.0))
    report = tvm_stitch.explain(softmax_model(), H200, database=store.path)
    (entry,) = report.kernels
    assert entry.origin == report.to_json()["kernels"][0]["origin"] == "tuned"
    assert "16 threads per row" in entry.mapping
    assert "(tuned)" in str(report)
    (plain,) = tvm_stitch.explain(softmax_model(), H200).kernels
    assert plain.origin == "chosen"


def test_compile_and_pipeline_apply_records(store):
    store.append(records(unusual=3.0))
    tuned = tvm_stitch.compile(softmax_model(), H200, database=store.path)
    piped = tvm.compile(
        softmax_model(), H200, relax_pipeline=tvm_stitch.pipeline(H200, database=str(store.path))
    )
    plain = tvm_stitch.compile(softmax_model(), H200)
    sources = [e.mod.imports[0].imports[0].inspect_source() for e in (tuned, piped, plain)]
    threads = ["__launch_bounds__(64)" in source for source in sources]
    assert threads == [True, True, False]


# What is not


def test_another_gpu(store):
    store.append(records(gpu="NVIDIA H200 NVL", unusual=1.0))
    passed_over(store, r"records of another GPU are not applied: NVIDIA H200 NVL \(sm_90\)")


def test_another_architecture(store):
    store.append(records(unusual=1.0))
    passed_over(store, "another GPU", target=A100)


def test_another_version_of_the_package(store):
    store.append(replace(record, package="0.0") for record in records(unusual=1.0))
    passed_over(store, "records of another version are not applied: tvm_stitch 0.0")


def test_a_failed_trial(store):
    failed = [replace(r, cost=None, error="it hung") for r in records(unusual=1.0)]
    store.append(failed)
    assert applied(store)[1] == "chosen"


@pytest.mark.parametrize(
    ("field", "value", "why"),
    (
        ("threads", 7, "no power of two"),
        ("threads", 1 << 30, "blocks of"),
        ("steps", 1, "of which it covers"),
        ("scheme", "global", "with the fields"),
        ("cluster", 2, "blocks of a cluster share one row"),
        ("residence", "shared", "wait in registers"),
        ("vector", 16, "of which|elements|covers|aligned|vectors|registers"),
    ),
)
def test_a_record_edited_to_an_illegal_schedule(store, field, value, why):
    (record,) = records(unusual=1.0)
    data = json.loads(record.to_line())
    data["schedule"]["parts"][0][field] = value
    store.path.write_text(json.dumps(data) + "\n")
    if field == "vector":  # more than 16 bytes at once, but right: it is written out in pieces
        assert applied(store)[1] == "tuned"
    else:
        passed_over(store, why)


def test_the_next_best_record_stands_in_for_an_illegal_one(store):
    best, second = records(better=1.0, unusual=2.0)
    wrong = Schedule((replace(BETTER.parts[0], steps=1),))
    store.append([replace(best, schedule=wrong), second])
    with pytest.warns(RecordWarning, match="of which it covers 128"):
        assert schedule_of(kernel(store)) == UNUSUAL


def test_unreadable_lines_are_told(store):
    store.append(records(unusual=1.0))
    with store.path.open("a") as file:
        file.write("scribble\n")
    with pytest.warns(RecordWarning, match="line 2: not JSON"):
        assert schedule_of(kernel(store)) == UNUSUAL


@pytest.mark.slow
def test_schemes_that_are_switched_off_are_not_applied(store):
    model = softmax_model(512, 8192)
    (of,) = find_workloads(model, H200).workloads
    space = Space(of.programs, of.groups, of.device)
    cluster = next(p.schedule for p in space if p.schedule.scheme == "cluster")
    runner = MadeUpRunner(gpu="H200")
    store.append([record_of(runner, of, Trial(1, cluster, Outcome(1.0)), 0)])
    options = tvm_stitch.Options(schemes=("local", "warp", "regional"))
    with pytest.warns(RecordWarning, match="cluster scheme is switched off"):
        (entry,) = tvm_stitch.explain(model, H200, options, database=store.path).kernels
    assert (entry.origin, entry.scheme) == ("chosen", "regional")
    (entry,) = tvm_stitch.explain(model, H200, database=store.path).kernels
    assert (entry.origin, entry.scheme) == ("tuned", "cluster")


# Other shapes


def test_the_nearest_shape_lends_its_schedule(store):
    store.append(records(unusual=1.0, analytic=2.0))
    store.append(records(softmax_model(16384, 512), better=1.0, analytic=2.0))
    schedule, origin = applied(store, softmax_model(6000, 256))
    assert schedule == UNUSUAL
    assert origin == "tuned for 4096 x 256"


def test_steps_and_alignment_follow_the_shape(store):
    store.append(records(better=1.0, analytic=2.0))
    schedule, origin = applied(store, softmax_model(4096, 301))
    (part,) = schedule.parts
    assert part == replace(BETTER.parts[0], steps=3, peeled=True)
    assert origin.startswith("tuned for")


@pytest.mark.parametrize(
    "model",
    (softmax_model(4096, 8192), softmax_model(4096, 256, "float16")),
    ids=("far away", "another dtype"),
)
def test_other_workloads_stay_as_they_are(store, model):
    store.append(records(unusual=1.0, analytic=2.0))
    assert applied(store, model)[1] == "chosen"


def test_where_the_analytic_choice_won_nothing_is_transferred(store):
    store.append(records(unusual=2.0, analytic=1.0))
    assert applied(store, softmax_model(6000, 256))[1] == "chosen"


def test_symbolic_rows_take_the_nearest_record(store):
    store.append(records(unusual=1.0, analytic=2.0))
    rows = tirx.Var("n", "int64")
    assert applied(store, softmax_model(rows, 256)) == (UNUSUAL, "tuned for 4096 x 256")
