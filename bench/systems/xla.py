"""XLA through JAX."""

from __future__ import annotations

import time
from typing import Any

import torch

from bench.case import Workload, as_list
from bench.lazy import jax, jnp
from bench.systems.base import Gpu, Prepared, installed


def to_jax(tensor: torch.Tensor) -> Any:
    """The tensor as a JAX array on the same device; 64-bit indices become 32-bit ones."""
    if tensor.dtype == torch.int64:
        tensor = tensor.int()
    return jnp.from_dlpack(tensor.detach())


def to_torch(array: Any) -> torch.Tensor:
    """The JAX array as a tensor on the same device."""
    return torch.from_dlpack(array)


class Xla:
    """`jax.jit` of the case's JAX function, float32 products in full precision."""

    name, title = "xla", "XLA (JAX)"
    optional = False

    def missing(self) -> str | None:
        """Why the system cannot run here, if so."""
        reason = installed("jax", "pip install 'jax[cuda13]'")
        if reason is None and not any(d.platform == "gpu" for d in jax.devices()):
            reason = "JAX sees no GPU (it is installed without its CUDA plugin?)"
        return reason

    def supports(self, workload: Workload) -> str | None:
        """Why the workload is not for this system, if so."""
        return None

    def prepare(self, workload: Workload, inputs: tuple[torch.Tensor, ...], gpu: Gpu) -> Prepared:
        """Compiled ahead of time for the inputs' shapes."""
        jax.config.update("jax_default_matmul_precision", "highest")
        arguments = [to_jax(x) for x in inputs]
        start = time.perf_counter()
        # XLA tries candidates on the GPU while it compiles, so the GPU stays held.
        compiled = jax.jit(workload.jax).lower(*arguments).compile()
        seconds = time.perf_counter() - start
        return Prepared(
            call=lambda: compiled(*arguments),
            outputs=lambda result: [to_torch(o) for o in as_list(result)],
            wait=lambda result: jax.block_until_ready(result),
            compile_s=seconds,
        )
