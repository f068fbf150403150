"""Tuning from end to end: what is searched, recorded, resumed and told."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from check import H200
from tuning_runs import (
    MadeUpRunner,
    made_up_cost,
    softmax_model,
    tuned,
    undated,
)
from tvm import relax, tirx

import tvm_stitch
from tvm_stitch.errors import InputError
from tvm_stitch.kernel.cost_model.kernel_model import predicted_us
from tvm_stitch.tuning.apply import RecordWarning
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.progress import Bar, State, describe
from tvm_stitch.tuning.records import best_first
from tvm_stitch.tuning.search import Settings
from tvm_stitch.tuning.store import Store
from tvm_stitch.tuning.workloads import find_workloads, parse_shapes

pytestmark = pytest.mark.usefixtures("nothing_shipped")

# Records


@pytest.mark.slow
def test_every_trial_is_recorded(path):
    result = tuned(path)
    (kernel,) = result.kernels
    records = Store(path).read().records
    searched = [record for record in records if not record.final]
    assert [record.trial for record in searched] == [*range(24)]
    assert len({record.schedule for record in searched}) == 24
    finals = [record for record in records if record.final]
    assert finals[0].trial == 0 and 1 < len(finals) <= 4
    assert kernel.trials == 24
    assert kernel.analytic == made_up_cost(searched[0].schedule)
    assert kernel.best == min(record.cost for record in finals) < kernel.analytic
    assert f"{kernel.gain:.3f}" in str(result)


@pytest.mark.slow
def test_what_was_found_is_applied(path):
    tuned(path)
    (entry,) = tvm_stitch.explain(softmax_model(), H200, database=path).kernels
    best = min(Store(path).read().records, key=lambda record: record.cost or np.inf)
    assert (entry.origin, entry.mapping) == ("tuned", best.schedule.mapping)


@pytest.mark.slow
def test_equal_kernels_are_searched_once(path):
    runner = MadeUpRunner()
    tuned(path, runner)
    count = len(runner.measured)
    tuned(path, runner)
    assert len(runner.measured) == count


@pytest.mark.slow
def test_progress_is_told(path):
    states = []
    tuned(path, progress=states.append)
    assert [state.trials for state in states] == [8, 16, 24, 24, 24]
    assert [state.done for state in states] == [False] * 4 + [True]
    assert states[-1].best == min(state.best for state in states)


def test_a_line_of_progress_says_what_there_is_to_know():
    state = State(2, 3, "rows of 7", 32, 64, 40, "us", 12.0, 10.0, 9.0)
    assert describe(state, 95.0) == (
        "[2/3] #####..... 32/64 1:35 left best 10 us (1.200 x the chosen one's speed) "
        "90 % of the floor's speed rows of 7"
    )
    counted = replace(state, unit="accesses", floor=None, best=None)
    assert describe(counted, None) == "[2/3] #####..... 32/64 nothing measured rows of 7"
    failed = replace(counted, why="there is no GPU")
    assert describe(failed, None).endswith(" nothing measured (there is no GPU) rows of 7")


def test_a_model_of_which_nothing_is_stitched_says_so(path):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.sort(x))
        builder.emit_func_output(out)
    result = tvm_stitch.tune(builder.get(), H200, path, runner="simt")
    assert "nothing to measure: no kernel of this model is stitched" in str(result)


def test_a_terminal_sees_one_line_that_is_rewritten():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    bar = Bar(stream)
    state = State(1, 1, "rows", 8, 16, 8, "us", 2.0, 1.0, None)
    bar(state)
    bar(replace(state, trials=16, done=True))
    first, second = stream.getvalue().split("\r")[1:]
    assert "8/16" in first and "left" in first and not first.endswith("\n")
    assert "16/16" in second and "left" not in second and second.endswith("\n")


@pytest.mark.slow
def test_nothing_is_recorded_where_nothing_can_be_measured(path):
    class Broken(MadeUpRunner):
        def measure(self, workload, schedules, reference, careful=False, best=None):
            return [Outcome(None, "no driver") for _ in schedules]

    (kernel,) = tuned(path, Broken()).kernels
    assert (kernel.best, kernel.why) == (None, "no driver")
    assert Store(path).read().records == ()


class Sceptical(MadeUpRunner):
    """Whatever led by luck does not, looked at with more care; these many did."""

    def __init__(self, lucky, breaks_after=None):
        super().__init__(breaks_after)
        self.lucky = lucky

    def measure(self, workload, schedules, reference, careful=False, best=None):
        outcomes = super().measure(workload, schedules, reference, careful, best)
        if not careful:
            return outcomes
        first, *others = outcomes
        assert schedules[0] == reference
        shares = [
            1.02 if place < self.lucky else 0.9 + 0.01 * place for place in range(len(others))
        ]
        return [first, *(Outcome(first.cost * share) for share in shares)]


@pytest.mark.slow
@pytest.mark.spread(2)
@pytest.mark.parametrize("lucky", (0, 1, 2, 3))
def test_a_winner_that_does_not_hold_gives_way_to_the_next(path, lucky):
    """Down to the analytic choice."""
    (kernel,) = tuned(path, Sceptical(lucky), trials=10).kernels
    records = Store(path).read().records
    finals = [record for record in records if record.final]
    assert len(finals) == 4
    wanted = [*finals[1:], finals[0]][lucky]
    assert best_first(list(records))[0] == wanted
    assert kernel.best == wanted.cost <= kernel.analytic
    (entry,) = tvm_stitch.explain(softmax_model(), H200, database=path).kernels
    assert entry.mapping == wanted.schedule.mapping


@pytest.mark.slow
def test_finals_are_replayed_as_well(path, tmp_path):
    whole = tmp_path / "whole.jsonl"
    tuned(whole, Sceptical(2), trials=10)
    with pytest.raises(KeyboardInterrupt):
        tuned(path, Sceptical(2, breaks_after=12), trials=10)
    tuned(path, Sceptical(2), trials=10)
    assert undated(path) == undated(whole)
    again = Sceptical(0)
    tuned(path, again, trials=10)
    assert again.measured == []


# Going on


@pytest.mark.parametrize("breaks_after", (0, 3, 20, 25))
@pytest.mark.slow
def test_an_interrupted_search_goes_on_as_if_it_had_not_been(path, tmp_path, breaks_after):
    whole = tmp_path / "whole.jsonl"
    tuned(whole)
    with pytest.raises(KeyboardInterrupt):
        tuned(path, MadeUpRunner(breaks_after))
    second = MadeUpRunner()
    tuned(path, second)
    assert undated(path) == undated(whole)
    assert len(second.measured) == len(undated(whole)) - breaks_after // 8 * 8


@pytest.mark.slow
def test_a_search_of_several_kernels_goes_on_as_well(path, tmp_path):
    module = softmax_model(tirx.Var("n", "int64"))
    shapes, whole = {"n": [4096, 512]}, tmp_path / "whole.jsonl"
    tuned(whole, module=module, shapes=shapes)
    with pytest.raises(KeyboardInterrupt):
        tuned(path, MadeUpRunner(40), module=module, shapes=shapes)
    tuned(path, module=module, shapes=shapes)
    assert undated(path) == undated(whole)


@pytest.mark.slow
def test_more_trials_go_on_from_fewer(path, tmp_path):
    whole = tmp_path / "whole.jsonl"
    tuned(whole, trials=32)
    tuned(path, trials=16)
    tuned(path, trials=32)
    searches = [[line for line in undated(each) if not line["final"]] for each in (path, whole)]
    assert searches[0] == searches[1]


@pytest.mark.slow
def test_another_seed_is_another_search(path, tmp_path):
    other = tmp_path / "other.jsonl"
    tuned(path)
    tuned(other, seed=1)
    lines = [[line["schedule"] for line in undated(each)] for each in (path, other)]
    assert lines[0][0] == lines[1][0]  # the analytic choice
    assert lines[0] != lines[1]


# Kernels in rounds


def over_rows_model(rows=8192, columns=256):
    """A softmax over the first axis: sums over the rows, and what needs them."""
    x = relax.Var("x", relax.TensorType((rows, columns), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.softmax(x, 0))
        builder.emit_func_output(out)
    return builder.get()


def test_kernels_in_rounds_are_tuned_and_applied(path, grid_barriers):
    class Runner(MadeUpRunner):
        """As predicted, but that the chosen one is slow."""

        def measure(self, workload, schedules, reference, careful=False, best=None):
            times = [predicted_us(workload.programs, s, workload.device) for s in schedules]
            slow = [1 + (schedule == reference) for schedule in schedules]
            return [Outcome(time * each) for time, each in zip(times, slow, strict=True)]

    module, other = over_rows_model(), over_rows_model(12000)
    (kernel,) = tuned(path, Runner(), module=module).kernels
    assert kernel.best < kernel.analytic
    (entry,) = tvm_stitch.explain(module, H200, database=path).kernels
    assert (entry.origin, entry.scheme) == ("tuned", "global")
    best = best_first(list(Store(path).read().records))[0].schedule
    assert entry.mapping == best.mapping and best.blocks == 132 * best.min_blocks_per_sm
    # The blocks of another shape, with the rows that it has.
    (entry,) = tvm_stitch.explain(other, H200, database=path).kernels
    assert entry.origin.startswith("tuned for ")
    assert f"{best.blocks} blocks in rounds" in entry.mapping


def test_a_record_of_more_blocks_than_there_is_room_for_is_not_applied(path, grid_barriers):
    tuned(path, module=over_rows_model(), trials=2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["schedule"] |= {"min_blocks_per_sm": 64, "blocks": 64 * 132}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(RecordWarning, match="which has room for"):
        (entry,) = tvm_stitch.explain(over_rows_model(), H200, database=path).kernels
    assert entry.origin == "chosen"


# Shapes


@pytest.mark.slow
def test_symbolic_dimensions_are_tuned_for_given_sizes(path):
    module = softmax_model(tirx.Var("n", "int64"), tirx.Var("m", "int64"))
    result = tuned(path, trials=8, module=module, shapes={"n": [64, 4096], "m": [256]})
    assert [kernel.title.split(" float32")[0] for kernel in result.kernels] == [
        "64 x 256",
        "4096 x 256",
    ]


def test_kernels_are_named_by_their_operators():
    (workload,) = find_workloads(softmax_model(), H200).workloads
    assert workload.title.endswith(": max, subtract, exp, sum, divide")


def test_without_sizes_symbolic_kernels_are_left_out(path):
    result = tuned(path, module=softmax_model(tirx.Var("n", "int64")))
    assert result.kernels == () and len(result.symbolic) == 1
    assert "sizes are not known: n x 256" in str(result)


@pytest.mark.parametrize(
    ("text", "shapes"),
    (
        ("n=1,8,32;m=128,512", {"n": [1, 8, 32], "m": [128, 512]}),
        (" n = 4 ; ", {"n": [4]}),
    ),
)
def test_shapes_are_read(text, shapes):
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize("text", ("n", "n=", "n=a", "n=1;n=2", "n=1,,2", "=3"))
def test_shapes_that_cannot_be_read(text):
    with pytest.raises(InputError, match="is not of the form"):
        parse_shapes(text)


# Wrong use


@pytest.mark.parametrize(
    ("settings", "why"),
    (
        ({"trials": 0}, "trials must be at least 1"),
        ({"runner": "cloud"}, "runner 'cloud' is not one of local, rpc, simt"),
        ({"runner": "rpc"}, "needs a tracker"),
        ({"runner": "rpc", "tracker": "nowhere"}, "not of the form host:port"),
        ({"runner": "rpc", "tracker": "127.0.0.1:1"}, "no TVM RPC tracker at 127.0.0.1:1"),
        ({"runner": "simt", "jobs": 0}, "jobs must be at least 1"),
        ({"module": 3}, "takes a Relax IRModule, not int"),
        ({"shapes": {"n": [1]}}, "no symbolic dimension 'n'; it has none"),
        ({"shapes": {"n": [0]}, "module": softmax_model(tirx.Var("n", "int64"))}, "positive"),
    ),
)
def test_wrong_use(path, settings, why):
    with pytest.raises(InputError, match=why):
        tuned(path, **settings)


def test_a_local_search_needs_a_gpu(path, monkeypatch):
    import tvm

    if tvm.cuda(0).exist:
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match=r'no GPU here.*runner="simt"'):
        tuned(path, runner="local")


def test_a_batch_holds_something():
    with pytest.raises(InputError, match="batch must be at least 1"):
        Settings(batch=0)
