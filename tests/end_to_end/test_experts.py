"""Mixtures of experts under torch.compile: their products are inside of parts.

Experts run as stitched kernels on the CPU executor, whole models by TVM's LLVM target.
"""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402

nn = torch.nn
SIZES = {
    "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
    "intermediate_size": 128, "num_key_value_heads": 2,
}  # fmt: skip
MODELS = {
    "Mixtral": {"num_local_experts": 4},
    "Qwen2Moe": {
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 72,
        "shared_expert_intermediate_size": 128,
    },
    "Qwen3Moe": {
        "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 64, "head_dim": 16,
    },
    "GptOss": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16},
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Experts(nn.Module):
    """Rows that are sorted by their expert already."""

    def __init__(self, experts, depth, hidden):
        super().__init__()
        self.up = nn.Parameter(torch.randn(experts, 2 * hidden, depth) / depth**0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, depth) / hidden**0.5)

    def forward(self, x, ends, weights):
        both = torch._grouped_mm(x, self.up.transpose(-2, -1), offs=ends)
        gate, up = both.chunk(2, -1)
        y = torch._grouped_mm(nn.functional.silu(gate) * up, self.down, offs=ends)
        return y * weights[:, None]


def compiled(model, device=EXECUTOR):
    ours = GraphCompiler(Settings(device=device, target="sm_90"))
    return torch.compile(model, backend=ours), ours.log


@pytest.mark.parametrize("device", (EXECUTOR, LLVM))
@pytest.mark.parametrize("ends", [[2, 2, 5, 8], [0, 40, 41, 100]], ids=str)
def test_experts_are_one_part(ends, device):
    model = Experts(4, 64, 72).bfloat16()
    rows = ends[-1]
    x = torch.randn(rows, 64).bfloat16()
    given = x, torch.tensor(ends, dtype=torch.int32), torch.rand(rows).bfloat16()
    run, log = compiled(model, device)
    with torch.no_grad():
        torch.testing.assert_close(run(*given), model(*given), rtol=2e-2, atol=2e-2)
    (part,) = log.report().parts
    assert not part.failure and part.operators.count("_grouped_mm") == 2
    assert not log.report().left


def test_gradients_of_rows_are_such_products_and_those_of_matrices_pytorchs():
    eager = Experts(4, 64, 72).bfloat16()
    model = copy.deepcopy(eager)
    run, log = compiled(model)
    x, ends = torch.randn(40, 64).bfloat16(), torch.tensor([3, 3, 20, 40], dtype=torch.int32)
    found = []
    for each, call in ((eager, eager), (model, run)):
        own = x.clone().requires_grad_()
        call(own, ends, torch.ones(40).bfloat16()).float().square().mean().backward()
        found.append([own.grad, *(p.grad for p in each.parameters())])
    for want, got in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-3)
    forward, backward = log.report().parts
    # That of the first rows has nothing around it, for which a part would be worth it.
    assert [part.operators.count("_grouped_mm") for part in (forward, backward)] == [2, 1]
    assert {each.reason for each in log.report().left} == {"groups of matrices or of columns"}


@pytest.mark.slow
@pytest.mark.spread(1)
@pytest.mark.parametrize("length", (1, 5))
@pytest.mark.parametrize("kind", MODELS)
def test_no_product_of_a_models_experts_is_pytorchs(kind, length):
    config = getattr(transformers, f"{kind}Config")(**SIZES, **MODELS[kind])
    model = getattr(transformers, f"{kind}ForCausalLM")(config).bfloat16().eval()
    words = torch.randint(0, 100, (1, length))
    run, log = compiled(lambda ids: model(ids, use_cache=False, return_dict=False)[0], LLVM)
    with torch.no_grad():
        torch.testing.assert_close(run(words), model(words, use_cache=False)[0], rtol=0.1, atol=0.1)
    report = log.report()
    assert not [part.failure for part in report.parts if part.failure]
    assert "_grouped_mm" not in {each.operator for each in report.left}
    assert sum(part.operators.count("_grouped_mm") for part in report.parts) == 2


@pytest.mark.parametrize("device", (EXECUTOR, LLVM))
def test_as_many_rows_as_run_time_says(device):
    model = Experts(4, 64, 72).bfloat16()
    ours = GraphCompiler(Settings(device=device, target="sm_90"))
    run = torch.compile(model, backend=ours, dynamic=True)
    for rows, ends in ((40, [3, 3, 20, 40]), (9, [0, 9, 9, 9]), (130, [1, 2, 100, 130])):
        x = torch.randn(rows, 64).bfloat16()
        given = x, torch.tensor(ends, dtype=torch.int32), torch.rand(rows).bfloat16()
        with torch.no_grad():
            torch.testing.assert_close(run(*given), model(*given), rtol=2e-2, atol=2e-2)
    assert not [part.failure for part in ours.log.report().parts if part.failure]
    assert not ours.log.report().left


class Apart(nn.Module):
    """Gates and what they scale by matrices of their own, as in TorchTitan."""

    def __init__(self, experts, depth, hidden):
        super().__init__()
        shapes = [(experts, hidden, depth)] * 2
        self.gate, self.up = (nn.Parameter(torch.randn(*each) / depth**0.5) for each in shapes)

    def forward(self, x, ends):
        gate, up = (
            torch._grouped_mm(x, w.transpose(-2, -1), offs=ends) for w in (self.gate, self.up)
        )
        return nn.functional.silu(gate) * up


@pytest.mark.parametrize("rows", (6, 90))
def test_two_products_of_the_same_rows(rows):
    model = Apart(3, 128, 136).bfloat16()
    given = torch.randn(rows, 128).bfloat16(), torch.tensor([2, 2, rows - 1], dtype=torch.int32)
    run, log = compiled(model)
    with torch.no_grad():
        want, got = model(*given), run(*given)
    torch.testing.assert_close(got[:-1], want[:-1], rtol=2e-2, atol=2e-2)
    assert not got[-1].any()  # behind the last group, where PyTorch writes nothing
    assert not log.report().left and not log.report().parts[0].failure
