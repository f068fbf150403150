"""What a report says of each stage, where it comes from, and what flows between launches."""

import inspect

from check import H200
from reported import Branches, mixed, module, softmax, two_softmaxes
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R

from tvm_stitch.report import explain

SCRIPT_LINE = inspect.currentframe().f_lineno + 3


@I.ir_module
class Script:
    @R.function
    def main(x: R.Tensor((64, 128), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            z = R.nn.softmax(y)
            R.output(z)
        return z


def test_a_stage_knows_its_type_its_inputs_its_scheme_and_where_it_comes_from():
    report = explain(two_softmaxes(), H200)
    (kernel,) = (kernel for kernel in report.kernels if kernel.stitched)
    assert tuple(stage.operator for stage in kernel.stages) == kernel.ops
    total = kernel.stages[3]
    assert (total.operator, total.type, total.reads) == ("sum", "float32[64, 1]", (2,))
    assert total.scheme == kernel.schemes["sum"]
    assert [report.sources[place].text for place in total.sources] == [
        "lv = nn.softmax(p0)",
        "gv = nn.softmax(lv1)",
    ]
    assert kernel.operations == 4 * 64 * 128


def test_a_source_has_the_line_that_its_author_wrote():
    report = explain(Script, H200)
    (kernel,) = report.kernels
    places = {report.sources[place].place for stage in kernel.stages for place in stage.sources}
    assert places == {f"{__file__}:{SCRIPT_LINE + n}" for n in (5, 6)}


def test_an_operator_that_is_not_grouped_knows_where_it_comes_from_by_its_name():
    report = explain(mixed(), H200)
    (matmul,) = (kernel for kernel in report.kernels if kernel.ops == ("matmul",))
    ((place,),) = (stage.sources for stage in matmul.stages)
    assert report.sources[place].text == "lv3 = matmul(lv2, p2)"
    assert matmul.stages[0].type == "float32[128, 128]"


def test_the_flow_says_what_each_launch_reads_of_which_other_and_why_it_is_another():
    report = explain(two_softmaxes(), H200)
    names = [report.kernels[place].name for place in report.flow.launches]
    assert len(names) == report.launches and names[0] == names[-1]
    first, *between, last = report.flow.edges
    assert (first.writer, first.reader, first.bytes) == (0, 1, 64 * 128 * 4)
    assert (last.writer, last.reader) == (len(names) - 2, len(names) - 1)
    assert all(edge.bytes is None for edge in between)  # workspaces of the sort's own kernels
    assert "sort_kernel is TVM's own" in first.reason


def test_an_edge_has_the_planners_reason():
    def build(emit, x):
        return emit(op.sum(emit(op.sum(emit(op.exp(x)), axis=-1)), axis=0))

    report = explain(module(build, (64, 128)), H200)
    (edge,) = report.flow.edges
    assert edge.reason == report.cuts[0].reason and edge.bytes == 64 * 4


def test_a_branch_is_no_end_of_what_flows():
    report = explain(Branches, H200)
    assert [(edge.writer, edge.reader) for edge in report.flow.edges] == [(0, 1), (0, 2), (1, 2)]


def test_what_was_before_is_told_kernel_by_kernel():
    report = explain(softmax(64, 128), H200)
    before = report.before
    assert len(before.described) == before.kernels
    assert len(before.flow.launches) == before.launches
    assert {kernel.scheme for kernel in before.described} == {"default"}
    operators = [op for kernel in before.described for op in kernel.ops]
    assert "softmax" in operators
    (stage,) = before.described[0].stages
    assert ["nn.softmax" in report.sources[at].text for at in stage.sources] == [True]
