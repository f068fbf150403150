"""explain: every kernel of the compiled module, by name, with its figures and its reason."""

import json
import re
import time
from dataclasses import asdict

import pytest
import tvm
from check import H200
from reported import mixed, module, softmax, two_softmaxes
from tvm import relax, topi
from tvm.relax import op

import tvm_stitch
from tvm_stitch import Options
from tvm_stitch.errors import InputError
from tvm_stitch.report import explain


def compiled_kernels(mod: tvm.IRModule) -> set[str]:
    """The kernels of the CUDA source that a whole compilation makes."""
    executable = tvm_stitch.compile(mod, H200)
    source = executable.mod.imports[0].imports[0].inspect_source()
    return set(re.findall(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", source))


def test_one_stitched_kernel_with_its_figures():
    report = explain(softmax(16384, 1024), H200)
    (kernel,) = report.kernels
    assert kernel.ops == ("max", "subtract", "exp", "sum", "divide")
    assert kernel.scheme in ("warp", "regional")
    assert kernel.schemes["max"] == kernel.schemes["sum"] == kernel.scheme
    assert kernel.schemes["exp"] == "local"
    assert kernel.bytes_min == kernel.bytes_planned == 2 * 16384 * 1024 * 4
    assert kernel.floor_us == pytest.approx(kernel.bytes_min / 4.26e12 * 1e6)
    assert kernel.predicted_us > kernel.floor_us
    assert "1024 columns" in kernel.why and "2 times" in kernel.why
    assert kernel.launches == report.launches == 1
    assert not report.fallbacks
    assert (report.before.kernels, report.before.launches) == (1, 1)


def test_an_input_that_two_phases_load_counts_twice():
    def build(emit, x, scale, shift):
        return op.nn.layer_norm(emit(op.add(x, shift)), scale, shift, axes=[-1])

    (kernel,) = explain(module(build, (64, 256), (256,), (256,)), H200).kernels
    assert kernel.bytes_planned == kernel.bytes_min + 256 * 4  # shift, before and after


def test_a_row_in_shared_memory_is_called_so():
    (kernel,) = explain(softmax(4096, 30000), "sm_80").kernels
    assert kernel.scheme == "regional"
    assert set(kernel.schemes.values()) == {"regional"}
    assert "shared memory" in kernel.why


def test_a_row_over_a_cluster_of_blocks():
    (kernel,) = explain(softmax(64, 60000), H200).kernels
    assert kernel.scheme == kernel.schemes["max"] == kernel.schemes["sum"] == "cluster"
    assert "cluster of blocks" in kernel.why


def test_unrelated_computations_in_one_launch():
    builder = relax.BlockBuilder()
    params = [relax.Var(name, relax.TensorType((64, 128), "float32")) for name in "xy"]
    with builder.function("main", params):
        with builder.dataflow():
            both = builder.emit_te(lambda x, y: [topi.sum(x, 1), topi.max(y, 1)], *params)
            results = builder.emit_output(both)
        builder.emit_func_output(results)
    (kernel,) = explain(builder.get(), H200).kernels
    assert kernel.scheme == "independent"
    assert list(kernel.schemes.values()) == ["warp", "warp"]
    assert "2 unrelated computations" in kernel.why
    assert kernel.bytes_min == kernel.bytes_planned == 2 * (64 * 128 + 64) * 4


def test_elements_on_their_own():
    add = module(lambda emit, x, y: op.exp(emit(op.add(x, y))), (512, 512), (512, 512))
    (kernel,) = explain(add, H200).kernels
    assert (kernel.scheme, kernel.ops) == ("local", ("add", "exp"))
    assert not kernel.schemes and "threads exchange nothing" in kernel.why


@pytest.mark.slow
@pytest.mark.parametrize(
    "mod", [softmax(64, 128), two_softmaxes(), mixed()], ids=["softmax", "two", "mixed"]
)
def test_names_are_those_of_the_cuda_source(mod):
    report = explain(mod, H200)
    names = [kernel.name for kernel in report.kernels]
    assert len(set(names)) == len(names)
    # A function that became a view is compiled all the same, and called by nobody.
    unused = {name for name in compiled_kernels(mod) - set(names) if "reshape" in name}
    assert set(names) == compiled_kernels(mod) - unused


def test_a_kernel_that_is_called_twice_is_one_entry():
    report = explain(two_softmaxes(), H200)
    stitched = [kernel for kernel in report.kernels if kernel.stitched]
    assert [kernel.launches for kernel in stitched] == [2]
    assert report.launches == 2 + sum(not kernel.stitched for kernel in report.kernels)
    assert report.before.launches == report.launches
    assert report.before.kernels == len(report.kernels)


def test_every_fallback_is_named_with_its_reason():
    report = explain(mixed(), H200)
    reasons = {fallback.op: fallback.reason for fallback in report.fallbacks}
    assert set(reasons) == {"conv2d", "relu", "matmul", "sort", "cumsum", "unique"}
    assert "matrix product or convolution" in reasons["conv2d"]
    assert "conv2d" in reasons["relu"]
    assert "schedule" in reasons["cumsum"]
    assert "relax.run.unique" in reasons["unique"]
    for kernel in report.kernels:
        assert kernel.why
        if kernel.scheme == "default":
            assert kernel.bytes_planned is None and kernel.predicted_us is None
            assert set(kernel.ops) <= set(reasons)


def test_a_view_is_no_launch():
    report = explain(mixed(), H200)
    assert "reshape" not in {op for kernel in report.kernels for op in kernel.ops}
    assert report.launches == report.before.launches


def test_a_scheme_that_is_switched_off_is_the_reason():
    report = explain(softmax(64, 128), H200, Options(schemes=("local",)))
    assert {kernel.scheme for kernel in report.kernels} == {"default"}
    assert {fallback.op for fallback in report.fallbacks} == {"softmax"}
    assert all("scheme is switched off" in fallback.reason for fallback in report.fallbacks)


def test_figures_of_symbolic_rows_are_for_sizes_that_are_named():
    mod = softmax(tvm.tirx.Var("n", "int64"), 128)
    report = explain(mod, H200, Options(extents={"n": (1, 4096, 65536)}))
    (kernel,) = report.kernels
    (known,) = explain(softmax(4096, 128), H200).kernels
    assert kernel.stitched and (kernel.formula, kernel.sizes) == ("n * 1024", "n = 4096")
    assert (known.formula, known.sizes) == ("", "")
    for figure in ("bytes_min", "bytes_planned", "floor_us"):
        assert getattr(kernel, figure) == getattr(known, figure)
    assert kernel.predicted_us == pytest.approx(known.predicted_us, rel=0.1)
    assert "n * 1024 bytes; figures for n = 4096" in str(report)


def test_kernels_of_tvm_have_figures_for_sizes_too():
    mod = softmax(tvm.tirx.Var("n", "int64"), 128)
    kernels = explain(mod, H200, Options(schemes=())).kernels
    assert {(each.formula, each.sizes) for each in kernels} == {("n * 1024", "n = 256")}
    assert all(each.bytes_min == 256 * 1024 and each.floor_us > 0 for each in kernels)


def test_rows_of_any_length_say_which_kernel_takes_which():
    mod = softmax(64, tvm.tirx.Var("m", "int64"))
    (kernel,) = explain(mod, H200).kernels
    lengths = [
        int(found) for found in re.findall(r"for rows of up to (\d+) elements", kernel.mapping)
    ]
    assert lengths == sorted(lengths) and len(lengths) == 2


def test_several_functions_are_all_explained():
    both = softmax(64, 128)
    other = module(lambda emit, x: op.exp(x), (32, 32))
    both.update_func(relax.GlobalVar("other"), other["main"].with_attr("global_symbol", "other"))
    assert {kernel.ops for kernel in explain(both, H200).kernels} == {
        ("max", "subtract", "exp", "sum", "divide"),
        ("exp",),
    }


def test_branches_count():
    builder = relax.BlockBuilder()
    flag = relax.Var("flag", relax.TensorType((), "bool"))
    x = relax.Var("x", relax.TensorType((64, 128), "float32"))
    with builder.function("main", [flag, x]):
        chosen = builder.emit(relax.If(flag, op.exp(x), op.tanh(x)))
        builder.emit_func_output(chosen)
    report = explain(builder.get(), H200)
    assert {kernel.ops for kernel in report.kernels} == {("exp",), ("tanh",)}
    assert report.launches == report.before.launches == 2


def test_what_the_default_pipeline_refuses_is_said():
    def build(emit, x, scale, shift):
        return op.nn.layer_norm(x, scale, shift, axes=[-1])

    mod = module(build, (64, 128), (128,), (128,), dtype="bfloat16")
    report = explain(mod, H200)
    assert [kernel.stitched for kernel in report.kernels] == [True]
    assert report.before.kernels is None and report.before.failure
    assert "pipeline fails on this module: " in str(report)


def test_json_holds_everything_and_is_json():
    report = explain(mixed(), H200)
    data = json.loads(json.dumps(report.to_json()))
    assert data["version"] == 1 and data["target"] == "sm_90a" and data["device"] == "H200"
    assert data["launches"] == report.launches
    assert data["before"]["launches"] == report.before.launches
    assert [kernel["name"] for kernel in data["kernels"]] == [k.name for k in report.kernels]
    for stored, kernel in zip(data["kernels"], report.kernels, strict=True):
        assert stored == json.loads(json.dumps(asdict(kernel)))
    assert [(f["op"], f["reason"]) for f in data["fallbacks"]] == [
        (f.op, f.reason) for f in report.fallbacks
    ]


def test_why_operators_are_together_and_why_not():
    report = explain(mixed(), H200)
    for kernel in report.kernels:
        assert bool(kernel.together) == kernel.stitched
    assert any(kernel.launches_saved and kernel.bytes_saved for kernel in report.kernels)
    (plan,) = report.plans
    assert plan.status == "optimal" and plan.gap < 0.02
    text, data = str(report), report.to_json()
    assert "fused" in text and "gap" in text
    assert data["plans"][0]["cost_us"] == plan.cost_us
    assert [cut["reason"] for cut in data["cuts"]] == [cut.reason for cut in report.cuts]


def test_what_goes_through_memory_is_said_with_the_reason():
    def build(emit, x):
        return emit(op.sum(emit(op.sum(x, axis=-1)), axis=0))

    report = explain(module(build, (64, 128)), H200)
    (cut,) = report.cuts
    assert "reduce different rows" in cut.reason
    assert "Passed between kernels through memory:" in str(report)
    assert cut.reason.split(":")[0] in str(report)


def test_html_is_one_file_that_needs_no_other(tmp_path):
    report = explain(mixed(), H200)
    path = tmp_path / "report.html"
    report.to_html(path)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="(?!data:)', text)
    assert embedded(text, "report") == json.loads(json.dumps(report.to_json()))
    code = embedded(text, "code")
    assert set(code) == {kernel.name for kernel in report.kernels}
    for name, each in code.items():
        assert f"{name}(" in each["cuda"]
        assert "T.prim_func" in each["tir"]


def embedded(page: str, name: str):
    """The JSON that a page holds under a name."""
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page)
    return json.loads(found.group(1))


def test_a_report_says_what_it_was_made_by():
    report = explain(softmax(64, 128), H200)
    assert f"(tvm_stitch {tvm_stitch.__version__} and TVM {tvm.__version__})" in str(report)
    assert report.to_json()["versions"] == report.versions


def test_the_time_of_passes_does_not_count_twice():
    started = time.perf_counter()
    report = explain(softmax(64, 128), H200)
    assert 0 < sum(each.seconds for each in report.passes) <= time.perf_counter() - started
    assert {"StitchOps", "LegalizeOps"} <= {each.name for each in report.passes}


def test_the_text_is_for_people():
    report = explain(mixed(), H200)
    text = str(report)
    assert max(map(len, text.splitlines())) <= 100
    assert f"{report.before.launches} kernel launches" in text
    assert f"{report.launches} kernel launches" in text
    for kernel in report.kernels:
        assert kernel.name in text
    for fallback in report.fallbacks:
        assert fallback.op in text


def test_a_plan_that_time_has_run_out_for_says_so():
    found = explain(mixed(), H200, Options(time_limit_s=1e-9))
    assert "time limit" in str(found) and found.kernels
    assert "time limit" not in str(explain(mixed(), H200))


def test_the_module_is_left_as_it_was():
    mod = mixed()
    before = tvm.ir.save_json(mod)
    explain(mod, H200)
    assert tvm.ir.save_json(mod) == before


@pytest.mark.parametrize(
    ("target", "arch"),
    [
        ("sm_86", "sm_86"),
        ('{"kind": "cuda", "arch": "sm_80"}', "sm_80"),
        ({"kind": "cuda", "arch": "sm_75"}, "sm_75"),
        ("nvidia/geforce-rtx-3070", "sm_86"),
    ],
)
def test_targets(target, arch):
    assert explain(softmax(64, 128), target).target == arch


@pytest.mark.skipif(tvm.cuda(0).exist, reason="this machine has a GPU")
def test_a_gpu_is_assumed_where_there_is_none():
    assert explain(softmax(64, 128)).target == "sm_90a"


@pytest.mark.parametrize("target", ["llvm", "nonsense", "sm_50", "{", '{"arch": 3}'])
def test_a_target_that_will_not_do(target):
    with pytest.raises(InputError) as raised:
        explain(softmax(64, 128), target)
    assert len(str(raised.value).splitlines()) == 1


def test_what_is_not_a_relax_module():
    with pytest.raises(InputError, match="IRModule, not str"):
        explain("model.json", H200)
    with pytest.raises(InputError, match="no Relax function"):
        explain(tvm.IRModule({}), H200)


def test_a_module_that_tvm_cannot_compile():
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    lost = relax.Var("lost", relax.TensorType((4, 4), "float32"))
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(lost, op.add(x, x))])], lost)
    broken = relax.Function([x], body, lost.ty).with_attr("global_symbol", "main")
    missing = op.call_tir(relax.GlobalVar("missing"), x, x.ty)
    bad = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(lost, missing)])], lost)
    with pytest.raises(InputError, match=r"not well formed: .*missing"):
        explain(tvm.IRModule({"main": relax.Function([x], bad, lost.ty)}), H200)
    assert explain(tvm.IRModule({"main": broken}), H200).kernels
