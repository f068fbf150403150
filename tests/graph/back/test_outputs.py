"""What a function returns as a reshape of what it has computed is a view, and no copy."""

import numpy as np
import pytest
import tvm
from check import H200, check
from decompose_helpers import CPU, emitted
from tvm import relax, tirx
from tvm.relax import op
from zoo import graph

import tvm_stitch
from tvm_stitch.graph.back.outputs import Views


def softmax(emit, x):
    return emit(op.reshape(emit(op.nn.softmax(emit(op.reshape(x, (6, 8))))), (2, 3, 8)))


def product(emit, x):
    flat = emit(op.reshape(x, (6, 8)))
    return emit(op.reshape(emit(op.matmul(flat, emit(op.permute_dims(emit(op.exp(flat)))))), (36,)))


def twice(emit, x):
    y = emit(op.exp(x))
    return emit(op.reshape(y, (48,))), emit(op.reshape(y, (6, 8)))


def also_whole(emit, x):
    y = emit(op.exp(x))
    return y, emit(op.reshape(y, (48,)))


def argument(emit, x):
    return emit(op.reshape(emit(op.reshape(x, (6, 8))), (48,))), emit(op.exp(x))


def first_rows(emit, x):
    """A part of a tensor, of which no view is made here."""
    y = emit(op.exp(x))
    part = emit(op.strided_slice(y, [0], [0], [1]))
    return emit(op.negative(emit(op.reshape(part, (3, 8))))), y


CASES = [(first_rows, 0), (softmax, 1), (product, 1), (twice, 0), (also_whole, 0), (argument, 0)]


def fused(module: tvm.IRModule) -> tvm.IRModule:
    for each in (
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ):
        module = each(module)
    return module


def views_given_away(module: tvm.IRModule) -> int:
    bindings = module["main"].body.blocks[0].bindings
    return sum(
        isinstance(binding.value, relax.Var) and not isinstance(binding.var, relax.DataflowVar)
        for binding in bindings
    )


def test_what_only_views_called_is_gone():
    """It would be scheduled and compiled for nobody."""
    module = fused(emitted(softmax, [(2, 3, 8)]))
    module["main_of_the_users"] = next(  # who has a name for others stays
        function.with_attr("global_symbol", "main_of_the_users")
        for var, function in module.functions_items()
        if "reshape" in var.name_hint
    )
    names = {var.name_hint for var in Views()(module).get_global_vars()}
    assert names == {"main", "main_of_the_users", "softmax"}


@pytest.mark.parametrize("build, views", CASES)
def test_results_are_right_and_stay(build, views):
    """A second call must not write where the first one's results are."""
    module = fused(emitted(build, [(2, 3, 8)]))
    viewed = Views()(module)
    assert views_given_away(viewed) == views
    random = np.random.default_rng(0)
    arrays = [tvm.runtime.tensor(random.standard_normal((2, 3, 8)).astype("float32")) for _ in "ab"]
    results = []
    for each in (module, viewed):
        main = relax.VirtualMachine(tvm.compile(each, CPU), tvm.cpu())["main"]
        found = [main(array) for array in arrays]
        listed = [[f] if isinstance(f, tvm.runtime.Tensor) else list(f) for f in found]
        results.append([tensor.numpy() for tensors in listed for tensor in tensors])
    for want, got in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)


def two_fields(emit, x):
    """Both results of one kernel, each in another shape."""
    powers = emit(op.exp(emit(op.reshape(x, (6, 8)))))
    total = emit(op.sum(powers, 1, keepdims=True))
    return emit(op.reshape(powers, (2, 3, 8))), emit(op.reshape(total, (2, 3)))


@pytest.mark.parametrize("build", [softmax, two_fields])
def test_no_kernel_copies_the_result(build):
    report = tvm_stitch.explain(emitted(build, [(2, 3, 8)]), H200)
    assert [kernel.scheme != "default" for kernel in report.kernels] == [True]


def test_a_reshape_of_as_many_elements_as_a_symbol_says_is_a_view():
    """The extents of both sides are products: TVM passes the symbol beside the tensor."""
    rows = (tirx.Var("n", "int64"), 3)
    case = graph(
        "float32",
        [(rows, 17)],
        lambda emit, w: emit(op.flatten(emit(op.concat([w, w], 0)))),
        lambda w: np.concatenate([w, w]).reshape(-1),
    )
    check(case)


def around_a_product(emit, x):
    product = emit(op.matmul(emit(op.nn.softmax(x)), x))
    return emit(op.reshape(emit(op.nn.softmax(product)), (512 * 512,)))


def test_a_view_is_given_away_where_graphs_are_captured():
    """What a graph keeps is written in every call: the memory behind the view is not among it."""
    options = tvm_stitch.Options(cuda_graph=True)
    calls = tvm_stitch.compile(emitted(around_a_product, [(512, 512)]), H200, options).as_text()
    kept, main = calls.split("@main:")
    assert kept.count("vm.builtin.alloc_storage in:") == 2  # of what is between the three kernels
    assert main.count("vm.builtin.alloc_storage in:") == 1
    assert main.count("vm.builtin.reshape ") == 2  # the call, and that it is a packed function
    assert main.count("call  stitched_") == 2
