"""Fewer calls of TVM's virtual machine, each of which takes a tenth of a microsecond and more.

In: a module as the last of TVM's passes leave it (VMShapeLower). Out: the same with the checks of
constant shapes and dtypes, and of the GPU's size, in one host function, and without the calls that
change nothing: tuples that nobody reads, and letting go of what the result holds or what the end of
the function lets go of anyway. Kernels whose arguments have all been asked for by then are marked:
they need ask nothing. Must not know what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.graph.back.vm_calls.argument_checks import Demand, check_functions
from tvm_stitch.graph.back.vm_calls.packed_functions import free_name
from tvm_stitch.kernel.build import is_emitted
from tvm_stitch.kernel.codegen.prim_func import MULTIPROCESSORS_ATTRIBUTE
from tvm_stitch.stages.stage import Expr

CHECK_TENSOR = "vm.builtin.check_tensor_info"
MATCH_SHAPE = "vm.builtin.match_shape"
KILL = "relax.vm.kill_object"
ALLOCATE_TENSOR = "relax.vm.alloc_tensor"
# MatchShapeCode::kAssertEqualToImm of TVM's runtime.
EQUAL_TO_CONSTANT = 0
# Before the pairs of a code and a value in the arguments of match_shape.
VALUE, RANK, PAIRS = 0, 2, 3
UNKNOWN_NDIM = -1
# Arguments that one function checks: LLVM takes 2 s for a thousand so, 10 s if one checks them all.
CHECKED_AT_ONCE = 32

# Of a kernel: whoever calls it has asked for its arguments.
CHECKED_ATTRIBUTE = "tvm_stitch.arguments_are_checked"
RENAMING = (relax.Tuple, relax.TupleGetItem, relax.Var)
_WITHOUT_MEMORY = (relax.ShapeType, tvm.ir.PrimType)
_OF_RUNTIME = ("vm.builtin.", "runtime.")


def FewerCalls() -> tvm.transform.Pass:
    """Spare the virtual machine what it need not do; put it after VMShapeLower."""

    @tvm.transform.module_pass(opt_level=0, name="FewerCalls")
    def fewer_calls(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        mod = mod.clone()
        functions = mod.functions_items()
        kernels = {v: f for v, f in functions if isinstance(f, tirx.PrimFunc) and is_emitted(f)}
        callers = [(v, f) for v, f in functions if isinstance(f, relax.Function)]
        for_kernels = bool(kernels) and all(_is_asked_for_all(f) for _, f in callers)
        ask = partial(_rewritten, needed=_multiprocessors(mod), for_kernels=for_kernels)
        for var, function in callers:
            if _plain(function):
                rewritten, checks = ask(function, free_name(mod, f"{var.name_hint}_arguments"))
                mod.update_func(var, rewritten)
                for name, check in checks.items():
                    mod[tvm.ir.GlobalVar(name)] = check
        for var, kernel in kernels.items() if for_kernels else ():
            mod.update_func(var, kernel.with_attr(CHECKED_ATTRIBUTE, True))
        return mod

    return fewer_calls


def _plain(function: relax.Function) -> bool:
    """Whether it runs from its first binding to its last."""
    return all(
        isinstance(binding, relax.VarBinding) and not isinstance(binding.value, relax.If)
        for block in function.body.blocks
        for binding in block.bindings
    )


def _is_asked_for_all(function: relax.Function) -> bool:
    """Whether all is known of its tensors that a kernel must know.

    Of its parameters that is asked; of what functions return that are not the virtual machine's own
    it is not.
    """
    if not _plain(function):
        return False
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    if any(map(_returns_what_nobody_knows, bindings)):
        return False
    demands, _ = demands_and_others(function.params, bindings)
    tensors = [p for p in function.params if not isinstance(p.ty, _WITHOUT_MEMORY)]
    return all(p in demands and demands[p].ndim is not None for p in tensors)


def _returns_what_nobody_knows(binding: Any) -> bool:
    value = binding.value
    if not isinstance(value, relax.Call) or not isinstance(value.op, relax.ExternFunc):
        return False
    is_own = str(value.op.global_symbol).startswith(_OF_RUNTIME)
    kind = binding.var.ty
    fields = kind.fields if isinstance(kind, relax.TupleType) else [kind]
    return not is_own and any(isinstance(each, relax.TensorType) for each in fields)


def _rewritten(
    function: relax.Function, checker: str, needed: int, for_kernels: bool
) -> tuple[relax.Function, dict[str, tirx.PrimFunc]]:
    """The function with fewer calls, and what it calls instead, by name."""
    result = function.body.body
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    bindings = without_idle_kills(without_unread_tuples(bindings, result), result)
    demands, bindings = demands_and_others(function.params, bindings)
    checks: dict[str, tirx.PrimFunc] = {}
    asked = list(demands)
    for number, first in enumerate(range(0, len(asked), CHECKED_AT_ONCE)):
        some, name = asked[first : first + CHECKED_AT_ONCE], f"{checker}_{number}"
        own = [demands[parameter] for parameter in some]
        checks |= check_functions(name, own, 0 if number else needed, for_kernels)
        nothing = relax.TupleType([])
        call = relax.Call(relax.ExternFunc(name), some, ty_args=[nothing])
        bindings.insert(number, relax.VarBinding(relax.Var("checked", nothing), call))
    body = relax.SeqExpr([relax.BindingBlock(bindings)], result)
    attrs = function.attrs
    return relax.Function(function.params, body, function.ret_ty, function.is_pure, attrs), checks


def _multiprocessors(mod: tvm.IRModule) -> int:
    """How many the kernels of the module need whose blocks meet; 0 if they need none."""
    attrs = (function.attrs or {} for _, function in mod.functions_items())
    return max((int(each.get(MULTIPROCESSORS_ATTRIBUTE, 0)) for each in attrs), default=0)


def without_unread_tuples(bindings: list[Any], result: Expr) -> list[Any]:
    """The bindings without tuples, fields and second names that only kills look at."""
    read = set(relax.analysis.free_vars(result))
    unread, kept = set(), []
    for binding in reversed(bindings):
        if isinstance(binding.value, RENAMING) and binding.var not in read:
            unread.add(binding.var)
            continue
        if _callee(binding) != KILL:
            read.update(relax.analysis.free_vars(binding.value))
        kept.append(binding)
    return [b for b in reversed(kept) if not (_callee(b) == KILL and b.value.args[0] in unread)]


def without_idle_kills(bindings: list[Any], result: Expr) -> list[Any]:
    """The bindings without kills that free nothing that could be used again."""
    lasting = _lasting(bindings, result)
    allocates, kept = False, []
    for binding in reversed(bindings):
        callee = _callee(binding)
        if callee == KILL and (not allocates or binding.value.args[0] in lasting):
            continue
        allocates = allocates or callee not in (None, KILL, ALLOCATE_TENSOR)
        kept.append(binding)
    return kept[::-1]


def _lasting(bindings: list[Any], result: Expr) -> set[relax.Var]:
    """What the result keeps in memory: its fields, and the storage that they lie in."""
    lasting = set(relax.analysis.free_vars(result))
    for binding in reversed(bindings):
        if binding.var not in lasting:
            continue
        if _callee(binding) == ALLOCATE_TENSOR:
            lasting.add(binding.value.args[0])
        elif isinstance(binding.value, relax.Tuple | relax.Var):
            lasting.update(relax.analysis.free_vars(binding.value))
    return lasting


def demands_and_others(
    params: Sequence[relax.Var], bindings: list[Any]
) -> tuple[dict[relax.Var, Demand], list[Any]]:
    """What is asked of parameters in constants, and the bindings without those questions."""
    own = set(params)
    demands: dict[relax.Var, Demand] = {}
    others = []
    for binding in bindings:
        callee = _callee(binding)
        if callee == CHECK_TENSOR and (demand := _demand(own, *binding.value.args)):
            demands[binding.value.args[0]] = demand
        elif callee == MATCH_SHAPE and (shaped := _shaped(demands, binding.value.args)):
            demands[binding.value.args[0]] = shaped
        else:
            others.append(binding)
    return demands, others


def _demand(params: set[relax.Var], tensor: Expr, ndim: Expr, *rest: Expr) -> Demand | None:
    """What a check of a tensor asks for, if it is one of a parameter, dtype and all."""
    if tensor not in params or not isinstance(rest[0], tvm.ir.GenericConst):
        return None
    dtype, context = rest
    known = None if int(ndim) == UNKNOWN_NDIM else int(ndim)
    return Demand(str(context.value), known, str(dtype.value))


def _shaped(demands: dict[relax.Var, Demand], args: Sequence[Expr]) -> Demand | None:
    """The demand on a parameter with its shape, if that is constant."""
    demand = demands.get(args[VALUE])
    if demand is None or int(args[RANK]) != demand.ndim or str(args[-1].value) != demand.context:
        return None
    codes, extents = args[PAIRS:-1:2], args[PAIRS + 1 : -1 : 2]
    if any(int(code) != EQUAL_TO_CONSTANT for code in codes):
        return None
    return replace(demand, shape=tuple(int(extent) for extent in extents))


def _callee(binding: Any) -> str | None:
    """The operator, the builtin or the function that a binding calls; None if it calls nothing."""
    if not isinstance(binding.value, relax.Call):
        return None
    called = binding.value.op
    if isinstance(called, relax.ExternFunc):
        return str(called.global_symbol)
    return str(called.name if isinstance(called, tvm.ir.Op) else called.name_hint)
