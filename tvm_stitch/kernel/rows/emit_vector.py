"""Emits one vector of a thread in one phase: loads, all values of its elements, stores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import Address, AddressKey
from tvm_stitch.kernel.analysis.vector_loads import VectorLoad, fill, loaded_in_turns
from tvm_stitch.kernel.codegen.thread_indexing import Guard
from tvm_stitch.kernel.codegen.tir_builder import Writer, vector_copy
from tvm_stitch.kernel.codegen.warp_shuffle import combine
from tvm_stitch.kernel.rows.global_access import Element, Fragments, Here
from tvm_stitch.kernel.rows.row_state import PhaseState, RowState
from tvm_stitch.stages.stage import Expr, Read, Stage, Var, dtype_of, replaced
from tvm_stitch.stages.symbolic_analyzer import int64


def by_lane(_step: Expr, lane: Expr) -> Expr:
    """Where a fragment of one vector has an element."""
    return lane


# Vectors of 16 bytes that a thread has at once: of more, as of 5 x 5 windows before a norm, it
# spilled a KB, and 13 where it had several rows.
MOST_AT_ONCE = 16

Turn = tuple[tuple[Stage, ...], frozenset[Var]]  # stages, and what is read of them later


def in_turn(stages: Sequence[Stage], loads: Callable[[Stage], int]) -> Iterator[Turn]:
    """Stages that load, each with those behind it that do not, and what is read of them later."""
    groups: list[list[Stage]] = [[]]
    for stage in stages:
        if groups[-1] and loads(stage):
            groups.append([])
        groups[-1].append(stage)
    for number, group in enumerate(groups):
        behind = chain.from_iterable(groups[number + 1 :])
        read = {read.buffer for stage in behind for read in stage.reads}
        yield tuple(group), frozenset(read)


class Step:
    """One vector of a thread in one phase."""

    def __init__(
        self,
        part: RowState,
        state: PhaseState,
        needed: tuple[Stage, ...],
        step: Expr,
        guard: Guard,
        second_pass: bool = False,
    ) -> None:
        """`second_pass` says that the phase has been here, and written what there is to write."""
        self.second_pass = second_pass
        self.part, self.state, self.needed = part, state, needed
        self.phase = state.phase
        self.step, self.guard = step, guard
        self.writer = part.writer
        self.vector = part.mapping.vector
        self.fragments: Fragments = {}
        self.filled: set[AddressKey] = set()  # which of them have a number where nothing is loaded
        self.loaded = dict(state.loaded)
        self.outputs: dict[Var, Var] = {}
        self.keeping: dict[Var, Var] = {}  # what goes to shared memory when all lanes are done
        self.waiting: dict[Var, Var] = {}  # values for stages that are computed later

    def emit(self) -> None:
        """Write the step."""
        with self.writer.when(self.exists):
            for stages, later in self._turns():
                self.compute(stages, later)
            self.end()

    def _turns(self) -> Iterable[Turn]:
        """All stages at once; those that load in turn where too many vectors would wait."""
        if self.guard is Guard.EDGE or self._vectors(*self.needed) <= MOST_AT_ONCE:
            return [(self.needed, frozenset())]
        return in_turn(self.needed, self._vectors)

    def _vectors(self, *stages: Stage) -> int:
        """How many vectors along the columns some stages load."""
        reads = ((stage, read) for stage in stages for read in stage.reads)
        return len(self.part.plan_vector_loads(reads))

    @property
    def exists(self) -> Expr | None:
        """What must hold for the vector to be there, if that is asked of it as a whole."""
        whole = self.guard is Guard.VECTOR
        return self.part.position.inside(self.step, int64(0)) if whole else None

    @property
    def _guard(self) -> Guard:
        """Inside of the guard of a whole vector, copies need none of their own."""
        return Guard.NONE if self.guard is Guard.VECTOR else self.guard

    def compute(self, stages: tuple[Stage, ...], read_later: Collection[Var] = ()) -> None:
        """Load what some of the stages need, and compute them; some are for those behind them."""
        part, guard = self.part, self._guard
        self._load(stages, guard)
        self._fetch(stages, guard)
        for stage in stages:
            if self._is_output(stage) and self.vector > 1:
                self.outputs[stage.output] = self._fragment(stage.output, "out")
            if stage.output in read_later:
                self.waiting[stage.output] = self._fragment(stage.output, "value")
        if self._lanes_differ(stages):
            for lane in range(self.vector):
                self._compute(stages, int64(lane), self._at_lane)
        else:
            at_lane = part.at_lanes(self.step, self._indices(stages))
            with self.writer.unrolled(self.vector, "lane") as lane:
                edge = self.guard is Guard.EDGE
                with self.writer.when(part.position.inside(self.step, lane) if edge else None):
                    self._compute(stages, lane, at_lane)
        self.loaded |= {buffer: (tile, by_lane) for buffer, tile in self.waiting.items()}

    def end(self) -> None:
        """Keep what later phases need, and store the results."""
        part, guard = self.part, self._guard
        self._keep(guard)
        for buffer, tile in self.outputs.items():
            with self.writer.when(part.position.row_exists):
                part.copy_out(buffer, tile, self.step, guard, by_lane)

    def _lanes_differ(self, stages: tuple[Stage, ...]) -> bool:
        """Whether some lanes have conditions that others need not ask: TVM sees that of each."""
        frame = self.part.frame
        reads = ((stage, read) for stage in stages for read in stage.reads if read.guarded)
        return any(
            address.everywhere.key in self.fragments
            and not frame.uniform(address.guard, self.vector)
            for address in (frame.address(stage, read) for stage, read in reads)
            if address.guard is not None
        )

    def _at_lane(self, lane: Expr) -> Here:
        return self.part.at_column(self.part.position.column(self.step, lane))

    def _indices(self, stages: tuple[Stage, ...]) -> Iterator[Expr]:
        """Values, but for what they load, and addresses that a lane computes."""
        part, frame = self.part, self.part.frame
        for stage in stages:
            loads = {read.key: tirx.const(0, dtype_of(read.buffer)) for read in stage.reads}
            yield replaced(stage.value, loads, frame.axes(stage))
            for read in stage.reads:
                known = self._known(stage, {}, int64(0), read)
                if known is None and not part.is_same(stage, read):
                    yield self._flat_index(frame.address(stage, read))

    def first_values(self, sums: Collection[Var]) -> dict[Var, Expr]:
        """Of the step's first element, what it adds to each of some sums."""
        self._load(self.needed, self.guard)
        self._fetch(self.needed, self.guard)
        lane, found = int64(0), {}
        here = self._at_lane(lane)
        values: dict[Var, Expr] = {}
        for stage in self.needed:
            value = self.part.value(stage, partial(self._known, stage, values, lane), here)
            if not stage.is_reduction:
                values[stage.output] = self.writer.value(stage.name, value)
            elif stage.output in sums:
                found[stage.output] = self.writer.value("first", value)
        return found

    def _fragment(self, buffer: Var, name: str) -> Var:
        """Registers for one vector."""
        return self.writer.allocate(f"{buffer.name}_{name}", self.vector, dtype_of(buffer))

    def _is_output(self, stage: Stage) -> bool:
        return not self.second_pass and stage.output in self.phase.stores

    def _load(self, stages: tuple[Stage, ...], guard: Guard) -> None:
        """Inputs that this phase is the first to need, and vectors along the columns."""
        part = self.part
        reads = [(stage, read) for stage in stages for read in stage.reads]
        for stage, read in reads:
            if (
                read.buffer in self.phase.loads
                and read.buffer not in self.loaded
                and part.is_same(stage, read)
            ):
                self._load_fragment(read.buffer, guard)
        if guard is Guard.EDGE:
            return
        # What stages before these have loaded, they have where their own guards held.
        self.fragments, self.filled = {**part.vectors, **self.state.vectors}, set()
        loads = part.plan_vector_loads(reads)
        new = (load for load in loads if not load.slots.keys() <= self.fragments.keys())
        for group in loaded_in_turns(new):
            shared: Var | None = None
            for load in group:
                number = fill(part.frame, load, reads)
                if number is None:
                    shared = self._load_vector(load, None, shared)
                else:  # it fills its registers where it is not taken
                    self._load_vector(load, number)
        if self.vector > 1:
            self._gather(reads)

    def _load_fragment(self, buffer: Var, guard: Guard) -> None:
        """An input's vector; a phase after the first keeps it in its tile."""
        part = self.part
        in_tile = buffer in part.kept and part.mapping.residence == "register"
        if in_tile:
            self.loaded[buffer] = (part.kept[buffer], part.own_slot)
            part.copy_in(buffer, part.kept[buffer], self.step, guard, part.own_slot)
        else:
            self.loaded[buffer] = part.own_vector(buffer, self.step, guard), by_lane

    def _load_vector(self, load: VectorLoad, number: Expr | None, free: Var | None = None) -> Var:
        """The registers with a vector: those that are free where it is taken, if any are."""
        tile, first = self.part.vector_at(load, self.step, number, free), int64(0)
        self.filled.update(load.slots if number is not None else ())
        self.fragments |= self.part.fragments_of(load, tile, lambda _step: first)
        return tile

    def _gather(self, reads: Iterable[tuple[Stage, Read]]) -> None:
        """Elements at places that indices give, one by one, all before the first is used.

        An index is checked in a branch, over which the CUDA compiler moves no load.
        """
        part = self.part
        addresses = {
            address.key: address
            for stage, read in reads
            if not (read.guarded or read.nested or part.is_same(stage, read))
            and (address := part.frame.address(stage, read)).from_memory
            and self._known(stage, {}, int64(0), read) is None
        }
        if not addresses:
            return
        tiles = {
            key: self._fragment(address.buffer, "gathered") for key, address in addresses.items()
        }
        at_lane = part.at_lanes(self.step, map(self._flat_index, addresses.values()))
        with self.writer.unrolled(self.vector, "lane") as lane:
            here, held = at_lane(lane), partial(self._held, lane)
            for key, address in addresses.items():
                self.writer.store(tiles[key], lane, part.load(address, here, held))
        self.fragments |= {key: (tile, by_lane) for key, tile in tiles.items()}

    def _flat_index(self, address: Address) -> Expr:
        return self.part.flat_index(address, partial(self._held, int64(0)))

    def _fetch(self, stages: tuple[Stage, ...], guard: Guard) -> None:
        """Values that wait in shared memory come as vectors, and what goes there is collected."""
        part = self.part
        if part.mapping.residence == "register" or guard is Guard.EDGE:
            return
        for stage in stages:
            for read in stage.reads:
                buffer = read.buffer
                same = part.is_same(stage, read)
                if same and buffer not in self.loaded and self.phase.finds(buffer):
                    tile = self._fragment(buffer, "back")
                    self._copy_kept(buffer, tile, out=False)
                    self.loaded[buffer] = tile, by_lane
            if stage.output in part.kept and not self.second_pass:
                self.keeping[stage.output] = self._fragment(stage.output, "keep")

    def _keep(self, guard: Guard) -> None:
        """What was collected goes to shared memory, and inputs that later phases need."""
        part = self.part
        for buffer, tile in self.keeping.items():
            self._copy_kept(buffer, tile, out=True)
        if part.mapping.residence == "register" or guard is Guard.EDGE or self.second_pass:
            return
        for buffer, (tile, element) in self.loaded.items():
            if buffer in part.kept and not self.phase.finds(buffer):
                self._copy_kept(buffer, tile, out=True, element=element)

    def _copy_kept(self, buffer: Var, tile: Var, out: bool, element: Element | None = None) -> None:
        part = self.part

        def move(writer: Writer, lane: Expr) -> None:
            own = lane if element is None else element(self.step, lane)
            slot = part.slot(self.step, lane)
            if out:
                writer.store(part.kept[buffer], slot, tile[own])
            else:
                writer.store(tile, lane, part.kept[buffer][slot])

        vector_copy(self.writer, dtype_of(buffer), self.vector, move)

    def _compute(
        self, stages: tuple[Stage, ...], lane: Expr, at_lane: Callable[[Expr], Here]
    ) -> None:
        """All values of one element, each once."""
        part = self.part
        here = at_lane(lane)
        values: dict[Var, Expr] = {}
        for stage in stages:
            buffer = stage.output
            known, held = partial(self._known, stage, values, lane), partial(self._held, lane)
            value = part.value(stage, known, here, held, self.filled)
            if buffer in part.sums:
                self._add_to_column(stage, lane, value)
                continue
            if stage.is_reduction:
                self.state.accumulators[buffer].add(self.writer, lane, value)
                continue
            values[buffer] = self.writer.value(stage.name, value)
            if buffer in self.waiting:
                self.writer.store(self.waiting[buffer], lane, values[buffer])
            if buffer in self.keeping:
                self.writer.store(self.keeping[buffer], lane, values[buffer])
            elif buffer in part.kept and not self.second_pass:
                slot = part.slot(self.step, lane)
                self.writer.store(part.kept[buffer], slot, values[buffer])
            if buffer in self.outputs:
                self.writer.store(self.outputs[buffer], lane, values[buffer])
            elif self._is_output(stage):
                part.store_element(buffer, self.step, values[buffer])
        if (
            self.guard is Guard.EDGE
            and part.mapping.residence != "register"
            and not self.second_pass
        ):
            self._keep_fragments(values, lane)

    def _add_to_column(self, stage: Stage, lane: Expr, value: Expr) -> None:
        """Add a value to the partial sum of its column; a row that is not there adds nothing."""
        own, at = self.part.sums[stage.output], self.part.sum_slot(self.step, lane)
        total = combine(stage.combiner, own[at], value.astype(dtype_of(own)))
        with self.writer.when(self.part.position.row_exists):
            self.writer.store(own, at, total)

    def _known(self, stage: Stage, values: dict[Var, Expr], lane: Expr, read: Read) -> Expr | None:
        part, buffer = self.part, read.buffer
        if part.is_same(stage, read):
            if buffer in values:
                return values[buffer]
            if buffer in self.loaded:
                tile, element = self.loaded[buffer]
                return tile[element(self.step, lane)]
            if self.phase.finds(buffer):
                return part.kept[buffer][part.slot(self.step, lane)]
            return None
        if buffer in part.sums:
            return part.sums[buffer][part.sum_slot(self.step, lane)]
        if buffer in part.row_values:
            return part.row_values[buffer]
        address = part.frame.address(stage, read)
        for key in (address.key, address.everywhere.key):
            if key in self.fragments:
                tile, element = self.fragments[key]
                return tile[element(self.step, lane)]
        return part.row_loads.get(address.everywhere.key)

    def _held(self, lane: Expr, load: Expr) -> Expr | None:
        """What a vector holds of a load that an index is made of."""
        key = self.part.frame.place_key(load)
        if key in self.fragments:
            tile, element = self.fragments[key]
        elif load.source in self.loaded and key == self.part.frame.own_key(load.source):
            tile, element = self.loaded[load.source]
        else:
            return None
        return tile[element(self.step, lane)]

    def _keep_fragments(self, values: dict[Var, Expr], lane: Expr) -> None:
        """Inputs that wait in shared memory go there from their registers, at a row's ends."""
        part = self.part
        for buffer, (tile, element) in self.loaded.items():
            kept = part.kept.get(buffer)
            if kept is not None and kept is not tile and buffer not in values:
                slot = part.slot(self.step, lane)
                self.writer.store(kept, slot, tile[element(self.step, lane)])
