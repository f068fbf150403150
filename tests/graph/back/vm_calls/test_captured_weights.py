"""CUDA graphs whose launches read weights: replayed for those weights, captured again for others.

TVM's builtins of CUDA graphs are in its CUDA library. Here a stand-in replays as a graph does: with
the addresses of the call that was captured.
"""

import itertools

import numpy as np
import pytest
import tvm
import tvm_ffi
from check import H200
from tvm import relax
from tvm.relax.backend.cpu_generic import pipeline as cpu_pipeline
from tvm.script import ir as I
from tvm.script import relax as R

import tvm_stitch
from tvm_stitch import InputError, Options
from tvm_stitch.graph.back.vm_calls.captured_weights import REPLAY, CapturedWeights, key_functions

CACHED = "vm.builtin.cuda_graph.get_cached_alloc"


@I.ir_module
class Attended:
    """Products too large for one kernel."""

    @R.function
    def main(
        x: R.Tensor((64, 256), "float16"),
        w: R.Tensor((256, 256), "float16"),
        v: R.Tensor((256, 256), "float16"),
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.matmul(R.nn.softmax(x), w)
            b = R.matmul(R.nn.softmax(a), v)
            c = R.nn.softmax(b)
            R.output(c)
        return c


@I.ir_module
class SymbolicLayers:
    """An input of any number of rows, and two weights of one shape."""

    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"),
        w: R.Tensor((4, 4), "float32"),
        v: R.Tensor((4, 4), "float32"),
    ):
        R.func_attr(
            {
                "num_input": 1,
                "tir_var_upper_bound": {"n": 8},
                "relax.rewrite_cuda_graph.capture_symbolic_vars": ["n"],
            }
        )
        with R.dataflow():
            a = R.exp(x)
            b = R.matmul(a, w)
            c = R.tanh(b)
            d = R.matmul(c, v)
            e = R.negative(d)
            R.output(e)
        return e


LAYERS = relax.transform.BindSymbolicVars({"n": 3}, "main")(SymbolicLayers)


def exact(x, w, v):
    """In float64."""
    x, w, v = (each.astype("float64") for each in (x, w, v))
    return -(np.tanh(np.exp(x) @ w) @ v)


class StandIn:
    """Runs what a graph would hold, with the arguments that it was captured with."""

    def __init__(self):
        self.captured = {}
        self.storages = {}
        for name, function in ((REPLAY, self.replay), (CACHED, self.cached)):
            tvm_ffi.register_global_func(name, function, override=True)

    def replay(self, machine, function, arguments, number, *shape):
        """What the function returned for the arguments of the first such call, computed anew."""
        key = number, tuple(shape[0]) if shape else ()
        arguments = self.captured.setdefault(key, arguments)
        return tvm_ffi.get_global_func("vm.builtin.invoke_closure")(machine, function, *arguments)

    def cached(self, machine, function, number):
        """The memory that graphs share."""
        if number not in self.storages:
            invoke = tvm_ffi.get_global_func("vm.builtin.invoke_closure")
            self.storages[number] = invoke(machine, function)
        return self.storages[number]


@pytest.fixture
def stand_in():
    found = StandIn()
    yield found
    for name in (REPLAY, CACHED):
        tvm_ffi.remove_global_func(name)


def machine(module, mode="bytecode", ours=True):
    """The compiled function on the CPU, its graphs by the stand-in."""
    target = tvm.target.Target("llvm")
    finalize = cpu_pipeline.finalize_passes(target)
    at = [each.info.name for each in finalize].index("LowerAllocTensor")
    passes = [
        relax.transform.LegalizeOps(),
        *cpu_pipeline.dataflow_lower_passes(target),
        *finalize[:at],
        relax.transform.RewriteCUDAGraph(),
        *finalize[at:],
        *([CapturedWeights()] if ours else []),
    ]
    config = {"relax.backend.use_cuda_graph": True}
    with target, tvm.transform.PassContext(config=config):
        lowered = tvm.transform.Sequential(passes)(module)
        assert REPLAY in lowered.script()
        executable = relax.build(lowered, target, relax_pipeline=None, exec_mode=mode)
    return relax.VirtualMachine(executable, tvm.cpu())["main"]


def arrays(rows=3, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype("float32") for s in ((rows, 4), (4, 4), (4, 4))]


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_weights_that_move_are_captured_again(stand_in, mode):
    run = machine(LAYERS, mode)
    x, w, v = (tvm.runtime.tensor(each) for each in arrays())
    for one, other in ((w, v), (v, w), (w, w), (w, v)):
        expected = exact(x.numpy(), one.numpy(), other.numpy())
        np.testing.assert_allclose(run(x, one, other).numpy(), expected, rtol=1e-5)
    assert len(stand_in.captured) == 3


def test_without_it_the_first_weights_are_read_for_ever(stand_in):
    """What the stand-in is for: else these tests could not fail."""
    run = machine(LAYERS, ours=False)
    x, w, v = (tvm.runtime.tensor(each) for each in arrays())
    first = run(x, w, v).numpy()
    np.testing.assert_array_equal(run(x, v, w).numpy(), first)


def test_a_graph_for_each_length_and_place(stand_in):
    run = machine(SymbolicLayers)
    _, w, v = (tvm.runtime.tensor(each) for each in arrays())
    for rows in (1, 7, 3, 7):
        x = tvm.runtime.tensor(arrays(rows, seed=rows)[0])
        for one, other in ((w, v), (v, w)):
            expected = exact(x.numpy(), one.numpy(), other.numpy())
            np.testing.assert_allclose(run(x, one, other).numpy(), expected, rtol=1e-5)
    assert len(stand_in.captured) == 6


def test_keys_differ_by_number_place_and_order():
    key = tvm.compile(tvm.IRModule(key_functions("key", 3)), "llvm")["key"]
    tensors = [tvm.runtime.tensor(np.zeros(2, "float32")) for _ in range(4)]
    keys = {
        key(number, *chosen)
        for number in range(5)
        for chosen in itertools.product(tensors, repeat=3)
    }
    assert len(keys) == 5 * 4**3
    assert key(1, *tensors[:3]) == key(1, *tensors[:3])


def test_the_option_captures():
    with H200:
        lowered = tvm_stitch.pipeline(H200, Options(cuda_graph=True))(Attended)
        without = tvm_stitch.pipeline(H200)(Attended)
    assert REPLAY in lowered["main"].script()
    assert "main_graph_0" in lowered["main"].script()
    assert REPLAY not in without["main"].script()


def test_the_option_is_a_flag():
    with pytest.raises(InputError, match="cuda_graph must be True or False"):
        Options(cuda_graph=1)
