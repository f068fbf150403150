"""Results written where the caller says, and memory between kernels that is the caller's."""

import pytest

torch = pytest.importorskip("torch")

import tvm  # noqa: E402
from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch_programs import traced  # noqa: E402
from tvm import relax  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.machine import (  # noqa: E402
    lowered_for_cuda,
    lowered_for_llvm,
    machine_for,
)
from tvm_stitch.dynamo.part import results_of  # noqa: E402
from tvm_stitch.dynamo.settings import Settings  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402
from tvm_stitch.graph.back.destinations import ATTRIBUTE, Destinations  # noqa: E402
from tvm_stitch.graph.back.storages import Storages  # noqa: E402

LOWERING = [
    relax.transform.LegalizeOps(),
    relax.transform.RewriteDataflowReshape(),
    relax.transform.ToNonDataflow(),
    relax.transform.RemovePurityChecking(),
    relax.transform.CallTIRRewrite(),
]
FINISHING = [
    relax.transform.StaticPlanBlockMemory(),
    relax.transform.LowerAllocTensor(),
    relax.transform.KillAfterLastUse(),
    relax.transform.LowerRuntimeBuiltin(),
    relax.transform.ComputePrimValue(),
    relax.transform.VMShapeLower(),
    relax.transform.AttachGlobalSymbol(),
]


def function(x):
    y = x * 2 + 1
    return y, x.clone(), y.exp().sum(-1), y.clone(), y.view(-1)


def converted():
    return convert(traced(function, torch.randn(3, 4)).graph).module


def test_what_is_computed_to_be_returned_is_written_there():
    module = tvm.transform.Sequential([*LOWERING, Destinations()])(converted())
    places = [int(place) for place in module.attrs[ATTRIBUTE]]
    # An input, a second name of a result, and a view of it are returned as before.
    assert places == [0, -1, 1, -1, -1]
    assert len(module["main"].params) == 3
    pipeline = tvm.transform.Sequential(FINISHING)
    executable = tvm.compile(module, "llvm", relax_pipeline=pipeline)
    x, y, total = torch.randn(3, 4), torch.empty(3, 4), torch.empty(3)
    returned = relax.VirtualMachine(executable, tvm.cpu())["main"](x, y, total)
    torch.testing.assert_close(y, x * 2 + 1)
    torch.testing.assert_close(total, y.exp().sum(-1))
    assert len(returned) == 3


def test_what_is_returned_in_another_shape_is_written_there():
    def function(x):
        y = (x * 3).view(-1)
        return x + 1, y.clone(), y.view(2, 6) + 1

    module = convert(traced(function, torch.randn(3, 4)).graph).module
    module = tvm.transform.Sequential([*LOWERING, Destinations()])(module)
    assert [int(place) for place in module.attrs[ATTRIBUTE]] == [0, 1, 2]
    pipeline = tvm.transform.Sequential(FINISHING)
    executable = tvm.compile(module, "llvm", relax_pipeline=pipeline)
    x = torch.randn(3, 4)
    results = [torch.empty(3, 4), torch.empty(12), torch.empty(2, 6)]
    assert not len(relax.VirtualMachine(executable, tvm.cpu())["main"](x, *results))
    for got, want in zip(results, function(x), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dynamic", [False, True])
def test_shapes_of_such_results_may_be_open(dynamic):
    def function(x):
        y = x.cumsum(0)
        z = (x * 2).reshape(-1)
        return y.reshape(-1), z, z.view(x.shape) + y, y.exp()

    torch._dynamo.reset()
    run = torch.compile(function, backend=GraphCompiler(Settings(device="llvm")), dynamic=dynamic)
    for rows in (3, 7):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(run(x), function(x))


def test_nothing_need_be_returned():
    module = convert(traced(lambda x: x * 2 + 1, torch.randn(3, 4)).graph).module
    module = tvm.transform.Sequential([*LOWERING, Destinations()])(module)
    pipeline = tvm.transform.Sequential(FINISHING)
    executable = tvm.compile(module, "llvm", relax_pipeline=pipeline)
    x, y = torch.randn(3, 4), torch.empty(3, 4)
    assert not len(relax.VirtualMachine(executable, tvm.cpu())["main"](x, y))
    torch.testing.assert_close(y, x * 2 + 1)


def test_cuda_is_compiled_that_way():
    lowered = lowered_for_cuda(converted(), Settings(target="sm_90"))
    assert lowered.places[:3:2] == [0, 1]
    assert lowered.executable().mod is not None


def chain(x, w):
    for axis in (-1, 0, -1):
        x = (x @ w).softmax(axis)
    return (x @ w).relu()


def test_memory_between_kernels_is_the_callers():
    module = convert(traced(chain, torch.randn(8, 8), torch.randn(8, 8)).graph).module
    planning = [relax.transform.StaticPlanBlockMemory(), relax.transform.LowerAllocTensor()]
    module = tvm.transform.Sequential([*LOWERING, Destinations(), *planning, Storages()])(module)
    text = module["main"].script()
    assert "alloc_" not in text.replace("alloc_var", "")
    # Two pieces in turns, each seen one way; one is a view itself.
    assert text.count("TVMTensorCreateView") == 3


def test_nothing_is_called_between_kernels_but_views():
    module = convert(traced(chain, torch.randn(64, 64), torch.randn(64, 64)).graph).module
    for lowered in (lowered_for_cuda(module, Settings(target="sm_90")), lowered_for_llvm(module)):
        calls = lowered.executable().as_text()
        assert "vm.builtin.copy" not in calls and "tuple_getitem" not in calls


def test_that_memory_depends_on_the_sizes():
    lowered = []

    def keep(graph, inputs):
        from torch._dynamo.backends.common import aot_autograd

        def compile_(graph, _inputs):
            lowered.append(lowered_for_llvm(convert(graph.graph).module))
            return graph.forward

        return aot_autograd(fw_compiler=compile_)(graph, inputs)

    torch.compile(chain, backend=keep, dynamic=True)(torch.randn(9, 8), torch.randn(8, 8))
    (found,) = lowered
    assert found.storage((64, 8)) > found.storage((8, 8)) > 0

    torch._dynamo.reset()
    run = torch.compile(chain, backend=GraphCompiler(Settings(device="llvm")), dynamic=True)
    for rows in (3, 70):
        x, w = torch.rand(rows, 8), torch.rand(8, 8)
        torch.testing.assert_close(run(x, w), chain(x, w))


def test_an_input_that_is_a_result_is_not_held_after_a_call():
    def function(x):
        return x.clone(), x + 1

    graph = traced(function, torch.randn(3)).graph
    converted = convert(graph)
    run = machine_for(
        converted, Settings(device="llvm"), torch.device("cpu"), results_of(graph, converted)
    )
    given = torch.randn(3)
    held = StorageWeakRef(given.untyped_storage())
    results = run((), [given])
    torch.testing.assert_close(results[0] + 1, results[1])
    assert held.cdata != results[0].untyped_storage()._cdata
    del given
    assert held.expired()


def test_nothing_is_held_after_a_call():
    def holders(tensor):
        return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)

    lowered = lowered_for_llvm(
        convert(traced(chain, torch.randn(8, 8), torch.randn(8, 8)).graph).module
    )
    main = relax.VirtualMachine(lowered.executable(), tvm.cpu())["main"]
    memory = torch.empty(lowered.storage, dtype=torch.uint8)
    given = [torch.randn(8, 8), torch.randn(8, 8), torch.empty(8, 8), memory]
    before = [holders(tensor) for tensor in given]
    main(*given)
    assert [holders(tensor) for tensor in given] == before
