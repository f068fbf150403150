"""CUDA graphs of compiled graphs: mode="reduce-overhead", by PyTorch's own trees of CUDA graphs.

In: a graph of AOTAutograd's and the function that it was compiled to. Out: a function that captures
and replays it, or why it cannot be captured. Must not know how the graph was compiled.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import fx

from tvm_stitch.stages.stage import Refused

Boxed = Callable[[list[Any]], Any]
BACKWARD, INFERENCE = "backward", "inference"
# Under this name PyTorch hands a thread's object on to those in which autograd works for it.
_CAPTURED = "tvm_stitch_captured"
_of_thread = threading.local()


@dataclass(frozen=True)
class Capture:
    """What PyTorch's trees must know of a graph, looked up before it is cut into parts."""

    kind: str
    static: Sequence[int]  # inputs that stay where they are: parameters, what forward kept
    device_index: int
    stack_traces: Any
    placeholders: Any
    mutated: Any

    def __call__(self, function: Boxed) -> Boxed:
        """The function, captured when it is first called for a thread, and then replayed."""

        def call(inputs: list[Any]) -> Any:
            captured = _captured()
            if call not in captured:
                captured[call] = self._captured(function, inputs)
            return captured[call](inputs)

        return call

    def _captured(self, function: Boxed, inputs: list[Any]) -> Boxed:
        from torch._inductor.cudagraph_trees import cudagraphify_impl, get_container

        try:
            get_container(self.device_index)
        except AssertionError:  # before 2.13 PyTorch has trees for its first thread alone
            return function
        with torch._dynamo.utils.preserve_rng_state():
            found: Boxed = cudagraphify_impl(
                function,
                inputs,
                self.static,
                device_index=self.device_index,
                is_backward=self.kind == BACKWARD,
                is_inference=self.kind == INFERENCE,
                stack_traces=self.stack_traces,
                placeholders=self.placeholders,
                mutated_input_idxs=self.mutated,
            )
        return found


def _captured() -> MutableMapping[Boxed, Boxed]:
    """What was captured for this thread: for the one that asked for gradients, in autograd's own.

    Autograd has one thread a GPU for all that ask; each of these has graphs and memory of its own.
    """
    if not hasattr(_of_thread, "captured"):
        if torch._C._is_key_in_tls(_CAPTURED):
            handed_on: MutableMapping[Boxed, Boxed] = torch._C._get_obj_in_tls(_CAPTURED)
            return handed_on
        _of_thread.captured = WeakKeyDictionary()
        _hand_on(_of_thread.captured)
    return _of_thread.captured  # type: ignore[no-any-return]


def _hand_on(captured: MutableMapping[Boxed, Boxed]) -> None:
    """Give it to the threads in which autograd will work for this one.

    PyTorch lets go of it when the thread has ended, and with it Python's state of the thread, where
    nothing of Python's can be freed: it gets a reference that is never given back. Before 2.13 it
    takes none of its own and gives one back all the same.
    """
    own = ctypes.py_object(captured)
    ctypes.pythonapi.Py_IncRef(own)
    held = sys.getrefcount(captured)
    torch._C._stash_obj_in_tls(_CAPTURED, captured)
    if sys.getrefcount(captured) == held:
        ctypes.pythonapi.Py_IncRef(own)


@dataclass
class CudaGraphs:
    """Captures for the forward and backward graphs of one graph of dynamo's."""

    inputs: int  # of dynamo's graph
    captured: int | None = field(default=None, init=False)  # the GPU of the forward graph
    refused: Refused | None = field(default=None, init=False)

    def capture(self, kind: str, graph: fx.GraphModule, inputs: Sequence[Any]) -> Capture | Refused:
        """How to capture a graph, or why it runs without."""
        if kind == BACKWARD and self.refused is not None:
            return self.refused
        found = _capture(kind, graph, inputs, self.inputs)
        if isinstance(found, Refused):
            self.refused = found
        elif kind != BACKWARD:
            self.captured = found.device_index
        return found

    def uncaptured(self, kind: str, function: Boxed) -> Boxed:
        """A function that is not captured, where its forward may have been."""
        if kind != BACKWARD or self.captured is None:
            return function
        from torch._inductor.cudagraph_trees import get_manager

        index = self.captured

        def call(inputs: list[Any]) -> Any:
            manager = get_manager(index, create_if_none_exists=False)
            if manager is not None:
                manager.set_to_running_backward()
            return function(inputs)

        return call


def _capture(
    kind: str, graph: fx.GraphModule, inputs: Sequence[Any], dynamo_inputs: int
) -> Capture | Refused:
    from torch._dynamo.backends import cudagraphs
    from torch._inductor.cudagraph_utils import get_placeholder_info
    from torch._inductor.utils import count_tangents, num_fw_fixed_arguments

    if kind == BACKWARD:
        static: Sequence[int] = range(count_tangents(graph))
    else:
        static = _static_inputs(num_fw_fixed_arguments(dynamo_inputs, len(inputs)))
    reason = cudagraphs.check_for_skip(graph, len(static))
    if reason is not None:
        return Refused(str(reason).removeprefix("skipping cudagraphs due to "))
    return Capture(
        kind,
        static,
        cudagraphs.get_device_index(graph),
        cudagraphs.get_stack_traces(graph),
        get_placeholder_info(graph.graph),
        cudagraphs.find_input_mutations(graph.graph),
    )


def _static_inputs(lifted: int) -> Sequence[int]:
    """Parameters and buffers, which dynamo hands over as inputs, and what AOTAutograd lifted."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return range(lifted)
    return tuple(context.fw_metadata.static_input_indices)


def forget() -> None:
    """Give back what was captured; `torch._dynamo.reset()` asks for it."""
    from torch._inductor.cudagraph_trees import reset_cudagraph_trees

    reset_cudagraph_trees()


__all__ = ["Capture", "CudaGraphs", "forget"]
