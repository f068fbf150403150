"""Another TVM is named in one line when the package is imported."""

import ctypes
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from tvm_stitch.workarounds.installed import CUDA, FFI, TVM, check, check_gpu, driver_version

ROOT = Path(__file__).parents[2]


def test_the_versions_are_those_that_pip_is_asked_for():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'"(apache-tvm(?:-ffi)?)==([^"]+)"', text) == [
        ("apache-tvm", TVM),
        ("apache-tvm-ffi", FFI),
    ]


def test_another_tvm_is_refused():
    with pytest.raises(ImportError, match=r"found TVM 0\.20\.0: pip install apache-tvm==") as error:
        check("0.20.0", FFI)
    assert "\n" not in str(error.value)


def test_another_ffi_is_warned_of():
    with pytest.warns(UserWarning, match=r"found 0\.1\.15, .*: pip install apache-tvm-ffi=="):
        check(TVM, "0.1.15")


def test_what_is_meant_and_a_build_from_sources_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(TVM, FFI)
        check("0.27.dev0", "")


def test_a_gpu_that_tvm_cannot_use_is_warned_of():
    with pytest.warns(UserWarning, match=r"for CUDA 12\.4, .* needs one for CUDA 13: no kernel"):
        check_gpu((12, 4), is_wheel=True, has_runtime=True)
    with pytest.warns(UserWarning, match=rf"is libcudart\.so\.{CUDA} where"):
        check_gpu((13, 0), is_wheel=True, has_runtime=False)


@pytest.mark.parametrize(
    ("driver", "is_wheel", "has_runtime"),
    [(None, True, False), ((13, 1), True, True), ((12, 4), False, True), ((14, 0), True, True)],
)
def test_machines_without_a_gpu_and_with_one_that_works_are_not(driver, is_wheel, has_runtime):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_gpu(driver, is_wheel, has_runtime)


def test_the_drivers_version(monkeypatch):
    def answers(place):
        place._obj.value = 12080
        return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuDriverGetVersion=answers))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert driver_version() == (12, 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert driver_version() is None
    monkeypatch.undo()
    if not Path("/dev/nvidiactl").exists():
        assert driver_version() is None
