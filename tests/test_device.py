"""Which GPU a target stands for, and modules that need more of one than there is."""

import ctypes
import re
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from check import H200
from tvm import relax
from tvm.relax import op

import tvm_stitch
from tvm_stitch import InputError, device, transform
from tvm_stitch.device import device_of, preset
from tvm_stitch.graph.back.vm_calls.argument_checks import Demand, check_functions
from tvm_stitch.target import cuda_target, full_target


@pytest.mark.parametrize(
    ("name", "arch", "multiprocessors"),
    [
        ("H100 PCIe", "sm_90", 114),
        ("H100 SXM", "sm_90", 132),
        ("nvidia h100 nvl", "sm_90", 132),
        ("H200", "sm_90", 132),
        ("A100", "sm_80", 108),
        ("L40S", "sm_89", 142),
        ("RTX 4090", "sm_89", 128),
        ("geforce rtx 4090", "sm_89", 128),
        ("B200", "sm_100", 148),
    ],
)
def test_gpus_by_name(name, arch, multiprocessors):
    target = cuda_target(name)
    assert target.attrs["arch"] == arch
    assert device_of(target).multiprocessors == multiprocessors
    assert device_of(full_target(target)).multiprocessors == multiprocessors
    given = device_of(cuda_target({"kind": "cuda", "arch": arch, "model": name}))
    assert given == device_of(cuda_target({"kind": "cuda", "model": name})) == device_of(target)


def test_a_name_beats_the_gpu_that_is_here(monkeypatch):
    monkeypatch.setattr(device.tvm, "cuda", lambda index: Here("NVIDIA H200", "9.0", 132))
    assert device_of(cuda_target("H100 PCIe")) == preset("H100 PCIe")


class Here:
    """A GPU as TVM describes it."""

    exist, l2_cache_size_bytes, max_clock_rate = True, 7 << 20, 1_500_000

    def __init__(self, name, version, multiprocessors):
        self.device_name, self.compute_version = name, version
        self.multi_processor_count = multiprocessors


@pytest.mark.parametrize(
    ("name", "version", "multiprocessors", "like"),
    [
        ("NVIDIA H100 PCIe", "9.0", 114, "H100 PCIe"),
        ("NVIDIA H100 80GB HBM3", "9.0", 132, "H100 SXM"),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "9.0", 60, "H100 SXM"),
        ("NVIDIA A100-SXM4-40GB", "8.0", 108, "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "8.0", 108, "A100"),
        ("NVIDIA GeForce RTX 4090", "8.9", 128, "RTX 4090"),
        ("NVIDIA L4", "8.9", 58, "L4"),
    ],
)
def test_this_machines_gpu_is_read_off(monkeypatch, name, version, multiprocessors, like):
    monkeypatch.setattr(device.tvm, "cuda", lambda index: Here(name, version, multiprocessors))
    found = device_of(tvm.target.Target({"kind": "cuda", "arch": f"sm_{version.replace('.', '')}"}))
    assert found == replace(preset(like), name=name, multiprocessors=multiprocessors)


def test_a_gpu_that_nobody_knows_says_its_size_itself(monkeypatch):
    monkeypatch.setattr(device.tvm, "cuda", lambda index: Here("NVIDIA X1", "9.0", 20))
    found = device_of(H200)
    assert (found.multiprocessors, found.l2_size, found.clock) == (20, 7 << 20, 1.5e9)
    assert found.bandwidth == preset("H200").bandwidth


def test_every_architecture_has_a_device_with_room():
    for number in device.ARCHITECTURES:
        found = device_of(tvm.target.Target({"kind": "cuda", "arch": f"sm_{number}"}))
        assert found.capability <= number and found.multiprocessors > 0


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("sm_999", "none that is known: sm_70, sm_72"),
        ("sm_60", "older than sm_70"),
        ({"kind": "cuda", "arch": "sm_90", "model": "H300"}, "known are V100, T4"),
        ({"kind": "cuda", "arch": "sm_80", "model": "H200"}, "is of sm_90, the arch is sm_80"),
    ],
)
def test_gpus_that_there_are_not(target, why):
    with pytest.raises(InputError, match=why):
        cuda_target(target)


# ---- a barrier of the whole grid -------------------------------------------------------------


def column_sums(rows=8192, columns=1024):
    """A sum along the rows and one over them: the blocks of one kernel synchronise."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, columns), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weights = builder.emit(op.nn.softmax(x))
            sums = builder.emit(op.sum(weights, axis=[0]))
            result = builder.emit_output(relax.Tuple([weights, sums]))
        builder.emit_func_output(result)
    return builder.get()


def checks_of(mod: tvm.IRModule, target) -> str:
    """The host functions that check arguments, as compile makes them."""
    with target:
        lowered = tvm_stitch.pipeline(target)(mod)
    return "\n".join(f.script() for v, f in lowered.functions_items() if "_called" in v.name_hint)


@pytest.mark.parametrize(("name", "most"), [("H100 PCIe", 114), ("H200", 132), ("A100", 108)])
def test_a_module_says_how_many_multiprocessors_it_needs(name, most):
    text = checks_of(column_sums(), cuda_target(name))
    needed = int(re.search(r"a GPU of at least (\d+) multiprocessors", text)[1])
    assert most // 2 < needed <= most


def test_a_module_without_such_barriers_needs_none():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 1024), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(op.nn.softmax(x))
        builder.emit_func_output(result)
    assert "multiprocessors" not in checks_of(builder.get(), H200)


def test_arguments_on_the_host_are_asked_nothing_of_a_gpu():
    functions = check_functions("sizes", [Demand("", 1, "float32", (4,))], multiprocessors=1000)
    mod = tvm.IRModule({"sizes_called": functions["sizes_called"]})
    built = tvm.tirx.build(mod, target="llvm")
    built["sizes"](tvm.runtime.tensor(np.zeros(4, "float32")))


class OnCuda:
    """A tensor that says it lies on a GPU, of which nobody reads an element."""

    WHERE = (2, 3)  # DLPack's number of CUDA, and which of them

    def __init__(self) -> None:
        self.capsule = tvm.runtime.tensor(np.zeros(4, "float32")).__dlpack__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = (
            ctypes.c_void_p,
            [ctypes.py_object, ctypes.c_char_p],
        )
        # A DLTensor begins with the address of its data; its device follows.
        address = pointer_of(self.capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)
        (ctypes.c_int32 * 2).from_address(address)[:] = self.WHERE

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return self.WHERE


@pytest.fixture
def asked():
    """What TVM's runtime is asked about GPUs; each has 114 multiprocessors."""
    name, questions = "runtime.GetDeviceAttr", []
    real = tvm_ffi.get_global_func(name)

    def answer(kind, number, attribute):
        questions.append((kind, number, attribute))
        return 114

    tvm_ffi.register_global_func(name, answer, override=True)
    yield questions
    tvm_ffi.register_global_func(name, real, override=True)


@pytest.mark.parametrize(("needed", "fits"), [(114, True), (115, False)])
def test_the_gpu_of_the_arguments_is_asked_for_its_size(asked, needed, fits):
    functions = check_functions("sizes", [Demand("", 1, "float32", (4,))], needed)
    mod = tvm.IRModule({"sizes_called": functions["sizes_called"]})
    check = tvm.tirx.build(mod, target="llvm")["sizes"]
    with nullcontext() if fits else pytest.raises(RuntimeError, match="at least 115 multiproc"):
        check(tvm_ffi.from_dlpack(OnCuda()))
    assert asked == [(2, 3, 7)]


@pytest.mark.gpu
@pytest.mark.skipif(not tvm.cuda(0).exist, reason="needs a GPU")
def test_a_module_for_a_larger_gpu_is_refused(monkeypatch):
    here = tvm.cuda(0)
    capability = here.compute_version.replace(".", "")
    target = cuda_target(f"sm_{capability}")
    x = tvm.runtime.tensor(np.ones((8192, 1024), "float32"), here)
    fitting = relax.VirtualMachine(tvm_stitch.compile(column_sums(), target), here)
    assert np.allclose(fitting["main"](x)[1].numpy(), 8.0, rtol=1e-3)
    larger = replace(device_of(target), multiprocessors=4 * here.multi_processor_count)
    monkeypatch.setattr(transform, "device_of", lambda target: larger)
    machine = relax.VirtualMachine(tvm_stitch.compile(column_sums(), target), here)
    with pytest.raises(RuntimeError, match="compiled for a GPU of at least"):
        machine["main"](x)
