"""Small workloads, and runners that need neither a GPU nor a compiler, for the tests of tuning."""

from __future__ import annotations

import json

import tvm
from check import H200
from tvm import relax, te, topi
from tvm.relax import op

import tvm_stitch
from tvm_stitch.device import device_of
from tvm_stitch.graph.front.undispatched import running
from tvm_stitch.kernel.choose import choose
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.workload import Workload, workload_of

DEVICE = device_of(H200)


def softmax_of(rows=64, columns=256, dtype="float32"):
    """The tensors of a softmax."""
    x = te.placeholder((rows, columns), dtype, "x")
    exps = topi.exp(topi.subtract(x, topi.max(x, axis=1, keepdims=True)))
    return x, topi.divide(exps, topi.sum(exps, axis=1, keepdims=True))


def elements(size=5000, name="x"):
    """The tensors of an element-wise function."""
    x = te.placeholder((size,), "float32", name)
    return x, topi.exp(topi.add(x, topi.multiply(x, x)))


def column_sums(rows=4200, columns=256):
    """The tensors of a sum over the rows."""
    x = te.placeholder((rows, columns), "float32", "x")
    return x, topi.sum(topi.multiply(x, x), axis=0)


def softmax_over_rows(rows=6200, columns=33):
    """The tensors of a softmax over the first axis: sums over the rows, and what needs them."""
    x = te.placeholder((rows, columns), "float32", "x")
    exps = topi.exp(topi.subtract(x, topi.max(x, axis=0, keepdims=True)))
    return x, topi.divide(exps, topi.sum(exps, axis=0, keepdims=True))


def softmax_over_column_sums(rows=6200, columns=512):
    """The tensors of a softmax along rows, and what its column sums divide."""
    x, softmax = softmax_of(rows, columns)
    return x, topi.divide(softmax, topi.sum(softmax, axis=0, keepdims=True))


def running_sums(rows=40, columns=70000):
    """The tensors of running sums along rows that no block keeps."""
    x = te.placeholder((rows, columns), "float32", "x")
    return x, running(x, "sum", "float32")


def softmax_of_columns(batch=3, rows=40, columns=33):
    """The tensors of a softmax over a middle axis."""
    x = te.placeholder((batch, rows, columns), "float32", "x")
    exps = topi.exp(topi.subtract(x, topi.max(x, axis=1, keepdims=True)))
    return x, topi.divide(exps, topi.sum(exps, axis=1, keepdims=True))


def transposed(rows=70, columns=136):
    """The tensors of a sum that reads one of its terms transposed."""
    x = te.placeholder((rows, columns), "float16", "x")
    y = te.placeholder((columns, rows), "float16", "y")
    return x, y, topi.add(topi.transpose(x, (1, 0)), y)


def side_by_side():
    """The tensors of two unrelated computations of one kind."""
    (x, y), (a, b) = elements(4096, "x"), elements(512, "a")
    return x, a, y, b


KINDS = {
    "rows": softmax_of,
    "misaligned rows": lambda: softmax_of(9, 301),
    "halves": lambda: softmax_of(30, 512, "float16"),
    "elements": elements,
    "transposed": transposed,
    "sums over rows": column_sums,
    "panels": softmax_of_columns,
    "side by side": side_by_side,
    "rounds": softmax_over_rows,
    "rounds of rows that are reduced": softmax_over_column_sums,
}


def workload(*tensors, device=DEVICE) -> Workload:
    """The workload of a function of tensors."""
    found = workload_of(te.create_prim_func(list(tensors)), device)
    assert not isinstance(found, Refused), found
    return found


def chosen(of: Workload) -> Schedule:
    """Its analytic choice."""
    schedule = choose(of.programs, of.device, of.bounds)
    assert not isinstance(schedule, Refused), schedule
    return schedule


def softmax_model(rows=4096, columns=256, dtype="float32") -> tvm.IRModule:
    """A Relax module with one stitched kernel; sizes may be TIR variables."""
    x = relax.Var("x", relax.TensorType((rows, columns), dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(op.nn.softmax(x, -1))
        builder.emit_func_output(out)
    return builder.get()


def made_up_cost(schedule: Schedule) -> float:
    """Smooth in most axes, with one best schedule or a few."""

    def of(mapping: Mapping) -> float:
        cost = 10.0 + abs(mapping.block_threads.bit_length() - 8)
        cost += 2 * abs(mapping.threads.bit_length() - 6) + 3 * (mapping.residence != "register")
        cost += 4.0 / mapping.vector + 0.1 * mapping.recompute + 0.5 * (mapping.cluster > 1)
        cost += 0.3 * abs(mapping.batch - 2) + 0.7 * (not mapping.prefetch_weights)
        cost += 1.5 * (mapping.blocks > 0) + 0.4 * (mapping.min_blocks_per_sm > 0)
        return cost + 0.01 * mapping.steps

    return sum(map(of, schedule.parts))


class MadeUpRunner:
    """Measures by a formula; may break off after so many measurements."""

    unit, how = "us", "made up"

    def __init__(self, breaks_after: int | None = None, gpu: str = DEVICE.name) -> None:
        self.breaks_after, self.gpu = breaks_after, gpu
        self.measured: list[Schedule] = []

    def gpu_name(self, _workload: Workload) -> str:
        return self.gpu

    def measure(self, workload, schedules, reference, careful=False, best=None) -> list[Outcome]:
        outcomes = []
        for schedule in schedules:
            if self.breaks_after is not None and len(self.measured) >= self.breaks_after:
                raise KeyboardInterrupt
            self.measured.append(schedule)
            fails = schedule.parts[0].threads == 2
            outcomes.append(Outcome(None, "no luck") if fails else Outcome(made_up_cost(schedule)))
        return outcomes

    def close(self) -> None:
        """Nothing to end."""


def tuned(path, runner=None, trials=24, module=None, **settings):
    """The answer of a search for the module, recorded at a path."""
    runner = runner or MadeUpRunner()
    module = module or softmax_model()
    return tvm_stitch.tune(module, H200, path, trials=trials, runner=runner, **settings)


def undated(path):
    """All lines of a store, without their dates."""
    return [{**json.loads(line), "date": ""} for line in path.read_text().splitlines()]
