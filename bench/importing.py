"""From a workload to Relax: the one way every TVM system gets the same module.

In: a workload and its inputs. Out: an IRModule whose "main" takes the inputs in order and returns
a tuple of the outputs.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from bench.case import Workload


def exported(workload: Workload, inputs: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    """The workload as torch.export sees it; gradients are traced away before."""
    module = workload.module()
    with warnings.catch_warnings():
        # Notes on PyTorch's own deprecations and on constants, nothing a user could act on.
        warnings.simplefilter("ignore")
        with torch.no_grad():
            if workload.differentiates:
                module = traced(workload, inputs)
            return torch.export.export(module, inputs)


def traced(workload: Workload, inputs: tuple[torch.Tensor, ...]) -> torch.fx.GraphModule:
    """The workload as a graph of core operators, its gradients taken."""
    from torch._decomp import core_aten_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(workload.function, decomposition_table=core_aten_decompositions())(*inputs)


def to_relax(workload: Workload, inputs: tuple[torch.Tensor, ...]) -> Any:
    """The workload as a Relax module."""
    from tvm.relax.frontend.torch import from_exported_program

    # The importer warns of every operator it approximates; its errors are exceptions.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_exported_program(
            exported(workload, inputs), custom_convert_map={"amax.default": _amax}
        )


def _amax(node: Any, importer: Any) -> Any:
    """amax, which the importer lacks: a maximum without the positions."""
    from tvm import relax

    axes = list(node.args[1]) if len(node.args) > 1 and node.args[1] else None
    keep = node.args[2] if len(node.args) > 2 else False
    return importer.block_builder.emit(
        relax.op.max(importer.env[node.args[0]], axes, keepdims=keep)
    )
