"""PyTorch: eager, and torch.compile in two modes."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from bench.case import Workload, as_list
from bench.systems.base import Gpu, Prepared, installed

# What torch.compile can do for reductions and for many tensors, and does not by itself.
REDUCTIONS = ("combo_kernels", "triton.cooperative_reductions", "triton.mix_order_reduction")


def prepare_callable(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], start: float
) -> Prepared:
    """A PyTorch callable, its first call done: that is when compilers of this kind compile."""
    with torch.no_grad():
        function(*inputs)
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start

    def call() -> Any:
        with torch.no_grad():
            return function(*inputs)

    return Prepared(
        call=call,
        outputs=as_list,
        wait=lambda result: None,
        compile_s=seconds,
        capture=contextlib.nullcontext,
    )


class Eager:
    """PyTorch without a compiler, TF32 off."""

    name, title, optional = "eager", "PyTorch eager", False

    def missing(self) -> str | None:
        """PyTorch is what the program itself runs on."""
        return None

    def supports(self, workload: Workload) -> str | None:
        """Every workload."""
        return None

    def prepare(self, workload: Workload, inputs: tuple[torch.Tensor, ...], gpu: Gpu) -> Prepared:
        """The case's function as it is."""
        allow_tf32(False)  # float32 products in float32, as every system here computes them
        return prepare_callable(workload.function, inputs, time.perf_counter())


class Inductor:
    """torch.compile, by default, with mode="max-autotune-no-cudagraphs", or with other settings.

    CUDA graphs are measured apart, for every system in the same way.
    """

    def __init__(
        self,
        name: str,
        title: str,
        mode: str | None,
        optional: bool,
        settings: tuple[str, ...] = (),
    ) -> None:
        self.name, self.title, self.mode, self.optional = name, title, mode, optional
        self._settings = settings

    def missing(self) -> str | None:
        """torch.compile needs Triton on a GPU."""
        return installed("triton", "it comes with PyTorch's CUDA wheels")

    def supports(self, workload: Workload) -> str | None:
        """Every workload."""
        return None

    def prepare(self, workload: Workload, inputs: tuple[torch.Tensor, ...], gpu: Gpu) -> Prepared:
        """Compiled for exactly these shapes."""
        allow_tf32(False)  # float32 products in float32, as every system here computes them
        start = time.perf_counter()
        with warnings.catch_warnings():
            # Advice to use TF32, which would compare different arithmetic.
            warnings.simplefilter("ignore")
            compiled = torch.compile(
                workload.module(),
                fullgraph=True,
                dynamic=False,
                mode=self.mode,
                options=self._options(),
            )
            return prepare_callable(compiled, inputs, start)

    def _options(self) -> dict[str, Any] | None:
        """Its settings turned on, those that this version of PyTorch has."""
        known = torch._inductor.list_options() if self._settings else []
        return {name: True for name in self._settings if name in known} or None


def allow_tf32(allowed: bool) -> None:
    """Whether factors of float32 may be rounded to TF32, of products and of convolutions."""
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def systems() -> list[Any]:
    """Eager, and torch.compile in three ways."""
    return [
        Eager(),
        Inductor("inductor", "torch.compile", None, optional=False),
        Inductor(
            "inductor-max",
            "torch.compile, max-autotune",
            "max-autotune-no-cudagraphs",
            optional=True,
        ),
        Inductor(
            "inductor-reductions",
            "torch.compile, reductions",
            None,
            optional=True,
            settings=REDUCTIONS,
        ),
    ]
