"""Profiles count what a program does: these are counted by hand."""

import json
from dataclasses import asdict

import pytest
from check import program_of
from tvm import te, tirx, topi
from zoo import layer_norm, softmax

from tvm_stitch.graph.front.functions.erf import approximated
from tvm_stitch.kernel.analysis.profile import PhaseProfile, Profile, rows_profile
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.ir.instructions import Instructions, instructions
from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.stages.stage import Refused


def profile(program, **changes):
    """As counted for a mapping; how many threads there are makes no difference."""
    return rows_profile(program, Rows(256, 1, 4, 1, **changes))


def program(*tensors):
    programs = read_programs(te.create_prim_func(list(tensors)))
    assert not isinstance(programs, Refused), programs
    (found,) = programs
    return found


def tensor(*shape, dtype="float32", name="x"):
    return te.placeholder(shape, dtype, name)


def test_an_element_wise_program_is_one_phase():
    x, y, row = tensor(8, 64), tensor(8, 64, name="y"), tensor(64, name="row")
    found = profile(program(x, y, row, topi.multiply(topi.add(x, y), row)))
    assert found == Profile(
        rows=1,
        columns=512,
        reduces=False,
        phases=(PhaseProfile(reads=(4, 4), along=(4,), writes=(4,), operations=2.0),),
        other_bytes=256,
        live_bytes=0,
        kept_bytes=0,
    )
    assert found.least_bytes == 3 * 512 * 4 + 256


def test_a_reduction_ends_a_phase_and_its_row_is_kept():
    x = tensor(16, 256)
    total = topi.sum(topi.exp(x), axis=1, keepdims=True)
    found = profile(program(x, topi.divide(x, total)))
    first, second = found.phases
    assert first == PhaseProfile(reads=(4,), to_kept=1, operations=2.0, specials=1.0, reductions=1)
    assert second == PhaseProfile(writes=(4,), from_kept=1, operations=1.0, specials=1.0)
    assert (found.rows, found.columns, found.live_bytes) == (16, 256, 4)
    assert found.least_bytes == 2 * 16 * 256 * 4


def test_computing_again_costs_operations_and_saves_room():
    x = tensor(16, 256)
    exps = topi.exp(topi.multiply(topi.exp(x), x))
    found = program(x, topi.divide(exps, topi.sum(exps, axis=1, keepdims=True)))
    kept, again = profile(found), profile(found, recompute=True)
    assert again.kept_bytes <= kept.kept_bytes
    assert sum(p.specials for p in again.phases) > sum(p.specials for p in kept.phases)


def test_rows_that_wait_nowhere_are_read_again():
    x = tensor(16, 256)
    total = topi.sum(topi.exp(x), axis=1, keepdims=True)
    found = profile(program(x, topi.divide(x, total)), residence="nowhere")
    first, second = found.phases
    assert (first.reads, first.again, first.to_kept) == ((4,), (), 0)
    assert (second.reads, second.again, second.from_kept) == ((), (4,), 0)
    assert found.least_bytes == 2 * 16 * 256 * 4


def test_halves_count_two_bytes():
    x = tensor(4, 64, dtype="float16")
    (phase,) = profile(program(x, topi.add(x, x))).phases
    assert (phase.reads, phase.writes) == ((2,), (2,))


def test_a_transpose_gathers():
    x = tensor(64, 96)
    (phase,) = profile(program(x, topi.exp(topi.transpose(x)))).phases
    assert (phase.gathers, phase.reads, phase.along) == ((4,), (), ())


@pytest.mark.parametrize(
    "rows, columns, lines",
    [(640, 960, 32), (960, 640, 32), (4, 960, 2), (960, 4, 4), (3, 1000, 4), (64, 960, 8)],
)
def test_transposes_of_long_axes_read_lines_apart(rows, columns, lines):
    """Of short ones, neighbours read the same line: themselves, or vector by vector."""
    x = tensor(rows, columns)
    (phase,) = profile(program(x, topi.exp(topi.transpose(x)))).phases
    assert (phase.gathers, phase.uncoalesced) == ((4,), pytest.approx((lines - 1) / 31))


def test_of_rows_nobody_knows_who_is_beside_a_thread():
    x, y = tensor(40, 500), tensor(1000, 40, name="y")
    products = te.compute(x.shape, lambda row, k: x[row, k] * y[2 * k, row], "products")
    phase, *_ = profile(program(x, y, topi.sum(products, axis=1))).phases
    assert (phase.gathers, phase.uncoalesced) == ((4,), 0)


@pytest.mark.parametrize(("beside", "alone"), [(True, 0), (False, 1)])
def test_short_rows_that_load_where_memory_says_are_beside_each_other_or_alone(beside, alone):
    x, places = tensor(64, 64), tensor(64, 8, dtype="int64", name="places")

    def found(row, k):
        place = places[tirx.const(0, "int64") if beside else row, k]
        return x[place, row] if beside else x[row, place]

    sums = topi.sum(te.compute((64, 8), found, "found"), axis=1)
    phase, *_ = profile(program(x, places, sums)).phases
    assert phase.uncoalesced == alone


def test_elements_that_are_sampled_read_some_lines_apart():
    x, places = tensor(4096), tensor(64, 64, dtype="int64", name="places")
    taken = te.compute((64, 64), lambda *at: topi.exp(x)[places(*at)], "taken")
    (phase,) = profile(program(x, places, taken)).phases
    assert phase.gathers == (4,) and 0 < phase.uncoalesced < 0.5


def test_what_is_computed_of_a_loaded_place_counts():
    x, places = tensor(64, 64), tensor(8, 64, name="places")

    def count(place):
        (stage,) = program(
            x, places, te.compute((8, 64), lambda i, j: x[i, place(places[i, j])], "found")
        ).stages
        return instructions(stage).plain

    plain = count(lambda place: place.astype("int64"))
    clipped = count(lambda place: tirx.max(place, tirx.const(0.0, "float32")).astype("int64"))
    assert clipped == plain + 1


def test_a_slice_counts_what_it_reaches():
    x, y = tensor(1 << 20), tensor(64, name="y")
    found = profile(program(x, y, te.compute((64,), lambda i: x[i + 7] + y[i], "sum")))
    assert found.other_bytes == 64 * 4


@pytest.mark.parametrize(
    "make, special", [(topi.exp, 1), (topi.tanh, 1), (topi.abs, 0), (topi.rsqrt, 1)]
)
def test_special_functions_are_told_from_plain_ones(make, special):
    (stage,) = program(x := tensor(64), make(x)).stages
    assert instructions(stage).special == special


def test_a_gelu_takes_what_nvcc_makes_of_it():
    # For sm_90a, of float32: 8 FFMA, a square, the product with the polynomial and the sum under
    # the quotient; ex2 and rcp.
    x = tensor(64)
    erf = te.compute((64,), lambda i: approximated(x[i]), "erf")
    (stage,) = program(x, erf).stages
    assert instructions(stage) == Instructions(11.0, 2.0, 0.0)


def test_a_product_and_its_sum_are_one_instruction():
    x, y = tensor(64), tensor(64, name="y")
    (stage,) = program(x, y, te.compute((64,), lambda i: x[i] * y[i] - x[i], "sum")).stages
    assert instructions(stage) == Instructions(1.0, 0.0, 0.0)


def test_what_is_written_twice_is_computed_once():
    x, y = tensor(64), tensor(64, name="y")
    (stage,) = program(x, y, te.compute((64,), lambda i: (x[i] + y[i]) * (x[i] + y[i]))).stages
    assert instructions(stage) == Instructions(2.0, 0.0, 0.0)


def test_float64_takes_longer():
    """Arithmetic at half the rate, conversions and roundings at less; functions are software."""
    x, wide = tensor(64), tensor(64, dtype="float64", name="wide")
    rounded = te.compute((64,), lambda i: tirx.nearbyint(x[i].astype("float64") * 3.0) * 2.0)
    (stage,) = program(x, rounded).stages
    assert instructions(stage) == Instructions(2 * 6.0 + 2 * 2.0, 0.0, 0.0)
    (stage,) = program(wide, topi.exp(wide)).stages
    assert instructions(stage).special == 0 and instructions(stage).plain > 30


@pytest.mark.parametrize(("inner", "plain"), [(False, 1.0), (True, 3.0)])
def test_a_guard_is_counted_where_lanes_have_their_own(inner, plain):
    x = tensor(64, 64)

    def element(i, j):
        return tirx.if_then_else((j if inner else i) >= 8, x[i, j] * x[i, j], 0.0)

    (stage,) = program(x, te.compute((64, 64), element, "sum")).stages
    assert instructions(stage) == Instructions(plain, 0.0, avoided=8 / 64)


def test_loads_of_a_branch_count_where_it_is_taken():
    x, a = tensor(1024), te.placeholder((64, 8), "int32", "a")

    def element(i, j):
        shifted = [x[a[i, j] + n] for n in range(8)]
        return tirx.if_then_else(j < 2, sum(shifted[:4]), sum(shifted[4:]))

    chosen = te.compute((64, 8), element, "chosen")
    phase, *_ = profile(program(x, a, topi.sum(chosen, axis=1))).phases
    assert phase.gathers == (4,) * 4  # a quarter of one side's and three of the other's
    stage, *_ = program(x, a, topi.sum(chosen, axis=1)).stages
    assert instructions(stage).avoided > 0


@pytest.mark.parametrize(("distance", "gathers"), [(1, 2), (2, 16)])
def test_rows_that_load_side_by_side_share_sectors(distance, gathers):
    """Of places that memory says, where what follows is the row's number among eight."""
    x, a = tensor(1 << 16), te.placeholder((8, 8), "int64", "a")

    def element(i, j):
        place = a[tirx.floordiv(i, 8), j] * 16 + (tirx.floormod(i, 8) * distance).astype("int64")
        return sum(x[place + 256 * n] for n in range(16))

    found = te.compute((64, 8), element, "found")
    phase, *_ = profile(program(x, a, topi.sum(found, axis=1))).phases
    assert len(phase.gathers) == gathers


def test_symbolic_sizes_have_the_profile_of_representative_ones():
    rows = tirx.Var("rows", "int64")
    x, y = te.placeholder((rows, 64), "float32", "x"), tensor(256, 64)
    open_rows = profile(program(x, topi.sum(x, axis=1)))
    assert open_rows == profile(program(y, topi.sum(y, axis=1)))


@pytest.mark.parametrize("case", [softmax, layer_norm])
def test_profiles_go_through_json(case):
    found = profile(program_of(case("float32").module))
    assert Profile.from_dict(json.loads(json.dumps(asdict(found)))) == found


def test_a_profile_is_counted_once():
    x = tensor(16, 256)
    found = program(x, topi.nn.softmax(x))
    assert profile(found) is profile(found)
