"""From ONNX to a library
======================

From an ONNX model to a shared library, and how a program runs it.

Run it with `python tutorials/8_from_onnx_to_a_library.py`. It needs onnx (`pip install
'tvm-stitch[onnx]'`), no GPU; g++ links the library.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper

import tvm_stitch
from tvm_stitch import simt
from tvm_stitch.commands.cli import main as tvm_stitch_command

target = "sm_90"
folder = Path(tempfile.mkdtemp())

# %%
# 1. A model
# ----------
#
# What an exporter writes of a softmax over heads: half of it computes shapes. Most have their model
# in a file already. The batch has a name, and so stays open.

node = helper.make_node
nodes = [
    node("Shape", ["x"], ["shape"]),
    node("Gather", ["shape", "first"], ["batch"]),
    node("Unsqueeze", ["batch", "axis"], ["batch_1"]),
    node("Concat", ["batch_1", "rest"], ["by_heads"], axis=0),
    node("Reshape", ["x", "by_heads"], ["heads"]),
    node("Mul", ["heads", "scale"], ["scaled"]),
    node("Softmax", ["scaled"], ["soft"], axis=-1),
    node("Reshape", ["soft", "shape"], ["y"]),
]
stored = {"first": np.int64(0), "axis": np.array([0]), "rest": np.array([32, 4, 16]),
          "scale": np.float32(0.25)}  # fmt: skip
graph = helper.make_graph(
    nodes,
    "heads",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32, 64])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32, 64])],
    [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
model.ir_version = 10
path = folder / "heads.onnx"
onnx.save(model, path)

# %%
# 2. As Relax
# -----------
#
# What it computes of shapes is gone; the batch is a symbol. `shapes={"x": (8, 32, 64)}` would make
# it a number.

module = tvm_stitch.onnx.load(path)
print(module)

# %%
# 3. From the command line
# ------------------------
#
# The commands take the file as it is, and so they take what torch.export.save wrote, TVMScript, and
# what Relay saved: `tvm-stitch explain heads.onnx --target sm_90`.

assert tvm_stitch_command(["explain", str(path), "--target", target]) == 0
if simt.available() is None:
    assert tvm_stitch_command(["verify", str(path), "--target", target, "--orders", "2"]) == 0

# %%
# 4. A library
# ------------
#
# `tvm-stitch compile heads.onnx -o heads.so --target sm_90`

library = folder / "heads.so"
assert tvm_stitch_command(["compile", str(path), "-o", str(library), "--target", target]) == 0

# %%
# 5. Run it, where there is a GPU
# -------------------------------
#
# A program needs TVM's runtime alone: in Python as below, in C++ by tvm::runtime::Module.

if tvm.cuda(0).exist:
    machine = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cuda(0))
    x = np.random.default_rng(0).standard_normal((8, 32, 64)).astype("float32")
    result = machine["main"](tvm.runtime.tensor(x, tvm.cuda(0))).numpy()
    print("rows sum up to one:", np.allclose(result.reshape(8, 32, 4, 16).sum(-1), 1, atol=1e-5))
else:
    print(f"no GPU here: {library.name} runs where one is")
