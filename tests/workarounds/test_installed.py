"""Another TVM is named in one line when the package is imported."""

import re
import warnings
from pathlib import Path

import pytest

from tvm_stitch.workarounds.installed import FFI, TVM, check

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
