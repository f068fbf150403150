"""How a kernel's body becomes a function: what runs on how many threads, and what TVM must know.

In: statements of a kernel or of the host. Out: a PrimFunc. Must not know what is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tvm_ffi
from tvm import s_tir, tirx
from tvm.script import tirx as T
from tvm.tirx import IterVar

from tvm_stitch.kernel.codegen.hazard_check import RESIDENT
from tvm_stitch.kernel.codegen.placed_loads import with_likely_loads_first
from tvm_stitch.stages.stage import Expr, Var, constant, dtype_of, substitute

# Scalars that a kernel of TVM's is launched with.
_ARGUMENTS = ("int32", "uint32", "int64", "float32", "float64")
# TVM's, for kernels with a barrier of the whole grid.
LAUNCH_ATTRIBUTE = "tirx.kernel_launch_params"
COOPERATIVE = "tirx.use_cooperative_launch"
# Whether no two tensors of a kernel are in the same memory.
NO_ALIAS_ATTRIBUTE = "tirx.noalias"
# Pairs of parameters, as JSON: the second may take the memory of the first.
IN_PLACE_ATTRIBUTE = "tvm_stitch.in_place"
_CUDA_VARIABLES = ("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize")
# The kernel's last parameter is a buffer that callers must provide and nobody reads afterwards.
WORKSPACE_ATTRIBUTE = "tvm_stitch.workspace"
# Its blocks wait for each other, and are all there at once on no fewer multiprocessors than this.
MULTIPROCESSORS_ATTRIBUTE = "tvm_stitch.multiprocessors"


def signature(buffers: Iterable[Var]) -> tirx.PrimFunc:
    """A function of buffers that does nothing, for a kernel of which there is none yet."""
    return tirx.PrimFunc(list(dict.fromkeys(buffers)), tirx.Evaluate(0))


def kernel_function(
    func: tirx.PrimFunc,
    body: tirx.Stmt,
    shared: Sequence[Var] = (),
    workspaces: Sequence[Var] = (),
) -> tirx.PrimFunc:
    """A function with the parameters of another one, and workspaces, that is scheduled.

    Through those that are `shared` its blocks wait for each other.
    """
    # TVM's passes over scheduled functions look for a root block.
    root = s_tir.SBlock([], [], [], "root", with_likely_loads_first(body))
    realized = s_tir.SBlockRealize([], tirx.const(True, "bool"), root)
    params = [*func.params, *shared, *workspaces]
    emitted = _with_names_apart(tirx.PrimFunc(params, realized, func.ret_type))
    emitted = with_plain_arguments(emitted)
    for key, value in (func.attrs or {}).items():
        emitted = emitted.with_attr(key, value)
    if shared:
        emitted = emitted.with_attr(LAUNCH_ATTRIBUTE, [COOPERATIVE])
    if shared or workspaces:
        emitted = emitted.with_attr(WORKSPACE_ATTRIBUTE, True)
    return emitted.with_attrs({NO_ALIAS_ATTRIBUTE: True, "tirx.is_scheduled": True, "s_tir": True})


def with_plain_arguments(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with nothing to compute on the host that no CUDA kernel of TVM takes.

    TVM's elimination of common subexpressions computes what depends on extents alone before the
    launch, and passes it on; of a half or a byte, the launch then fails. It leaves calls alone.
    """
    symbols = {
        var
        for param in func.params
        for extent in getattr(param.ty, "shape", (param,))
        for var in tirx.analysis.undefined_vars(extent)
    }

    def visit(cast: tirx.Cast) -> Expr:
        dtype, value = dtype_of(cast), cast.value
        needs = tirx.analysis.undefined_vars(value)
        if dtype in _ARGUMENTS or not needs or not symbols.issuperset(needs):
            return cast
        if "float" in dtype:
            return tirx.trunc(value.astype("float32")).astype(dtype)
        return T.reinterpret("uint64", value.astype("int64")).astype(dtype)

    body = tvm_ffi.structural_map(func.body, (tirx.Cast, visit))
    return tirx.PrimFunc(func.params, body, func.ret_type, func.attrs)


def _with_names_apart(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Every parameter with a name of its own: the CUDA source tells them apart by nothing else.

    TVM keeps names apart from C's keywords, but not from CUDA's variables, which symbolic
    dimensions may be called like; importers call some of them by numbers.
    """
    taken: set[str] = set(_CUDA_VARIABLES)
    mapping = {
        var: tirx.Var(f"size_{var.name}", var.ty)
        for param in func.params
        for extent in getattr(param.ty, "shape", ())
        for var in tirx.analysis.undefined_vars(extent)
        if var.name in taken or not var.name.isidentifier()
    }
    for param in func.params:
        number, name = 1, param.name
        while name in taken:
            name, number = f"{param.name}_{number}", number + 1
        taken.add(name)
        ty = tvm_ffi.structural_map(param.ty, (tirx.Var, lambda var: mapping.get(var, var)))
        if name != param.name or not ty.same_as(param.ty):
            mapping.setdefault(param, tirx.Var(name, ty))
    params = [mapping.get(param, param) for param in func.params]
    return tirx.PrimFunc(params, substitute(func.body, mapping), func.ret_type)


def on_threads(body: tirx.Stmt, thread: Var, threads: int, resident: int = 0) -> tirx.Stmt:
    """Statements of every thread of a block, of which a multiprocessor must hold so many."""
    # Loops stay loops in the source, for the CUDA compiler to unroll: TVM would write them out.
    body = tirx.AttrStmt(0, "pragma_unroll_explicit", tirx.const(False, "bool"), body)
    if resident:
        # The CUDA compiler takes as many registers as leave room for that many blocks.
        body = tirx.AttrStmt(0, RESIDENT, tirx.IntImm("int32", resident), body)
    return bound(thread, "threadIdx.x", tirx.IntImm("int64", threads), body)


def bound(var: Var, tag: str, extent: Expr, body: tirx.Stmt) -> tirx.Stmt:
    """Statements for every value of a block's or a thread's number."""
    size = constant(extent)
    extent = extent if size is None else tirx.IntImm("int32", size)
    return tirx.AttrStmt(
        IterVar(None, var, IterVar.ThreadIndex, tag), "thread_extent", extent, body
    )
