"""TVM's intrinsics are imported quickly, and stacks are as they were afterwards."""

import inspect
import subprocess
import sys
import traceback

import pytest

from tvm_stitch.workarounds import light_stacks

PROGRAM = """
import inspect
import time

import tvm_stitch
from tvm_stitch.workarounds.light_stacks import INTRINSICS, quick_import_of_intrinsics

usual, start = inspect.stack, time.process_time()
with quick_import_of_intrinsics():
    import tvm.s_tir.tensor_intrin.cuda as intrinsics
seconds = time.process_time() - start
assert inspect.stack is usual
assert intrinsics.get_wmma_intrin_group and tvm_stitch.__version__
with quick_import_of_intrinsics():
    assert inspect.stack is usual  # nothing is left to import
print(seconds)
"""


@pytest.mark.slow
def test_the_intrinsics_are_there_and_stacks_as_they_were():
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(found.stdout) < 15  # 26 to 52 CPU seconds without


def test_frames_are_those_of_the_stack():
    found = light_stacks.frames()
    usual = [frame for frame, _ in traceback.walk_stack(sys._getframe())]
    assert [each.frame for each in found] == usual
    assert found[0].function == "test_frames_are_those_of_the_stack"
    assert found[0].code_context == ["    found = light_stacks.frames()\n"]
    assert light_stacks.frames(0)[0].code_context is None


def test_stacks_are_as_they_were_after_an_error(monkeypatch):
    monkeypatch.delitem(sys.modules, light_stacks.INTRINSICS, raising=False)
    monkeypatch.setattr(inspect, "stack", lambda context=1: [])  # conftest's are light ones too
    usual = inspect.stack
    with pytest.raises(ValueError), light_stacks.quick_import_of_intrinsics():
        assert inspect.stack is not usual
        raise ValueError
    assert inspect.stack is usual
