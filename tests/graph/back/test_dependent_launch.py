"""Kernels that are launched before those in front of them are complete wait before all else."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from across_rows import norm_backward
from check import A100, H200, TOGETHER, cuda_of, primfuncs_of, the_kernel
from lowered import run_lowered, scheduled
from products import attention
from tensor_products import linear
from tvm import relax, tirx
from tvm.relax import op
from tvm.script import tirx as T
from zoo import Case, graph, layer_norm, row_and_group_statistics, softmax, softmax64

import tvm_stitch
from tvm_stitch import Options, simt
from tvm_stitch.cache.once import made_of
from tvm_stitch.device import device_of
from tvm_stitch.executable.load_order import waiting
from tvm_stitch.graph.back.dependent_launch import (
    DEPENDENT,
    DependentLaunch,
    with_dependent_launch,
)
from tvm_stitch.graph.back.launches import outermost_nests
from tvm_stitch.kernel.codegen.prim_func import COOPERATIVE, LAUNCH_ATTRIBUTE
from tvm_stitch.report.findings.code import kernels_of_source
from tvm_stitch.simt.lowering import cuda_source, lower
from tvm_stitch.target import full_target

LEFT = Options(schemes=())  # all is TVM's
OFF = {"dependent_launch": False}
WITHOUT = Options(**OFF)
WAIT = "tvm_builtin_ptx_griddepcontrol_wait();"
# Memory, which nothing is done with yet.
DECLARED = re.compile(r"(extern )?(__shared__ )?(__align__|alignas)\(\d+\) [\w ]+ \w+\[\d*\];")


def symbol(name: str) -> tirx.Var:
    return tirx.Var(name, "int64")


def of_operator(build, *shapes) -> Case:
    return graph("float32", list(shapes), lambda emit, *x: emit(build(*x)), lambda *_: ())


def two_softmaxes() -> Case:
    """Kernels that wait for nothing of each other, in one launch."""

    def build(emit, x, y):
        return emit(op.nn.softmax(x)), emit(op.nn.softmax(y))

    return graph("float32", [(6, 64), (8, 96)], build, lambda *x: tuple(map(softmax64, x)))


ROWS = softmax("float32", 6, 1000)
ANY_LENGTH = softmax("float32", (symbol("n"), 5), (symbol("m"), 50))
BARRIER = norm_backward("float32", (2200,), 128)
CASES: dict[str, tuple[Case, Options]] = {
    "rows": (ROWS, TOGETHER),
    "two groups": (row_and_group_statistics("float32", 24, 512), TOGETHER),
    "two in a launch": (two_softmaxes(), Options()),
    "a cluster": (layer_norm("bfloat16", 500, 65536), TOGETHER),
    "any length": (ANY_LENGTH, TOGETHER),
    "stated sizes": (ANY_LENGTH, Options(extents={"n": (1, 64), "m": (50, 4096)})),
    "products": (attention("float32", 2, 2, 32, 16), TOGETHER),
    "warpgroups": (linear("float16", 1024, 1024, 1024), TOGETHER),
    "TVM's rows": (ROWS, LEFT),
    "TVM's of any length": (ANY_LENGTH, LEFT),
    "TVM's columns": (of_operator(lambda x: op.sum(x, axis=0), (300, 40)), LEFT),
    "TVM's pairs": (of_operator(lambda x: op.argmax(x, axis=1), (40, 300)), LEFT),
    "TVM's product": (of_operator(op.matmul, (32, 64), (64, 48)), LEFT),
    "TVM's vector": (of_operator(op.matmul, (1, 640), (640, 480)), LEFT),
    "TVM's sort": (of_operator(op.sort, (4, 100)), LEFT),
    "TVM's scan": (of_operator(lambda x: op.cumsum(x, axis=1), (4, 3000)), LEFT),
}


def compiled(case: Case, options: Options, target=H200) -> dict[str, str]:
    """The CUDA of each kernel of a whole compilation."""
    executable = tvm_stitch.compile(case.module, full_target(target), options)
    return kernels_of_source(cuda_source(executable))


def lowered(case: Case, options: Options, target=H200) -> dict[str, tirx.PrimFunc]:
    """The functions that have kernels, as they are compiled."""
    functions = primfuncs_of(tvm_stitch.pipeline(full_target(target), options)(case.module))
    return {name: each for name, each in functions.items() if outermost_nests(each)}


def tags_of(function: tirx.PrimFunc) -> list[str]:
    return [str(tag) for tag in function.attrs.get(LAUNCH_ATTRIBUTE, ())]


def waits_first(cuda: str) -> bool:
    """Whether nothing is done before the only wait."""
    _, *lines = map(str.strip, cuda.splitlines())
    first = next(line for line in lines if not DECLARED.fullmatch(line))
    return first == WAIT and cuda.count("griddepcontrol") == 1


@pytest.mark.parametrize("name", CASES)
def test_every_kernel_waits_before_all_else(name):
    """And does what it does without."""
    case, options = CASES[name]
    kernels = compiled(case, options)
    assert kernels
    assert [kernel for kernel, cuda in kernels.items() if not waits_first(cuda)] == []
    assert waiting("\n".join(kernels.values())) == list(kernels)  # so all are checked
    for kernel, cuda in compiled(case, replace(options, **OFF)).items():
        assert kernels[kernel].replace(WAIT, "").split() == cuda.split()


@pytest.mark.parametrize("name", ["rows", "any length", "TVM's rows", "TVM's of any length"])
def test_every_launch_says_so(name):
    for function in lowered(*CASES[name]).values():
        assert tags_of(function) == [DEPENDENT]
        launches = launch_tags(function)
        assert launches and all(DEPENDENT in tags for tags in launches)


def launch_tags(function: tirx.PrimFunc) -> list[list[str]]:
    """Of each launch of the host, what TVM's runtime is told of it."""
    found = []

    def visit(call: tvm.ir.Call) -> None:
        if getattr(call.op, "name", "") == "tirx.call_ffi_kernel":
            found.append([str(tag) for tag in call.attrs.launch_params])

    tvm_ffi.structural_walk(lower(function, H200).body, (tvm.ir.Call, visit))
    return found


def test_a_symbolic_length_has_several_kernels():
    (function,) = lowered(ANY_LENGTH, TOGETHER).values()
    assert len(outermost_nests(function)) > 1


def test_blocks_that_wait_for_each_other_are_launched_as_ever():
    (function,) = lowered(BARRIER, TOGETHER).values()
    assert tags_of(function) == [COOPERATIVE]
    assert compiled(BARRIER, TOGETHER) == compiled(BARRIER, replace(TOGETHER, **OFF))


@pytest.mark.parametrize("options", [Options(), LEFT])
def test_older_gpus_have_none(options):
    assert "griddepcontrol" not in "".join(compiled(ROWS, options, A100).values())
    assert not any(map(tags_of, lowered(ROWS, options, A100).values()))


@pytest.mark.parametrize("options", [WITHOUT, replace(LEFT, **OFF)])
def test_without(options):
    assert "griddepcontrol" not in "".join(compiled(ROWS, options).values())
    assert not any(map(tags_of, lowered(ROWS, options).values()))


def test_what_is_kept_is_for_one_setting():
    assert made_of(H200, Options(), None) != made_of(H200, WITHOUT, None)


def test_functions_of_the_host_stay_as_they_are():
    @T.prim_func(s_tir=True)
    def copied(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = x[i]

    assert with_dependent_launch(copied).same_as(copied)


@pytest.mark.parametrize("name", ["rows", "two in a launch", "products"])
def test_the_executor_finds_what_numpy_does(name):
    case, _ = CASES[name]
    module = DependentLaunch(device_of(H200))(scheduled(case.module))
    assert any(map(tags_of, primfuncs_of(module).values()))
    found = run_lowered(module, case.arrays, H200, check=True)
    for got, want in zip(found, case.expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows, columns", [(5, 50), (3, 1027)])
@pytest.mark.parametrize("options", [TOGETHER, LEFT])
def test_kernels_of_any_length(rows, columns, options):
    functions = lowered(ANY_LENGTH, options)
    ((name, function),) = functions.items()
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype("float32")
    y = np.zeros_like(x)
    given = [x if each.name == "x" else y for each in function.params]
    run = simt.Function(function, H200, check=options is TOGETHER, name=name)(given)
    assert run.ok, run
    np.testing.assert_allclose(y, softmax64(x.astype("float64")), rtol=1e-5, atol=1e-6)


@T.prim_func(s_tir=True)
def two_kernels(
    x: T.Buffer((64,), "float32"), w: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")
):
    """The first reads a weight before it waits; the second knows of no wait."""
    for _i in T.thread_binding(1, "blockIdx.x"):
        for t in T.thread_binding(64, "threadIdx.x"):
            kept = T.alloc_local((1,), "float32")
            kept[0] = w[t]
            T.evaluate(T.ptx["griddepcontrol.wait"]())
            y[t] = x[t] * kept[0]
    for _j in T.thread_binding(1, "blockIdx.x"):
        for u in T.thread_binding(64, "threadIdx.x"):
            y[u] = y[u] + T.float32(1)


def test_a_kernel_that_waits_later_waits_first_as_well():
    function = with_dependent_launch(two_kernels)
    assert tags_of(function) == [DEPENDENT]
    first, second = kernels_of_source(cuda_of(function)).values()
    start, before, after = first.split(WAIT)
    assert "_ptr[" not in start and "w_ptr[" in before and "x_ptr[" in after
    assert waits_first(second)
    x, w, y = np.arange(64, dtype="float32"), np.full(64, 2, "float32"), np.zeros(64, "float32")
    assert simt.run(function, arrays=[x, w, y]).ok
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_once_is_enough():
    once = with_dependent_launch(the_kernel(ROWS.module))
    tvm.ir.assert_structural_equal(with_dependent_launch(once), once)


def test_what_else_is_said_of_launches_stays():
    kernel = the_kernel(ROWS.module).with_attr(LAUNCH_ATTRIBUTE, ["tirx.use_dyn_shared_memory"])
    assert tags_of(with_dependent_launch(kernel)) == [DEPENDENT, "tirx.use_dyn_shared_memory"]


def test_the_report_shows_what_is_compiled():
    for options, waits in ((Options(), True), (WITHOUT, False)):
        (code,) = tvm_stitch.explain(ROWS.module, H200, options).code().values()
        assert waits_first(code.cuda) == ("griddepcontrol" in code.tir) == waits


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the path")
@pytest.mark.parametrize("options", [TOGETHER, LEFT])
def test_ptx_accesses_no_memory_before(options, tmp_path):
    source, ptx = tmp_path / "kernels.cu", tmp_path / "kernels.ptx"
    executable = tvm_stitch.compile(ROWS.module, H200, options)
    source.write_text(cuda_source(executable), encoding="utf-8")
    command = ["nvcc", "-arch=sm_90", "-O3", "-ptx", str(source), "-o", str(ptx)]
    subprocess.run(command, check=True, capture_output=True)
    _, *kernels = ptx.read_text(encoding="utf-8").split(".visible .entry")
    assert kernels
    for kernel in kernels:
        before, after = kernel.split("griddepcontrol.wait;")
        accesses = re.compile(r"\b(ld|st|cp|red|atom|mbarrier)\.(?!param)")
        assert not accesses.search(before) and accesses.search(after)


def test_modules_without_kernels_stay_as_they_are():
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    module = tvm.IRModule({"main": relax.Function([x], x, x.ty)})
    assert not primfuncs_of(DependentLaunch(device_of(H200))(module))
