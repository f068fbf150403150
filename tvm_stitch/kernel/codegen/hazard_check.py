"""The check of an emitted kernel, for what TVM would miscompile in silence.

In: a thread-bound PrimFunc and the Device. Out: nothing, or a Refused that names the hazard. It
repeats no decision of kernel/choose: it reads the TIR alone, as TVM will.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx import ForKind

from tvm_stitch.device import Device
from tvm_stitch.kernel.codegen.bfloat16 import stored_bytes
from tvm_stitch.kernel.codegen.footprint import (
    STATIC_SHARED,
    Footprint,
    aligned,
    is_not_asked_for,
)
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Var,
    constant,
    dtype_of,
    element_bytes,
    elements_of,
    substitute,
)
from tvm_stitch.stages.visit import walked

# TVM's attribute for the blocks that a multiprocessor must have registers for at once.
RESIDENT = "tirx.launch_bounds_min_blocks_per_sm"
MAX_BLOCKS = 2**31 - 1
UNIFORM = "tirx.tvm_thread_invariant"  # see tir_builder.block_uniform
PAIR = 2  # of floats that CUDA rounds to halves at once
# All threads of a warp, a block or a cluster must come to these.
_COLLECTIVE = (
    "storage_sync", "cluster_sync", "barrier_cluster", "grid_sync",
    "warp_reduce", "shfl", "shuffle",
)  # fmt: skip
_OF_CLUSTER = ("cluster_sync", "barrier_cluster")
# Their scratch is shrunk to one element, and used again without a barrier.
_BROKEN = ("cta_reduce", "cta_sum", "cta_max", "cta_min")


def check_kernel(func: tirx.PrimFunc, device: Device) -> Refused | None:
    """The first hazard of a kernel, if it has one."""
    return next((found for c in _checkers(func, device) if (found := c.verdict())), None)


def multiprocessors_needed(func: tirx.PrimFunc, device: Device) -> int | Refused:
    """On how few multiprocessors all blocks fit beside each other, where they wait for each other.

    0 where they do not: such a kernel runs on any GPU of the architecture. Or the first hazard.
    """
    needed = 0
    for checker in _checkers(func, device):
        hazard = checker.verdict()
        if hazard is not None:
            return hazard
        needed = max(needed, checker.needed())
    return needed


def _checkers(func: tirx.PrimFunc, device: Device) -> Iterator[_Checker]:
    """What is found in each kernel of a function."""
    for launch in _launches(func.body):
        checker = _Checker(device)
        checker.visit(launch)
        yield checker


def _launches(body: tirx.Stmt) -> list[tirx.Stmt]:
    """The kernels of a function, of which the host launches one."""
    found: list[tirx.Stmt] = []

    def visit(stmt: tirx.AttrStmt) -> object:
        if stmt.attr_key != "thread_extent":
            return None
        found.append(stmt)
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(body, (tirx.AttrStmt, visit), order="pre")
    return found


class _Cluster:
    """What blocks of a cluster may disagree on: of a block by itself, nothing."""

    def __init__(self, analyzer: tvm.sym.Analyzer) -> None:
        self.analyzer = analyzer
        self.grid: tirx.AttrStmt | None = None
        self.size = 1
        self.differing: set[Var] = set()  # variables and buffers
        self.first: dict[Var, Expr] = {}  # a block's number by another of its cluster

    def enter(self, stmt: tirx.AttrStmt) -> Iterator[str]:
        """Clusters of the grid around, which must be whole ones."""
        assert self.grid is not None, "clusters are of a grid"
        self.size = constant(stmt.value) or 1
        block, count = self.grid.node.var, self.analyzer.simplify(self.grid.value)
        rank = tirx.Var("rank", block.ty)
        size, zero = tirx.const(self.size, block.ty), tirx.const(0, block.ty)
        self.analyzer.bind(rank, tvm.ir.Range(zero, size))
        self.first = {block: tirx.floordiv(block, size) * size + rank}
        self.differing |= {stmt.node.var, rank}
        found = self.analyzer.modular_set(count)
        if found.coeff % self.size or found.base % self.size:
            yield f"{count} blocks, which clusters of {self.size} do not divide"

    def differs(self, expr: Expr) -> bool:
        """Whether blocks of a cluster may disagree on a value."""
        if self.size == 1:
            return False
        if not self.first.keys().isdisjoint(tirx.analysis.undefined_vars(expr)):
            expr = self.analyzer.simplify(substitute(expr, self.first))
        return not self.differing.isdisjoint(tirx.analysis.undefined_vars(expr))


class _Checker:
    """Walks statements with what is known of the place: conditions, ranges, threads."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.analyzer = tvm.sym.Analyzer()
        self.threads: dict[str, int] = {}
        self.differing: set[Var] = set()  # variables and buffers that differ between threads
        self.divergent = False  # whether threads of a block may be elsewhere
        self.cluster = _Cluster(self.analyzer)
        self.parted = False  # whether blocks of a cluster may be elsewhere
        self.lane: Var | None = None  # of the vectorised loop around
        self.width = 1
        self.shared: dict[str, int] = {"shared": 0, "shared.dyn": 0}
        self.blocks: int | None = 1  # of the grid; None: known at run time only
        self.resident = 0  # of them, how many the CUDA compiler leaves registers for
        self.is_cooperative = False  # whether all blocks wait for each other
        self.found: list[str] = []

    def verdict(self) -> Refused | None:
        """The first hazard."""
        total = self._block_threads()
        if total > MAX_BLOCK_THREADS:
            self.found.append(
                f"a block of {total} threads, of which a device runs {MAX_BLOCK_THREADS}"
            )
        if self.shared["shared"] > STATIC_SHARED:
            self.found.append(f"{self.shared['shared']} bytes of static shared memory")
        if is_not_asked_for(self.shared["shared"], self.shared["shared.dyn"]):
            self.found.append("shared memory that TVM does not ask the driver for")
        if sum(self.shared.values()) > self.device.shared_block:
            self.found.append(f"{sum(self.shared.values())} bytes of shared memory a block")
        if self.is_cooperative:
            self._check_residence()
        return Refused(f"the kernel would be wrong: {self.found[0]}") if self.found else None

    def needed(self) -> int:
        """Multiprocessors that hold all blocks, if these synchronise."""
        return -(-self.blocks // self._room()) if self.is_cooperative and self.blocks else 0

    def _block_threads(self) -> int:
        return prod(self.threads.values())

    def _room(self) -> int:
        """Blocks that a multiprocessor holds at once."""
        own = Footprint(self._block_threads(), 0, sum(self.shared.values()))
        return min(self.resident, own.blocks_per_sm(self.device))

    def _check_residence(self) -> None:
        """A block that waits for room while others wait for it at the barrier waits for ever."""
        device, room = self.device, self._room()
        if self.blocks is None or self.blocks > room * device.multiprocessors:
            self.found.append(
                f"a barrier of {self.blocks} blocks, of which {room} fit beside each "
                "other on a multiprocessor"
            )

    def visit(self, stmt: tirx.Stmt) -> None:
        """Go through one statement and all within."""
        if isinstance(stmt, s_tir.SBlockRealize):
            self.visit(stmt.block.body)
        elif isinstance(stmt, tirx.SeqStmt):
            for inner in stmt.seq[:]:
                self.visit(inner)
        elif isinstance(stmt, tirx.AttrStmt):
            self._attribute(stmt)
        elif isinstance(stmt, tirx.For):
            self._loop(stmt)
        elif isinstance(stmt, tirx.IfThenElse):
            self._branch(stmt)
        elif isinstance(stmt, tirx.AllocBuffer):
            self._allocate(stmt.buffer)
        elif isinstance(stmt, tirx.BufferStore):
            self._store(stmt)
        elif isinstance(stmt, tirx.Evaluate):
            self._expression(stmt.value)

    def _attribute(self, stmt: tirx.AttrStmt) -> None:
        if stmt.attr_key == RESIDENT:
            self.resident = int(stmt.value)
        if stmt.attr_key == "thread_extent":
            tag, size = stmt.node.thread_tag, constant(stmt.value)
            if tag.startswith("threadIdx"):
                if self.threads.get(tag, size) != size:
                    self.found.append(f"parts of {self.threads[tag]} and {size} {tag}")
                self.threads[tag] = size or MAX_BLOCK_THREADS + 1
                self.differing.add(stmt.node.var)
            elif tag.startswith("clusterCtaIdx"):
                self.found += self.cluster.enter(stmt)
            elif tag.startswith("blockIdx"):
                self.cluster.grid = stmt
                self.blocks = None if size is None or self.blocks is None else self.blocks * size
            if size is not None and size > MAX_BLOCKS:
                self.found.append(f"{size} blocks")
            zero = tirx.const(0, stmt.value.ty)
            self.analyzer.bind(stmt.node.var, tvm.ir.Range(zero, stmt.value))
        self.visit(stmt.body)

    def _loop(self, stmt: tirx.For) -> None:
        self.analyzer.bind(stmt.loop_var, tvm.ir.Range(stmt.min, stmt.extent))
        if stmt.kind != ForKind.VECTORIZED:
            with self._diverging(False, self.cluster.differs(stmt.extent)):
                self.visit(stmt.body)
            return
        self.lane, self.width = stmt.loop_var, constant(stmt.extent) or 0
        self.visit(stmt.body)
        self.lane, self.width = None, 1

    def _branch(self, stmt: tirx.IfThenElse) -> None:
        if self.lane is not None:
            self.found.append(
                "a branch in a vector statement, which TVM's CUDA printer cannot print"
            )
        apart = self.cluster.differs(stmt.condition)
        with self._diverging(self._differs(stmt.condition), apart):
            self._expression(stmt.condition)
            self.visit(stmt.then_case)
            if stmt.else_case is not None:
                self.visit(stmt.else_case)

    @contextmanager
    def _diverging(self, differs: bool, apart: bool) -> Iterator[None]:
        before = self.divergent, self.parted
        self.divergent, self.parted = self.divergent or differs, self.parted or apart
        yield
        self.divergent, self.parted = before

    def _allocate(self, buffer: Var) -> None:
        scope = buffer.ty.storage_scope
        if scope in self.shared:
            each = stored_bytes(dtype_of(buffer), self.device.capability)
            size = (elements_of(buffer) or 1 << 40) * each
            # TVM aligns each static array; what is dynamic is one array, whose parts it packs.
            self.shared[scope] += aligned(size) if scope == "shared" else size

    def _store(self, stmt: tirx.BufferStore) -> None:
        self._expression(stmt.value)
        if self.lane is not None:
            self._vector(stmt.buffer, stmt.indices[-1])
            self._printable(stmt)
        if any(map(self._differs, (stmt.value, *stmt.indices))):
            self.differing.add(stmt.buffer)
        if any(map(self.cluster.differs, (stmt.value, *stmt.indices))):
            self.cluster.differing.add(stmt.buffer)

    def _expression(self, expr: Expr) -> None:
        calls: list[tvm.ir.Call] = []
        loads: list[Expr] = []
        walked(expr, (tvm.ir.Call, calls.append), (tvm.ir.TensorLoad, loads.append))
        for call in calls:
            name = getattr(call.op, "name", "")
            self.is_cooperative |= "grid_sync" in name
            if any(word in name for word in _BROKEN):
                self.found.append(f"{name} overruns its scratch in this TVM")
            if self.divergent and any(word in name for word in _COLLECTIVE):
                self.found.append(f"{name} where not all threads come")
            if self.parted and any(word in name for word in _OF_CLUSTER):
                self.found.append(f"{name} where not all blocks of a cluster come")
        if self.lane is not None:
            for load in loads:
                self._vector(load.source, load.indices[-1])

    def _vector(self, buffer: Var, index: Expr) -> None:
        """A vector access is aligned and at most 16 bytes wide."""
        lane, width = self.lane, self.width
        if lane not in tirx.analysis.undefined_vars(index):
            return
        if width * element_bytes(buffer) > ACCESS_BYTES:
            self.found.append(f"an access of {width} x {dtype_of(buffer)}")
        modular = self.analyzer.modular_set(self.analyzer.simplify(self._at_lane(index)))
        if modular.coeff % width or modular.base % width:
            self.found.append(f"an access of {width} elements of {buffer.name} out of alignment")

    def _printable(self, stmt: tirx.BufferStore) -> None:
        """Vectors are copied, and pairs rounded: little else has TVM's CUDA printer vectors for."""
        value = stmt.value
        if isinstance(value, tirx.Cast) and self.width == PAIR:
            value = value.value
        copied = isinstance(value, tvm.ir.TensorLoad)
        places = [stmt.indices, value.indices] if copied else []
        if not places or not all(self._is_contiguous(*place) for place in places):
            self.found.append(f"a vector statement that is no copy: {stmt.value}")

    def _is_contiguous(self, *place: Expr) -> bool:
        """Whether the lanes lie side by side in the last dimension."""
        step = place[-1] - self._at_lane(place[-1])
        before = any(self.lane in tirx.analysis.undefined_vars(index) for index in place[:-1])
        return not before and self.analyzer.can_prove_equal(step, self.lane)

    def _at_lane(self, index: Expr) -> Expr:
        """An index as lane 0 has it."""
        assert self.lane is not None, "there are lanes in vector statements only"
        return substitute(index, {self.lane: tirx.const(0, self.lane.ty)})

    def _differs(self, expr: Expr) -> bool:
        """Whether threads of a block may disagree on a value.

        They do not on what the emission says is uniform: a total of what all have counted.
        """
        if isinstance(expr, tvm.ir.Call) and getattr(expr.op, "name", "") == UNIFORM:
            return False
        return any(var in self.differing for var in tirx.analysis.undefined_vars(expr))
