"""From a graph of dynamo's to functional graphs of core operators, by AOTAutograd.

Does what `torch._dynamo.backends.common.aot_autograd` does, which imports the whole of Inductor for
its log and takes a second of every process for that. Must not know who compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._dynamo import disable
from torch._dynamo.utils import counters, flatten_graph_inputs
from torch._functorch.aot_autograd import aot_module_simplified

from tvm_stitch.frontend.torch.decompositions import interpolations_left_whole

Compiler = Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]


def traced(
    graph: fx.GraphModule, inputs: Sequence[Any], *, bw_compiler: Compiler, **settings: Any
) -> Callable[..., Any]:
    """A graph as a callable whose functional graphs the given compilers compile.

    `settings` are AOTAutograd's, other compilers among them.
    """
    if any(isinstance(each, (list, tuple, dict)) for each in inputs):

        def of_flat(flat: fx.GraphModule, given: Sequence[Any]) -> Callable[..., Any]:
            return traced(flat, given, bw_compiler=bw_compiler, **settings)

        return flatten_graph_inputs(graph, inputs, of_flat)

    def backward(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        # Autograd asks for it in the midst of what dynamo may be tracing.
        compiled = disable(bw_compiler, reason="it compiles a backward graph")(graph, inputs)
        return disable(compiled, reason="it is a compiled backward graph")

    counters["aot_autograd"]["total"] += 1
    try:
        with interpolations_left_whole():
            function = aot_module_simplified(graph, inputs, bw_compiler=backward, **settings)
    except Exception:
        counters["aot_autograd"]["not_ok"] += 1
        raise
    counters["aot_autograd"]["ok"] += 1
    return disable(function, reason="it is a compiled graph")
