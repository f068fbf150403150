"""Which outputs of a kernel may take an input's memory, and that they do so rightly."""

import json

import numpy as np
import pytest
from built import module
from check import H200, cuda_of, the_kernel
from tvm import relax, te, tirx
from tvm.relax import op, vm_build
from tvm.tirx.build import codegen_build

from tvm_stitch import simt
from tvm_stitch.build import lowering_context, pipeline
from tvm_stitch.executable import compiler
from tvm_stitch.kernel.codegen.prim_func import IN_PLACE_ATTRIBUTE
from tvm_stitch.kernel.elementwise import changed
from tvm_stitch.stages.visit import walked


def pairs(kernel):
    """By the names of the kernel's parameters: which input may become which output."""
    found = json.loads(str(kernel.attrs.get(IN_PLACE_ATTRIBUTE, "[]")))
    inputs = sum(param.name.startswith("p") for param in kernel.params)
    return sorted((int(kernel.params[a].name[1]), b - inputs) for a, b in found)


def by_name(kernel):
    """The same, outputs by what they are."""
    found = json.loads(str(kernel.attrs[IN_PLACE_ATTRIBUTE]))
    names = [param.name.removeprefix("T_").partition("_")[0] for param in kernel.params]
    return sorted((names[a], names[b]) for a, b in found)


def momentum(emit, weight, gradient, speed):
    """A step of SGD."""
    faster = emit(op.add(emit(op.multiply(speed, relax.const(0.9, "float32"))), gradient))
    return emit(op.subtract(weight, emit(op.multiply(faster, relax.const(0.1, "float32"))))), faster


SHAPES = [(1, 7), (33, 31), (1027,), (8, 1000)]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_read_where_it_is_written(shape):
    kernel = the_kernel(module(momentum, shape, shape, shape))
    assert by_name(kernel) == [
        ("p0", "subtract"), ("p1", "add"), ("p1", "subtract"), ("p2", "add"), ("p2", "subtract"),
    ]  # fmt: skip
    run = simt.Function(kernel.with_attr("tirx.noalias", False), H200)
    weight, gradient, speed = (
        np.random.default_rng(n).normal(size=shape).astype("float32") for n in range(3)
    )
    faster = 0.9 * speed.astype("float64") + gradient
    wanted = weight - 0.1 * faster
    given = {"p0": weight, "p1": gradient, "p2": speed}
    outputs = sorted(param.name for param in kernel.params if param.name not in given)
    assert ["add" in outputs[0], "subtract" in outputs[1]] == [True, True]
    for seed in range(3):
        arrays = {name: array.copy() for name, array in given.items()}
        over = {**arrays, outputs[0]: arrays["p2"], outputs[1]: arrays["p0"]}
        run(over, seed=seed)
        np.testing.assert_allclose(arrays["p0"], wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(arrays["p2"], faster, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "shapes", "wanted"),
    [
        # Read transposed, or by its neighbours.
        (lambda e, x, y: [e(op.add(e(op.permute_dims(x)), y))], [(64, 64)] * 2, []),
        (lambda e, x: [e(op.add(x, e(op.flip(x, 0))))], [(8, 96)], []),
        # An element of it is everybody's; the other one has each to itself.
        (lambda e, x, y: [e(op.add(x, y))], [(64, 64), (1, 64)], [(0, 0)]),
        # Of another size.
        (lambda e, x: [e(op.astype(x, "float16"))], [(64, 64)], []),
        # A row is reduced first.
        (lambda e, x: [e(op.nn.softmax(x))], [(64, 64)], []),
        # Two that are not related: each may take its own.
        (lambda e, x, y: [e(op.exp(x)), e(op.exp(y))], [(8, 96), (9, 96)], [(0, 0), (1, 1)]),
    ],
)
def test_what_may_be_written_over(body, shapes, wanted):
    assert pairs(the_kernel(module(body, *shapes))) == wanted


def test_what_another_program_reads_stays():
    """Its blocks may come later."""

    def body(emit, x, y):
        return [emit(op.exp(x)), emit(op.add(y, emit(op.reshape(x, (1, 8 * 96)))))]

    found = pairs(the_kernel(module(body, (8, 96), (4, 8 * 96))))
    assert (0, 0) not in found


def cached(shape, positions, dtype):
    """A cache with the keys of a step at some positions, of which the first two are the same."""

    def written(cache, place, new):
        def element(b, h, t, d):
            found = cache[b, h, t, d]
            for number in range(positions):
                found = tirx.if_then_else(place[number] == t, new[b, h, number, d], found)
            return found

        return te.compute(cache.shape, element, "written")

    batch, heads, _, depth = shape
    shapes = {"cache": (shape, dtype), "place": ((positions,), "int64")}
    shapes["new"] = (batch, heads, positions, depth), dtype
    params = [relax.Var(name, relax.TensorType(*each)) for name, each in shapes.items()]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            cache, place, new = params
            later = builder.emit(op.add(place, relax.const(1, "int64")))
            twice = builder.emit(op.add(new, new))
            output = builder.emit_output(builder.emit_te(written, cache, later, twice))
        builder.emit_func_output(output)
    return builder.get()


@pytest.mark.parametrize("positions", [1, 3])
@pytest.mark.parametrize("shape", [(4, 8, 1024, 64), (2, 3, 31, 32), (1, 2, 33, 7), (3, 1, 9, 1)])
def test_what_stays_as_it_is_is_not_written(shape, positions):
    """Whether the result takes the memory of what it is made of is known when the kernel runs."""
    kernel = the_kernel(cached(shape, positions, "float16"))
    (name,) = (p.name for p in kernel.params if p.name not in ("cache", "place", "new"))
    assert by_name(kernel) == [("cache", "written")]
    assert "tvm_stitch_lies_elsewhere(" in cuda_of(kernel)
    if shape[0] == 4:
        return  # large enough for vectors, too large for the executor
    rng = np.random.default_rng(0)
    batch, heads, length, depth = shape
    cache = rng.normal(size=shape).astype("float16")
    new = rng.normal(size=(batch, heads, positions, depth)).astype("float16")
    place = np.array([4, 4, length - 2][:positions], "int64")
    wanted = cache.copy()
    for number, at in enumerate(place):
        wanted[:, :, at + 1] = 2 * new[:, :, number]
    run = simt.Function(kernel.with_attr("tirx.noalias", False), H200)
    for seed in range(3):
        given = {"cache": cache.copy(), "place": place, "new": new}
        elsewhere = np.zeros_like(cache)
        run({**given, name: elsewhere}, seed=seed)
        np.testing.assert_array_equal(elsewhere, wanted)
        np.testing.assert_array_equal(given["cache"], cache)
        run({**given, name: given["cache"]}, seed=seed)
        np.testing.assert_array_equal(given["cache"], wanted)


def test_blocks_of_a_large_cache_go_through_several_pieces(monkeypatch):
    """As each is done at once where nothing changes, the grid would take as long as its launch."""
    grids = [launched(the_kernel(cached((8, 8, n, 128), 1, "float16"))) for n in (128, 1024, 8192)]
    assert grids == [512, 2048 // 2, 32768 // 16]
    monkeypatch.setattr(changed, "FEWEST_BLOCKS", 2)
    shape = 2, 3, 64, 8
    kernel = the_kernel(cached(shape, 1, "float16"))
    assert launched(kernel) < 2 * 3 * 64 * 8 // 256
    (name,) = (p.name for p in kernel.params if p.name not in ("cache", "place", "new"))
    rng = np.random.default_rng(0)
    cache, new = (rng.normal(size=size).astype("float16") for size in (shape, (2, 3, 1, 8)))
    wanted = cache.copy()
    wanted[:, :, 41] = 2 * new[:, :, 0]
    run = simt.Function(kernel.with_attr("tirx.noalias", False), H200)
    for over in (np.zeros_like(cache), cache):
        run({"cache": cache, "place": np.array([40]), "new": new, name: over}, seed=1)
        np.testing.assert_array_equal(over, wanted)


def launched(kernel) -> int:
    """Blocks of a kernel's grid."""
    found = []

    def note(bound: tirx.AttrStmt) -> None:
        if bound.attr_key == "thread_extent" and bound.node.thread_tag == "blockIdx.x":
            found.append(int(bound.value))

    walked(kernel.body, (tirx.AttrStmt, note))
    return found[0]


def test_what_changes_everywhere_is_always_written():
    kernel = the_kernel(module(momentum, (64,), (64,), (64,)))
    assert "tvm_stitch_lies_elsewhere(" not in cuda_of(kernel)


def test_the_compiler_is_told():
    """It may not take one tensor for two."""
    for alias in (False, True):
        mod = module(momentum, (64,), (64,), (64,))
        with lowering_context(), H200:
            lowered = pipeline(H200)(mod)
            for var, function in lowered.functions_items():
                if IN_PLACE_ATTRIBUTE in (function.attrs or {}):
                    lowered.update_func(var, function.with_attr("tirx.noalias", not alias))
            tir = vm_build._filter_tir(lowered)
            _, _, devices = compiler._lowered(tir, H200)
        (kernels,) = devices.values()
        (kernel,) = kernels.functions.values()
        assert bool(kernel.attrs["tirx.noalias"]) is not alias
        source = codegen_build(kernels, next(iter(devices))).inspect_source()
        assert ("__restrict__" in source) is not alias
