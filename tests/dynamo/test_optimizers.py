"""Optimizers as they are on a GPU: lists of tensors (`foreach`), counts of steps on the device."""

import contextlib
import copy
import json
from functools import partial
from unittest import mock

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_programs import agree  # noqa: E402

from tvm_stitch import simt  # noqa: E402
from tvm_stitch.build import DefaultSchedules, lowering_context  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.parts.components import MOST_OPERATORS  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.kernel.codegen.prim_func import IN_PLACE_ATTRIBUTE  # noqa: E402
from tvm_stitch.target import full_target  # noqa: E402
from tvm_stitch.verify import stitched_for_cpu  # noqa: E402

SHAPES = [(7, 5), (33,), (31, 4), (), (1,), (7, 5), (1027,), (33,)]
NAN = float("nan")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def steps(make, parameters, wrap, count=3):
    """The parameters and their optimizer's state after some steps."""
    optimizer = make(parameters)
    step = wrap(optimizer.step)
    for number in range(count):
        for place, parameter in enumerate(parameters):
            values = torch.linspace(-1, 1, parameter.numel()).view(parameter.shape)
            parameter.grad = (values * (number + 1) + place / 8).to(parameter.dtype)
        step()
    states = [optimizer.state[each] for each in parameters]
    kept = [value for state in states for value in state.values() if value is not None]
    return [*(each.detach() for each in parameters), *kept]


@contextlib.contextmanager
def counts_on_the_device():
    """Eagerly too, a CPU's counts of steps may be tensors, as a GPU's are."""
    with contextlib.ExitStack() as stack:
        for name in ("adam", "rmsprop"):
            where = f"torch.optim.{name}._get_capturable_supported_devices"
            stack.enter_context(mock.patch(where, lambda *_, **__: ["cpu"]))
        yield


def check(make, device=LLVM, dtype=torch.float32, shapes=SHAPES):
    """Stitched, an optimizer does what it does eagerly; the report."""
    eager = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    ours = copy.deepcopy(eager)
    exact = [each.detach().double().clone().requires_grad_() for each in eager]
    compiler = GraphCompiler(Settings(device=device, target="sm_90"))
    with counts_on_the_device():
        found = steps(make, ours, lambda step: torch.compile(step, backend=compiler))
        wanted = steps(make, eager, lambda step: step)
        truths = steps(make, exact, lambda step: step)
    for got, want, truth in zip(found, wanted, truths, strict=True):
        agree(got, want, truth.double())
    report = compiler.log.report()
    assert not [part.failure for part in report.parts if part.failure]
    return report, compiler


def of_lists(optimizer, **options):
    return lambda parameters: optimizer(parameters, foreach=True, **options)


def left(report):
    return {each.operator for each in report.left}


ADAMW = of_lists(torch.optim.AdamW, lr=0.1, capturable=True)


@pytest.mark.parametrize(
    "make",
    [
        of_lists(torch.optim.Adam, lr=0.1, capturable=True, amsgrad=True, weight_decay=0.1),
        of_lists(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        of_lists(torch.optim.RMSprop, lr=0.1, capturable=True, momentum=0.9, centered=True),
        of_lists(torch.optim.Adagrad, lr=0.1),
    ],
)
@pytest.mark.slow
def test_lists_become_parts(make):
    report, _ = check(make)
    assert left(report) <= {"stack"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.slow
def test_a_step_is_few_kernels(dtype):
    report, compiler = check(ADAMW, EXECUTOR, dtype)
    assert left(report) == {"stack"}
    # The counts of the steps and what follows from them; then all parameters.
    assert len(report.parts) == 2
    assert sorted(len(set(machine.kernels)) for machine in compiler.machines.values()) == [1, 1]


def lerp_in_three(start, end, weight):
    """As PyTorch 2.11 writes it out."""
    steps = torch._foreach_mul(torch._foreach_sub(end, start), weight)
    return torch._foreach_add_(start, steps)


@pytest.mark.parametrize("older", [False, True])
def test_moments_of_halves_are_rounded_once(older, monkeypatch):
    """Dynamo writes `lerp` out; each of its three roundings would cost a moment as much again."""
    if older:
        monkeypatch.setattr(torch._dynamo.polyfills, "foreach_lerp_inplace", lerp_in_three)
    gradients = torch.randn(3, 1027).bfloat16()
    compiler = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    moments = []
    for wrap in (partial(torch.compile, backend=compiler), lambda step: step):
        parameter = torch.ones(1027).bfloat16().requires_grad_()
        with counts_on_the_device():
            optimizer = ADAMW([parameter])
            step = wrap(optimizer.step)
            for gradient in gradients:
                parameter.grad = gradient.clone()
                step()
        moments.append(optimizer.state[parameter]["exp_avg"])
    assert moments[0].dtype == torch.bfloat16 and torch.equal(*moments)


def test_rates_that_are_tensors():
    rate = torch.tensor(0.1)
    report, _ = check(of_lists(torch.optim.AdamW, lr=rate, capturable=True))
    assert left(report) == {"stack"}


def test_lists_of_float64_stay_lists():
    report, _ = check(of_lists(torch.optim.SGD, lr=0.1), dtype=torch.float64)
    assert not report.parts
    assert left(report) == {"_foreach_add.List"}


@pytest.mark.slow
def test_layers_are_updated_by_equal_parts():
    layer = [(5, 5), (5,), (9, 5), (9,)]
    layers = 2 * MOST_OPERATORS // (10 * len(layer))
    report, compiler = check(ADAMW, shapes=[(6, 5), *layer * layers, (3,)])
    assert len(compiler.machines) < len(report.parts)
    assert left(report) == {"stack"}


@pytest.mark.slow
def test_operators_of_lists():
    def operators(*given):
        xs, ys = list(given[:3]), list(given[3:])
        one = given[0].sum()
        lists = [
            torch._foreach_add(xs, ys, alpha=0.3), torch._foreach_add(xs, 2),
            torch._foreach_add(xs, [1, 2.5, 3]), torch._foreach_add(xs, one, alpha=2),
            torch._foreach_sub(xs, ys, alpha=2), torch._foreach_mul(xs, [1, 2.5, 3]),
            torch._foreach_div(xs, one), torch._foreach_div(xs, 3), torch._foreach_mul(xs, ys),
            torch._foreach_addcmul(xs, ys, xs, 0.5), torch._foreach_addcdiv(xs, xs, ys, [1, 2, 3]),
            torch._foreach_lerp(xs, ys, 0.3), torch._foreach_lerp(xs, ys, [0.1, 0.5, 0.9]),
            torch._foreach_lerp(xs, ys, ys), torch._foreach_maximum(xs, ys),
            torch._foreach_maximum(xs, 0.5), torch._foreach_minimum(xs, [0.5, 0.1, -1.0]),
            torch._foreach_clamp_min(xs, ys), torch._foreach_clamp_max(xs, 0.1),
            torch._foreach_pow(torch._foreach_abs(xs), 1.5), torch._foreach_pow(0.9, xs),
            torch._foreach_pow(torch._foreach_abs(xs), ys), torch._foreach_sqrt(ys),
            torch._foreach_neg(xs), torch._foreach_reciprocal(ys), torch._foreach_sign(xs),
            torch._foreach_exp(xs), torch._foreach_norm(xs), torch._foreach_norm(xs, 1),
            torch._foreach_norm(xs, float("inf")), torch._foreach_max(xs),
        ]  # fmt: skip
        return [each for several in lists for each in several]

    shapes = (5, 7), (33,), ()
    for dtype in (torch.float32, torch.float16):
        given = [torch.randn(s).to(dtype) for s in shapes] + [
            torch.rand(s).add(0.5).to(dtype) for s in shapes
        ]
        given[0][0, 0] = given[1][1] = NAN
        compiler = GraphCompiler(Settings(device=LLVM))
        found = torch.compile(operators, backend=compiler)(*given)
        exact = operators(*(each.double() for each in given))
        for got, want, truth in zip(found, operators(*given), exact, strict=True):
            agree(got, want, truth)
        assert left(compiler.log.report()) <= {"stack"}


def test_results_that_are_numbers_are_their_own():
    def function(x, y):
        first, second = torch._foreach_add([x, y], 1)
        return first, second

    x, y = torch.tensor(1.0), torch.tensor(2.0)
    first, second = torch.compile(function, backend=GraphCompiler(Settings(device=LLVM)))(x, y)
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()
    assert (first, second) == (2.0, 3.0)


def test_lists_that_are_copied_and_cleared():
    def function(x, y, z):
        torch._foreach_copy_([x, y], [y * 2, z.half()])
        torch._foreach_zero_([z])
        return x + y

    given = torch.randn(3), torch.randn(3).half(), torch.randn(3)
    expected = tuple(each.clone() for each in given)
    run = torch.compile(function, backend=GraphCompiler(Settings(device=LLVM)))
    torch.testing.assert_close(run(*given), function(*expected))
    torch.testing.assert_close(given, expected)


@pytest.mark.slow
def test_states_are_written_where_they_are():
    """Of a GPU's kernels those of elements alone write over what they read; nothing is copied."""
    from tvm_stitch.dynamo import machines
    from tvm_stitch.dynamo.machine import lowered_for_cuda

    lowered = []

    def seen(converted, settings, device, results, *others):
        wanted = lowered_for_cuda(converted.module, Settings(target="sm_90"), over=results.over)
        lowered.append((results.over, wanted.in_place))
        return machine_for(converted, settings, device, results, *others)

    machine_for = machines.machine_for
    with mock.patch.object(machines, "machine_for", seen):
        check(ADAMW, dtype=torch.bfloat16)
    (over, in_place) = max(lowered, key=lambda each: len(each[0]))
    assert len(over) == 3 * len(SHAPES) and in_place == {result for result, _ in over}


def array(parameter, random):
    """What a kernel could be given: positive numbers; a bfloat16 as its bits."""
    shape, dtype = tuple(map(int, parameter.ty.shape)), str(parameter.ty.dtype)
    values = random.random(shape, np.float32) + np.float32(0.5)
    if dtype != "bfloat16":
        return np.array(values, dtype)
    return np.array(np.asarray(values).view(np.uint32) >> 16, np.uint16)


@pytest.mark.slow
def test_what_is_written_over_is_read_before():
    """In any order of the threads, results are those of memory of their own, bit for bit."""
    from tvm_stitch.dynamo import machines

    seen = []

    def noted(converted, *others):
        seen.append(converted.module)
        return machine_for(converted, *others)

    machine_for = machines.machine_for
    with mock.patch.object(machines, "machine_for", noted):
        check(ADAMW, dtype=torch.bfloat16)
    target = full_target("sm_90")
    stitched = stitched_for_cpu(max(seen, key=lambda each: len(each["main"].params)), target)
    scheduled = DefaultSchedules(target)(stitched.clone())
    ((name, kernel),) = [
        (var.name_hint, scheduled[var.name_hint])
        for var, each in stitched.functions_items()
        if IN_PLACE_ATTRIBUTE in (each.attrs or {})
    ]
    # One source for each result, as `over` has it.
    source_of = {}
    for source, output in json.loads(str(kernel.attrs[IN_PLACE_ATTRIBUTE])):
        if source not in source_of.values():
            source_of.setdefault(output, source)
    assert len(source_of) == 3 * len(SHAPES)
    with lowering_context():
        function = simt.Function(kernel, target, check=False, name=name)
    random = np.random.default_rng(0)
    given = [array(parameter, random) for parameter in kernel.params]
    for seed in range(3):
        apart, over = ([np.array(each) for each in given] for _ in range(2))
        for output, source in source_of.items():
            over[output] = over[source]
        function(*apart, seed=seed)
        function(*over, seed=seed)
        assert all(np.array_equal(apart[output], over[output]) for output in source_of)


def test_what_is_read_afterwards_is_not_overwritten():
    def function(x, y):
        old = x.view(-1)
        x.copy_(x * 2 + y)
        return old @ old, x.clone()

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    expected = x.clone()
    compiler = GraphCompiler(Settings(device=LLVM, smallest_part=1))
    for _ in range(3):
        run = torch.compile(function, backend=compiler)
        for got, want in zip(run(x, y), function(expected, y), strict=True):
            torch.testing.assert_close(got, want)
        torch.testing.assert_close(x, expected)
