"""Numbers beside tensors: filled in a kernel, not in memory that is allocated for nothing."""

import pytest

torch = pytest.importorskip("torch")

from torch._functorch.aot_autograd import aot_module_simplified  # noqa: E402
from torch.nn import functional  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites.filled import with_filled  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402


def hinge(x, labels):
    return functional.hinge_embedding_loss(x, labels, margin=0.75)


def quotients(x, y):
    return torch.addcdiv(x, x, y.exp())


def judged(function, *inputs, device=LLVM, dynamic=None):
    """What is left to PyTorch; results and gradients are eager's."""
    torch._dynamo.reset()
    compiler = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    compiled = torch.compile(function, backend=compiler, dynamic=dynamic)
    found = []
    for run in (compiled, function):
        given = [each.clone().requires_grad_(each.is_floating_point()) for each in inputs]
        result = run(*given)
        result.sum().backward()
        found.append([result.detach(), *(each.grad for each in given if each.requires_grad)])
    torch.testing.assert_close(*found)
    report = compiler.log.report()
    assert not [part.failure for part in report.parts if part.failure]
    return {each.operator for each in report.left}


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
def test_a_margin_is_no_memory(device):
    x, labels = torch.randn(6, 35), torch.randint(0, 2, (6, 35)) * 2 - 1
    assert not judged(hinge, x, labels, device=device)


def test_a_gradient_of_one_is_no_memory():
    assert not judged(quotients, torch.randn(5, 7), torch.randn(5, 7))


def test_of_sizes_that_change():
    x, labels = torch.randn(6, 35), torch.randint(0, 2, (6, 35)) * 2 - 1
    assert not judged(hinge, x, labels, dynamic=True)


def test_memory_that_lies_in_another_order_stays_pytorchs():
    x, y = torch.randn(2, 5, 7).transpose(1, 2)
    assert judged(quotients, x, y) == {"empty_permuted"}


def written_into_a_view(x):
    """As a mask is into the scores of a Longformer: autograd sets a part of the gradient to 0."""
    scores = (x * 2).view(3, 5, 7).transpose(0, 1)
    scores[:, 1:, :2] = -1.0
    return scores.exp().clone()


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
def test_a_copy_into_memory_like_a_gradients_is_ours(device):
    assert not judged(written_into_a_view, torch.randn(15, 7), device=device)


def regions(x):
    """The regions of shifted windows, numbered slice by slice."""
    mask = x.new_zeros(6, 8)
    for number, rows in enumerate((slice(0, 2), slice(2, 5), slice(-1, None))):
        for columns in (slice(0, 3), slice(-5, None)):
            mask[rows, columns] = number * 1.5 + 1
    mask[:, 1] = True
    return x + mask


def operators_of(expected, function, *inputs, has_gaps=False):
    """The operators of a function's graph once it is rewritten, which computes the same.

    Some versions of PyTorch trace what is written into a slice with the slice's gaps.
    """
    torch._dynamo.reset()
    found = []

    def compiled(module, given):
        def forward(graph, _given):
            for node in graph.graph.nodes:
                if has_gaps and str(node.target) in ("aten.copy.default", "aten.fill.Tensor"):
                    node.meta["val"] = node.args[0].meta["val"]
            with_filled(graph.graph)
            graph.recompile()
            found.extend(str(node.target) for node in graph.graph.nodes)
            return graph.forward

        return aot_module_simplified(module, given, fw_compiler=forward)

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(function, backend=compiled)(*inputs), expected)
    return found


@pytest.mark.parametrize("has_gaps", [False, True])
def test_numbers_written_into_slices_are_no_tensors(has_gaps):
    x = torch.randn(6, 8)
    found = operators_of(regions(x), regions, x, has_gaps=has_gaps)
    assert "aten.full.default" in found
    assert not {"aten.lift_fresh_copy.default", "aten.copy.default", "aten.fill.Tensor"} & {*found}


def test_a_vector_written_into_a_slice_stays():
    def function(x):
        mask = x.new_zeros(6, 8)
        mask[1] = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
        return x + mask

    x = torch.randn(6, 8)
    assert "aten.lift_fresh_copy.default" in operators_of(function(x), function, x)


def test_results_of_numbers_written_into_slices():
    assert not judged(regions, torch.randn(6, 8))


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
def test_a_cache_that_begins_empty_is_a_copy(device):
    """As transformers' does: the first keys are joined to a vector of no elements."""

    def grown(keys, more):
        first = torch.cat([torch.tensor([]), keys], dim=-2)
        both = torch.cat([torch.tensor([]), first * 2, more], dim=-2)
        return first, both + 1

    def flat(*given):
        return torch.cat([each.flatten() for each in grown(*given)])

    inputs = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 1, 8)
    assert judged(flat, *inputs, device=device) == set()


def test_what_is_joined_to_nothing_is_cloned():
    found = []

    def compiled(graph, inputs):
        with_filled(graph.graph)
        found.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    def copied(x):
        return torch.cat([torch.tensor([]), x]), torch.cat([x.new_empty(0), x, x])

    def backend(graph, inputs):
        return aot_module_simplified(graph, inputs, fw_compiler=compiled)

    x = torch.randn(3, 4)
    with torch.no_grad():
        got = torch.compile(copied, backend=backend)(x)
    torch.testing.assert_close(got, copied(x))
    assert got[0].data_ptr() != x.data_ptr()
    assert found.count("aten.clone.default") == 1 and found.count("aten.cat.default") == 1


def test_a_copy_in_another_dtype_stays_a_join():
    def copied(x):
        return torch.cat([torch.tensor([]), x.half()])

    torch._dynamo.reset()
    compiled = torch.compile(copied, backend=GraphCompiler(Settings(device=LLVM)))
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), copied(x))
