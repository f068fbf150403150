"""Compiled graphs for later processes: what they save is tracing, converting and all compiling.

PyTorch's cache of AOTAutograd tells whether a graph of dynamo's was met before, and keeps what goes
around compiled graphs; the graphs themselves are in our Store, and their kernels are already. What
went into our part of the work is an attribute of dynamo's graph, and so of PyTorch's key. Must not
know how graphs are compiled.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import fx
from torch._functorch import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd import autograd_cache
from torch._inductor.output_code import OutputCode  # where AOTAutograd imports it from as well
from torch.fx.graph_module import _format_import_block
from torch.package import sys_importer

from tvm_stitch.cache.store import Store
from tvm_stitch.dynamo.cuda_graphs import Boxed
from tvm_stitch.dynamo.machine import KeptMachine, Machine
from tvm_stitch.dynamo.part import Interface, Part
from tvm_stitch.dynamo.report import GraphLog
from tvm_stitch.stages.stage import Refused

KIND, KNOWN_KIND = "graphs", "known-graphs"
# The attribute of a graph of dynamo's that says what it is compiled by.
_COMPILED_BY = "_tvm_stitch_compiled_by"
# Constants of a graph may have so many bytes together.
_MOST_CONSTANTS = 1 << 20
# Before, that cache holds nothing but what Inductor compiled.
_FIRST_RELEASE = (2, 11)
# What takes up a kept graph; None if it cannot.
TakeUp = Callable[["KeptGraph"], Boxed | None]
# Those of the call of torch.compile that is at work.
_at_work: ContextVar[tuple[Store, TakeUp]] = ContextVar("at_work")


def can_be_kept() -> bool:
    """Whether this release of PyTorch keeps graphs of others than Inductor, and is allowed to."""
    release = tuple(int(number) for number in torch.__version__.split(".")[:2])
    return release >= _FIRST_RELEASE and autograd_cache.should_use_local_autograd_cache()


@contextmanager
def keeping(
    graph: fx.GraphModule,
    compiled_by: str,
    store: Store,
    take_up: TakeUp,
) -> Iterator[None]:
    """AOTAutograd takes up what was kept of a graph, or keeps what compilers now make of it.

    The backward graph is compiled at once: both are kept together.
    """
    setattr(graph, _COMPILED_BY, compiled_by)
    token = _at_work.set((store, take_up))
    # Graphs are in PyTorch's entry, not in a cache of Inductor's.
    settings = {"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}
    try:
        with functorch_config.patch(settings):
            yield
    finally:
        _at_work.reset(token)


def name_of_known(graph: fx.GraphModule, compiled_by: str) -> str:
    """What a store has, empty, of a graph that some process has compiled: it may be kept.

    Whether it is AOTAutograd alone knows, once it looks, and says nothing if it is not.
    """
    text = f"{compiled_by}\n{graph.code}"
    return f"{KNOWN_KIND}/{hashlib.sha256(text.encode()).hexdigest()}"


def keeper(compiler: Callable[..., Any]) -> Any:
    """A compiler of AOTAutograd's that makes CompiledGraphs, known as that."""
    return aot_autograd.SerializableAOTDispatchCompiler(CompiledGraph, compiler)


class CompiledGraph(OutputCode):
    """A graph as a boxed function, which PyTorch's cache may keep."""

    def __init__(self, function: Boxed, keep: Callable[[], KeptGraph | Refused]) -> None:
        super().__init__()
        self._boxed_call = True
        self._function: Boxed | None = function
        self._keep: Callable[[], KeptGraph | Refused] | None = keep
        self._name = ""  # in the store

    def __call__(self, inputs: Any) -> Any:
        """Computes; the list of inputs is emptied as they are used up."""
        assert self._function is not None, "post_compile comes before"
        return self._function(inputs)

    def prepare_for_serialization(self) -> None:
        """Become what is pickled: the name of what the store has from now on."""
        assert self._keep is not None
        kept = self._keep()
        if isinstance(kept, Refused):
            raise autograd_cache.BypassAOTAutogradCache(kept.reason)
        data = pickle.dumps(kept)
        self._name = f"{KIND}/{hashlib.sha256(data).hexdigest()}"
        store, _take_up = _at_work.get()
        if store.file(self._name) is None:
            store.write(self._name, data)
        self._function = self._keep = None

    def post_compile(self, *_given: Any, **_named: Any) -> None:
        """Become a function again, in a later process."""
        if self._function is not None:
            return
        store, take_up = _at_work.get()
        data = store.read(self._name)
        if data is not None:
            self._function = take_up(pickle.loads(data))
        if self._function is None:  # by then the store had no room for all
            raise autograd_cache.FXGraphCacheMiss

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There are no kernels of Triton's."""


@dataclass(frozen=True)
class Code:
    """A graph as the Python that FX wrote, with the tensors that it has as attributes."""

    text: str
    constants: dict[str, torch.Tensor]

    @staticmethod
    def of(graph: fx.GraphModule) -> Code | Refused:
        """Refused if its constants are many, or no tensors."""
        names = [str(node.target) for node in graph.graph.find_nodes(op="get_attr")]
        constants: dict[str, Any] = {name: getattr(graph, name, None) for name in names}
        if not all(type(each) is torch.Tensor for each in constants.values()):
            return Refused("it has attributes that are no tensors")
        if sum(each.nbytes for each in constants.values()) > _MOST_CONSTANTS:
            return Refused("its constants are large")
        written = graph.graph.python_code(root_module="self")
        return Code(_format_import_block(written.globals, sys_importer) + written.src, constants)

    def function(self, modules: Mapping[str, Any] | None = None) -> Callable[..., Any]:
        """It as a function; modules are what it calls as its own."""
        names: dict[str, Any] = {}
        exec(compile(self.text, "<a kept graph>", "exec"), names)
        return partial(names["forward"], SimpleNamespace(**self.constants, **(modules or {})))

    def function_later(self) -> Callable[..., Any]:
        """It as a function, which is compiled if it is called."""
        made = cache(self.function)
        return lambda *given: made()(*given)


@dataclass(frozen=True)
class KeptPart:
    """One of our parts of a graph; equal ones have one machine."""

    eager: Code
    interface: Interface
    machine: KeptMachine


@dataclass(frozen=True)
class KeptGraph:
    """A compiled graph as data, with what was noted down of it.

    parts: by the names that the code has for them, in the order of the log's.
    """

    kind: str
    code: Code
    parts: dict[str, KeptPart]
    log: GraphLog

    @staticmethod
    def of(kind: str, graph: fx.GraphModule, log: GraphLog) -> KeptGraph | Refused:
        """Refused if something of it has to be compiled in every process."""
        parts = {}
        for name, module in graph.named_children():
            part = _kept_part(module)
            if isinstance(part, Refused):
                return part
            parts[name] = part
        code = Code.of(graph)
        if isinstance(code, Refused):
            return code
        return KeptGraph(kind, code, parts, log)

    def taken_up(self, store: Store, failed: Callable[[int, Exception], None]) -> Boxed | None:
        """The graph as a function; None if a kernel is no longer there.

        `failed` hears of parts that cannot be run, by number.
        """
        machines: dict[int, Machine] = {}
        parts = {}
        for number, (name, part) in enumerate(self.parts.items()):
            machine = machines.get(id(part.machine)) or part.machine.machine(store)
            if machine is None:
                return None
            machines[id(part.machine)] = machine
            eager = part.eager.function_later()
            parts[name] = Part(eager, part.interface, machine, partial(failed, number))
        return self.code.function(parts)


def _kept_part(part: torch.nn.Module) -> KeptPart | Refused:
    if not isinstance(part, Part) or not isinstance(part.eager, fx.GraphModule):
        return Refused("a part of it runs as PyTorch's operators")
    machine = getattr(part.machine, "kept", None)
    if machine is None:
        return Refused("a part of it is compiled in every process")
    eager = Code.of(part.eager)
    return eager if isinstance(eager, Refused) else KeptPart(eager, part.interface, machine)
