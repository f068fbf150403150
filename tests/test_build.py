"""Compiling in one call: what the caller set around it stays set."""

import tvm
from check import H200
from tvm.ir.instrument import pass_instrument
from zoo import softmax

import tvm_stitch


def test_who_listens_to_passes_hears_them():
    heard = []

    @pass_instrument
    class Listener:
        def run_after_pass(self, mod, info):
            heard.append(info.name)

    with tvm.transform.PassContext(opt_level=3, instruments=[Listener()]):
        tvm_stitch.compile(softmax("float32", 4, 8).module, H200)
    assert {"StitchOps", "StitchSchedule", "CallTIRRewrite"} <= set(heard)
