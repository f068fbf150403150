"""Libraries of ready kernels: QuACK and Liger, for the cases they have a kernel for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from bench.case import Workload
from bench.lazy import Lazy
from bench.systems.base import Gpu, Prepared, installed
from bench.systems.pytorch import prepare_callable

Kernel = Callable[..., Any]


class Library:
    """Ready kernels by the name a case gives them."""

    optional = False

    def __init__(
        self,
        name: str,
        title: str,
        package: str,
        remedy: str,
        kernels: Callable[[], dict[str, Kernel]],
        names: tuple[str, ...],
    ) -> None:
        self.name, self.title = name, title
        self._package, self._remedy, self._kernels = package, remedy, kernels
        self._names = names

    def missing(self) -> str | None:
        """The package."""
        return installed(self._package, self._remedy)

    def supports(self, workload: Workload) -> str | None:
        """Only workloads that name one of the library's kernels."""
        return None if workload.kernel in self._names else "no such kernel in the library"

    def prepare(self, workload: Workload, inputs: tuple[torch.Tensor, ...], gpu: Gpu) -> Prepared:
        """The kernel, compiled by its first call."""
        start = time.perf_counter()
        kernel = self._kernels()[workload.kernel or ""]
        return prepare_callable(kernel, inputs, start)


def _quack() -> dict[str, Kernel]:
    norms = Lazy("quack.rmsnorm")
    wide: dict[int, torch.Tensor] = {}

    def widened(vector: torch.Tensor) -> torch.Tensor:
        # QuACK's layer norm wants float32 weights; converting them is no part of the kernel.
        if vector.data_ptr() not in wide:
            wide[vector.data_ptr()] = vector.float()
        return wide[vector.data_ptr()]

    def layer_norm(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        return norms.layernorm_fwd(x, widened(gamma), widened(beta), eps=1e-5)

    return {
        "softmax": Lazy("quack.softmax").softmax_fwd,
        "rms_norm": lambda x, weight: norms.rmsnorm_fwd(x, weight, eps=1e-6)[0],
        "layer_norm": layer_norm,
        "cross_entropy": Lazy("quack.cross_entropy").cross_entropy_fwd,
    }


def _liger() -> dict[str, Kernel]:
    softmax = Lazy("liger_kernel.ops.softmax").LigerSoftmaxFunction
    rms_norm = Lazy("liger_kernel.ops.rms_norm").LigerRMSNormFunction
    layer_norm = Lazy("liger_kernel.ops.layer_norm").LigerLayerNormFunction
    return {
        "softmax": softmax.apply,
        "rms_norm": lambda x, w: rms_norm.apply(x, w, 1e-6, 0.0, "llama", False),
        "layer_norm": lambda x, gamma, beta: layer_norm.apply(x, gamma, beta, 1e-5),
    }


def systems() -> list[Any]:
    """Both libraries. Liger's cross entropy overwrites its input with a gradient: left out."""
    norms = ("softmax", "rms_norm", "layer_norm")
    return [
        Library(
            "quack",
            "QuACK",
            "quack",
            "pip install quack-kernels",
            _quack,
            (*norms, "cross_entropy"),
        ),
        Library("liger", "Liger", "liger_kernel", "pip install liger-kernel", _liger, norms),
    ]
