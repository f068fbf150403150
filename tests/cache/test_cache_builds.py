"""What a second build of a model takes from the cache: the plan, the kernels, all of it or none."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from check import A100, H200
from repeated_builds import builds_of, killed_at_any_time
from tuning_runs import MadeUpRunner, chosen
from tvm import relax
from zoo import softmax

import tvm_stitch
from tvm_stitch import Options, device
from tvm_stitch.build import lowering_context, pipeline
from tvm_stitch.cache import lowered as cache_lowered
from tvm_stitch.cache import schedules
from tvm_stitch.cache.store import CacheWarning, store_of
from tvm_stitch.commands import cli
from tvm_stitch.plan import planner
from tvm_stitch.transform import grouped
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.search import Trial
from tvm_stitch.tuning.store import Store
from tvm_stitch.tuning.tune import record_of
from tvm_stitch.tuning.workloads import find_workloads
from tvm_stitch.tvm_default import default_schedules

MODULE = softmax("float32", 4, 8).module


@pytest.fixture
def plans(monkeypatch) -> list[int]:
    """Receives something whenever a dataflow block is planned."""
    made: list[int] = []

    def counted(*arguments, **named):
        made.append(len(arguments))
        return planner.plan_graph(*arguments, **named)

    monkeypatch.setitem(grouped.__globals__, "plan_graph", counted)
    return made


def lowered(module, cache, target=H200, **named):
    options = named.pop("options", Options(cache=cache))
    with lowering_context():
        return pipeline(target, options, **named)(module)


def weighted(seed=0, scale=2.0, symbolic=False, size=64) -> tvm.IRModule:
    """softmax(x @ w * scale), the weights constants."""
    weight = relax.const(np.random.default_rng(seed).random((size, size), "float32"))
    rows = tvm.tirx.Var("n", "int64") if symbolic else 65
    x = relax.Var("x", relax.TensorType((rows, size), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, weight))
            scaled = builder.emit(relax.op.multiply(product, relax.const(np.float32(scale))))
            out = builder.emit_output(relax.op.nn.softmax(scaled))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("module", [MODULE, weighted(), weighted(symbolic=True)])
def test_a_second_build_plans_nothing_and_is_the_same(tmp_path, plans, module):
    first = lowered(module, tmp_path)
    many = len(plans)
    assert many and tvm_ffi.structural_equal(lowered(module, tmp_path), first)
    assert len(plans) == many
    assert tvm_ffi.structural_equal(lowered(module, "off"), first) and len(plans) > many


def test_it_holds_for_the_next_process(tmp_path, plans):
    first = lowered(MODULE, tmp_path)
    plans.clear()
    again = tvm.ir.load_json(tvm.ir.save_json(MODULE))
    assert tvm_ffi.structural_equal(lowered(again, tmp_path), first) and not plans


@pytest.mark.parametrize(
    "changed",
    [
        {"module": softmax("float32", 4, 16).module},
        {"target": A100},
        {"options": {"fast_math": True}},
        {"options": {"launch_us": 2.0}},
        {"versions": "another"},
        {"multiprocessors": 114},  # of this machine's GPU, where the target names none
    ],
    ids=str,
)
def test_what_differs_is_planned_anew(tmp_path, plans, monkeypatch, changed):
    lowered(MODULE, tmp_path)
    plans.clear()
    if "versions" in changed:
        monkeypatch.setattr(cache_lowered, "versions", lambda: changed["versions"])
    if "multiprocessors" in changed:
        here = replace(device.device_of(H200), multiprocessors=changed["multiprocessors"])
        monkeypatch.setattr(device, "_read_off", lambda *_: here)
    options = Options(cache=tmp_path, **changed.get("options", {}))
    lowered(changed.get("module", MODULE), None, changed.get("target", H200), options=options)
    assert plans


def test_records_that_were_added_count(tmp_path, plans):
    database = tmp_path / "records.jsonl"
    database.touch()
    lowered(MODULE, tmp_path)
    lowered(MODULE, tmp_path, database=database)
    assert len(plans) == 1
    (workload,) = find_workloads(MODULE, H200).workloads
    trial = Trial(0, chosen(workload), Outcome(1.0))
    Store(database).append([record_of(MadeUpRunner(gpu="H200"), workload, trial, 0)])
    plans.clear()
    first = lowered(MODULE, tmp_path, database=database)
    assert plans and tvm_ffi.structural_equal(lowered(MODULE, tmp_path, database=database), first)
    assert len(plans) == 1


def test_weights_are_not_written_and_not_mixed_up(tmp_path, plans):
    first, other, scaled = weighted(0), weighted(1), weighted(0, scale=3.0)
    found = [lowered(module, tmp_path) for module in (first, other, scaled)]
    assert len(plans) == 3
    assert sum(p.stat().st_size for p in (tmp_path / "modules").iterdir()) < 3 * 64 * 64 * 4
    again = [lowered(module, tmp_path) for module in (first, other, scaled)]
    assert len(plans) == 3
    for one, two in zip(found, again, strict=True):
        assert tvm_ffi.structural_equal(one, two)
    assert not tvm_ffi.structural_equal(again[0], again[1])


def test_constants_that_are_folded_are_kept_with_it(tmp_path, plans):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    weight = relax.const(np.random.default_rng(0).random((64, 64), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            turned = builder.emit(relax.op.exp(weight))
            out = builder.emit_output(relax.op.nn.softmax(relax.op.add(x, turned)))
        builder.emit_func_output(out)
    first = lowered(builder.get(), tmp_path)
    assert tvm_ffi.structural_equal(lowered(builder.get(), tmp_path), first) and len(plans) == 1


def test_who_listens_dumps_or_adds_passes_gets_a_build(tmp_path, plans):
    lowered(MODULE, tmp_path)
    plans.clear()
    listener = tvm.ir.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, instruments=[listener]):
        lowered(MODULE, tmp_path)
    assert len(plans) == 1
    lowered(MODULE, None, options=Options(cache=tmp_path, dump=tmp_path / "stages"))
    assert len(plans) == 2 and any((tmp_path / "stages").iterdir())
    lowered(MODULE, tmp_path, planned=[relax.transform.Normalize()])
    assert len(plans) == 3
    lowered(MODULE, tmp_path, planned=[relax.transform.Normalize()], kept_as="normalized")
    lowered(MODULE, tmp_path, planned=[relax.transform.Normalize()], kept_as="normalized")
    assert len(plans) == 4


def test_a_plan_that_ran_out_of_time_is_not_kept(tmp_path, plans):
    options = Options(cache=tmp_path, time_limit_s=1e-9)
    lowered(MODULE, None, options=options)
    lowered(MODULE, None, options=options)
    assert not (tmp_path / "modules").exists()


def test_a_damaged_module_is_made_anew(tmp_path, plans):
    first = lowered(MODULE, tmp_path)
    (path,) = (tmp_path / "modules").iterdir()
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.warns(CacheWarning, match="damaged"):
        assert tvm_ffi.structural_equal(lowered(MODULE, tmp_path), first)
    assert len(plans) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lowered(MODULE, tmp_path)
    assert len(plans) == 2


def test_a_module_that_fails_leaves_the_cache_usable(tmp_path, monkeypatch):
    def failing(*_arguments, **_named):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setitem(grouped.__globals__, "plan_graph", failing)
        with pytest.raises(RuntimeError):
            lowered(MODULE, tmp_path)
    assert not [path for path in tmp_path.glob("modules/*")]
    lowered(MODULE, tmp_path)
    assert len([path for path in tmp_path.glob("modules/*")]) == 1


def test_a_schedule_that_took_tvm_long_serves_other_models(tmp_path, monkeypatch):
    asked = []

    def slow(name, function, target):
        asked.append(name)
        return scheduled(name, function, target)

    scheduled = default_schedules._scheduled
    monkeypatch.setattr(default_schedules, "_scheduled", slow)
    monkeypatch.setattr(schedules, "LONG", 0.0)
    first = lowered(weighted(0, size=512), tmp_path)
    many = len(asked)
    assert many and tvm_ffi.structural_equal(lowered(weighted(0, size=512), tmp_path), first)
    lowered(
        weighted(1, size=512), tmp_path
    )  # another module, for its weights; the product is the same
    assert len(asked) == many
    monkeypatch.setattr(schedules, "LONG", 60.0)
    lowered(weighted(0, size=512), tmp_path / "other")
    assert len(asked) > many and not (tmp_path / "other" / schedules.KIND).exists()


def test_pytorchs_parts_are_taken_from_it(tmp_path, plans):
    torch = pytest.importorskip("torch")
    from tvm_stitch.dynamo.machine import lowered_for_cuda
    from tvm_stitch.dynamo.settings import Settings

    rows = tvm.tirx.Var("n", "int64")
    sizes = relax.Var("sizes", relax.ShapeType([rows]))
    x, w = (relax.Var("x", relax.TensorType((n, 64), "float32")) for n in (rows, 64))
    builder = relax.BlockBuilder()
    with builder.function("main", [sizes, x, w]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(builder.emit(relax.op.nn.softmax(x)), w))
            out = builder.emit_output([relax.op.nn.softmax(product)])
        builder.emit_func_output(out)
    settings = Settings(target="sm_90", stitching=Options(cache=tmp_path))
    first = lowered_for_cuda(builder.get(), settings, torch.device("cuda"))
    again = lowered_for_cuda(builder.get(), settings, torch.device("cuda"))
    assert len(plans) == 1 and again.places == first.places
    assert again.storage((5,)) == first.storage((5,)) > 0


def test_the_command_line_shows_and_clears_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TVM_STITCH_CACHE", str(tmp_path / "cache"))
    assert cli.main(["cache", "info"]) == 0
    lowered(MODULE, None)
    assert cli.main(["cache", "info"]) == 0
    empty, kept = capsys.readouterr().out.split(str(tmp_path / "cache"))[1:]
    assert empty == ": 0 B of at most 4.3 GB\n"
    assert "modules        1 files" in kept
    assert cli.main(["cache", "info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(tmp_path / "cache")
    assert sum(each["files"] for each in found["contents"]) > 0
    assert cli.main(["cache", "clear"]) == 0 and not list((tmp_path / "cache").glob("modules/*"))
    assert "removed" in capsys.readouterr().out
    monkeypatch.setenv("TVM_STITCH_CACHE", "off")
    assert cli.main(["cache", "info"]) == 0
    assert capsys.readouterr().out == "nothing is kept: TVM_STITCH_CACHE is off\n"


def test_options_say_what_a_cache_is():
    for wrong in (3, b"x", True):
        with pytest.raises(tvm_stitch.InputError, match="cache must name a folder"):
            Options(cache=wrong)


BUILD = """
import hashlib
import tvm
import tvm_stitch
from driver import compiled_by
from tvm_stitch import Options

model = tvm.ir.load_json(open(sys.argv[1]).read())
target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})

def compiler(code):
    compiled.append(1)
    return hashlib.sha256(code.encode()).digest()

def build():
    with compiled_by(compiler):
        tvm_stitch.compile(model, target, Options(cache=sys.argv[2]))
"""


@pytest.fixture
def begun(tmp_path):
    """Starts a process that builds a model whenever it is asked to."""
    model = tmp_path / "model.json"
    model.write_text(tvm.ir.save_json(weighted()))
    with builds_of(BUILD, model, tmp_path / "cache") as start:
        yield start


@pytest.mark.slow
def test_two_processes_that_build_a_model_at_once_plan_and_compile_it_once(begun, tmp_path):
    both = begun(), begun()
    for builds in both:
        builds.begin()
    # Who planned need not be who compiles: the other one may be quicker from there.
    plans, compiled = map(sum, zip(*(builds.counts() for builds in both), strict=True))
    kept = {each.kind: each.files for each in store_of(tmp_path / "cache").contents()}
    assert plans == 1 and compiled == kept["kernels"] > 0


@pytest.mark.slow
def test_builds_that_are_killed_at_any_time_leave_a_cache_that_is_used(begun, tmp_path):
    assert killed_at_any_time(begun(), (tmp_path / "cache",)) == [0, 0]
