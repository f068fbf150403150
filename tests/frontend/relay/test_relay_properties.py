"""A thousand generated modules load and agree with NumPy.

Every module is read by itself. To compile takes most of the time, so modules are compiled ten at a
time: the text of each becomes one global function of a module without a main.
"""

import itertools

import numpy as np
import pytest
import tvm
from relay.all_cases import GENERATORS
from relay.case import Random, agrees, execute, function, write
from tvm import relax

from tvm_stitch import relay

_MODULES = 1000
_TOGETHER = 10
_QUICK = 200  # of the modules
_EVERY = list(itertools.chain.from_iterable(GENERATORS[name] for name in sorted(GENERATORS)))


def _generated(first: int, count: int):
    """Cases with random shapes and attributes; each operator comes up in turn."""
    return [_EVERY[i % len(_EVERY)](Random(1000 + i)) for i in range(first, first + count)]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.slow if first >= _QUICK else ())
        for first in range(0, _MODULES, _TOGETHER)
    ],
)
def test_generated_modules_agree_with_numpy(first):
    cases = _generated(first, _TOGETHER)
    for given in cases:
        assert "main" in [gvar.name_hint for gvar in relay.load(write(given)).functions]
    text = "\n".join(function(f"f{i}", given) for i, given in enumerate(cases))
    mod = relay.load('#[version = "0.0.5"]\n' + text)
    machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    for i, given in enumerate(cases):
        wrong = agrees(given, execute(machine, given.inputs.values(), f"f{i}"))
        assert not wrong, f"{write(given)}\n{wrong}"


def test_generation_covers_every_operator():
    assert len(_EVERY) <= _MODULES
    first, again = _generated(7, 1)[0], _generated(7, 1)[0]
    assert first.body == again.body
    assert all(np.array_equal(first.inputs[k], again.inputs[k]) for k in first.inputs)
