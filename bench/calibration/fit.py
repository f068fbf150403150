"""Constants of the cost model from measured kernels: least squares on the logarithm of the time.

In: Samples with times. Out: a Device whose fitted constants are replaced. Needs no GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.calibration.samples import Sample
from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.profile import Profile
from tvm_stitch.kernel.codegen.footprint import Footprint
from tvm_stitch.kernel.cost_model.kernel_model import kernel_cost
from tvm_stitch.kernel.ir.read_mapping import mapping_from
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.plan.search.dlight_baseline import default_footprint

ROUNDS = 60
# Residuals beyond this count by their size, not by its square: some kernels are odd.
ODD = 0.3
# Constants that the kernels say little about stay near where they started, which is physical.
PULL = 0.3


@dataclass(frozen=True)
class Measured:
    """A stitched kernel as the model sees it, and its time."""

    sample: Sample
    profiles: tuple[Profile, ...]
    schedule: Schedule
    footprint: Footprint
    us: float


def own(samples: Sequence[Sample]) -> list[Measured]:
    """The samples of TVM's own kernels, on the mappings that its rules give."""
    found = []
    for sample in samples:
        if sample.schedule is None and sample.us is not None and sample.work is not None:
            profile = Profile.from_dict(sample.work["profile"])
            mapping = mapping_from(sample.work["mapping"])
            schedule, needed = Schedule((mapping,)), default_footprint(mapping)
            found.append(Measured(sample, (profile,), schedule, needed, sample.us))
    return found


def stitched(samples: Sequence[Sample]) -> list[Measured]:
    """The samples of stitched kernels."""
    found = []
    for sample in samples:
        if sample.schedule is None or sample.us is None or sample.work is None:
            continue
        profiles = tuple(map(Profile.from_dict, sample.work["profiles"]))
        needed = Footprint(**sample.work["footprint"])
        parts = tuple(map(mapping_from, sample.schedule["parts"]))
        found.append(Measured(sample, profiles, Schedule(parts), needed, sample.us))
    return found


def predictions(kernels: Sequence[Measured], device: Device) -> np.ndarray:
    """What the model says of each, in microseconds."""
    return np.array([kernel_cost(k.profiles, k.schedule, k.footprint, device).us for k in kernels])


def fit(kernels: Sequence[Measured], device: Device, names: Sequence[str]) -> Device:
    """The device with the named constants fitted; all are positive and move by factors."""
    target = np.log([kernel.us for kernel in kernels])

    def with_constants(logs: np.ndarray) -> Device:
        values = dict(zip(names, np.exp(logs).tolist(), strict=True))
        return replace(device, timing=replace(device.timing, **values))

    start = np.log([getattr(device.timing, name) for name in names])

    def residuals(logs: np.ndarray) -> np.ndarray:
        found = np.log(predictions(kernels, with_constants(logs))) - target
        return np.concatenate([found, PULL * (logs - start)])

    return with_constants(levenberg_marquardt(residuals, start))


def levenberg_marquardt(
    residuals: Callable[[np.ndarray], np.ndarray], start: np.ndarray
) -> np.ndarray:
    """The smallest sum of squares that is found from a start, odd residuals bounded."""
    at, damping = start, 1e-2
    now = residuals(at)
    for _ in range(ROUNDS):
        weights = np.sqrt(np.minimum(1.0, ODD / np.maximum(np.abs(now), 1e-9)))
        jacobian = np.stack([(residuals(at + d) - now) / 1e-4 for d in np.eye(len(at)) * 1e-4], 1)
        jacobian *= weights[:, None]
        normal, gradient = jacobian.T @ jacobian, jacobian.T @ (weights * now)
        for _ in range(8):
            scaled = normal + damping * (np.diag(np.diag(normal)) + 1e-6 * np.eye(len(at)))
            step = np.clip(-np.linalg.solve(scaled, gradient), -0.5, 0.5)
            then = residuals(at + step)
            if _loss(then) < _loss(now):
                break
            damping *= 4
        else:
            return at
        gain = 1 - _loss(then) / _loss(now)
        at, now, damping = at + step, then, damping / 4
        if gain < 1e-5:
            return at
    return at


def _loss(residuals: np.ndarray) -> float:
    sizes = np.abs(residuals)
    return float(np.where(sizes < ODD, sizes**2 / 2, ODD * (sizes - ODD / 2)).sum())


def spearman(left: np.ndarray, right: np.ndarray) -> float:
    """Rank correlation."""
    first, second = (np.argsort(np.argsort(values)) for values in (left, right))
    return float(np.corrcoef(first, second)[0, 1])


def median_error(predicted: np.ndarray, measured: np.ndarray) -> float:
    """Median of |predicted / measured - 1|."""
    return float(np.median(np.abs(predicted / measured - 1)))
