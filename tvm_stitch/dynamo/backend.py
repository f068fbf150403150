"""The backend of torch.compile: a graph of dynamo's becomes our parts and PyTorch's operators.

In: dynamo's graphs. Out: callables. AOTAutograd makes functional graphs of core operators, forward
and backward; each is split, and its parts are converted and compiled. What fails runs eagerly.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import tvm
from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx.graph import _BoxedCodeGen

from tvm_stitch.build import without_folding
from tvm_stitch.cache.once import in_time, made_of, store_for
from tvm_stitch.cache.store import Store
from tvm_stitch.cache.versions import versions
from tvm_stitch.device import device_of as gpu_of
from tvm_stitch.dump.folder import require_writable
from tvm_stitch.dynamo.autograd import traced
from tvm_stitch.dynamo.cuda_graphs import BACKWARD, INFERENCE, Boxed, CudaGraphs, forget
from tvm_stitch.dynamo.kept import (
    CompiledGraph,
    KeptGraph,
    can_be_kept,
    keeper,
    keeping,
    name_of_known,
)
from tvm_stitch.dynamo.machine import Machine, attention_of, target_of
from tvm_stitch.dynamo.machines import Known, Machines
from tvm_stitch.dynamo.part import Interface, Part, forward_of
from tvm_stitch.dynamo.report import GraphLog, Log, PartReport, said, shown
from tvm_stitch.dynamo.rewrites.in_order import (
    Divided,
    Division,
    copied,
    described,
    divided,
    rewrite_joint,
)
from tvm_stitch.dynamo.rewrites.untraced.attention_kernels import (
    attention_settings,
    cudnn_attention_first,
)
from tvm_stitch.dynamo.rewrites.untraced.in_order import rewrite_untraced
from tvm_stitch.dynamo.settings import CUDA, EXECUTOR, LLVM, Settings
from tvm_stitch.dynamo.support import (
    Libraries,
    Support,
    as_pytorch_asks,
    begin_libraries,
    tensors_of,
)
from tvm_stitch.errors import InputError
from tvm_stitch.executable import cuda
from tvm_stitch.frontend.torch import operator_name
from tvm_stitch.frontend.torch.decompositions import decompositions, training_decompositions
from tvm_stitch.library.shim import assumed
from tvm_stitch.plan.shared import shared_work
from tvm_stitch.report import Report, explain
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.apply import Records
from tvm_stitch.workarounds.few_collections import few_collections

_DEFAULT_MODES = (None, "default")
_REDUCE_OVERHEAD = "reduce-overhead"
# What a call of a model's becomes at least, once AOTAutograd has traced it.
OPERATORS_OF_A_CALL = 2
# TVM keeps state of the whole process while it builds and legalises functions. PyTorch compiles one
# graph at a time, but backward graphs in threads of autograd's.
_COMPILING = threading.RLock()


class TorchWarning(UserWarning):
    """Something runs as PyTorch's operators that could have been expected to be compiled."""


def tvm_stitch_backend(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What `torch.compile(model, backend="tvm_stitch")` calls for every graph."""
    settings = Settings.of(options)
    if mode == _REDUCE_OVERHEAD:
        settings = replace(settings, cuda_graphs=True)
    elif mode not in _DEFAULT_MODES:
        raise InputError(
            f"backend tvm_stitch has no mode {mode!r}: leave mode out, or see {_REDUCE_OVERHEAD!r}"
        )
    return GraphCompiler(settings)(graph, inputs)


tvm_stitch_backend.reset = forget  # type: ignore[attr-defined]


@dataclass
class GraphCompiler:
    """Compiles graphs by the same settings, and notes down what became of them.

    With `explained`, nothing is compiled: parts run as PyTorch's operators, and the log holds what
    stitching would make of them.
    """

    settings: Settings
    explained: bool = False
    log: Log = field(default_factory=Log)
    kernels: dict[Any, Report] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = as_pytorch_asks(self.settings)
        # A part that fails later on runs as PyTorch's operators.
        require_writable(self.settings.stitching)
        self._machines = Machines(self.settings, self._is_for_gpu)
        # Graphs that were divided ahead, by what they were before, and what is known of parts.
        self._expected: dict[str | None, tuple[Divided, dict[str, Known]]] = {}

    @property
    def machines(self) -> dict[Any, Machine]:
        """What runs the parts: layers of a model are equal, and each kind is compiled once."""
        return self._machines.found

    def __call__(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """A graph as dynamo gives it."""
        device = self._device(graph, inputs)
        if device is None:
            return graph.forward
        begin_libraries(self.settings)  # g++ works while AOTAutograd traces
        trains = torch.is_grad_enabled() and any(t.requires_grad for t in tensors_of(list(inputs)))
        rewrite_untraced(graph, trains and self.settings.stitching.tf32_products)
        captures = self.settings.cuda_graphs and device.type == CUDA and not self.explained
        graphs = CudaGraphs(len(inputs)) if captures else None
        compile_ = partial(self.compile_graph, device, graphs)
        store = None if captures else self._store()
        keeps = keeper if store is not None else lambda compiler: compiler
        trace = partial(
            cudnn_attention_first(graph.graph, device)(traced),
            graph,
            inputs,
            fw_compiler=keeps(partial(compile_, "forward")),
            bw_compiler=partial(compile_, BACKWARD),
            inference_compiler=keeps(partial(compile_, INFERENCE)),
            partition_fn=partial(self._partitioned, device),
            decompositions=training_decompositions() if trains else decompositions(),
            # A captured graph would have to own what it writes.
            keep_inference_input_mutations=graphs is None,
        )
        if store is not None:
            return self._kept(graph, device, store, trace)
        self._machines.expect(graph, OPERATORS_OF_A_CALL)
        return trace()

    def _store(self) -> Store | None:
        """Where compiled graphs are kept; None where they are not."""
        compiles = not self.explained and self.settings.device != EXECUTOR
        return store_for(self.settings.stitching) if compiles and can_be_kept() else None

    def _kept(
        self,
        graph: fx.GraphModule,
        device: torch.device,
        store: Store,
        trace: Callable[[], Callable[..., Any]],
    ) -> Callable[..., Any]:
        """What tracing and compiling make of a graph, or made of it in an earlier process."""
        target, database = target_of(self.settings, device), self.settings.database
        records = None if database is None else Records.open(database, gpu_of(target))
        compiled_by = self._compiled_by(target, records)
        compiled = len(self.log.graphs)
        taken_up: list[GraphLog] = []

        def take_up(kept: KeptGraph) -> Boxed | None:
            log = kept.log.called(self.log.name(kept.kind))
            taken_up.append(log)
            return kept.taken_up(store, partial(self._failed, log))

        known = name_of_known(graph, compiled_by)
        if store.file(known) is None:
            self._machines.expect(graph, OPERATORS_OF_A_CALL)
        with keeping(graph, compiled_by, store, take_up):
            function = trace()
        if len(self.log.graphs) == compiled:  # all of it was kept
            self.log.graphs.extend(taken_up)
            if records is not None:
                records.warn()
        else:
            store.write(known, b"")
        return function

    def _compiled_by(self, target: tvm.target.Target, records: Records | None) -> str:
        """All that a compiled graph depends on beside dynamo's graph and what PyTorch knows."""
        own = self.settings
        settings = own.device, own.smallest_part, own.largest_logits, attention_settings()
        libraries = self._libraries()
        asked = libraries.products, libraries.convolutions, libraries.attention
        known = [sorted(map(str, each)) for each in asked]
        with target:
            compiler = cuda.depends_on() if self.settings.device == CUDA else []
        with assumed():  # not to wait for g++ before AOTAutograd traces
            made = made_of(target, self.settings.stitching, records)
        return str([versions(), *settings, *known, *compiler, *made])

    def _device(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> torch.device | None:
        """Where the graph's tensors lie; None, and a note of where, if we compile nothing there."""
        values = [node.meta.get("example_value") for node in graph.graph.nodes]
        tensors = [*tensors_of(list(inputs)), *(t for value in values for t in tensors_of(value))]
        wanted = "" if self.explained else self.settings.device_type
        for tensor in tensors:
            if tensor.device.type == wanted or (not wanted and tensor.device.type != "meta"):
                return tensor.device
        found = ", ".join(sorted({tensor.device.type for tensor in tensors}))
        if not found:  # a graph of sizes alone, between two breaks
            return None
        self._warn(
            f"the model's tensors lie on {found}, and options={{'device': "
            f"{self.settings.device!r}}} compiles what lies on {wanted}: it runs eagerly. Move "
            "the model there, or see tvm_stitch.torch.compile for other devices"
        )
        return None

    def _partitioned(
        self, device: torch.device, joint: fx.GraphModule, *args: Any, **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """The forward and the backward graph of one that does both, whose tensors lie as in both.

        What forward keeps for backward lies as its graph says, so that layouts are chosen before.
        """
        self._machines.expect(joint)
        try:
            support, how = self._support(device, BACKWARD), self._division(device)
            self.log.notes.extend(rewrite_joint(joint, support, how))
        except Exception as error:  # it is right as it is
            self.log.notes.append(f"a graph stays as it was traced: {said(error)}")
        forward, backward = min_cut_rematerialization_partition(joint, *args, **kwargs)
        self._expect(device, backward)
        return forward, backward

    def compile_graph(
        self,
        device: torch.device,
        graphs: CudaGraphs | None,
        kind: str,
        graph: fx.GraphModule,
        inputs: Sequence[Any],
    ) -> Boxed:
        """A functional graph of AOTAutograd's as a boxed function."""
        self._machines.expect(graph)
        with _COMPILING, shared_work(), few_collections():
            if graphs is None:
                return self._compiled(device, kind, graph)
            capture = graphs.capture(kind, graph, inputs)
            function = self._compiled(device, kind, graph)
            if isinstance(capture, Refused):
                self.log.notes.append(f"no CUDA graph of the {kind} graph: {capture.reason}")
                return _boxed(graphs.uncaptured(kind, function))
            return _boxed(capture(function))

    def _compiled(self, device: torch.device, kind: str, graph: fx.GraphModule) -> Boxed:
        is_in_time, log = in_time(self.settings.stitching), self.log.begin(kind)
        may_be_expected = kind == BACKWARD and self._expected
        expected = self._expected.pop(described(graph), None) if may_be_expected else None
        found, known = expected or (self._divided(device, kind, graph), {})
        graph, over = found.graph, found.over
        log.left.update(found.left)
        log.notes.extend(found.notes)
        known = self._machines.lowered_together(found.parts, found.in_place, known)
        for name in found.parts:
            compiled = self._part(log, found, name, known.get(name))
            setattr(graph, name, compiled)
            if not isinstance(compiled, Part):
                over.pop(name, None)
        found.copies.append(graph, over)
        graph.graph.set_codegen(_BoxedCodeGen())
        graph.recompile()
        is_whole = is_in_time()

        def keep() -> KeptGraph | Refused:
            if not is_whole:
                return Refused("planning may have been cut short")
            return KeptGraph.of(kind, graph, log)

        return CompiledGraph(forward_of(graph), keep)

    def _divided(self, device: torch.device, kind: str, graph: fx.GraphModule) -> Divided:
        return divided(graph, kind, self._support(device, kind), self._division(device))

    def _division(self, device: torch.device) -> Division:
        is_stitched = self.settings.device != LLVM
        may_round = self.settings.stitching.tf32_products
        settings = self.settings.smallest_part, may_round, self.settings.largest_logits
        return Division(self._lays_out(device), is_stitched, *settings)

    def _expect(self, device: torch.device, graph: fx.GraphModule) -> None:
        """Have other processes lower what they can of a backward graph that is compiled later."""
        description = described(graph) if self._machines.have_idle_processes else None
        if description is None:
            return
        with _COMPILING, suppress(Exception):  # what fails fails again when it is compiled
            found = self._divided(device, BACKWARD, copied(graph))
            known = self._machines.lower_ahead(found.parts, found.in_place)
            self._expected[description] = found, known

    @property
    def _is_for_gpu(self) -> bool:
        return self.settings.device == CUDA and not self.explained

    def _support(self, device: torch.device, kind: str) -> Support:
        """What is ours of a graph."""
        libraries = replace(self._libraries(), trained=kind != INFERENCE)
        return Support(device, libraries, attention_of(self.settings, device))

    def _libraries(self) -> Libraries:
        # The libraries' shim may still be compiled: where that fails, the pipeline does without.
        with assumed():
            return Libraries.of(self.settings)

    def _lays_out(self, device: torch.device) -> bool:
        """Whether convolutions are faster with channels last, PyTorch's own or a part's."""
        return device.type == CUDA or bool(self._libraries().convolutions)

    def _part(
        self, log: GraphLog, found: Divided, name: str, known: Known | None
    ) -> torch.nn.Module:
        part, over = found.parts[name], found.over.get(name, {})
        operators = tuple(
            operator_name(node.target)
            for node in part.graph.nodes
            if node.op == "call_function" and operator_name(node.target) != "getitem"
        )
        try:
            with without_folding():
                known = known or Known.of(part, found.in_place.get(name, {}))
                return self._compiled_part(log, part, operators, over, known)
        except Exception as error:  # whatever fails here, PyTorch's operators do not
            failure = said(error)
            log.parts.append(PartReport(log.name, operators, failure))
            self._warn(f"a part of {shown(operators)} runs as PyTorch's operators: {failure}")
            return part

    def _compiled_part(
        self,
        log: GraphLog,
        part: fx.GraphModule,
        operators: tuple[str, ...],
        over: Mapping[int, int],
        known: Known,
    ) -> torch.nn.Module:
        converted = known.converted
        if self.explained:
            if known.key not in self.kernels:
                found = explain(converted.module, self.settings.target, self.settings.stitching)
                self.kernels[known.key] = found
            kernels, module = self.kernels[known.key], converted.module
            log.parts.append(PartReport(log.name, operators, kernels=kernels, module=module))
            return part
        machine = self._machines.of(known)
        log.parts.append(PartReport(log.name, operators))
        failed = partial(self._failed, log, len(log.parts) - 1)
        in_place = bool(known.results.over)
        interface = Interface.of(part.graph, converted, known.device, over, in_place)
        return Part(part, interface, machine, failed)

    def _failed(self, log: GraphLog, number: int, error: Exception) -> None:
        """A part was compiled, but cannot be run."""
        part = log.failed(number, said(error))
        self._warn(f"a part of {shown(part.operators)} runs as PyTorch's operators: {part.failure}")

    def _warn(self, message: str) -> None:
        self.log.notes.append(message)
        warnings.warn(message, TorchWarning, stacklevel=2)


def _boxed(function: Boxed) -> Boxed:
    """AOTAutograd's calling convention: the list of inputs is emptied as they are used up."""

    def call(inputs: list[Any]) -> Any:
        return function(inputs)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


__all__ = ["GraphCompiler", "TorchWarning", "tvm_stitch_backend"]
