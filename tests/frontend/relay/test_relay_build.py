"""``relay.build``: what it returns serves as GraphModule did."""

import subprocess
import sys

import numpy as np
import pytest
import tvm
from relay.case import case, write
from relay.node_graph import parameter_file

from tvm_stitch import relay
from tvm_stitch.errors import RelayError

_X = np.arange(6, dtype="float32").reshape(2, 3)
_W = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
_TEXT = write(case("%0 = nn.dense(%x, %w);\n  (nn.relu(%0), %0)", x=_X, w=_W))
_WANT = _X @ _W.T


def _check(model) -> None:
    np.testing.assert_allclose(model.get_output(0).numpy(), np.maximum(_WANT, 0), rtol=1e-5)
    np.testing.assert_allclose(model.get_output(1).numpy(), _WANT, rtol=1e-5)


def test_set_input_run_get_output():
    model = relay.build(_TEXT, "llvm")
    model.set_input("x", _X)
    model.set_input(1, tvm.runtime.tensor(_W))
    model.run()
    _check(model)
    assert model.get_num_outputs() == 2 and model.get_num_inputs() == 2
    np.testing.assert_array_equal(model.get_input("x").numpy(), _X)
    out = tvm.runtime.tensor(np.zeros((2, 4), "float32"))
    np.testing.assert_allclose(model.get_output(1, out).numpy(), _WANT, rtol=1e-5)


def test_inputs_by_keyword():
    model = relay.build(_TEXT, "llvm")
    model.set_input(x=_X, w=_W)
    model.run()
    _check(model)
    model.run(x=_X * 2)
    np.testing.assert_allclose(model.get_output(1).numpy(), 2 * _WANT, rtol=1e-5)


@pytest.mark.parametrize("form", ["text", "path", "relax"])
def test_takes_what_load_takes_and_what_it_gives(form, tmp_path):
    (tmp_path / "net.relay").write_text(_TEXT)
    (tmp_path / "net.params").write_bytes(parameter_file({"w": _W}))
    mod = {"text": _TEXT, "path": tmp_path / "net.relay", "relax": relay.load(_TEXT)}[form]
    model = relay.build(mod, target="llvm", params=tmp_path / "net.params")
    # An old script may set the parameters again; they are in the library already.
    model.set_input("x", _X, w=_W)
    model.run()
    _check(model)


def test_old_way_to_a_graph_module():
    library = relay.build(_TEXT, target="llvm", params={"w": _W})
    model = relay.GraphModule(library["default"](tvm.cpu()))
    model.set_input("x", _X)
    model.run()
    _check(model)


def test_benchmark():
    model = relay.build(_TEXT, "llvm", params={"w": _W})
    timing = model.benchmark(tvm.cpu(), repeat=3, number=2, x=_X)
    assert len(timing.results) == 3 and timing.mean > 0


@pytest.mark.slow
def test_library_in_a_fresh_process(tmp_path):
    relay.build(_TEXT, "llvm", params={"w": _W}).export_library(tmp_path / "net.so")
    np.save(tmp_path / "x.npy", _X)
    script = (
        "import sys, numpy, tvm\nfrom tvm_stitch import relay\n"
        "model = relay.GraphModule.load('net.so')\n"
        "model.run(x=numpy.load('x.npy'))\nnumpy.save('y.npy', model.get_output(1).numpy())\n"
        "again = relay.GraphModule(tvm.runtime.load_module('net.so'), tvm.cpu())\n"
        "assert again.input_names == ['x']\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=120)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), _WANT, rtol=1e-5)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda m: m.run(), "2 of 2 inputs are not set: x, w"),
        (lambda m: m.run(x=_X), "1 of 2 inputs are not set: w"),
        (lambda m: m.set_input("y", _X), "there is no input 'y'; the inputs are x, w"),
        (lambda m: m.set_input(2, _X), "there is no input 2"),
        (lambda m: m.get_output(0), "has not run yet"),
        (lambda m: m.get_input("x"), "has not been set"),
        (lambda m: m.run(x=_X.T, w=_W), "does not accept its inputs"),
        (lambda m: m.run(x=_X.astype("int32"), w=_W), "does not accept its inputs"),
        (lambda m: m.benchmark(func_name="main"), "no function 'main' to time"),
    ],
)
def test_wrong_use(action, message):
    with pytest.raises(RelayError, match=message):
        action(relay.build(_TEXT, "llvm"))


def test_output_out_of_range():
    model = relay.build(_TEXT, "llvm")
    model.run(x=_X, w=_W)
    with pytest.raises(RelayError, match="no output 2; the model has 2"):
        model.get_output(2)


def test_three_results_of_old_scripts():
    with pytest.raises(TypeError, match="returns one object"):
        _graph, _lib, _params = relay.build(_TEXT, "llvm")


def test_wrong_target_and_options():
    with pytest.raises(RelayError, match="target 'abacus'"):
        relay.build(_TEXT, "abacus")
    with pytest.raises(RelayError, match="are for target cuda, not llvm"):
        relay.build(_TEXT, "llvm", options=object())


def test_cuda_is_stitched_and_saved_without_a_gpu(tmp_path):
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    text = write(case("nn.softmax(%x)", _X, x=_X))
    model = relay.build(text, target)
    model.export_library(tmp_path / "net.so")
    assert (tmp_path / "net.so").stat().st_size > 0
    if not tvm.cuda().exist:
        with pytest.raises(RelayError, match=r"there is no cuda:0 on this machine"):
            model.run(x=_X)


def test_library_of_something_else():
    with pytest.raises(RelayError, match="cannot run on cpu"):
        relay.GraphModule(tvm.compile(tvm.IRModule({}), "llvm")).run()


def test_not_a_library(tmp_path):
    (tmp_path / "net.so").write_bytes(b"nothing")
    with pytest.raises(RelayError, match="cannot be loaded"):
        relay.GraphModule.load(tmp_path / "net.so")
