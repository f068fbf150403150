"""Kernels of a PyTorch model know the lines of Python that they come from."""

import inspect

import pytest

torch = pytest.importorskip("torch")

import tvm_stitch  # noqa: E402
from tvm_stitch.frontend.placing import Line, line_of  # noqa: E402
from tvm_stitch.frontend.torch.source_lines import span_of  # noqa: E402
from tvm_stitch.report import explain  # noqa: E402


class Scores(torch.nn.Module):
    def forward(self, x):
        scaled = x * 0.5 + x
        return torch.softmax(scaled, -1)


LINES, FIRST = inspect.getsourcelines(Scores.forward)


def test_every_stage_has_the_line_of_its_operator():
    exported = torch.export.export(Scores(), (torch.randn(4, 8),))
    report = explain(tvm_stitch.torch.load(exported), "sm_90")
    (kernel,) = report.kernels
    found = {
        stage.operator: {report.sources[place].place for place in stage.sources}
        for stage in kernel.stages
    }
    scaled, softmax = (f"{__file__}:{FIRST + n}" for n in (1, 2))
    assert found["multiply"] == found["add"] == {scaled}
    assert found["max"] == found["exp"] == found["divide"] == {softmax}


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x) * 2.0


@pytest.mark.slow
def test_a_line_is_the_users_and_the_part_of_the_model_is_named():
    exported = torch.export.export(Encoder().eval(), (torch.randn(1, 4, 16),))
    sources = explain(tvm_stitch.torch.load(exported), "sm_90").sources
    line = f"{__file__}:{inspect.getsourcelines(Encoder.forward)[1] + 1}"
    assert {(source.place, source.line) for source in sources} == {
        (line, "return self.encoder(x) * 2.0")
    }
    modules = {source.module for source in sources}
    assert {
        f"encoder.layers.{n}.{part}" for n in (0, 1) for part in ("self_attn", "norm1")
    } <= modules
    assert sources[-1].module == ""  # of the model itself


def node(trace, **modules):
    made = torch.fx.Graph().placeholder("x")
    made.meta = {"stack_trace": trace, "nn_module_stack": modules}
    return made


OWN = (
    '  File "/other/lib/python3.12/site-packages/torch/nn/modules/linear.py", line 9, in forward\n'
)


def test_traces_of_other_machines_and_of_dynamo():
    dynamo = {"m": ("L['self']._modules['layers'].0._modules['norm']", "LayerNorm")}
    trace = 'File "/a/model.py", line 3, in forward\n' + OWN + "    return F.linear(x)\n"
    assert line_of(span_of(node(trace, **dynamo))) == Line("/a/model.py", 3, "", "layers.0.norm")
    assert line_of(span_of(node(OWN + "    return F.linear(x)"))) == Line(
        OWN.split('"')[1], 9, "return F.linear(x)"
    )
    assert span_of(node(None)) is None
