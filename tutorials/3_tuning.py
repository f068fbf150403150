"""Tuning
======

From a model to a tuned build.

Run it with `python tutorials/3_tuning.py`. On a machine with an NVIDIA GPU it measures time.
Without one it counts memory accesses on the CPU executor (that needs g++), so that every step can
be tried anywhere; such counts say little about time.
"""

import tempfile
from pathlib import Path

import tvm
from tvm import relax

import tvm_stitch

# %%
# 1. A model
# ----------
#
# Scaled attention scores and their softmax: rows of 77 elements, as CLIP's text encoder has them.
# The number of rows is left open.

rows = tvm.tirx.Var("rows", "int64")
scores = relax.Var("scores", relax.TensorType((rows, 77), "float32"))
builder = relax.BlockBuilder()
with builder.function("main", [scores]):
    with builder.dataflow():
        scaled = builder.emit(relax.op.multiply(scores, relax.const(0.125, "float32")))
        weights = builder.emit_output(relax.op.nn.softmax(scaled, -1))
    builder.emit_func_output(weights)
model = builder.get()

# %%
# 2. What is chosen without tuning
# --------------------------------
#
# Every kernel gets a schedule by rule, from its shape and the device. That is good at once; tuning
# looks for the rest.

has_gpu = tvm.cuda(0).exist
target = tvm.target.Target.from_device(tvm.cuda(0)) if has_gpu else "sm_90"
(kernel,) = tvm_stitch.explain(model, target).kernels
print("chosen:", kernel.mapping)

# %%
# 3. Tune
# -------
#
# `trials` schedules of every kernel are measured, each in a process of its own, so that one that
# hangs or crashes loses only itself. A model of what is fast (XGBoost, if it is installed) learns
# from them which to try next. At the end the best few are timed in turns with the one that was
# chosen, three times over with the arrays elsewhere in memory; what does not lead each time is not
# the winner. Everything that is measured goes into a record store, one line each.
#
# Symbolic dimensions need sizes to be measured at; every combination is tuned.

store = Path(tempfile.mkdtemp()) / "records.jsonl"


def tuned():
    return tvm_stitch.tune(
        model,
        target,
        database=store,
        trials=64 if has_gpu else 10,
        runner="local" if has_gpu else "simt",
        shapes={"rows": [64]},
        seed=0,
    )


tuning = tuned()
print(tuning)

# Ctrl-C is fine: the same call goes on where it stopped, for it takes from the store what it has
# measured already. Called again when it is done, it measures nothing:

again = tuned()
print("the same once more:", again.kernels == tuning.kernels)

# %%
# 4. Build with the records
# -------------------------
#
# compile, pipeline and explain take the store. A record counts for the same computation with the
# same shapes on the same GPU; explain says which kernels were tuned. A kernel of another shape
# takes the schedule of the nearest tuned one, and says so.

(kernel,) = tvm_stitch.explain(model, target, database=store).kernels
print("with records:", kernel.mapping)
print("origin:", kernel.origin)
executable = tvm_stitch.compile(model, target, database=store)
print("compiled:", type(executable).__name__)

# %%
# 5. The same from the command line
# ---------------------------------
#
# It takes a module as TVM saves it.

(store.parent / "model.json").write_text(tvm.ir.save_json(model))

#   tvm-stitch tune model.json --database records.jsonl --shapes "rows=64,4096"
#   tvm-stitch tune --list --database records.jsonl
#   tvm-stitch compile model.json -o model.so --database records.jsonl
#
# Stores from several machines go together with `tune --merge`; `tune --prune` keeps the best. To
# measure on the GPUs of a fleet, start TVM's tracker and a server on every machine, and tune with
# `--runner rpc` (see `tvm-stitch tune --help`):
#
#   python -m tvm.exec.rpc_tracker --port 9190
#   tvm-stitch tune --serve tracker:9190 --key h200 --bind 0.0.0.0
#
# A machine with several GPUs serves each of them with a command of its own, which sees only that
# one (CUDA_VISIBLE_DEVICES=1 tvm-stitch tune --serve ...).

print("records:", len(store.read_text().splitlines()))
