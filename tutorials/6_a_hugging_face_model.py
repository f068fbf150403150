"""A model of Hugging Face's
=========================

A model of Hugging Face's, compiled, profiled, tuned.

Run it with `python tutorials/6_a_hugging_face_model.py`. It needs PyTorch and transformers
(`pip install 'tvm-stitch[torch,tune]' transformers`) and downloads nothing. Without a GPU, the
kernels that a GPU would run are executed on the CPU.
"""

import tempfile
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

import tvm_stitch

on_gpu = torch.cuda.is_available()
place = "cuda" if on_gpu else "cpu"
target = "cuda" if on_gpu else "sm_90"

# %%
# 1. A model
# ----------
#
# A BERT with random weights: a small one, unless there is a GPU. `from_pretrained` gives one whose
# weights mean something; nothing else below would change.

small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 1000}  # fmt: skip
torch.manual_seed(0)
model = BertModel(BertConfig(**({} if on_gpu else small))).to(place).eval()
words = torch.randint(0, 1000, (2, 16), device=place)

# %%
# 2. Compiled
# -----------
#
# On a GPU it is torch.compile(model, backend="tvm_stitch"), and this package need not be imported.
# With device="cpu-executor", what lies on the CPU is compiled: the same CUDA kernels, thread by
# thread, slow and watched for races.

if on_gpu:
    compiled = torch.compile(model, backend="tvm_stitch")
else:
    compiled = tvm_stitch.torch.compile(model, device="cpu-executor", target=target)

with torch.no_grad():
    expected = model(words).last_hidden_state
    found = compiled(words).last_hidden_state
print(f"difference to eager: {(found - expected).abs().max():.0e}")
torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)

# %%
# 3. What became of it
# --------------------
#
# The graph is cut into parts. In float32, products of this size are a library's and stay PyTorch's,
# as attention does; in half precision the products are ours too. Layers are equal, so most parts
# are compiled once. Half of a line each:

with torch.no_grad():
    report = tvm_stitch.torch.explain(model, words, target=target)
for part in report.parts:
    launches = sum(1 for _ in part.kernels.kernels)
    print(f"part: {len(part.operators):3} operators in {launches} kernels")
for left in report.left:
    print(f"PyTorch's: {left.calls:3} {left.operator}: {left.reason}")

# print(report) says of every kernel how it is laid out, and why.

# %%
# 4. Profiled
# -----------
#
# Kernels of ours have names that say what they compute. Without a GPU there is what they should
# take on the target.

if on_gpu:
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.no_grad(), torch.profiler.profile(activities=activities) as profiler:
        compiled(words)
        torch.cuda.synchronize()
    print(profiler.key_averages().table(sort_by="cuda_time_total", row_limit=8))
else:
    predicted = sum(kernel.predicted_us for part in report.parts for kernel in part.kernels.kernels)
    print(f"predicted: {predicted:.1f} us in our kernels on {target}")

# %%
# 5. Tuned
# --------
#
# A part is a Relax module like any other. `tune` measures other schedules of its kernels and
# records what it finds: on a GPU its time; here the memory accesses that the executor counts.

largest = max(report.parts, key=lambda part: len(part.operators))
with tempfile.TemporaryDirectory() as folder:
    database = Path(folder) / "records.jsonl"
    runner = "local" if on_gpu else "simt"
    tuning = tvm_stitch.tune(
        largest.module, target, database, trials=32 if on_gpu else 3, runner=runner
    )
    print(tuning)

    # --- 6. And compiled with what was found ----------------------------------
    device = "cuda" if on_gpu else "cpu-executor"
    torch._dynamo.reset()
    tuned = tvm_stitch.torch.compile(model, device=device, target=target, database=database)
    with torch.no_grad():
        again = tuned(words).last_hidden_state
    torch.testing.assert_close(again, expected, rtol=1e-4, atol=1e-4)
    print("tuned: as eager says")
