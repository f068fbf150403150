"""A training loop
===============

A training loop, forward, backward and optimizer compiled.

Run it with `python tutorials/7_a_training_loop.py`. It needs PyTorch (`pip install
'tvm-stitch[torch]'`). Without a GPU, the kernels that a GPU would run are executed on the CPU.
"""

import copy

import torch
from torch import nn

import tvm_stitch
from tvm_stitch.torch import GraphCompiler, Settings

on_gpu = torch.cuda.is_available()
place = "cuda" if on_gpu else "cpu"
width, rows, steps = (1024, 4096, 20) if on_gpu else (16, 8, 5)

# %%
# 1. A model, a loss, some data
# -----------------------------


class Block(nn.Module):
    """What a Transformer has between its attentions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))


torch.manual_seed(0)
model = nn.Sequential(Block(), Block(), nn.Linear(width, 1)).to(place)
x, y = torch.randn(rows, width, device=place), torch.randn(rows, 1, device=place)

# %%
# 2. The loop
# -----------
#
# It is the one that everybody writes. The model is compiled, and with it its gradients: AOTAutograd
# makes a forward and a backward graph, and decides what the forward one keeps for the other. The
# optimizer's step is a function like any other; all its updates become few kernels.


def losses(model: nn.Module, compile_) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=on_gpu)
    forward, update = compile_(model), compile_(optimizer.step)
    found = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(forward(x), y)
        loss.backward()
        update()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


# %%
# 3. Compiled
# -----------
#
# torch.compile(model, backend="tvm_stitch") does it. A compiler of one's own keeps a log besides.

settings = Settings() if on_gpu else Settings(device="cpu-executor", target="sm_90")
compiler = GraphCompiler(settings)

eager = losses(copy.deepcopy(model), lambda function: function)
ours = losses(copy.deepcopy(model), lambda function: torch.compile(function, backend=compiler))
for number, (of_eager, of_ours) in enumerate(zip(eager, ours, strict=True)):
    print(f"step {number:2}: loss {of_eager:.6f} eager, {of_ours:.6f} compiled")
torch.testing.assert_close(torch.tensor(ours), torch.tensor(eager), rtol=1e-4, atol=1e-5)
assert ours[-1] < ours[0]

# %%
# 4. What was compiled
# --------------------

report = compiler.log.report()
print("graphs:", ", ".join(report.graphs))
for part in report.parts:
    print(f"{part.graph:11} part of {len(part.operators):3} operators, stitched: {part.stitched}")

# %%
# 5. Half precision
# -----------------
#
# Under autocast products are computed in bfloat16, and become ours; what is around them is
# computed in float32 and rounded once.

torch._dynamo.reset()
with torch.autocast(place, torch.bfloat16):
    mixed = tvm_stitch.torch.explain(model, x, target=settings.target)
print("under autocast:", str(mixed).splitlines()[0])
