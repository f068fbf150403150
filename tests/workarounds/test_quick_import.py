"""TVM is the same, whoever imports it first."""

import json
import subprocess
import sys
import types

import pytest
import tvm

from tvm_stitch.workarounds.quick_import import ABSENT, quick_import

SEEN = """
import json, sys
import {first}
import tvm
from tvm import ir
names = sorted(map(str, ir.Op.list_op_names()))
printed = {{name: str(ir.Op.get(name).get_attr("TScriptPrinterName")) for name in names}}
modules = sorted(name for name in sys.modules if name.split(".")[0] == "tvm")
functions = {{
    name: sorted(each for each in vars(sys.modules[name]) if each[:1].isupper())
    for name in modules
    if name.endswith("_ffi_api")
}}
print(json.dumps([printed, functions, tvm.runtime.disco is None, {absent!r} in modules]))
"""


def seen(first: str) -> list:
    code = SEEN.format(first=first, absent=ABSENT)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.slow
def test_operators_and_functions_are_those_of_a_plain_import():
    plain, ours = seen("tvm"), seen("tvm_stitch.workarounds.installed")
    assert plain[0] == ours[0]
    whole = (name for name in plain[1] if not name.startswith(ABSENT))  # of which parts are left
    for name in whole:
        assert set(plain[1][name]) <= set(ours[1][name]), name
    assert plain[2:] == ours[2:]


def test_what_is_imported_already_is_left_alone():
    with quick_import():
        assert ABSENT not in sys.modules or isinstance(sys.modules[ABSENT], types.ModuleType)
    with pytest.raises(AttributeError, match="is not registered"):
        tvm.ir.Op.get("tirx.no_such_operator")
