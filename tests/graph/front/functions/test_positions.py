"""What depends on positions alone belongs to each of its readers, as far as few operators do it."""

from check import H200
from tvm import relax, tirx
from tvm.relax import op
from zoo import graph

from tvm_stitch import Options
from tvm_stitch.build import stitch_passes
from tvm_stitch.graph.front.read import read_block

N = tirx.Var("n", "int64")


def names(build, inputs: int = 2, most: int = Options().recomputed) -> list[str]:
    """The operators of a graph over matrices of any size, each with positions of its own."""
    shapes = [((N, 100), (N, 100))] * inputs
    module = graph("float32", shapes, build, lambda *_: ()).module
    passes = stitch_passes(H200, Options(recomputed=most))
    with H200:
        for each in passes:
            if each.info.name == "StitchOps":
                break
            module = each(module)
    (block,) = module["main"].body.blocks
    return [node.name for node in read_block(module, block).nodes if node.is_operator]


def lower(emit, functions=()):
    """A mask of a triangle, through some functions of its elements."""
    mask = emit(op.triu(emit(op.full((N, N), relax.const(-1e4, "float32"))), 1))
    for function in functions:
        mask = emit(function(mask))
    return mask


def test_every_reader_has_its_own():
    def build(emit, x, y):
        mask = lower(emit)
        return emit(op.add(x, mask)), emit(op.multiply(y, mask))

    assert names(build) == ["full", "triu", "add", "full", "triu", "multiply"]
    assert names(build, most=0) == ["full", "triu", "add", "multiply"]


def test_one_reader_needs_no_copy():
    assert names(lambda emit, x: emit(op.add(x, lower(emit))), 1) == ["full", "triu", "add"]


def test_a_reader_that_takes_it_twice_has_it_once():
    def build(emit, x, y):
        mask = lower(emit)
        twice = emit(op.where(emit(op.greater(x, mask)), mask, mask))
        return emit(op.add(y, mask)), twice

    found = names(build)
    assert found.count("triu") == 3, found  # of greater, where and add


def test_what_takes_many_operators_is_computed_once():
    def build(emit, x, y):
        mask = lower(emit, (op.exp, op.cos, op.tanh, op.sqrt))
        return emit(op.add(x, mask)), emit(op.multiply(y, mask))

    assert names(build).count("tir_sqrt") + names(build).count("sqrt") == 1


def test_what_a_product_reads_is_in_memory_for_all():
    def build(emit, x, y):
        mask = lower(emit)
        return emit(op.add(x, mask)), emit(op.matmul(y, mask)), emit(op.multiply(y, mask))

    assert names(build).count("triu") == 1


def test_results_stay():
    def build(emit, x, y):
        mask = lower(emit)
        return mask, emit(op.add(x, mask)), emit(op.multiply(y, mask))

    assert names(build) == ["full", "triu", "add", "multiply"]
