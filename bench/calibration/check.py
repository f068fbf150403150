"""How good the cost model is on measured kernels: tables and a plot.

In: Samples with times, a Device. Out: a Quality for each kind of kernel. Needs no GPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.calibration.fit import Measured, median_error, predictions, spearman
from bench.calibration.samples import CASE, Sample
from tvm_stitch.device import Device


@dataclass(frozen=True)
class Quality:
    """How predictions compare with measurements, over kernels of one kind."""

    kernels: int
    spearman: float
    median_error: float
    worst_tenth: float  # the error that nine of ten kernels stay below
    bias: float  # geometric mean of predicted over measured


def quality(predicted: np.ndarray, measured: np.ndarray) -> Quality:
    """Of predictions, in microseconds as the measurements."""
    ratio = predicted / measured
    return Quality(
        len(measured),
        spearman(predicted, measured),
        median_error(predicted, measured),
        float(np.percentile(np.abs(ratio - 1), 90)),
        float(np.exp(np.mean(np.log(ratio)))),
    )


def by_kind(kernels: Sequence[Measured], device: Device) -> dict[str, Quality]:
    """All kernels, then by origin: chosen or not, the bench's cases, the generated families."""
    groups: dict[str, list[Measured]] = defaultdict(list)
    for kernel in kernels:
        for kind in _kinds(kernel.sample):
            groups[kind].append(kernel)
    return {
        name: quality(predictions(found, device), np.array([k.us for k in found]))
        for name, found in groups.items()
    }


def _kinds(sample: Sample) -> list[str]:
    kinds = ["all"]
    if sample.schedule is not None:
        kinds.append("chosen" if sample.chosen else "other schedules")
    if sample.graph.startswith(CASE):
        return [*kinds, "cases of the bench"]
    return [*kinds, "generated", sample.graph.rsplit("-", 1)[0]]


def regret(kernels: Sequence[Measured], device: Device) -> list[float]:
    """For every function with several schedules: the time of the schedule that the model likes
    best over the time of the best, less one."""
    functions: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for kernel in kernels:
        functions[kernel.sample.graph, kernel.sample.function].append(kernel)
    found = []
    for each in functions.values():
        if len(each) > 1:
            liked = each[int(np.argmin(predictions(each, device)))]
            found.append(liked.us / min(kernel.us for kernel in each) - 1)
    return found


def table(found: dict[str, Quality]) -> str:
    """Qualities as Markdown."""
    lines = [
        "| kernels | number | Spearman | median error | 9 of 10 below | bias |",
        "|---|---|---|---|---|---|",
    ]
    for name, q in found.items():
        lines.append(
            f"| {name} | {q.kernels} | {q.spearman:.3f} | {q.median_error:.1%} | "
            f"{q.worst_tenth:.0%} | {q.bias:.2f} |"
        )
    return "\n".join(lines)


def worst(kernels: Sequence[Measured], device: Device, count: int) -> str:
    """The kernels that the model knows least about, one a line."""
    predicted = predictions(kernels, device)
    ratios = [p / kernel.us for p, kernel in zip(predicted, kernels, strict=True)]
    order = sorted(range(len(kernels)), key=lambda n: -abs(np.log(ratios[n])))[:count]
    return "\n".join(
        f"{ratios[n]:5.2f}  {kernels[n].us:9.2f} us  {kernels[n].sample.graph} "
        f"{kernels[n].schedule.mapping}"
        for n in order
    )


def plot(stitched: Sequence[Measured], own: Sequence[Measured], device: Device, path: Path) -> None:
    """Predicted against measured; a perfect model is the diagonal."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 5.6), layout="constrained")
    kinds = {
        "tvm_stitch, schedules not chosen": [k for k in stitched if not k.sample.chosen],
        "tvm_stitch, chosen schedules": [k for k in stitched if k.sample.chosen],
        "TVM's default kernels": list(own),
    }
    for (name, kernels), colour in zip(
        kinds.items(), ("#9ecae1", "#08519c", "#d95f0e"), strict=True
    ):
        if kernels:
            measured = [kernel.us for kernel in kernels]
            axes.scatter(measured, predictions(kernels, device), s=7, c=colour, label=name, lw=0)
    limits = [1, 1.3 * max(kernel.us for kernel in (*stitched, *own))]
    axes.plot(limits, limits, "k-", lw=0.8)
    axes.fill_between(limits, [0.85 * x for x in limits], [1.15 * x for x in limits],
                      color="k", alpha=0.08, lw=0, label="15 %")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="measured, µs", ylabel="predicted, µs",
             title=f"Cost model, {device.name}")  # fmt: skip
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=140)
    pyplot.close(figure)
