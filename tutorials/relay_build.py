"""From an old relay.build script
==============================

From an old relay.build script to tvm_stitch, line by line.

Run it with `python tutorials/relay_build.py`. It needs no GPU and no Relay. Each step shows the
line of a script for TVM 0.8 to 0.19 as a comment, and below it the line that takes its place today.
"""

import tempfile
from pathlib import Path

import numpy as np

# was: import tvm
# was: from tvm import relay
# was: from tvm.contrib import graph_executor
import tvm

from tvm_stitch import relay

# %%
# 1. The module
# -------------
#
# A small model, as `mod.astext()` printed it. An old script would have read its own from a file:
# `relay.build` takes a path to that (text or JSON) just as well as the text itself.

MODEL = """
#[version = "0.0.5"]
def @main(%data: Tensor[(2, 8), float32], %weight: Tensor[(4, 8), float32],
          %bias: Tensor[(4), float32]) -> Tensor[(2, 4), float32] {
  %0 = nn.dense(%data, %weight, units=4);
  %1 = nn.bias_add(%0, %bias, axis=-1);
  nn.softmax(%1)
}
"""
target = "llvm"
random = np.random.default_rng(0)
params = {
    "weight": random.standard_normal((4, 8)).astype("float32"),
    "bias": random.standard_normal(4).astype("float32"),
}
data = random.standard_normal((2, 8)).astype("float32")

# was: mod = tvm.ir.load_json(open("model.json").read())
# was: mod = tvm.relay.parse(open("model.relay").read())
# was: params = relay.load_param_dict(open("model.params", "rb").read())
# now: nothing. build takes the files. To see what they become:
mod = relay.load(MODEL.strip(), params)
print(mod.script(show_meta=False))

# %%
# 2. The build
# ------------

# was: with tvm.transform.PassContext(opt_level=3):
# was:     lib = relay.build(mod, target, params=params)
lib = relay.build(MODEL.strip(), target, params=params)

# %%
# 3. The run
# ----------

# was: dev = tvm.device(target, 0)
# was: module = graph_executor.GraphModule(lib["default"](dev))
# now: TVM no longer takes "llvm" for the name of a device.
dev = tvm.cpu() if target == "llvm" else tvm.device(target, 0)
module = relay.GraphModule(lib["default"](dev))
# was and is:
module.set_input("data", data)
module.run()
output = module.get_output(0).numpy()

# %%
# 4. The time it takes
# --------------------

# was and is:
timing = module.benchmark(dev, repeat=3, number=10)
print(f"one run takes {timing.mean * 1e6:.1f} us on {dev}")

# %%
# 5. Saving, and loading in a process that knows nothing of the model
# -------------------------------------------------------------------

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.so"
    # was: lib.export_library("model.so")
    lib.export_library(path)
    # was: lib = tvm.runtime.load_module("model.so")
    # was: module = graph_executor.GraphModule(lib["default"](dev))
    again = relay.GraphModule(tvm.runtime.load_module(str(path)), dev)
    again.run(data=data)
    np.testing.assert_array_equal(again.get_output(0).numpy(), output)

# %%
# 6. What is different
# --------------------
#
# Parameters are constants of the library, so `lib.get_params()` is gone. With `target = "cuda"` the
# model's memory-intensive operators are stitched into few kernels. The result is NumPy's:

expected = data @ params["weight"].T + params["bias"]
expected = np.exp(expected) / np.exp(expected).sum(1, keepdims=True)
np.testing.assert_allclose(output, expected, rtol=1e-5)
print("the output is NumPy's")
