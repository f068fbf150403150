"""A graph falls into regions, and equal ones are known to be equal."""

from check import plan_of
from planned import layers, random_module, read
from tvm import relax, tirx
from tvm.relax import op
from zoo import graph

from tvm_stitch.plan.regions.levels import find_levels, find_regions
from tvm_stitch.plan.regions.region import Region, bits


def test_equal_layers_are_planned_once():
    plan = plan_of(layers(6))
    assert plan.solved.regions == 6 and plan.solved.distinct == 1
    assert len(plan.groups) == 6
    assert {len(group.nodes) for group in plan.groups} == {6}


def scaled(first: float, second: float):
    """Two layers without anything in common, each scaled by a number of its own."""

    def build(emit, x, y):
        return tuple(
            emit(op.multiply(emit(op.nn.softmax(each)), relax.const(factor, "float32")))
            for each, factor in ((x, first), (y, second))
        )

    return graph("float32", [(64, 256)] * 2, build, lambda *_: ()).module


def test_numbers_that_choose_no_kernel_tell_nothing_apart():
    regions = find_regions(read(scaled(0.3, 0.7)))
    assert len(regions) == 2 and len({region.key for region in regions}) == 1


def test_counts_do():
    """A mean is a sum times the inverse of how many it is of: its variance has a kernel."""
    for number in (1 / 256, 256.0, 0.0, 2.0, 1 / 3):
        regions = find_regions(read(scaled(0.3, number)))
        assert len({region.key for region in regions}) == 2, number


def test_what_a_node_needs_is_of_no_later_level():
    for module in (layers(3), *(random_module(seed, operators=30) for seed in range(5))):
        found = read(module)
        levels = find_levels(found)
        for node in found.nodes:
            for source in found.sources[node.index]:
                divides = bool(found.nodes[source].reason) and not node.reason
                assert levels[source] + divides <= levels[node.index]


def test_what_only_products_wait_for_is_computed_with_what_it_is_cut_out_of():
    """The values of an attention, which are multiplied long after queries and keys are."""

    def build(emit, x):
        whole = emit(op.exp(x))
        q, k, v = (emit(op.strided_slice(whole, [1], [n], [n + 96])) for n in (0, 96, 192))
        scores = emit(op.matmul(q, emit(op.permute_dims(k))))
        values = emit(op.reshape(v, (70, 96)))
        return emit(op.tanh(emit(op.matmul(emit(op.nn.softmax(scores)), values))))

    found = read(graph("float32", [(70, 288)], build, lambda *_: ()).module)
    levels = find_levels(found)
    assert [levels[n.index] for n in found.nodes if n.name == "strided_slice"] == [0, 0, 0]
    assert {levels[n.index] for n in found.nodes if n.name in ("max", "tir_exp", "tir_tanh")} == {
        0,
        1,
        2,
    }


def test_updates_that_only_outputs_wait_for_meet_at_the_end():
    def build(emit, x, v, w, m):
        first = emit(op.matmul(x, v))
        second = emit(op.matmul(emit(op.tanh(first)), w))
        momenta = [emit(op.add(emit(op.multiply(m, relax.const(0.9))), g)) for g in (first, second)]
        return (emit(op.exp(second)), *momenta)

    found = read(graph("float32", [(32, 32)] * 4, build, lambda *_: ()).module)
    levels = find_levels(found)
    adds = [node.index for node in found.nodes if node.name == "add"]
    assert {levels[index] for index in adds} == {max(levels)}


def test_regions_know_what_is_between():
    def build(emit, x):
        first = emit(op.exp(x))
        return emit(op.add(first, emit(op.tanh(first))))

    (region,) = find_regions(read(graph("float32", [(8, 8)], build, lambda x: ()).module))
    names = [node.name for node in region.nodes]
    exp, tanh, add = (1 << names.index(name) for name in ("tir_exp", "tir_tanh", "add"))
    assert region.is_convex(exp | tanh) and region.is_convex(exp | tanh | add)
    assert not region.is_convex(exp | add)
    assert list(bits(region.everything)) == [0, 1, 2]
    assert [value.needed for value in region.leaving(region.everything)] == [True]


def test_keys_tell_shapes_and_uses_apart():
    def one(columns, both=False):
        def build(emit, x):
            middle = emit(op.exp(x))
            last = emit(op.tanh(middle))
            return (middle, last) if both else last

        (region,) = find_regions(read(graph("float32", [(8, columns)], build, lambda x: ()).module))
        return region

    assert one(8).key == one(8).key
    assert len({one(8).key, one(9).key, one(8, both=True).key}) == 3
    assert isinstance(one(8), Region)


def test_two_symbols_of_one_name_are_two():
    """Rows of x and y are as many, or happen to be called so."""

    def region(same):
        one = tirx.Var("n", "int64")
        other = one if same else tirx.Var("n", "int64")
        shapes = {"x": (one, 8), "y": (other, 8), "w": (8,)}
        x, y, w = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in shapes.items())
        builder = relax.BlockBuilder()
        with builder.function("main", [x, y, w]):
            with builder.dataflow():
                sums = [builder.emit(op.add(each, w)) for each in (x, y)]
                result = builder.emit_output(sums)
            builder.emit_func_output(result)
        (found,) = find_regions(read(builder.get()))
        return found

    assert region(same=True).key == region(same=True).key
    assert region(same=False).key == region(same=False).key
    assert region(same=True).key != region(same=False).key
