"""The graph of a seed: always the same, for one version of this package and of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.outside.graphs.extent import Extent
from tests.outside.graphs.families import (
    compound,
    creation,
    elementwise,
    indexing,
    movement,
    products,
    reductions,
)
from tests.outside.graphs.graph import (
    Call,
    Const,
    Graph,
    Input,
    Shape,
    Symbol,
    pruned,
    references,
)
from tests.outside.graphs.meaning import Evaluation
from tests.outside.graphs.number import Noise
from tests.outside.graphs.writer import LARGEST_VALUE, Skip, Writer, elements

RULES: list[tuple[Callable[[Writer], None], float]] = [
    *elementwise.RULES, *movement.RULES, *reductions.RULES, *compound.RULES, *creation.RULES,
    *indexing.RULES, *products.RULES,
]  # fmt: skip
ARCHS = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
ARCH_WEIGHTS = (0.08, 0.08, 0.16, 0.08, 0.08, 0.34, 0.12, 0.06)
SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17)
MEDIUM = (24, 31, 32, 33, 40, 48, 63, 64, 65, 96, 100, 127, 128, 129, 200, 255, 256, 257)
LARGE = (300, 384, 511, 512, 513, 640, 768, 1000, 1023, 1024, 1025, 2048, 3000, 4095, 4096, 4097)
# Elements of the tensor that a graph starts from.
MAIN = 12_000
SCHEMES = ("local", "warp", "regional", "cluster", "global", "independent")


@dataclass(frozen=True)
class Profile:
    """What graphs may be like. The default is everything."""

    operators: tuple[int, int] = (2, 26)
    symbolic: float = 0.35
    extreme: float = 0.12
    options: float = 0.3
    dtypes: tuple[str, ...] | None = None
    rules: tuple[tuple[Callable[[Writer], None], float], ...] = tuple(RULES)
    empty: float = 0.02


EVERYTHING = Profile()
SYMBOLIC = Profile(symbolic=1.0)  # all but scalars


def generate(seed: int, profile: Profile = EVERYTHING) -> Graph:
    """The graph of a seed."""
    rng = np.random.default_rng([seed, 20261122])
    dtypes = list(profile.dtypes or _dtypes(rng))
    extreme = bool(rng.random() < profile.extreme)
    shape, symbols = _main_shape(rng, profile)
    graph = Graph(seed, (), (), symbols, extreme=extreme)
    evaluation = Evaluation(graph.bindings[0], Noise(), seed)
    writer = Writer(rng, evaluation.of, graph.bindings, dtypes, extreme, profile.rules)
    _inputs(writer, shape)
    low, high = profile.operators
    wanted = low + int((high - low) * rng.random() ** 1.5)
    for _ in range(6 * wanted):
        writer.step()
        if sum(isinstance(value, Call) for value in writer.values) >= wanted:
            break
    outputs = _outputs(writer)
    arch = str(rng.choice(ARCHS, p=np.array(ARCH_WEIGHTS) / sum(ARCH_WEIGHTS)))
    options = _options(rng) if rng.random() < profile.options else ()
    made = replace(graph, values=tuple(writer.values), outputs=outputs, arch=arch, options=options)
    return pruned(made)


def _dtypes(rng: np.random.Generator) -> list[str]:
    """The dtypes of a graph: one floating one often, a mix else, integers and booleans beside."""
    style = rng.random()
    floats = ["float32"]
    if style > 0.5:
        floats = [str(rng.choice(("float16", "bfloat16")))]
    if style > 0.75:
        floats = [*floats, "float32"]
    if style > 0.93:
        floats = [*floats, str(rng.choice(("float64", "float16", "bfloat16")))]
    if rng.random() < 0.4:
        integers = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "int32")
        floats += [str(name) for name in rng.choice(integers, 2)]
    if rng.random() < 0.3:
        floats.append("bool")
    return list(dict.fromkeys(floats))


def _extent(rng: np.random.Generator, empty: float) -> int:
    style = rng.random()
    if style < empty:
        return 0
    pool = SMALL if style < 0.6 else MEDIUM if style < 0.88 else LARGE
    return int(rng.choice(pool))


def _main_shape(rng: np.random.Generator, profile: Profile) -> tuple[Shape, tuple[Symbol, ...]]:
    """The shape that the graph is about, and its symbols with three sizes each."""
    rank = int(rng.choice((0, 1, 2, 3, 4, 5), p=(0.02, 0.13, 0.33, 0.27, 0.17, 0.08)))
    while True:
        extents = [_extent(rng, profile.empty) for _ in range(rank)]
        if np.prod([max(extent, 1) for extent in extents], dtype="int64") <= MAIN:
            break
    shape = [Extent.of(extent) for extent in extents]
    symbols: list[Symbol] = []
    if rank and rng.random() < profile.symbolic:
        count = min(int(rng.integers(1, 3)), rank)
        for name, axis in zip("nm", sorted(rng.choice(rank, count, replace=False)), strict=False):
            sizes = _sizes(rng, extents, int(axis), profile)
            bound = None
            if rng.random() < 0.4:
                bound = max(sizes) + int(rng.choice((0, 0, 1, 100, 3000)))
            shape[axis] = Extent.symbol(name)
            symbols.append(Symbol(name, sizes, bound))
    found = Graph(0, (), (), tuple(symbols))
    if any(elements(tuple(shape), sizes) > LARGEST_VALUE for sizes in found.bindings):
        return tuple(Extent.of(extent) for extent in extents), ()
    return tuple(shape), tuple(symbols)


def _sizes(
    rng: np.random.Generator, extents: list[int], axis: int, profile: Profile
) -> tuple[int, ...]:
    """Three sizes of a symbol, with which the main tensor stays small together with others."""
    others = int(np.prod([max(e, 1) for a, e in enumerate(extents) if a != axis], dtype="int64"))
    room = max(int((MAIN / others) ** 0.75), 2)
    found = [max(extents[axis], 1) if extents[axis] <= room else room]
    while len(found) < 3:
        size = 1 if rng.random() < 0.15 else _extent(rng, profile.empty)
        if size <= room:
            found.append(size)
    return tuple(found)


def _inputs(w: Writer, shape: Shape) -> None:
    """The first parameters: whole shapes, what broadcasts to them, and some of other dtypes."""
    first = next((dtype for dtype in w.dtypes if dtype != "bool"), "float32")
    w.input(shape, first)
    for dtype in w.dtypes:
        for _ in range(int(w.rng.integers(0, 3))):
            with suppress(Skip):
                w.input(w.narrower(shape), dtype)
    if shape and w.chance(0.2):
        # An extent that follows from another, as 2*n or n + 1.
        axis = int(w.rng.integers(len(shape)))
        changed = list(shape)
        changed[axis] = shape[axis] * 2 if w.chance(0.5) else shape[axis] + 1
        if all(elements(tuple(changed), sizes) <= 2 * MAIN for sizes in w.bindings):
            w.input(tuple(changed), first)


def _outputs(w: Writer) -> tuple[int, ...]:
    """What nobody reads, some of what is read; now and then parameters, constants, duplicates."""
    used: set[int] = set()
    for value in w.values:
        used.update(references(value))
    made = [place for place in w.places if not isinstance(w.values[place], Input | Const)]
    ends = [place for place in made if place not in used]
    ends += [place for place in made if place in used and w.chance(0.08)]
    if not ends:
        ends = made[-1:] or [0]
    if w.chance(0.06):
        ends.append(ends[int(w.rng.integers(len(ends)))])
    if w.chance(0.06):
        ends.append(int(w.one_of([n for n in w.places if isinstance(w.values[n], Input)])))
    constants = [n for n in w.places if isinstance(w.values[n], Const)]
    if constants and w.chance(0.08):
        ends.append(int(w.one_of(constants)))
    return tuple(ends)


def _options(rng: np.random.Generator) -> tuple[tuple[str, Any], ...]:
    """Some settings of tvm_stitch.Options."""
    way = str(
        rng.choice(
            ("together", "schemes", "fast_math", "partition", "greedy", "small", "search", "bound")
        )
    )
    if way == "schemes":
        kept = tuple(scheme for scheme in SCHEMES if rng.random() < 0.65)
        return (("schemes", kept or ("local",)),)
    return {
        "together": (("launch_us", 100.0),),
        "fast_math": (("fast_math", True),),
        "partition": (("partition", True),),
        "greedy": (("solver", "greedy"),),
        "small": (("largest_kernel", int(rng.integers(1, 5))), ("recomputed", 0)),
        "search": (("deterministic", False),),
        "bound": (("workspace_bytes", int(rng.integers(0, 5000))), ("launch_us", 20.0)),
    }[way]
