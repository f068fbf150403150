"""Phases say what a kernel loads, finds, computes, keeps and writes up to each reduction."""

from across_rows import norm_backward
from check import program_of
from products import attention
from zoo import layer_norm, softmax

from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.ir.mapping import ColumnSums, Rows
from tvm_stitch.kernel.kinds import kind_of


def names(of):
    """Of stages, or of the stages that compute buffers."""
    return [getattr(each, "name", "").removesuffix("_intermediate") for each in of]


def softmax_phases(**changes):
    program = program_of(softmax("float32", 6, 1024).module)
    return phases_of(program, Rows(256, 1, 4, 1, **changes))


def test_what_a_row_needs_again_is_kept_where_it_is_first_at_hand():
    phases = softmax_phases()
    assert [names(phase.loads) for phase in phases.phases] == [["x"], [], []]
    assert [names(phase.keeps) for phase in phases.phases] == [["x"], ["compute"], []]
    assert [names(phase.held) for phase in phases.phases] == [[], ["x"], ["compute"]]
    assert [names(phase.stores) for phase in phases.phases] == [[], [], ["T_divide"]]
    assert [len(phase.reductions) for phase in phases.phases] == [1, 1, 0]
    assert (phases.live_bytes, phases.kept_bytes, phases.first_bytes) == (4, 8, 4)


def test_what_is_kept_nowhere_is_loaded_and_computed_again():
    first, second, third = softmax_phases(residence="nowhere", recompute=True).phases
    assert names(first.loads) == names(second.again) == names(third.again) == ["x"]
    assert not first.again and not first.keeps and not third.held
    assert set(second.computed) - set(second.reductions) <= set(third.computed)


def test_asynchronous_copies_are_no_loads_of_the_first_phase():
    phases = softmax_phases(residence="shared", recompute=True, asynchronous=True)
    first, *others = phases.phases
    (x,) = phases.copies
    assert not first.loads and first.inputs == (x,) and first.finds(x)
    assert all(phase.finds(x) and not phase.copies for phase in others)
    assert phases.first_bytes == 4


def test_sums_measured_against_a_maximum_go_through_a_phase_twice():
    first, last = softmax_phases(residence="nowhere", recompute=True, online=True).phases
    assert names(first.stages) == ["x_red"] and names(first.second_pass) == ["lv2_red"]
    assert set(first.computed) == set(first.reductions)
    assert names(last.again) == ["x"] and not last.second_pass


def test_values_of_the_row_come_before_the_elements():
    program = program_of(layer_norm("float32", 6, 1024).module)
    phases = phases_of(program, Rows(256, 1, 4, 1))
    assert phases.phases[-1].of_row and all(
        not program.is_full(stage.output) for phase in phases.phases for stage in phase.of_row
    )


def test_what_follows_sums_over_the_rows_follows_all_phases():
    program = program_of(norm_backward("float32", (2200,), 128).module)
    phases = phases_of(program, ColumnSums(32, 8, 4, 1, blocks=132, min_blocks_per_sm=1))
    assert {s.output for s in phases.finish} == {
        s.output for s in program.stages if s.output in program.columnwise and not s.is_reduction
    }
    assert sum(names(phase.stores) != [] for phase in phases.phases) == 1


def test_an_input_counts_as_loaded_by_every_phase_that_goes_to_memory_for_it():
    kept, read_again = softmax_phases(), softmax_phases(residence="nowhere", recompute=True)
    assert [p.times_loaded(p.program.inputs[0]) for p in (kept, read_again)] == [1, 3]


def test_small_products_are_one_phase():
    program = program_of(attention("float32", 2, 2, 32, 16).module)
    (phase,) = kind_of(program).phases(program, None).phases
    assert phase.stages == program.stages and phase.loads == program.inputs
    assert len(phase.reductions) == 4
