"""Several threads compile at once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm
from check import H200
from lowered import launched
from tvm import relax, topi
from tvm.relax import op
from tvm.te.tag import TagScope, tag_scope
from zoo import graph

from tvm_stitch.build import stitch_passes

THREADS = 4


def chain(columns: int) -> tvm.IRModule:
    """Many operators, each of which topi tags while it is legalised."""

    def build(emit, x):
        for step in range(8):
            x = emit(op.nn.relu(emit(op.add(x, relax.const(float(step), "float32")))))
            x = emit(op.exp(emit(op.sqrt(emit(op.tanh(x))))))
        return emit(op.sum(x, axis=1))

    return graph("float32", [(8, columns)], build, np.sum).module


def test_legalising_at_once():
    """Where TVM's tags are one for all threads, nearly every thread fails here."""

    def legalise(module):
        for _ in range(3):
            changed = module
            with H200:
                for each in stitch_passes(H200)[:5]:
                    changed = each(changed)
        return len(changed.functions)

    modules = [chain(100 + number) for number in range(2 * THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        counts = list(pool.map(legalise, modules))
    assert counts == [legalise(modules[0])] * len(modules)


def test_compiling_at_once():
    modules = [chain(100 + number) for number in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        names = list(pool.map(launched, modules))
    assert names == [launched(modules[0])] * THREADS


def test_tags_still_reach_their_operators():
    """A thread's tag is on what it makes, nested ones are refused, and it is gone afterwards."""
    x = tvm.te.placeholder((4,), "float32")
    assert topi.exp(x).op.tag == "elemwise"
    with tag_scope("mine"):
        assert tvm.te.compute((4,), lambda i: x[i] * 2).op.tag == "mine"
        with pytest.raises(ValueError, match="nested"):
            tag_scope("other").__enter__()
    assert TagScope.get_current() is None
