"""The float64 reference and the error of a result against it.

In: a workload, its inputs, what a system returned. Out: one number, the largest elementwise error
relative to |reference| + RMS(reference), infinite where a result is missing or not finite. An
output that cancels to nothing beside the others, as the gradient of a key's bias does, is judged by
a small share of the largest RMS instead: its own is rounding.
"""

from __future__ import annotations

import math

import torch

from bench.case import Workload, as_list

# Elements of the widest input per slice of a row-wise reference: 512 MiB of float64.
SLICE = 2**26
# Of the largest RMS among a case's outputs: the least scale of an error, some float32 roundings.
LEAST_SCALE = 1e-5


def double(tensor: torch.Tensor) -> torch.Tensor:
    """Floats as float64, other arrays as they are."""
    return tensor.double() if tensor.is_floating_point() else tensor


def error(
    workload: Workload, inputs: tuple[torch.Tensor, ...], outputs: list[torch.Tensor]
) -> float:
    """The largest error of any element of any output."""
    with torch.no_grad():
        if not workload.rowwise:
            return largest_error(_reference(workload, inputs), outputs)
        rows = inputs[workload.rowwise[0]].shape[0]
        if any(o.dim() == 0 or o.shape[0] != rows for o in outputs):
            return math.inf
        width = max(inputs[i].numel() // rows for i in workload.rowwise)
        step = max(1, SLICE // width)
        worst = 0.0
        for start in range(0, rows, step):
            part = slice(start, min(start + step, rows))
            sliced = tuple(x[part] if i in workload.rowwise else x for i, x in enumerate(inputs))
            found = largest_error(_reference(workload, sliced), [o[part] for o in outputs])
            worst = max(worst, found)
        return worst


def _reference(workload: Workload, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return as_list(workload.function(*map(double, inputs)))


def largest_error(references: list[torch.Tensor], outputs: list[torch.Tensor]) -> float:
    """The largest error of any element; infinite where outputs are missing or not finite."""
    if len(references) != len(outputs):
        return math.inf
    least = LEAST_SCALE * max((_rms(reference) for reference in references), default=0.0)
    return max(
        _one_error(reference, output, least)
        for reference, output in zip(references, outputs, strict=True)
    )


def _rms(reference: torch.Tensor) -> float:
    return reference.double().square().mean().sqrt().item() if reference.numel() else 0.0


def _one_error(reference: torch.Tensor, output: torch.Tensor, least: float) -> float:
    if reference.shape != output.shape:
        return math.inf
    if reference.numel() == 0:
        return 0.0
    difference = (output.double() - reference).abs_()
    rms = max(_rms(reference), least)
    scale = reference.double().abs().add_(rms).clamp_(min=1e-30)
    worst = difference.div_(scale).max().item()
    return worst if math.isfinite(worst) else math.inf
