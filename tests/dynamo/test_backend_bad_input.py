"""What a model may hold that is not for us: a message that is clear, or it stays PyTorch's."""

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler, TorchWarning  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def ours():
    return GraphCompiler(Settings(device=LLVM))


def left(compiler):
    return {each.operator: each.reason for each in compiler.log.report().left}


def test_tensors_on_several_devices(ours):
    """Here one is on "meta", which has no values: all that is known of it is its shape."""

    def function(x, y):
        return (x * 2 + 1).relu(), (y * 2 + 1).relu()

    x, y = torch.randn(3), torch.randn(4, device="meta")
    found, other = torch.compile(function, backend=ours)(x, y)
    torch.testing.assert_close(found, function(x, x)[0])
    assert other.device.type == "meta" and other.shape == (4,)
    assert "a tensor lies on meta, others on cpu" in left(ours).values()
    assert any(part.stitched for part in ours.log.report().parts)


def test_nothing_but_another_device(ours):
    x = torch.randn(4, device="meta")
    with pytest.warns(TorchWarning, match=r"lie on meta.*runs eagerly. Move the model there"):
        found = torch.compile(lambda x: (x * 2 + 1).relu(), backend=ours)(x)
    assert found.shape == (4,)


def test_sparse_tensors(ours):
    def function(matrix, x):
        return torch.sparse.mm(matrix, x).relu() + 1

    matrix, x = torch.eye(3).to_sparse(), torch.randn(3, 4)
    run = torch.compile(function, backend=ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch, about graphs of sparse tensors
        torch.testing.assert_close(run(matrix, x), function(matrix, x))


def test_compressed_sparse_tensors(ours):
    matrix = torch.eye(3).to_sparse_csr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch, about sparse tensors
        found = torch.compile(lambda m: m.to_dense().relu() * 2 + 1, backend=ours)(matrix)
    torch.testing.assert_close(found, torch.eye(3) * 2 + 1)


def test_complex_numbers(ours):
    def function(x):
        return (torch.fft.fft(x) * 2).abs().relu() + 1

    x = torch.randn(8)
    torch.testing.assert_close(torch.compile(function, backend=ours)(x), function(x))
    assert "complex64 tensors" in left(ours).values()


def test_sizes_that_depend_on_values(ours):
    def function(x):
        return (x[x > 0] * 2 + 1).relu()

    for x in (torch.randn(8), torch.ones(5), -torch.ones(5)):
        torch.testing.assert_close(torch.compile(function, backend=ours)(x), function(x))


@torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
def test_sizes_that_depend_on_values_within_a_graph(ours):
    """PyTorch has symbols for them, which have no value before the graph runs."""

    def function(x, counts):
        some, count = x[x > 0], counts.sum().item()
        torch._check(count >= 0)
        return (some * 2 + 1).relu(), torch.arange(count) * 2 + 1, x * count + some.sum()

    counts = torch.tensor([1, 2])
    run = torch.compile(function, backend=ours, fullgraph=True)
    for x in (torch.randn(8), torch.ones(8), -torch.ones(8)):
        torch.testing.assert_close(run(x, counts), function(x, counts))
    report = ours.log.report()
    assert not [part.failure for part in report.parts if part.failure]
    assert any(part.stitched for part in report.parts)


def test_a_branch_within_a_graph(ours):
    def function(x):
        y = (x * 2 + 1).relu()
        return torch.cond(y.sum() > 3, lambda y: y.sin() + 1, lambda y: y.cos() - 1, (y,)) * 3 + 1

    run = torch.compile(function, backend=ours, fullgraph=True)
    for x in (torch.ones(5), -torch.ones(5)):
        torch.testing.assert_close(run(x), function(x))
    assert any(part.stitched for part in ours.log.report().parts)


def test_inputs_that_overlap(ours):
    def function(x, y):
        x.add_(1)
        return (x * 2 + y).relu()

    changed, expected = torch.randn(8).expand(2, 8).clone()
    found = torch.compile(function, backend=ours)(changed[:4], changed[2:6])
    torch.testing.assert_close(found, function(expected[:4], expected[2:6]))
    torch.testing.assert_close(changed, expected)


def test_an_operator_without_meta_kernel(ours):
    @torch.library.custom_op("tvm_stitch_tests::shifted", mutates_args=())
    def shifted(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def function(x):
        return (shifted(x * 2 + 1).relu() * 3).exp()

    # dynamo's word, whatever the backend: without one it can make no graph.
    with pytest.raises(Exception, match=r"no fake impl registered for.*register_fake"):
        torch.compile(function, backend=ours)(torch.randn(5))


def test_an_operator_of_ones_own_with_meta_kernel(ours):
    @torch.library.custom_op("tvm_stitch_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    def function(x):
        return (twice((x + 1).relu()) * 3).exp()

    x = torch.randn(5)
    torch.testing.assert_close(torch.compile(function, backend=ours)(x), function(x))
    assert left(ours) == {"tvm_stitch_tests.twice": "it has no counterpart in Relax"}


def test_autograd_functions_hooks_and_printing(ours):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 2).relu()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def function(x):
        y = Doubled.apply(x) + 1
        print(y.shape)
        return y.exp().sum()

    x = torch.randn(5, requires_grad=True)
    function(x).backward()
    expected, x.grad = x.grad, None
    torch.compile(function, backend=ours)(x).backward()
    torch.testing.assert_close(x.grad, expected)


def run_alone(code, *path):
    """A program in a process of its own; what it printed."""
    known = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": known}, timeout=300,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.slow
def test_without_pytorch_it_says_what_to_install():
    said = run_alone("""
        import sys
        sys.modules["torch"] = None
        import tvm_stitch
        try:
            tvm_stitch.torch
        except tvm_stitch.InputError as error:
            print(error)
    """, ROOT)  # fmt: skip
    assert "pip install 'tvm-stitch[torch]'" in said


@pytest.mark.slow
def test_the_name_of_the_backend_is_all_that_is_needed(tmp_path):
    """As installed: by the entry point, with options and modes, and without an import."""
    metadata = tmp_path / "tvm_stitch-0.0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tvm-stitch\nVersion: 0.0.0\n")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    group = project.split("[project.entry-points.torch_dynamo_backends]\n")[1].split("\n\n")[0]
    (metadata / "entry_points.txt").write_text(
        "[torch_dynamo_backends]\n" + group.replace('"', "") + "\n"
    )
    said = run_alone("""
        import sys, torch, warnings
        model = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.GELU())
        x = torch.randn(3, 8)
        options = {"device": "llvm"}
        compiled = torch.compile(model, backend="tvm_stitch", options=options)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
        compiled(x).sum().backward()
        for given in ({"mode": "reduce-overhead"}, {"mode": "fastest"}, {"options": {"devise": 1}}):
            torch._dynamo.reset()
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    torch.compile(model, backend="tvm_stitch", **given)(x)
                print("ran:", *(each.message for each in caught))
            except Exception as error:
                print("refused:", str(error).splitlines()[0], *str(error).splitlines()[1:3])
        print("imported" if "tvm_stitch" in sys.modules else "not imported")
    """, tmp_path, ROOT)  # fmt: skip
    on_cpu, no_mode, no_option, _ = said.splitlines()
    assert "ran:" in on_cpu and "lie on cpu" in on_cpu
    assert "refused:" in no_mode and "no mode 'fastest': leave mode out" in no_mode
    assert "refused:" in no_option and "unknown options ['devise']" in no_option
