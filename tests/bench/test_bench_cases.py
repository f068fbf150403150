"""Every case at a small size: PyTorch, JAX, TVM's reader and stitched kernels against float64."""

import importlib.util

import numpy as np
import pytest
from check import H200

torch = pytest.importorskip("torch")

from bench import symbolic  # noqa: E402
from bench.case import Array, as_list, make_inputs  # noqa: E402
from bench.cases import find, suite  # noqa: E402
from bench.check import error  # noqa: E402
from bench.flops import count  # noqa: E402
from bench.importing import by_itself, to_relax, to_relax_by_shape  # noqa: E402
from bench.models.build import meta, training  # noqa: E402
from tvm_stitch import Options, explain  # noqa: E402
from tvm_stitch.executable.on_cpu import Runner  # noqa: E402
from tvm_stitch.verify import rounded, stitched_for_cpu  # noqa: E402

CASES = suite("all")


def distinct(cases):
    """One width of the grid stands for all: they differ in nothing else."""
    return [c for c in cases if c.grid is None or c.grid[2] == 1024]


DISTINCT = [
    pytest.param(c, marks=pytest.mark.slow if c.name.endswith("-train") else ())
    for c in distinct(CASES)
]
each = pytest.mark.parametrize("case", DISTINCT, ids=lambda c: c.name)
needs_jax = pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX not installed")


def prepared(case):
    workload = case.workload(small=True)
    return workload, make_inputs(workload.arrays, "cpu")


def test_names_are_unique():
    assert len({c.name for c in CASES}) == len(CASES)


@each
def test_eager_is_right(case):
    workload, inputs = prepared(case)
    with torch.no_grad():
        outputs = as_list(workload.function(*inputs))
    assert error(workload, inputs, outputs) <= workload.allowed


@each
def test_a_wrong_element_shows(case):
    workload, inputs = prepared(case)
    with torch.no_grad():
        outputs = [o.clone() for o in as_list(workload.function(*inputs))]
    last = outputs[-1]
    last.view(-1)[-1] += (3 * last.float().abs().max() + 1).to(last.dtype)
    assert error(workload, inputs, outputs) > workload.allowed


@pytest.mark.slow
@pytest.mark.parametrize("case", distinct(suite("subgraphs")), ids=lambda c: c.name)
def test_the_stitched_kernels_are_right(case):
    """In the CPU executor, in shuffled orders."""
    workload, inputs = prepared(case)
    module = by_itself(workload, inputs)
    plain = [x.float().numpy() if x.is_floating_point() else x.numpy() for x in inputs]
    arrays = rounded(module, plain)
    runner = Runner(stitched_for_cpu(module, H200), H200)
    for seed in range(3):
        outputs = [as_tensor(array) for array in runner.run(arrays, seed)]
        assert error(workload, inputs, outputs) <= workload.allowed
    assert runner.ran and not runner.hazards


def as_tensor(array):
    found = torch.from_numpy(array)
    return found.view(torch.bfloat16) if found.dtype == torch.uint16 else found


@needs_jax
@each
def test_jax_is_right(case):
    import jax

    from bench.systems.xla import to_jax, to_torch

    workload, inputs = prepared(case)
    outputs = as_list(jax.jit(workload.jax)(*map(to_jax, inputs)))
    assert error(workload, inputs, [to_torch(o) for o in outputs]) <= workload.allowed


@each
def test_relax_reads_it(case):
    workload, inputs = prepared(case)
    main = to_relax(workload, inputs)["main"]
    assert len(main.params) == len(inputs)
    with torch.no_grad():
        outputs = as_list(workload.function(*inputs))
    shapes = [[int(d) for d in field.shape] for field in main.ret_ty.fields]
    assert shapes == [list(o.shape) for o in outputs]


def in_tvm(workload, inputs):
    import tvm
    from tvm import relax

    executable = tvm.compile(to_relax(workload, inputs), "llvm")
    machine = relax.VirtualMachine(executable, tvm.cpu())
    found = machine["main"](*[tvm.runtime.from_dlpack(x) for x in inputs])
    return [torch.from_dlpack(x) for x in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quantise-rows", "unet-block"])
def test_tvm_computes_what_the_converters_read(name):
    workload, inputs = prepared(find(name))
    assert error(workload, inputs, in_tvm(workload, inputs)) <= workload.allowed


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = torch.nn.Embedding(7, 5), torch.nn.LayerNorm(5)

    def forward(self, tokens):
        return self.norm(self.embed(tokens)).sin().sum()


@pytest.mark.slow
def test_tvm_computes_the_gradients_of_layer_norm_and_embedding():
    tokens = Array((2, 3), "int64", "index", high=7)
    workload = training(meta(Normed), None, (tokens,), "float32")
    inputs = make_inputs(workload.arrays, "cpu")
    found = in_tvm(workload, inputs)
    assert error(workload, inputs, found) <= workload.allowed
    # Loss, three parameters, three momenta.
    assert len(found) == 7


@each
def test_arithmetic_is_counted(case):
    workload, inputs = prepared(case)
    assert count(workload, inputs) >= max(x.numel() for x in inputs) / 4


MODELS = [c for c in CASES if c.group == "models"]


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS, ids=lambda c: c.name)
def test_dynamo_takes_the_whole_model(case):
    workload, inputs = prepared(case)
    torch._dynamo.reset()
    compiled = torch.compile(workload.module(), backend="eager", fullgraph=True, dynamic=False)
    with torch.no_grad():
        assert error(workload, inputs, as_list(compiled(*inputs))) <= workload.allowed


def test_state_bytes_count_inputs_and_outputs_once():
    case = find("silu-multiply")
    workload, inputs = prepared(case)
    outputs = as_list(workload.function(*inputs))
    assert workload.state_bytes(outputs) == 3 * inputs[0].numel() * 2


def test_inputs_are_the_same_every_time():
    arrays = (Array((5, 3), "bfloat16"), Array((9,), "int64", "index", high=4))
    first, second = make_inputs(arrays, "cpu"), make_inputs(arrays, "cpu")
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert first[1].max() < 4
    assert not torch.equal(make_inputs(arrays, "cpu", seed=1)[0], first[0])


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_not_finite_is_an_infinite_error(wrong):
    workload, inputs = prepared(find("silu-multiply"))
    output = workload.function(*inputs)
    output[0, 0] = wrong
    assert error(workload, inputs, [output]) == np.inf


def test_row_slices_give_the_same_error(monkeypatch):
    workload, inputs = prepared(find("layer-norm"))
    outputs = as_list(workload.function(*inputs))
    whole = error(workload, inputs, outputs)
    monkeypatch.setattr("bench.check.SLICE", 100)
    # The RMS is then taken by slice, so the figures differ a little.
    assert error(workload, inputs, outputs) == pytest.approx(whole, rel=0.5)
    outputs[0][5, 7] += 10
    assert error(workload, inputs, outputs) > 1


def test_the_glue_of_a_bert_layer_is_one_kernel():
    """A softmax with a wave of blocks of its own would part it: 32.2 us in two, 28.2 in one."""
    workload = find("bert-glue").workload()
    unread = [torch.empty(1, dtype=getattr(torch, a.dtype)) for a in workload.arrays]
    inputs = [x.expand(a.shape) for x, a in zip(unread, workload.arrays, strict=True)]
    (kernel,) = explain(to_relax(workload, tuple(inputs)), H200).kernels
    assert kernel.scheme == "independent"


@pytest.mark.slow
@pytest.mark.parametrize("name, launches", [("lamb", 3), ("lars", 2), ("moving-average", 2)])
def test_steps_of_many_tensors_take_few_launches(name, launches):
    """Norms of all large tensors have the same barriers; small ones have blocks of their own."""
    workload = find(name).workload()
    unread = [torch.empty(1, dtype=getattr(torch, a.dtype)) for a in workload.arrays]
    inputs = [x.expand(a.shape) for x, a in zip(unread, workload.arrays, strict=True)]
    assert explain(to_relax(workload, tuple(inputs)), H200).launches == launches


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ("rotary", "segment-softmax", "batch-norm-relu", "group-norm-silu")
)
def test_twins_that_only_our_own_importer_reads_are_one_kernel(name):
    workload = find(name).workload()
    module = to_relax_by_shape(workload, symbolic.dims_of(workload.arrays, symbolic.BOTH))
    sizes = symbolic.sizes_of(module, workload.arrays)
    assert len(sizes) >= 2
    assert explain(module, H200, Options(extents=sizes)).launches == 1
