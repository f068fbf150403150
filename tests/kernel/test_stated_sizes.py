"""At sizes that Options(extents=...) states, kernels are those of known sizes."""

import json
import re

import numpy as np
import pytest
import tvm
from check import H200, cuda_of, is_stitched, primfuncs, schedule_of, the_kernel
from symbolic_norms import NORMS
from tvm import tirx
from twins import TWINS as OTHERS
from twins import Twin
from zoo import softmax, softmax64

import tvm_stitch
from tvm_stitch import Options, simt
from tvm_stitch.build import lowering_context
from tvm_stitch.kernel.at_sizes import at_sizes, symbols_of
from tvm_stitch.kernel.stated_sizes import STATED_SIZES_ATTRIBUTE
from tvm_stitch.reference import random_inputs, reference
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import element_bytes
from tvm_stitch.verify import compare, stitched_for_cpu

TWINS = {**OTHERS, **NORMS}
ROWS, COLUMNS = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def stated(**sizes: tuple[int, ...]) -> Options:
    return Options(extents=sizes)


def sources(kernel: tirx.PrimFunc) -> list[str]:
    """The CUDA kernels of a function, with buffers and values called by the order of their use."""
    text = re.sub(r"main_kernel(_\d+)?", "kernel", cuda_of(kernel))
    found = re.findall(r'^extern "C" __global__[^;{]*\{.*?^\}', text, re.DOTALL | re.MULTILINE)
    return [_numbered(each) for each in found]


def _numbered(source: str) -> str:
    numbers: dict[str, str] = {}
    name = r"\b(cse_v\d+|\w+_ptr(_\d+)?)\b"
    return re.sub(name, lambda found: numbers.setdefault(found[0], f"name_{len(numbers)}"), source)


def stated_by(kernel: tirx.PrimFunc) -> list[dict[str, int]]:
    """The sizes of which a kernel has variants."""
    found = json.loads(str(kernel.attrs.get(STATED_SIZES_ATTRIBUTE, "[]")))
    return [each["sizes"] for each in found]


def softmax_of(*shape: object, options: Options | None = None) -> tirx.PrimFunc:
    return the_kernel(softmax("float32", *shape).module, H200, options)


def test_the_variant_is_the_static_graph_s_kernel():
    kernel = softmax_of((ROWS, 5), 3000, options=stated(n=(64, 300)))
    own = sources(kernel)
    assert stated_by(kernel) == [{"n": 64}, {"n": 300}]
    assert sources(softmax_of(64, 3000)) == own[:1]
    assert sources(softmax_of(300, 3000)) == own[1:2]
    assert own[2:] and all("int64_t n" not in each for each in own[:2])


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", TWINS)
def test_twins_have_their_static_kernels(name):
    """The CUDA is the same but for names."""
    twin: Twin = TWINS[name]
    options = Options(extents={each: (size,) for each, size in twin.sizes[0].items()})
    kernels = filter(is_stitched, primfuncs(twin.symbolic, H200, options).values())
    static = filter(is_stitched, primfuncs(twin.static, H200).values())
    known = {each for kernel in static for each in sources(kernel)}
    for kernel in kernels:
        assert stated_by(kernel) == [{v.name: twin.sizes[0][v.name] for v in symbols_of(kernel)}]
        assert sources(kernel)[0] in known


def run(kernel: tirx.PrimFunc, rows: int, columns: int) -> str:
    """The name of the kernel that takes a softmax of so many rows and columns, which is right."""
    with lowering_context():
        function = simt.Function(kernel, H200)
    x = np.random.default_rng(rows).standard_normal((rows, columns)).astype("float32")
    out = np.empty_like(x)
    found = function(x, out)
    assert found.ok, str(found)
    np.testing.assert_allclose(out, softmax64(x.astype("float64")), atol=2e-6)
    return found.kernel


@pytest.mark.slow
def test_the_host_launches_it_at_exactly_that_size():
    kernel = softmax_of((ROWS, 5), (COLUMNS, 7), options=stated(n=(3, 5), m=(40, 9)))
    names = [run(kernel, *sizes) for sizes in ((3, 40), (5, 9), (5, 40), (4, 40), (3, 39), (3, 41))]
    assert names[:2] == ["main_kernel", "main_kernel_1"]
    assert not {"main_kernel", "main_kernel_1"} & set(names[2:])


def test_without_sizes_of_all_symbols_there_is_no_variant():
    assert stated_by(softmax_of((ROWS, 5), (COLUMNS, 7), options=stated(n=(3, 5)))) == []
    assert stated_by(softmax_of((ROWS, 5), (COLUMNS, 7))) == []


def test_sizes_that_differ_in_other_symbols_are_one():
    kernel = softmax_of((ROWS, 5), 100, options=stated(n=(8, 8), m=(1, 2)))
    assert stated_by(kernel) == [{"n": 8}]


def test_sizes_beyond_a_bound_have_none():
    case = softmax("float32", (ROWS, 5), 100)
    main = case.module["main"].with_attr("tir_var_upper_bound", {"n": 16})
    kernel = the_kernel(tvm.IRModule({"main": main}), H200, stated(n=(8, 32)))
    assert stated_by(kernel) == [{"n": 8}]


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_twins_are_right_at_the_sizes_stated_and_at_others(name):
    """Kernels in rounds have a workspace that suits both."""
    twin: Twin = TWINS[name]
    options = Options(extents={each: (size,) for each, size in twin.sizes[0].items()})
    module = stitched_for_cpu(twin.symbolic, H200, options)
    for sizes in twin.sizes[:3]:
        arrays = random_inputs(twin.symbolic, 0, sizes)
        exact = reference(twin.symbolic, arrays)
        found = compare(twin.symbolic, module, H200, arrays, exact, orders=2)
        assert found.ok, f"{sizes}: {found}"


@pytest.mark.parametrize(
    "known_sizes, scheme",
    [
        ((64, 64, 64), "cluster"),
        ((128, 128, 128), "cluster"),
        ((16, 300, 64), "global"),
        ((200, 200, 200), "regional"),
    ],
)
def test_kernels_of_any_size_are_in_rounds_where_those_of_known_sizes_are(known_sizes, scheme):
    """A function launches all its kernels alike: with a barrier of the grid, or without."""
    twin: Twin = TWINS["instance norm, channels last"]
    sizes = dict(zip(twin.sizes[0], known_sizes, strict=True))
    known = the_kernel(twin.module(sizes), H200)
    kernel = the_kernel(twin.symbolic, H200, stated(**{n: (size,) for n, size in sizes.items()}))
    assert schedule_of(known).scheme == scheme
    assert (schedule_of(kernel).scheme == "global") == (scheme == "global")
    assert sources(kernel)[0] == sources(known)[0]


def test_a_function_at_sizes_is_that_of_known_sizes():
    twin = TWINS["group norm"]
    (symbolic,) = primfuncs(twin.symbolic, H200, before="StitchSchedule").values()
    (static,) = primfuncs(twin.static, H200, before="StitchSchedule").values()
    found = at_sizes(symbolic, twin.sizes[0])
    assert symbols_of(found) == []
    assert [p.ty.shape[:] for p in found.params] == [p.ty.shape[:] for p in static.params]


@pytest.mark.parametrize("rows, bits", [(7, 32), (2**31 // 12, 32), (2**31 // 12 + 1, 64)])
def test_positions_have_32_bits_where_these_hold_them_all(rows, bits):
    """Of any size they have 64, which take two shuffles where 32 take one."""
    (symbolic,) = primfuncs(
        TWINS["position in all"].symbolic, H200, before="StitchSchedule"
    ).values()
    assert positions_of(symbolic) == "int64"
    assert positions_of(at_sizes(symbolic, {"n": rows, "m": 1})) == f"int{bits}"


def positions_of(function: tirx.PrimFunc) -> str:
    """The dtype in which a function compares positions."""
    (stage,) = (each for each in read_stages(function) if each.name == "first")
    return f"int{8 * element_bytes(stage.output)}"


def test_the_report_lists_them():
    module = softmax("float32", (ROWS, 5), 3000).module
    report = tvm_stitch.explain(module, H200, stated(n=(64,)))
    (kernel,) = report.kernels
    assert "for n = 64 exactly" in kernel.mapping
