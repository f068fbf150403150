"""How a kernel's body becomes a function: what runs on how many threads, and what TVM must know.

In: statements of a kernel or of the host. Out: a PrimFunc. Must not know what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import s_tir, tirx
from tvm.tirx import IterVar

from tvm_stitch.kernel.codegen.hazard_check import RESIDENT
from tvm_stitch.kernel.ir.stage import Expr, Var, constant, substitute

# TVM's, for kernels with a barrier of the whole grid.
LAUNCH_ATTRIBUTE = "tirx.kernel_launch_params"
COOPERATIVE = "tirx.use_cooperative_launch"
# The kernel's last parameter is a buffer that callers must provide and nobody reads afterwards.
WORKSPACE_ATTRIBUTE = "tvm_stitch.workspace"


def kernel_function(
    func: tirx.PrimFunc, body: tirx.Stmt, shared: Sequence[Var] = ()
) -> tirx.PrimFunc:
    """A function with the parameters of another one, and workspaces, that is scheduled."""
    # TVM's passes over scheduled functions look for a root block.
    root = s_tir.SBlock([], [], [], "root", body)
    realized = s_tir.SBlockRealize([], tirx.const(True, "bool"), root)
    emitted = _with_names_apart(tirx.PrimFunc([*func.params, *shared], realized, func.ret_type))
    for key, value in (func.attrs or {}).items():
        emitted = emitted.with_attr(key, value)
    if shared:
        emitted = emitted.with_attrs({LAUNCH_ATTRIBUTE: [COOPERATIVE], WORKSPACE_ATTRIBUTE: True})
    return emitted.with_attrs({"tirx.noalias": True, "tirx.is_scheduled": True, "s_tir": True})


def _with_names_apart(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Every parameter with a name of its own: the CUDA source tells them apart by nothing else."""
    taken: set[str] = set()
    mapping: dict[Var, Var] = {}
    for param in func.params:
        number, name = 1, param.name
        while name in taken:
            name, number = f"{param.name}_{number}", number + 1
        taken.add(name)
        if name != param.name:
            mapping[param] = tirx.Var(name, param.ty)
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
