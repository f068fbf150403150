"""What a thread reads and writes: copies of vectors, loads of single elements, values of stages.

In: a Program, its Mapping, the flat views of the parameters and the thread's Position. Writes TIR
into a Writer. Must not know phases, nor what is kept between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from collections.abc import Mapping as MappingOf
from functools import partial

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW, Address, AddressKey, Frame
from tvm_stitch.kernel.analysis.strided_loads import plan_loads
from tvm_stitch.kernel.analysis.vector_loads import VectorAccess, VectorLoad, branches, choices
from tvm_stitch.kernel.codegen.bfloat16 import widened
from tvm_stitch.kernel.codegen.lane_indices import LaneIndices
from tvm_stitch.kernel.codegen.placed_loads import (
    KEPT,
    bits_of,
    can_be_predicated,
    chosen_at_once,
    load_if,
)
from tvm_stitch.kernel.codegen.thread_indexing import Guard, Position
from tvm_stitch.kernel.codegen.tir_builder import Place, Writer, flat_loads, vector_copy
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.indices import MOST_NARROW, counted_in_int32
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    as_int64,
    buffer_size,
    constant,
    dtype_of,
    handle,
    loads_in,
    replaced,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import int64
from tvm_stitch.stages.visit import mapped

Element = Callable[[Expr, Expr], Expr]  # (step, lane) -> index of a thread's element
Number = Callable[[Expr], Expr]  # step -> of its vector among those of a tile
Here = Callable[[Expr], Expr]  # an expression of ROW and COLUMN -> what it is at an element
Held = Callable[[Expr], Expr | None]  # a load that an index is made of -> what registers hold of it
Fragments = dict[AddressKey, tuple[Var, Element]]  # tiles by an address's key


def is_narrow(buffer: Var) -> bool:
    """Whether 32 bits count its elements."""
    size = constant(buffer_size(buffer))
    return size is not None and size <= MOST_NARROW


def _nothing(_load: Expr) -> None:
    return None


class Access:
    """A thread's way to memory, for one row."""

    def __init__(
        self, program: Program, mapping: Mapping, place: Place, position: Position
    ) -> None:
        self.program, self.mapping = program, mapping
        self.place, self.position = place, position
        self.views, self.writer = place.views, place.writer
        self.frame = Frame(program)

    # Where a thread has its elements

    def tile(self, name: str, dtype: str) -> Var:
        """Registers for all elements of a thread.

        Where not all of them exist, they are set to zero first: TVM would otherwise allocate only
        those that are seen to be used, and count them from one that it finds at run time.
        """
        each = self.mapping.vector * self.mapping.steps
        tile = self.writer.allocate(name, each, dtype)
        if any(steps.guard is Guard.EDGE for steps in self.position.steps()):
            with self.writer.unrolled(each, "element") as element:
                self.writer.store(tile, element, tirx.const(0, dtype))
        return tile

    def slot(self, step: Expr, lane: Expr) -> Expr:
        """Where a thread keeps an element. In shared memory, neighbours' vectors are neighbours."""
        if self.mapping.residence == "register":
            return self.own_slot(step, lane)
        vector = step * self.mapping.block_threads + self.place.thread
        return vector * self.mapping.vector + lane

    def own_slot(self, step: Expr, lane: Expr) -> Expr:
        """Where a thread has an element in a tile of registers."""
        return step * self.mapping.vector + lane

    def sum_slot(self, step: Expr, lane: Expr) -> Expr:
        """Where a block has its partial sums over the rows: of any number of them, by column."""
        if self.mapping.steps:
            return self.own_slot(step, lane)
        return self.position.column(step, lane)

    # Copies between device memory and a thread's registers

    def load_row(self, tiles: MappingOf[Var, Var], position: Position) -> None:
        """A thread's share of a row of each input, into registers."""
        for steps in position.steps():
            with (
                self.writer.when(position.works),
                self.writer.unrolled(steps.count, "step", steps.start) as step,
            ):
                for buffer, tile in tiles.items():
                    self.copy_in(buffer, tile, step, steps.guard, self.own_slot, position)

    def plan_vector_loads(self, reads: Iterable[tuple[Stage, Read]]) -> list[VectorLoad]:
        """The vectors along the columns among loads of inputs."""
        if self.mapping.vector == 1 or self.mapping.peeled:
            return []
        inputs = self.program.inputs
        addresses = [
            self.frame.address(stage, read)
            for stage, read in reads
            if read.buffer in inputs and not self.is_same(stage, read)
        ]
        return plan_loads(self.frame, addresses, self.mapping.vector)

    def vector_tile(self, load: VectorLoad, count: int = 1) -> Var:
        """Registers for a vector along the columns, or for so many: all, though some stay empty.

        TVM would allocate only what is used, and count it from the first: vectors would lie there
        out of alignment.
        """
        buffer, size = load.address.buffer, load.elements(self.mapping.vector) * count
        tile = self.writer.allocate(f"{buffer.name}_vector", size, dtype_of(buffer))
        is_guarded = any(access.guard is not None for access in load.accesses)
        for end in (0, size - 1) if load.has_ends or is_guarded else ():
            self.writer.call(tile.ptr_to([int64(end)]))
        return tile

    def own_vector(self, buffer: Var, step: Expr, guard: Guard) -> Var:
        """Registers with a step's own elements of an input."""
        tile = self.writer.allocate(f"{buffer.name}_in", self.mapping.vector, dtype_of(buffer))
        self.copy_in(buffer, tile, step, guard, lambda _step, lane: lane)
        return tile

    def vector_at(
        self, load: VectorLoad, step: Expr, fill: Expr | None, free: Var | None = None
    ) -> Var:
        """Registers with a step's vector along the columns: those that are free, if any are."""
        tile = self.vector_tile(load) if free is None else free
        self.load_vector(load, tile, step, int64(0), fill if free is None else KEPT)
        return tile

    def load_vector(
        self, load: VectorLoad, tile: Var, step: Expr, number: Expr, fill: Expr | None = None
    ) -> None:
        """A vector along the columns, by its number in a tile.

        What is not loaded has a number to fill it, is KEPT, or is not used.
        """
        with self.writer.unrolled(self.mapping.vector // load.lanes, "part") as part:
            self.load_part(load, tile, step, number, part, fill)

    def load_part(
        self, load: VectorLoad, tile: Var, step: Expr, number: Expr, part: Expr, fill: Expr | None
    ) -> None:
        """As many lanes of a vector as are loaded at once; no register stays undefined."""
        buffer = load.address.buffer
        own = number * load.elements(self.mapping.vector) + part * load.size
        for access in load.accesses:
            guard, start = self.guard_of(load, access, step, part), self.start_of(load, step, part)
            first, place = own + access.first, start + access.first
            bits = bits_of(dtype_of(buffer), fill)
            if guard is not None and bits is not None and self._is_predicated(load, access, first):
                source = self._vector_place(buffer, place, access.width, self.writer)
                given = (self.views[buffer].ptr_to([source]), tile.ptr_to([first]))
                self.writer.call(load_if(guard, *given, access.width, dtype_of(buffer), bits))
                continue
            copy = partial(self._load_lanes, buffer, place, tile, first)
            if fill is KEPT or guard is None:
                with self.writer.when(guard):
                    copy(access.width, self.writer)
                continue
            unused = tirx.const(0, dtype_of(buffer))
            with self.writer.branch(guard) as (then, otherwise):
                copy(access.width, then)
                with otherwise.unrolled(access.width, "lane") as lane:
                    otherwise.store(tile, first + lane, unused if fill is None else fill)

    def _is_predicated(self, load: VectorLoad, access: VectorAccess, first: Expr) -> bool:
        """Whether it needs no branch: its place depends on no memory, and nobody writes there."""
        is_known = not any(address.from_memory for address in load.serves)
        if self.program.round or not is_known or loads_in(access.guard):
            return False
        return can_be_predicated(dtype_of(load.address.buffer), access.width, first)

    def guard_of(
        self, load: VectorLoad, access: VectorAccess, step: Expr, part: Expr
    ) -> Expr | None:
        """What must hold for an access of a part of a vector; None: nothing."""
        return access.guard_at(self.position.row, self._first_column(load, step, part))

    def start_of(self, load: VectorLoad, step: Expr, part: Expr) -> Expr:
        """Where a part of a vector begins."""
        return load.at(self.position.row, self._first_column(load, step, part))

    def _first_column(self, load: VectorLoad, step: Expr, part: Expr) -> Expr:
        return self.position.column(step, part * load.lanes)

    def _load_lanes(
        self, buffer: Var, start: Expr, tile: Var, first: Expr, width: int, writer: Writer
    ) -> None:
        # One place for all lanes: contiguity was proven, TVM need not find it again.
        place = self._vector_place(buffer, start, width, writer)
        with writer.vectorized(width, "lane") as lane:
            writer.store(tile, first + lane, self.views[buffer][place + lane])

    def fragments_of(self, load: VectorLoad, tile: Var, number: Number) -> Fragments:
        """Where a tile has what such a load serves, by the number of a step's vector in it."""
        vector = self.mapping.vector

        def element(key: AddressKey) -> Element:
            return lambda step, lane: number(step) * load.elements(vector) + load.slot(key, lane)

        return {key: (tile, element(key)) for key in load.slots}

    def _vector_place(self, buffer: Var, start: Expr, width: int, writer: Writer) -> Expr:
        """Where a vector starts, by its number where TVM would not see what that is worth.

        Indices that are read stay in 32 bits if the buffer lets them. Where it chooses between
        places, TVM adds the lanes to each of them, and of places for all lanes CUDA has no type;
        known sizes leave no choice that TVM would not fold. Alignment stays to be seen.
        """
        place = self.redirected(start)
        if loads_in(start) and is_narrow(buffer):
            place = as_int64(writer.value("place", counted_in_int32(place)))
            return tirx.floordiv(place, width) * width
        chosen: list[Expr] = []
        tvm_ffi.structural_walk(start, (tirx.Select, chosen.append))
        space = self.program.space
        if not chosen or None not in map(constant, (space.rows, space.columns)):
            return place
        return writer.value("vector", tirx.floordiv(place, int64(width))) * width

    def copy_in(
        self,
        buffer: Var,
        tile: Var,
        step: Expr,
        guard: Guard,
        element: Element,
        position: Position | None = None,
    ) -> None:
        """A vector of an input into a tile."""
        place = position or self.position

        def move(writer: Writer, lane: Expr) -> None:
            at = place.address(step, lane)
            writer.store(tile, element(step, lane), self.views[buffer][at])

        self._copy(dtype_of(buffer), step, guard, move, place)

    def copy_out(self, buffer: Var, tile: Var, step: Expr, guard: Guard, element: Element) -> None:
        """A vector of a tile into an output."""

        def move(writer: Writer, lane: Expr) -> None:
            at = self.position.address(step, lane)
            writer.store(self.views[buffer], at, tile[element(step, lane)])

        self._copy(dtype_of(buffer), step, guard, move, self.position)

    def store_element(self, buffer: Var, step: Expr, value: Expr) -> None:
        """An element of an output, where a thread has one at a time."""
        at = self.position.address(step, int64(0))
        with self.writer.when(self.position.row_exists):
            self.writer.store(self.views[buffer], at, value)

    def _copy(
        self,
        dtype: str,
        step: Expr,
        guard: Guard,
        move: Callable[[Writer, Expr], None],
        position: Position,
    ) -> None:
        vector = self.mapping.vector
        if vector > 1 and guard is Guard.EDGE:
            with self.writer.branch(position.whole(step)) as (then, otherwise):
                vector_copy(then, dtype, vector, move)
                with (
                    otherwise.unrolled(vector, "lane") as lane,
                    otherwise.when(position.inside(step, lane)),
                ):
                    move(otherwise, lane)
            return
        with self.writer.when(position.exists(step, guard)):
            if vector == 1:
                move(self.writer, int64(0))
            else:
                vector_copy(self.writer, dtype, vector, move)

    # Values

    def at_column(self, column: Expr) -> Here:
        """What expressions of ROW and COLUMN are at a column."""
        own = {ROW: self.position.row, COLUMN: column}
        return lambda expr: substitute(expr, own)

    def at_lanes(self, step: Expr, exprs: Iterable[Expr]) -> Callable[[Expr], Here]:
        """What some of them are at the lanes of a vector."""
        position, vector = self.position, self.mapping.vector
        if vector == 1 or self.mapping.peeled:
            return lambda lane: self.at_column(position.column(step, lane))
        first = {ROW: position.row, COLUMN: position.column(step, int64(0))}
        return LaneIndices(self.writer, COLUMN, first, vector, self.frame.analyzer, exprs).at

    def load(self, address: Address, here: Here, held: Held = _nothing) -> Expr:
        """A load of one element; loads inside of its index are redirected as well, or held."""
        index = here(self.flat_index(address, held))
        if address.from_memory and address.guard is None:
            return self._load_at(address.buffer, index)
        if address.from_memory and is_narrow(address.buffer):
            index = as_int64(counted_in_int32(index))
        return self.views[address.buffer][index]

    def _load_at(self, buffer: Var, index: Expr) -> Expr:
        """A load from a place that is worked out before, in 32 bits where these count it."""
        if is_narrow(buffer):
            index = as_int64(self.writer.value("place", counted_in_int32(index)))
        return self.views[buffer][index]

    def flat_index(self, address: Address, held: Held = _nothing) -> Expr:
        """An address in terms of ROW, COLUMN, and what flat views and registers hold."""

        def known(load: Expr) -> Expr:
            found = held(load)
            return load if found is None else found

        index = address.computed
        if address.from_memory:
            index = mapped(index, (tvm.ir.TensorLoad, known), pre=True)
        return self.redirected(index)

    def redirected(self, expr: Expr) -> Expr:
        """The expression with loads from parameters as loads from their flat views."""
        return flat_loads(self.views, expr)

    def value(
        self,
        stage: Stage,
        known: Callable[[Read], Expr | None],
        here: Here,
        held: Held = _nothing,
        filled: Collection[AddressKey] = (),
    ) -> Expr:
        """A stage's value at an element, loads replaced by what is known of them.

        What indices are read from may be held as well; vectors that are filled need no branches.
        """
        axes = self.frame.axes(stage)
        replacements = self._chosen(stage, known, here)
        for read in stage.reads:
            if read.key in replacements:
                continue
            found = known(read)
            if found is None:
                found = self.load(self.frame.address(stage, read), here, held)
            replacements[read.key] = found
            if filled and self.frame.address(stage, read).key in filled:
                branch = branches(stage)[read.key]
                replacements[handle(branch.call)] = replaced(branch.loaded, replacements, axes)
        value = replaced(stage.value, replacements, axes)
        return chosen_at_once(widened(here(self.redirected(value))))

    def _chosen(
        self, stage: Stage, known: Callable[[Read], Expr | None], here: Here
    ) -> dict[int, Expr]:
        """Loads of one of several places of a buffer, by the keys of their branches and reads."""
        found: dict[int, Expr] = {}
        for choice in choices(stage):
            addresses = {read.key: self.frame.address(stage, read) for read in choice.reads}
            reads_memory = any(address.from_memory for address in addresses.values())
            if not reads_memory and all(known(read) is None for read in choice.reads):
                places = {key: self.flat_index(address) for key, address in addresses.items()}
                place = choice.place(places, self.frame.axes(stage))
                load = self._load_at(choice.reads[0].buffer, here(place))
                found |= dict.fromkeys((handle(choice.call), *places), load)
        return found

    def is_same(self, stage: Stage, read: Read) -> bool:
        """Whether a load takes the element of its stage's own row and column."""
        return self.program.place(stage, read) is Where.SAME
