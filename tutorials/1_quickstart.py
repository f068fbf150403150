"""From a Relax module to stitched kernels
=======================================

From a Relax model to stitched kernels, on any machine.

Run it with `python tutorials/1_quickstart.py`. It needs no GPU; g++ lets it check the kernels.
"""

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

import tvm_stitch
from tvm_stitch import simt

# %%
# 1. A model
# ----------
#
# Any Relax module will do. This one adds a bias and a residual, normalises each row, and applies
# GELU: operators that compute little and move much, the kind that stitching is for.


@I.ir_module
class Model:
    @R.function
    def main(
        x: R.Tensor((256, 768), "float32"),
        bias: R.Tensor((768,), "float32"),
        residual: R.Tensor((256, 768), "float32"),
        scale: R.Tensor((768,), "float32"),
        shift: R.Tensor((768,), "float32"),
    ) -> R.Tensor((256, 768), "float32"):
        with R.dataflow():
            total = R.add(R.add(x, bias), residual)
            normal = R.nn.layer_norm(total, scale, shift, axes=[-1])
            result = R.nn.gelu(normal)
            R.output(result)
        return result


# %%
# 2. A target
# -----------
#
# Stitching plans for one GPU architecture, whether or not such a GPU is in this machine.

target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})

# %%
# 3. What will become of it
# -------------------------
#
# `explain` compiles nothing. It says how many kernels TVM's own pipeline makes, how many stitching
# makes, and for each kernel what it computes, how its work is laid out, and why.

report = tvm_stitch.explain(Model, target)
print(report)

# The same as data, for programs:
(kernel,) = report.kernels
print("\nscheme of each value:", dict(kernel.schemes))
print("operators:", ", ".join(kernel.ops))

# %%
# 4. Is it right?
# ---------------
#
# `verify` runs the generated CUDA on the CPU, every GPU thread for itself, in several orders, and
# compares every element with float64. How far it may be off follows from its dtype and from what
# rounding can do to it. Races between threads and accesses outside of the arrays are reported, too.

missing = simt.available()
if missing is None:
    verification = tvm_stitch.verify(Model, target)
    print(f"\n{verification}")
    assert verification.ok
else:
    print(f"\nNot verified: {missing}")

# %%
# 5. Compile it
# -------------
#
# `compile` gives the executable that `tvm.compile` gives, for TVM's virtual machine.

executable = tvm_stitch.compile(Model, target)
source = executable.mod.imports[0].imports[0].inspect_source()
print("\nthe kernel's signature in the CUDA source:")
print(next(line for line in source.splitlines() if "__global__" in line))

# %%
# 6. Run it, where there is a GPU
# -------------------------------

if tvm.cuda(0).exist:
    executable = tvm_stitch.compile(Model, tvm.target.Target.from_device(tvm.cuda(0)))
    machine = tvm.relax.VirtualMachine(executable, tvm.cuda(0))
    random = np.random.default_rng(0)
    shapes = [(256, 768), (768,), (256, 768), (768,), (768,)]
    arrays = [random.standard_normal(shape).astype("float32") for shape in shapes]
    result = machine["main"](*[tvm.runtime.tensor(array, tvm.cuda(0)) for array in arrays])
    print("\nfirst elements of the result:", result.numpy()[0, :4])
else:
    print(
        "\nNo GPU here: the executable can be saved with executable.export_library and used there."
    )
