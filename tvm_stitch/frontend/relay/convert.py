"""An ``ast.Module`` becomes a Relax module.

In: what the readers gave. Out: an IRModule with ``main`` and the functions it needs. Shapes and
dtypes are inferred by Relax alone; where the file recorded what Relay had inferred, the two are
compared, so that no operator is read with another meaning than it had.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import ast, fold, scopes
from tvm_stitch.frontend.relay.arrays import dtype_of
from tvm_stitch.frontend.relay.attributes import Attributes
from tvm_stitch.frontend.relay.call import OpCall, constant, describe, is_tensor, is_tuple
from tvm_stitch.frontend.relay.ops import OPERATORS, REFUSED

_ENTRY = "main"


def convert(module: ast.Module, params: dict[str, np.ndarray] | None = None) -> tvm.IRModule:
    """Convert a module; arrays in ``params`` take the place of the parameters of that name."""
    functions = _reachable(module)
    builder = relax.BlockBuilder()
    globals_: dict[str, Any] = {}
    try:
        for name in functions:
            function = module.functions[name]
            assert isinstance(function, ast.Function)
            bound = _bind(function, params or {}) if name == _ENTRY else {}
            private = not _is_public(name, module)
            globals_[name] = _Function(builder, name, function, globals_, bound, private).build()
    except RelayError as error:
        _abandon(builder)
        raise RelayError(f"{module.source}: {error}") from error.__cause__
    except RecursionError:
        _abandon(builder)
        raise RelayError(f"{module.source}: types or branches are nested too deep") from None
    mod = builder.finalize()
    for name in functions:
        if _is_public(name, module):
            mod = _named(mod, globals_[name], name)
    return _finish(mod, module, functions)


def _is_public(name: str, module: ast.Module) -> bool:
    """``main`` alone can be called from outside; where there is none, all functions."""
    return name == _ENTRY or _ENTRY not in module.functions


def _named(mod: tvm.IRModule, found: Any, name: str) -> tvm.IRModule:
    """The module with a function of that name: the builder merges equal functions into one."""
    if found.name_hint != name:
        mod[name] = mod[found].with_attr("global_symbol", name)
    return mod


def _abandon(builder: relax.BlockBuilder) -> None:
    """Close what is open, so that TVM has nothing to warn of."""
    with suppress(Exception):
        while True:
            builder._end_block()


def _finish(mod: tvm.IRModule, module: ast.Module, functions: list[str]) -> tvm.IRModule:
    passes = []
    if any(_has_branch(module.functions[name]) for name in functions):
        passes.append(relax.transform.ConvertToDataflow(min_size=1))
    # What only served to compute shapes is of no use any more.
    public = [name for name in functions if _is_public(name, module)]
    passes.append(relax.transform.DeadCodeElimination(public))
    return tvm.transform.Sequential(passes)(mod)


def _has_branch(root: ast.Expr) -> bool:
    seen, stack = {root}, [root]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If):
            return True
        fresh = [child for child in ast.children(node) if child not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return False


def _calls(root: ast.Expr) -> Iterator[tuple[str, str]]:
    """The global functions an expression calls, and where."""
    seen, stack = {root}, [root]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and isinstance(node.callee, ast.Global):
            yield node.callee.name, node.where
        fresh = [child for child in ast.children(node) if child not in seen]
        seen.update(fresh)
        stack.extend(reversed(fresh))


def _reachable(module: ast.Module) -> list[str]:
    """The functions that ``main`` needs (all, where there is no main), callees first."""
    roots = [_ENTRY] if _ENTRY in module.functions else list(module.functions)
    done: list[str] = []
    is_open: list[str] = []
    stack: list[tuple[str, Iterator[tuple[str, str]]]] = []

    def enter(name: str, where: str) -> None:
        function = module.functions.get(name)
        if function is None:
            raise RelayError(f"{module.source}, {where}: there is no function @{name}")
        if isinstance(function, ast.Unsupported):
            raise RelayError(f"{module.source}: @{name}: {function.what}")
        if not isinstance(function, ast.Function):
            raise RelayError(f"{module.source}: @{name} is not a function")
        is_open.append(name)
        stack.append((name, _calls(function.body)))

    for root in roots:
        if root not in done:
            enter(root, "")
        while stack:
            name, calls = stack[-1]
            for callee, where in calls:
                if callee in is_open:
                    cycle = " → ".join(f"@{n}" for n in [*is_open[is_open.index(callee) :], callee])
                    raise RelayError(
                        f"{module.source}, {where}: recursion ({cycle}) has no Relax counterpart "
                        "here; unroll it before saving"
                    )
                if callee not in done:
                    enter(callee, where)
                    break
            else:
                stack.pop()
                is_open.pop()
                done.append(name)
    return done


def _bind(function: ast.Function, params: dict[str, np.ndarray]) -> dict[ast.Var, np.ndarray]:
    """The parameters of ``main`` that have values, checked against their types."""
    if not params:
        return {}
    bound = {}
    for var in function.params:
        if var.name not in params:
            continue
        array = params[var.name]
        declared = var.type
        if isinstance(declared, ast.TensorType):
            fits = len(declared.shape) == array.ndim and all(
                want in (None, have) for want, have in zip(declared.shape, array.shape, strict=True)
            )
            if not fits or dtype_of(declared.dtype) != array.dtype:
                raise RelayError(
                    f"parameter {var.name} is a {array.dtype} array of shape {list(array.shape)}; "
                    f"the module declares {declared}"
                )
        bound[var] = array
    if not bound:
        wanted = ", ".join(var.name for var in function.params[:8]) or "none"
        raise RelayError(
            f"none of the {len(params)} given parameters ({', '.join(list(params)[:4])}, ...) is "
            f"one of main's ({wanted}); are they another model's?"
        )
    return bound


class _Function:
    """One function on its way."""

    def __init__(
        self,
        builder: relax.BlockBuilder,
        name: str,
        function: ast.Function,
        globals_: dict[str, Any],
        bound: dict[ast.Var, np.ndarray],
        private: bool,
    ) -> None:
        self.builder = builder
        self.name = name
        self.function = function
        self.globals = globals_
        self.private = private
        self.values: dict[ast.Expr, Any] = {var: constant(a) for var, a in bound.items()}
        self.known: dict[ast.Expr, np.ndarray] = {var: array for var, array in bound.items()}
        self.order = scopes.order(function)

    def build(self) -> Any:
        """Emit the function; its global variable."""
        params = [self.parameter(v) for v in self.function.params if v not in self.values]
        with self.builder.function(self.name, params, private=self.private):
            if self.order.branches:
                self.emit_block(self.order.body)
                result = self.checked(self.value(self.function.body))
            else:
                with self.builder.dataflow():
                    self.emit_block(self.order.body)
                    value = self.checked(self.value(self.function.body))
                    result = self.builder.emit_output(value)
            return self.builder.emit_func_output(result)

    def parameter(self, var: ast.Var) -> Any:
        with _located(f"@{self.name}, parameter %{var.name}", var.where):
            if var.type is None:
                raise RelayError("its type is not written; run relay's InferType before saving")
            parameter = relax.Var(var.name or "arg", self.relax_type(var.type, var.name))
        self.values[var] = parameter
        return parameter

    def relax_type(self, declared: ast.Type, name: str) -> Any:
        if isinstance(declared, ast.TupleType):
            return relax.TupleType([self.relax_type(item, name) for item in declared.fields])
        if not isinstance(declared, ast.TensorType):
            raise RelayError(f"type {declared} has no Relax counterpart")
        if dtype_of(declared.dtype) is None:
            raise RelayError(f"dtype {declared.dtype} is unknown")
        shape = [
            tirx.Var(f"{name}_{i}", "int64") if dim is None else dim
            for i, dim in enumerate(declared.shape)
        ]
        return relax.TensorType(shape, str(np.dtype(dtype_of(declared.dtype))))

    def value(self, node: ast.Expr) -> Any:
        return self.values[self.order.resolve(node)]

    def emit_block(self, block: scopes.Block) -> None:
        for node in block.nodes:
            if node not in self.values:
                self.values[node] = self.emit(node)

    def emit(self, node: ast.Expr) -> Any:
        if isinstance(node, ast.Call):
            return self.emit_call(node)
        if isinstance(node, ast.Constant):
            self.known[node] = node.value
            return constant(node.value)
        if isinstance(node, ast.Tuple):
            return relax.Tuple([self.value(item) for item in node.fields])
        if isinstance(node, ast.Field):
            return self.emit_field(node)
        if isinstance(node, ast.If):
            return self.emit_if(node)
        where = f" ({place})" if (place := getattr(node, "where", "")) else ""
        if isinstance(node, ast.Unsupported):
            raise RelayError(f"in @{self.name}{where}: {node.what}")
        if isinstance(node, ast.Var):
            raise RelayError(f"in @{self.name}{where}: variable %{node.name} is not bound")
        raise RelayError(
            f"in @{self.name}{where}: a function or an operator is used as a value, which has no "
            "Relax counterpart; only calls are read"
        )

    def emit_field(self, node: ast.Field) -> Any:
        value = self.value(node.value)
        with _located(f"@{self.name}, field .{node.index}", node.where):
            if not is_tuple(value):
                raise RelayError(f"a tuple is needed here, not {describe(value)}")
            fields = value.fields if isinstance(value, relax.Tuple) else value.ty.fields
            if node.index >= len(fields):
                raise RelayError(f"the tuple has {len(fields)} fields only")
            source = self.order.resolve(node.value)
            if isinstance(value, relax.Tuple):
                if isinstance(source, ast.Tuple):
                    inner = self.order.resolve(source.fields[node.index])
                    if inner in self.known:
                        self.known[node] = self.known[inner]
                return fields[node.index]
            return self.builder.emit(relax.TupleGetItem(value, node.index))

    def emit_if(self, node: ast.If) -> Any:
        condition = self.value(node.condition)
        with _located(f"@{self.name}, if", node.where):
            if not is_tensor(condition) or condition.ty.ndim != 0 or condition.ty.dtype != "bool":
                raise RelayError(f"the condition must be a bool scalar, not {describe(condition)}")
        blocks = self.order.branches[node]
        parts = []
        for block, root in zip(blocks, (node.then, node.otherwise), strict=True):
            self.builder._begin_binding_block()
            self.emit_block(block)
            result = self.builder.emit(self.value(root))
            parts.append(relax.SeqExpr([self.builder._end_block()], result))
        with _located(f"@{self.name}, if", node.where):
            return self.builder.emit(relax.If(condition, *parts))

    def emit_call(self, node: ast.Call) -> Any:
        args = [self.value(arg) for arg in node.args]
        callee = node.callee
        if isinstance(callee, ast.Global):
            with _located(f"@{self.name}, call of @{callee.name}", node.where):
                return self.builder.emit(relax.Call(self.globals[callee.name], args))
        if not isinstance(callee, ast.Operator):
            where = f" ({node.where})" if node.where else ""
            what = callee.what if isinstance(callee, ast.Unsupported) else "the callee is computed"
            raise RelayError(f"in @{self.name}{where}: {what}; this call has no Relax counterpart")
        with _located(f"@{self.name}, {callee.name}", node.where):
            return self.emit_operator(callee.name, node, args)

    def emit_operator(self, name: str, node: ast.Call, args: list[Any]) -> Any:
        function = OPERATORS.get(name)
        if function is None:
            raise RelayError(REFUSED.get(name) or _unknown(name))
        known = [self.known_value(name, node, arg) for arg in node.args]
        attrs = Attributes(node.attrs)
        call = OpCall(name, args, attrs, known, self.builder)
        result = function(call)
        attrs.finish()
        if not isinstance(result, relax.Tuple) and not isinstance(result, relax.Var):
            result = self.builder.emit(result)
        _compare(node.type, result)
        folded = fold.value_of(name, call)
        if folded is not None:
            self.known[node] = folded
        return result

    def known_value(self, name: str, call: ast.Call, arg: ast.Expr) -> np.ndarray | None:
        node = self.order.resolve(arg)
        if isinstance(node, ast.Tuple) and not name.startswith("nn."):
            fields = [self.known.get(self.order.resolve(field)) for field in node.fields]
            axis = call.attrs.get("axis", 0) if name == "concatenate" else None
            return fold.join(axis, fields)
        return self.known.get(node)

    def checked(self, value: Any) -> Any:
        with _located(f"@{self.name}, its result", self.function.where):
            _compare(self.function.result_type, value)
        return value


def _unknown(name: str) -> str:
    near = get_close_matches(name, [*OPERATORS, *REFUSED], n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return f"operator {name} is not one of Relay's{hint}"


@contextmanager
def _located(what: str, where: str) -> Iterator[None]:
    """Errors from inside are told with their place; TVM's with its reason alone."""
    place = f"{what} ({where})" if where else what
    try:
        yield
    except RelayError as error:
        raise RelayError(f"in {place}: {error}") from error.__cause__
    except RecursionError:
        raise
    except Exception as error:
        raise RelayError(f"in {place}: TVM refuses it: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """The sentence in TVM's message that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    useful = [line for line in lines if not line.startswith(("File ", "Stack trace", "[bt]"))]
    return (useful[-1] if useful else type(error).__name__)[:400]


def _compare(recorded: ast.Type | None, value: Any) -> None:
    """Refuse a result whose type is not the one that Relay recorded."""
    if recorded is None or isinstance(recorded, ast.OtherType):
        return
    if not _agrees(recorded, value):
        raise RelayError(
            f"the file says that the result is {recorded}, but it is {describe(value)}"
        )


def _agrees(recorded: ast.Type, value: Any) -> bool:
    kind = value if not hasattr(value, "ty") else value.ty
    if isinstance(recorded, ast.TupleType):
        fields = getattr(kind, "fields", None)
        return (
            fields is not None
            and len(fields) == len(recorded.fields)
            and all(
                _agrees(want, have)
                for want, have in zip(recorded.fields, fields, strict=True)
                if not isinstance(want, ast.OtherType)
            )
        )
    if not isinstance(recorded, ast.TensorType) or not isinstance(kind, relax.TensorType):
        return isinstance(recorded, ast.OtherType)
    if dtype_of(recorded.dtype) != dtype_of(str(kind.dtype)) or kind.ndim != len(recorded.shape):
        return False
    if kind.shape is None:
        return True
    return all(
        want is None or not isinstance(have, tirx.IntImm) or want == int(have)
        for want, have in zip(recorded.shape, kind.shape, strict=True)
    )
