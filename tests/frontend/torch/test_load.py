"""Exported programs become Relax modules that anyone can build."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import tvm  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.export import Dim, export  # noqa: E402
from tvm import relax  # noqa: E402

import tvm_stitch  # noqa: E402
from tvm_stitch.errors import InputError, TorchError  # noqa: E402
from tvm_stitch.transform import bounds_of_module  # noqa: E402

nn = torch.nn
ROOT = Path(__file__).parents[3]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 4), nn.LayerNorm(4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, scale):
        self.calls += 1
        return self.norm(self.linear(x)) * scale, x.sum()


def given():
    torch.manual_seed(0)
    return torch.randn(3, 6), torch.randn(4)


def executed(module, *arguments):
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    return [torch.from_dlpack(result) for result in machine["main"](*arguments)]


def test_results_come_before_what_is_changed():
    model, inputs = Model(), given()
    program = export(model, inputs)
    found = executed(tvm_stitch.torch.load(program), *inputs)
    with torch.no_grad():
        for got, want in zip(found, [*model(*inputs), torch.tensor(1.0)], strict=True):
            torch.testing.assert_close(got, want)


def test_parameters_as_inputs():
    model, inputs = Model(), given()
    module = tvm_stitch.torch.load(export(model, inputs), keep_params_as_input=True)
    assert int(module["main"].attrs["num_input"]) == 2
    detached, parameters = relax.frontend.detach_params(module)
    found = executed(detached, *inputs, *parameters["main"])
    with torch.no_grad():
        torch.testing.assert_close(found[0], model(*inputs)[0])


def test_a_dimension_that_is_left_open():
    class Softmax(nn.Module):
        def forward(self, x):
            return torch.cat([x.softmax(-1), x[:, :1] * 2], 1).view(-1) / x.shape[0]

    program = export(Softmax(), (torch.randn(3, 5),), dynamic_shapes=[{0: Dim("rows", max=64)}])
    module = tvm_stitch.torch.load(program)
    (bound,) = module["main"].attrs["tir_var_upper_bound"].values()
    assert int(bound) == 64
    # As in the program that was traced: what products are judged by.
    assert [size for _, size in bounds_of_module(module).expected] == [3]
    for rows in (2, 7):
        x = torch.randn(rows, 5)
        (found,) = executed(module, x)
        torch.testing.assert_close(found, Softmax()(x))


def test_halves_stay_halves():
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU()).half()
    x = torch.randn(3, 8).half()
    (found,) = executed(tvm_stitch.torch.load(export(model, (x,))), x)
    with torch.no_grad():
        torch.testing.assert_close(found, model(x), rtol=2e-3, atol=2e-3)


def test_what_is_asserted_of_dtypes_is_left_out():
    """torch.export asserts of what is cast that tracing was right about its dtype."""

    class Cast(torch.nn.Module):
        def forward(self, x):
            return x.float().softmax(-1).to(x.dtype)

    x = torch.randn(3, 64).half()
    program = export(Cast(), (x,))
    asserted = torch.ops.aten._assert_tensor_metadata.default
    assert program.graph.find_nodes(op="call_function", target=asserted)
    assert tvm_stitch.explain(tvm_stitch.torch.load(program), "sm_90").launches == 1


def test_stitched_as_loaded():
    model = nn.Sequential(nn.LayerNorm(16), nn.Softmax(-1))
    module = tvm_stitch.torch.load(export(model, (torch.randn(4, 16),)))
    verified = tvm_stitch.verify(module, "sm_90", orders=1)
    assert verified.ok, str(verified)
    assert verified.kernels


@pytest.mark.spread(2)
@pytest.mark.parametrize("masked", ["", "added", "where", "causal", "fewer heads"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attention_is_written_out(dtype, masked):
    torch.manual_seed(0)
    heads = 2 if masked == "fewer heads" else 4
    shapes = (2, 4, 5, 8), (2, heads, 7, 8), (2, heads, 7, 8)
    query, key, value = (torch.randn(shape, dtype=getattr(torch, dtype)) for shape in shapes)
    masks = {"added": torch.randn(5, 7, dtype=query.dtype), "where": torch.rand(2, 1, 5, 7) < 0.7}

    class Attention(nn.Module):
        def forward(self, query, key, value):
            return nn.functional.scaled_dot_product_attention(
                query, key, value, masks.get(masked), is_causal=masked == "causal",
                enable_gqa=masked == "fewer heads",
            )  # fmt: skip

    expected = Attention()(query, key, value)
    module = tvm_stitch.torch.load(export(Attention(), (query, key, value)), device="llvm")
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    (found,) = machine["main"](*(tvm.runtime.from_dlpack(each) for each in (query, key, value)))
    near = {"float32": 1e-5, "float16": 5e-3}[dtype]
    torch.testing.assert_close(torch.from_dlpack(found), expected, atol=near, rtol=near)


def test_attention_is_traced_as_it_is_written():
    def attend(query, key, value):
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(2, 5, 12)

    inputs = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    found = executed(tvm_stitch.torch.trace(attend, *inputs, device="llvm"), *inputs)
    torch.testing.assert_close(found, [attend(*inputs)])


def test_views_of_attention_whose_heads_lie_side_by_side():
    class Joined(nn.Module):
        def forward(self, x):
            y = nn.functional.scaled_dot_product_attention(x, x, x)
            return y.transpose(1, 2).contiguous().view(2, 5, 32)

    x = torch.randn(2, 4, 5, 8)
    program = export(Joined(), (x,))
    # PyTorch 2.11 leaves it out of its graph: its own attention is contiguous that way round.
    for node in program.graph.find_nodes(
        op="call_function", target=torch.ops.aten.contiguous.default
    ):
        node.replace_all_uses_with(node.args[0])
        program.graph.erase_node(node)
    program.graph_module.recompile()
    views = str(program.graph).count("aten.view")
    module = tvm_stitch.torch.load(program, device="llvm")
    assert str(program.graph).count("aten.view") == views == 1
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    (found,) = machine["main"](tvm.runtime.from_dlpack(x))
    torch.testing.assert_close(torch.from_dlpack(found), Joined()(x), atol=1e-5, rtol=1e-5)


def test_a_function_with_its_gradients():
    def step(x, weight, target):
        with torch.enable_grad():
            weight = weight.detach().requires_grad_()
            loss = torch.nn.functional.mse_loss(torch.tanh(x @ weight), target)
            (gradient,) = torch.autograd.grad(loss, weight)
        return {"loss": loss, "weight": weight - 0.1 * gradient}

    inputs = torch.randn(7, 5), torch.randn(5, 3), torch.randn(7, 3)
    found = executed(tvm_stitch.torch.trace(step, *inputs, device="llvm"), *inputs)
    torch.testing.assert_close(found, list(step(*inputs).values()))


def test_a_model_is_traced_with_its_parameters():
    model = nn.Sequential(nn.Linear(6, 4), nn.GELU(), nn.LayerNorm(4)).double()
    x = torch.randn(3, 6, dtype=torch.float64)
    module = tvm_stitch.torch.trace(model, x, device="llvm")
    assert len(module["main"].params) == 1
    torch.testing.assert_close(executed(module, x), [model(x).detach()])


def test_tensors_of_a_function_that_takes_none():
    table = torch.arange(5.0)
    module = tvm_stitch.torch.trace(lambda: (table + 1, [table * 2]), device="llvm")
    torch.testing.assert_close(executed(module), [table + 1, table * 2])


def test_tracing_computes_nothing():
    with FakeTensorMode():
        x = torch.empty(3, 4)
    module = tvm_stitch.torch.trace(lambda x: x.softmax(-1), x, device="llvm")
    given = torch.randn(3, 4)
    torch.testing.assert_close(executed(module, given), [given.softmax(-1)])


def test_what_a_traced_function_changes_of_its_own_is_written_out():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True)).eval()
    x = torch.randn(2, 3, 8, 8)
    module = tvm_stitch.torch.trace(model, x, device="llvm")
    with torch.no_grad():
        torch.testing.assert_close(executed(module, x), [model(x)])


def test_tracing_refuses_what_others_would_see_change():
    with pytest.raises(TorchError, match="input 0 is changed in place"):
        tvm_stitch.torch.trace(lambda x: x.add_(1) * 2, torch.ones(3))
    model = nn.BatchNorm1d(4)
    with pytest.raises(TorchError, match=r"running_mean is changed in place"):
        tvm_stitch.torch.trace(model, torch.ones(3, 4))
    assert int(model.num_batches_tracked) == 0


def test_tracing_refuses_what_shapes_do_not_decide():
    x = torch.ones(3)
    with pytest.raises(TorchError, match="depends on values, not on shapes alone"):
        tvm_stitch.torch.trace(lambda x: x if x.sum() > 0 else -x, x)
    for random in (lambda x: torch.dropout(x, 0.5, True), torch.rand_like):
        with pytest.raises(TorchError, match="draws random numbers"):
            tvm_stitch.torch.trace(random, x)
    with pytest.raises(TorchError, match="cond"):
        tvm_stitch.torch.trace(lambda x: torch.cond(x.sum() > 0, torch.neg, torch.abs, (x,)), x)
    with pytest.raises(TorchError, match="returns 3, which is no tensor"):
        tvm_stitch.torch.trace(lambda x: (x, 3), x)


def test_tracing_says_what_it_takes():
    with pytest.raises(InputError, match="tensors for inputs, not int"):
        tvm_stitch.torch.trace(lambda x, n: x * n, torch.ones(3), 2)
    with pytest.raises(InputError, match="unknown device 'rocm'"):
        tvm_stitch.torch.trace(lambda x: x, torch.ones(3), device="rocm")


def test_what_has_no_counterpart_is_named():
    class Sorted(nn.Module):
        def forward(self, x):
            return x.sort().values

    program = export(Sorted(), (torch.randn(9000),))
    with pytest.raises(TorchError, match="sort: it sorts"):
        tvm_stitch.torch.load(program)
    with pytest.raises(InputError, match="export the model first"):
        tvm_stitch.torch.load(Sorted())


class Looked(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)

    def forward(self, places):
        return self.embedding(places) * 2


def test_positions_are_checked_on_the_cpu_too():
    torch.manual_seed(0)
    model, places = Looked(), torch.tensor([4, 0])
    module = tvm_stitch.torch.load(export(model, (places,)), device="llvm")
    with torch.no_grad():
        torch.testing.assert_close(executed(module, places)[0], model(places))
    with pytest.raises(IndexError):
        executed(module, torch.tensor([5, 0]))
    with pytest.raises(InputError, match="unknown device 'cpu'"):
        tvm_stitch.torch.load(export(model, (places,)), device="cpu")


OUTPUTS = """
from dataclasses import dataclass
import torch

@dataclass
class Outputs:
    last: torch.Tensor

torch.utils._pytree.register_pytree_node(
    Outputs, lambda each: ([each.last], None), lambda values, _: Outputs(*values),
    serialized_type_name="own_outputs.Outputs",
)
"""


@pytest.mark.slow  # processes that import PyTorch, one after the other
def test_classes_of_results_are_imported(tmp_path, monkeypatch):
    """As transformers' are: PyTorch reads them once their module is imported."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "own_outputs.py").write_text(OUTPUTS)
    monkeypatch.syspath_prepend(code)
    own = importlib.import_module("own_outputs")

    class Model(nn.Module):
        def forward(self, x):
            return own.Outputs(x.relu())

    torch.export.save(export(Model(), (torch.randn(3),)), tmp_path / "model.pt2")
    (tmp_path / "text.pt2").write_text("text")
    program = (
        "from tvm_stitch.frontend.torch.saved import read_program\n"
        "from tvm_stitch.errors import InputError\n"
        "for path in ('model.pt2', 'text.pt2'):\n"
        "    try: print(type(read_program(path)).__name__)\n"
        "    except InputError as error: print(error)\n"
    )
    for paths, first in (
        ([code, ROOT], "ExportedProgram"),
        ([ROOT], "model.pt2 returns own_outputs.Outputs, which PyTorch cannot read here"),
    ):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        found = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        lines = found.stdout.splitlines()
        assert lines[0].startswith(first)
        assert lines[1].startswith("text.pt2 is no program saved by torch.export.save")
        assert found.stderr == ""
