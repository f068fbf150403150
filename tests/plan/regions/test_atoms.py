"""What always goes together, and what may be computed apart."""

from check import plan_of
from planned import read
from tvm import relax
from tvm.relax import op
from zoo import graph

from tvm_stitch.plan.regions.atoms import find_atoms
from tvm_stitch.plan.regions.levels import find_regions
from tvm_stitch.plan.regions.region import bits


def scaled_by_view(scale_shape: tuple[int, ...], view: tuple[int, ...], shape: tuple[int, ...]):
    """A total of a tensor that is scaled by a view of what is computed of a smaller one."""

    def build(emit, x, scale):
        found = scale
        for _ in range(8):
            found = emit(op.erf(found))
        by = emit(op.reshape(found, relax.ShapeExpr(view)))
        return emit(op.sum(emit(op.multiply(x, by))))

    return graph("float32", [shape, scale_shape], build, lambda *_: ()).module


def atoms_of(module):
    """The names of what is in each atom."""
    (region,) = find_regions(read(module))
    return [{region.nodes[place].name for place in bits(atom)} for atom in find_atoms(region)]


def test_what_is_read_as_a_view_of_as_many_elements_goes_with_its_reader():
    found = atoms_of(scaled_by_view((8, 64, 256), (512, 256), (512, 256)))
    assert {"erf", "reshape", "multiply", "sum"} in found


def test_what_is_spread_behind_a_view_may_be_computed_apart():
    """Every element of the reader would have to compute it again."""
    found = atoms_of(scaled_by_view((256,), (1, 1, 256), (32, 64, 256)))
    assert {"erf"} in found and {"reshape", "multiply", "sum"} in found


def test_a_long_computation_of_each_column_is_not_repeated_for_each_row():
    behind_a_view = plan_of(scaled_by_view((16000,), (1, 1, 16000), (3, 333, 16000)))
    assert len(behind_a_view.groups) == 2
    directly = plan_of(scaled_by_view((16000,), (16000,), (3, 333, 16000)))
    assert behind_a_view.solved.cost_us == directly.solved.cost_us
