"""A thread-bound PrimFunc in, CUDA source and launch parameters out, by TVM's own lowering.

The host half of the lowered function says which kernels are launched with what: `HostProgram` is
that half as data, to be evaluated for the shapes of the arrays at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.build import tir_to_runtime

from tvm_stitch.errors import InputError, SimtError, last_line
from tvm_stitch.simt.launch import Launch
from tvm_stitch.workarounds.aligned_vectors import lowered

_STITCHED = "tvm_stitch."  # begins the attributes of kernels that this package wrote
_FLAGS = ("tirx.use_cooperative_launch", "tirx.use_programtic_dependent_launch")
_DEFAULT_TARGET = {"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024,
                   "max_shared_memory_per_block": 49152, "thread_warp_size": 32}  # fmt: skip


@dataclass(frozen=True)
class KernelCall:
    """One launch the host makes: arguments and extents are TIR expressions."""

    kernel: str
    parameters: tuple[str, ...]
    arguments: tuple[Any, ...]
    extents: Mapping[str, Any]
    cooperative: bool

    def launch(self, scope: Scope) -> Launch:
        """Grid, block, cluster and shared memory for the shapes in scope."""
        shared = self.extents.get("tirx.use_dyn_shared_memory")
        return Launch.of(
            self._extents("block", scope),
            self._extents("thread", scope),
            scope.number(shared) if shared is not None else 0,
            self.cooperative,
            self._extents("clusterCta", scope),
        )

    def is_empty(self, scope: Scope) -> bool:
        """Whether the grid has no blocks."""
        return 0 in self._extents("block", scope)

    def _extents(self, prefix: str, scope: Scope) -> tuple[int, ...]:
        return tuple(
            scope.number(self.extents[f"{prefix}Idx.{axis}"])
            if f"{prefix}Idx.{axis}" in self.extents
            else 1
            for axis in "xyz"
        )


@dataclass(frozen=True)
class HostProgram:
    """A lowered PrimFunc: its parameters, its CUDA source and what its host half does."""

    name: str
    parameters: tuple[Any, ...]
    cuda: str
    body: Any
    devices: Mapping[str, Any]

    def kernel_parameters(self) -> dict[str, tuple[str, ...]]:
        """Which kernels are launched, and the parameters of each."""
        calls = _calls(self.body, self.devices, Scope({}), evaluate=False)
        return {call.kernel: call.parameters for call in calls}

    def calls(self, scope: Scope) -> Iterator[KernelCall]:
        """The launches for the arrays in scope, in order, each while the scope holds its values."""
        return _calls(self.body, self.devices, scope, evaluate=True)


class Scope:
    """The values of a call: arrays by buffer, numbers by variable."""

    def __init__(self, values: Mapping[Any, object]) -> None:
        self._arrays: dict[Any, np.ndarray] = {}
        self._numbers: dict[Any, int | float] = {}
        self._analyzer = tvm.sym.Analyzer()
        for parameter, value in values.items():
            self.bind(parameter, value)

    def bind(self, variable: Any, value: object) -> None:
        """Gives a parameter its array or number; an array's shape gives symbolic extents."""
        if isinstance(value, np.ndarray):
            self._arrays[variable] = value
            self._bind_shape(variable, value)
        else:
            assert isinstance(value, (int, float, np.number, np.bool_))
            self._numbers[variable] = value.item() if isinstance(value, np.generic) else value

    def _bind_shape(self, variable: Any, array: np.ndarray) -> None:
        shape = list(variable.ty.shape)
        if len(shape) != array.ndim:
            raise InputError(
                f"{variable.name} has {len(shape)} dimensions, its array has {array.ndim}"
            )
        for extent, actual in zip(shape, array.shape, strict=True):
            if isinstance(extent, tirx.Var) and extent not in self._numbers:
                self._numbers[extent] = actual
        offset = getattr(variable.ty, "elem_offset", None)
        if isinstance(offset, tirx.Var):
            self._numbers[offset] = 0
        for axis, (extent, actual) in enumerate(zip(shape, array.shape, strict=True)):
            expected = self.known(extent)
            if expected is not None and expected != actual:
                raise InputError(
                    f"{variable.name} has extent {expected} in dimension {axis}, "
                    f"its array has {actual}"
                )

    def known(self, expression: Any) -> int | float | None:
        """The value of an expression of shapes, or None while a variable of it has none."""
        if isinstance(expression, int):
            return expression
        numbers = self._numbers

        def replace(variable: Any) -> Any:
            value = numbers.get(variable)
            return variable if value is None else tirx.const(value, variable.ty.dtype)

        bound = tvm_ffi.structural_map(expression, (tirx.Var, replace))
        simplified = self._analyzer.simplify(bound)
        if isinstance(simplified, tirx.FloatImm):
            return float(simplified.value)
        return int(simplified.value) if isinstance(simplified, tirx.IntImm) else None

    def number(self, expression: Any) -> int:
        """The value of an integer expression."""
        value = self.known(expression)
        if not isinstance(value, int):
            raise SimtError(f"the launch depends on {expression}, which no array's shape gives")
        return value

    def argument(self, expression: Any) -> object:
        """The array or number a kernel is given."""
        if isinstance(expression, tvm.ir.Call) and expression.args:  # a buffer's data
            return self._arrays[expression.args[0]]
        if isinstance(expression, tirx.Var) and expression in self._numbers:
            return self._numbers[expression]
        value = self.known(expression)
        return value if isinstance(value, float) else self.number(expression)

    def allocate(self, buffer: Any) -> None:
        """A workspace between kernels; poisoned, because a device's would hold anything."""
        shape = [self.number(extent) for extent in buffer.ty.shape]
        dtype = str(buffer.ty.dtype)
        array = np.empty(shape, np.uint16 if dtype == "bfloat16" else dtype)
        array.reshape(-1).view(np.uint8)[...] = 0xFF
        self._arrays[buffer] = array

    def alias(self, buffer: Any, data: Any) -> None:
        """Another name for a buffer's memory."""
        if isinstance(data, tvm.ir.Call) and data.args and data.args[0] in self._arrays:
            self._arrays[buffer] = self._arrays[data.args[0]]


def lower(function: tirx.PrimFunc, target: Any = None, name: str = "main") -> HostProgram:
    """TVM's default lowering and CUDA code generation of one PrimFunc."""
    attributes = function.attrs or {}
    name = str(attributes.get("global_symbol", name))
    function = function.with_attr("global_symbol", name)
    capture = _Capture()
    chosen = _target(target, attributes)
    context = tvm.transform.PassContext.current()
    try:
        with tvm.transform.PassContext(
            opt_level=context.opt_level, config=dict(context.config), instruments=[capture]
        ):
            stitched = {name for key in dict(attributes) if key.startswith(_STITCHED)}
            host, host_mod, devices = lowered(tvm.IRModule({name: function}), chosen, stitched)
            built = tir_to_runtime(host_mod, devices, host)
    except Exception as error:
        raise SimtError(
            f"TVM could not lower {name} to CUDA: {last_line(error)}; it has to be thread-bound "
            "and build for a CUDA target by tvm.tirx.build"
        ) from error
    try:
        cuda = cuda_source(built)
    except InputError:
        raise InputError(f"{name} launches no kernel; its loops have to be thread-bound") from None
    functions = {gv.name_hint: f for gv, f in capture.module.functions.items()}
    host = functions.pop(name)
    return HostProgram(name, tuple(host.params), cuda, host.body, functions)


def cuda_source(module: Any) -> str:
    """The CUDA source held by a runtime module or an executable."""
    sources, waiting = [], [getattr(module, "mod", module)]
    while waiting:
        current = waiting.pop(0)
        if getattr(current, "kind", None) == "cuda":
            sources.append(current.inspect_source())
        waiting += list(getattr(current, "imports", ()))
    if not sources:
        raise InputError("the module holds no CUDA source; build it for a CUDA target")
    return "\n".join(sources)


@tvm.instrument.pass_instrument
class _Capture:
    """Keeps the module as it is when host and device have been separated."""

    module: Any = None

    def run_after_pass(self, module: Any, info: Any) -> None:
        if info.name == "tirx.SplitHostDevice":
            self.module = module


def _target(target: Any, attributes: Mapping[str, Any]) -> Any:
    chosen = target or attributes.get("target") or tvm.target.Target.current(allow_none=True)
    if chosen is None:
        chosen = _DEFAULT_TARGET
    chosen = tvm.target.Target(chosen)
    if chosen.kind.name != "cuda":
        raise InputError(f"the CPU executor runs CUDA kernels; the target is {chosen.kind.name}")
    # The host half is read, never run: C is what TVM writes soonest.
    return tvm.target.Target(chosen, host="c")


def _calls(
    statement: Any, devices: Mapping[str, Any], scope: Scope, evaluate: bool
) -> Iterator[KernelCall]:
    """The kernel launches of a host statement; `evaluate` also gives its variables values."""
    if isinstance(statement, tirx.SeqStmt):
        for each in statement.seq:
            yield from _calls(each, devices, scope, evaluate)
        return
    if isinstance(statement, tirx.Evaluate):
        yield from _call(statement.value, devices)
    elif isinstance(statement, tirx.IfThenElse):
        for branch in _branches(statement, scope, evaluate):
            yield from _calls(branch, devices, scope, evaluate)
    elif isinstance(statement, tirx.For):
        for number in _numbers(statement, scope) if evaluate else range(1):
            scope.bind(statement.loop_var, number)
            yield from _calls(statement.body, devices, scope, evaluate)
    else:
        if evaluate:
            _execute(statement, scope)
        body = getattr(statement, "body", None)
        if body is not None:
            yield from _calls(body, devices, scope, evaluate)


def _branches(statement: tirx.IfThenElse, scope: Scope, evaluate: bool) -> list[Any]:
    """The branch that is taken; both where nothing is known."""
    branches = [statement.then_case, statement.else_case]
    if evaluate:
        taken = scope.number(_plain(statement.condition))
        branches = branches[:1] if taken else branches[1:]
    return [branch for branch in branches if branch is not None]


def _numbers(loop: tirx.For, scope: Scope) -> range:
    first = scope.number(loop.min)
    return range(first, first + scope.number(loop.extent))


def _execute(statement: Any, scope: Scope) -> None:
    """What a statement of the host does beside launching kernels."""
    if isinstance(statement, tirx.Bind):
        value = scope.known(statement.value)
        if value is not None:
            scope.bind(statement.var, value)
    elif isinstance(statement, tirx.DeclBuffer):
        scope.alias(statement.buffer, statement.data)
    elif isinstance(statement, tirx.AllocBuffer):
        scope.allocate(statement.buffer)
    elif isinstance(statement, tirx.AssertStmt) and scope.known(statement.condition) == 0:
        words = "".join(str(part.value) for part in statement.message_parts)
        raise InputError(f"{statement.error_kind.value}: {words}")


def _plain(condition: Any) -> Any:
    """A condition without TVM's note that all threads agree on it."""
    noted = getattr(getattr(condition, "op", None), "name", "") == "tirx.tvm_thread_invariant"
    return condition.args[0] if noted else condition


def _call(value: Any, devices: Mapping[str, Any]) -> list[KernelCall]:
    if not isinstance(value, tvm.ir.Call) or getattr(value.op, "name", "") != (
        "tirx.call_ffi_kernel"
    ):
        return []
    kernel = str(value.args[0].value)
    parameters = tuple(p.name for p in devices[kernel].params)
    tags = [str(tag) for tag in value.attrs.launch_params]
    arguments = tuple(value.args[1 : 1 + len(parameters)])
    valued = [tag for tag in tags if tag not in _FLAGS]
    extents = dict(zip(valued, value.args[1 + len(parameters) :], strict=True))
    return [KernelCall(kernel, parameters, arguments, extents, _FLAGS[0] in tags)]
