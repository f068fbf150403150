"""Reading a plan
==============

Reading a plan, and finding why something was not stitched.

Run it with `python tutorials/4_reading_a_plan.py`. It compiles nothing and needs no GPU.
"""

import tempfile
from pathlib import Path

import tvm
from tvm.script import ir as I
from tvm.script import relax as R

import tvm_stitch
from tvm_stitch import Options, SavedPlan

target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})

# %%
# 1. A model of which not all becomes one kernel
# ----------------------------------------------
#
# A projection, a softmax of its rows, and on the side the total of all rows' sums: a sum over rows
# of what was a sum along rows.


@I.ir_module
class Model:
    @R.function
    def main(
        x: R.Tensor((512, 256), "float32"),
        weight: R.Tensor((256, 1024), "float32"),
        bias: R.Tensor((1024,), "float32"),
    ) -> R.Tuple(R.Tensor((512, 1024), "float32"), R.Tensor((), "float32")):
        with R.dataflow():
            scores = R.add(R.matmul(x, weight), bias)
            shares = R.nn.softmax(scores, axis=-1)
            sums = R.sum(R.exp(scores), axis=[-1])
            total = R.sum(sums, axis=[0])
            result = (shares, total)
            R.output(result)
        return result


report = tvm_stitch.explain(Model, target)
print(report)

# %%
# 2. Why these operators are fused
# --------------------------------
#
# Every stitched kernel says what its operators would cost in separate kernels, and what is saved:
# launches, and bytes that would be written to memory and read again.

for kernel in report.kernels:
    if kernel.stitched:
        print(f"\n{kernel.name}: {', '.join(kernel.ops)}")
        print("  fused:", kernel.together)

# %%
# 3. Why others are not
# ---------------------
#
# A cut is a value that goes from one kernel to another through memory. Its reason is what kernel/
# said of both as one kernel: a refusal, or a cost that is no better. Operators that went TVM's
# default way are in report.fallbacks with their reasons. This model has one cut, between the sums
# of the rows and their total, which is one short row:

print("\nCuts:")
for cut in report.cuts:
    print(f"  {cut.writer[-1]} -> {cut.reader[0]}, {cut.bytes} bytes: {cut.reason}")
print("Left to TVM:")
for fallback in report.fallbacks:
    print(f"  {fallback.op}: {fallback.reason}")

# %%
# 4. How good the plan is
# -----------------------
#
# An integer linear program picked the kernels. `gap` is the share of the predicted time that a
# better choice among the same candidates could still save; 0 means that there is none.

(solved,) = report.plans
print(f"\n{solved.candidates} candidates, {solved.status}, gap {solved.gap:.1%}")
print(f"predicted {solved.cost_us:.1f} us, by the simple rule {solved.greedy_us:.1f} us")

# Where there is a GPU, Options(measure=True) does not take the cost model's word: every region is
# compiled as planned and left to TVM, both are timed, the faster is kept. report.measured, the text
# and the HTML tell both times.

# %%
# 5. What if?
# -----------
#
# Plans can be saved, compared and pinned. What would become of the model without the solver, and
# without block-wide kernels?

greedy = tvm_stitch.explain(Model, target, Options(solver="greedy"))
print("\nagainst the simple rule:")
print(greedy.plan.compare(report.plan))
warps = tvm_stitch.explain(Model, target, Options(schemes=("local", "warp")))
print("\nagainst warps alone:")
print(warps.plan.compare(report.plan))
print({fallback.op: fallback.reason for fallback in warps.fallbacks if fallback.op != "matmul"})

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "plan.json"
    report.plan.save(path)
    pinned = tvm_stitch.explain(Model, target, Options(plan=SavedPlan.load(path)))
    print("\nthe pinned plan is followed:", pinned.plan == report.plan)

    # The same report as a page for the browser, in one file:
    report.to_html(Path(folder) / "report.html")
    print("bytes of HTML:", (Path(folder) / "report.html").stat().st_size)
