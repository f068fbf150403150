"""Bad input: one error of this package that says what is wrong and what to do, never TVM's own."""

import pytest
import tvm
from check import H200
from zoo import softmax

import tvm_stitch
from tvm_stitch import InputError, Options, StitchError
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.transform import StitchOps, StitchSchedule

MODULE = softmax("float32", 4, 50).module
ENTRIES = {
    "pipeline": tvm_stitch.pipeline,
    "compile": lambda target: tvm_stitch.compile(MODULE, target),
    "verify": lambda target: tvm_stitch.verify(MODULE, target, orders=1),
    "explain": lambda target: tvm_stitch.explain(MODULE, target),
    "StitchOps": StitchOps,
    "StitchSchedule": StitchSchedule,
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
@pytest.mark.parametrize(
    "target, message",
    [
        ("llvm", "stitching is for CUDA, and the target is 'llvm'"),
        (tvm.target.Target("rocm"), "stitching is for CUDA, and the target is 'rocm'"),
        ({"kind": "opencl"}, "stitching is for CUDA"),
        ("no such target", "is no target .*name an architecture"),
        ("", "target"),
        (7, "is no target .*name an architecture"),
        (None, "is no target .*name an architecture"),
        ({"kind": "cuda", "arch": "sm_35"}, "older than sm_70"),
        ({"kind": "cuda", "arch": "hopper"}, "is no target .*name an architecture"),
    ],
    ids=str,
)
def test_targets(entry, target, message):
    with pytest.raises(InputError, match=message):
        entry(target)


@pytest.mark.parametrize(
    "target",
    ["cuda", "sm_86", {"kind": "cuda"}, "nvidia/nvidia-h100", H200],
    ids=str,
)
def test_targets_without_an_architecture_and_by_name(target):
    tvm_stitch.pipeline(target)
    assert tvm_stitch.verify(MODULE, target, orders=1).ok


@pytest.mark.parametrize("entry", (tvm_stitch.compile, tvm_stitch.explain))
@pytest.mark.parametrize("mod", (None, "model.json", MODULE["main"], object()), ids=type)
def test_what_is_no_module(entry, mod):
    with pytest.raises(InputError):
        entry(mod, H200)


@pytest.mark.parametrize("schemes", [("regionl",), ("local", 7), ("LOCAL",)], ids=str)
def test_unknown_schemes(schemes):
    with pytest.raises(InputError, match=r"known are.*'regional'"):
        Options(schemes=schemes)


def test_a_scheme_alone_is_no_tuple_of_schemes():
    with pytest.raises(InputError, match="must be a tuple of names, not 'local'"):
        Options(schemes="local")


@pytest.mark.slow
def test_schemes_may_be_a_list_or_none_at_all():
    options = Options(schemes=list(SCHEMES))
    assert tvm_stitch.verify(MODULE, H200, orders=1, options=options).kernels
    assert not tvm_stitch.verify(MODULE, H200, orders=1, options=Options(schemes=())).kernels


def test_all_errors_have_one_base():
    names = ("CompilerMissing", "InputError", "RelayError", "SimtError")
    assert all(issubclass(getattr(tvm_stitch, name), StitchError) for name in names)
    assert issubclass(InputError, ValueError)


@pytest.mark.parametrize("database", ("nowhere.jsonl", 7))
def test_a_database_that_is_none(database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for use in (StitchSchedule, tvm_stitch.pipeline):
        with pytest.raises(InputError, match="record store"):
            use("sm_90", database=database)
