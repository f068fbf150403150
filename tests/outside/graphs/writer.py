"""Grows a graph call by call; every value is typed by TVM and computed as it is added.

A call that TVM's own inference refuses, whose shape is no polynomial in the symbols, that is too
large, or of whose result nothing could be judged, is taken back: it raises Skip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from tests.outside.graphs.extent import Extent, extent_of
from tests.outside.graphs.graph import (
    Builder,
    Call,
    Const,
    Data,
    Input,
    Item,
    Ref,
    Shape,
    Value,
    constant,
)
from tests.outside.graphs.number import FLOATS, HALVES, LARGEST, Number

# Elements of a value, and of all values together.
LARGEST_VALUE = 40_000
LARGEST_GRAPH = 160_000
# What TVM itself cannot build for CUDA: graphs that hold it would tell nothing else.
_NOT_HALVES = ("asin", "acos", "atan2", "asinh", "acosh", "atanh", "mod")
_NOT_BFLOAT16 = ("isnan", "isinf", "isfinite", "log_add_exp", "power")
BEYOND_TVM = {
    *((name, dtype) for name in _NOT_HALVES for dtype in HALVES),
    *((name, "bfloat16") for name in _NOT_BFLOAT16),
}


class Skip(Exception):
    """A rule has nothing to add here."""


@dataclass(frozen=True)
class Type:
    """What is known of a tensor before it is computed."""

    shape: Shape
    dtype: str


class Writer:
    """The values so far, and chance."""

    def __init__(
        self,
        rng: np.random.Generator,
        evaluate: Callable[[Value, int, Sequence[Any]], Any],
        bindings: Sequence[Mapping[str, int]],
        dtypes: Sequence[str],
        extreme: bool,
        rules: Sequence[tuple[Callable[[Writer], None], float]],
    ) -> None:
        self.rng, self.evaluate, self.bindings = rng, evaluate, bindings
        self.dtypes, self.extreme = list(dtypes), extreme
        self.values: list[Value] = []
        self.types: list[Type | None] = []  # None for several results
        self.numbers: list[Any] = []
        self._blocks = relax.BlockBuilder()
        self._builder = Builder(lambda expr: expr)
        self._rules = [rule for rule, _ in rules]
        weights = np.array([weight for _, weight in rules], float)
        self._weights = weights / weights.sum()

    # Chance

    def chance(self, probability: float) -> bool:
        """True as often as that."""
        return bool(self.rng.random() < probability)

    def one_of(self, values: Sequence[Any]) -> Any:
        """Any of these."""
        if not len(values):
            raise Skip
        return values[int(self.rng.integers(len(values)))]

    def step(self) -> bool:
        """Let one rule add something; False where it could not, and nothing was added."""
        before = len(self.values)
        rule = self._rules[int(self.rng.choice(len(self._rules), p=self._weights))]
        try:
            rule(self)
        except Skip:
            self._cut(before)
            return False
        return True

    def _cut(self, length: int) -> None:
        for each in (self.values, self.types, self.numbers, self._builder.built):
            del each[length:]

    # What there is

    @property
    def places(self) -> list[int]:
        """All tensors."""
        return [place for place, known in enumerate(self.types) if known is not None]

    def type(self, place: int) -> Type:
        """Shape and dtype of a tensor."""
        found = self.types[place]
        assert found is not None
        return found

    def shape(self, place: int) -> Shape:
        """The shape of a tensor."""
        return self.type(place).shape

    def dtype(self, place: int) -> str:
        """The dtype of a tensor."""
        return self.type(place).dtype

    def rank(self, place: int) -> int:
        """The rank of a tensor."""
        return len(self.shape(place))

    def floating(self, place: int) -> bool:
        """Whether a tensor is of a floating dtype."""
        return self.dtype(place) in FLOATS

    def pick(
        self,
        floating: bool = False,
        integer: bool = False,
        numeric: bool = False,
        dtypes: Sequence[str] = (),
        least_rank: int = 0,
        ranks: Sequence[int] = (),
    ) -> int:
        """A tensor that suits, the later ones more often; constants never."""
        suitable = [
            place
            for place in self.places
            if not isinstance(self.values[place], Const)
            and (not floating or self.floating(place))
            and (not integer or self.dtype(place).startswith(("int", "uint")))
            and (not numeric or self.dtype(place) != "bool")
            and (not dtypes or self.dtype(place) in dtypes)
            and self.rank(place) >= least_rank
            and (not ranks or self.rank(place) in ranks)
        ]
        if not suitable:
            raise Skip
        if self.chance(0.25):
            return int(self.one_of(suitable))
        return suitable[max(len(suitable) - int(self.rng.geometric(0.35)), 0)]

    def axis(self, place: int) -> int:
        """An axis, the last one more often."""
        rank = self.rank(place)
        if not rank:
            raise Skip
        return rank - 1 if self.chance(0.5) else int(self.rng.integers(rank))

    # What is added

    def input(self, shape: Shape, dtype: str, data: Data | None = None) -> int:
        """A new parameter."""
        return self._add(Input(dtype, tuple(shape), data or self._data(dtype)), Type(shape, dtype))

    def _data(self, dtype: str) -> Data:
        if dtype not in FLOATS:
            return Data("small")
        kinds = ["normal", "uniform", "positive", "ties", "zeros"]
        weights = [0.6, 0.15, 0.1, 0.12, 0.03]
        if self.extreme and self.chance(0.5):
            return Data(str(self.one_of(("masked", "nan", "denormal", "large", "infinite"))))
        return Data(str(self.rng.choice(kinds, p=weights)))

    def constant(self, like: int, value: Any) -> int:
        """A constant of the dtype of another tensor."""
        dtype = self.dtype(like)
        shape = tuple(Extent.of(n) for n in np.shape(value))
        return self._add(Const(dtype, value), Type(shape, dtype))

    def number(self, value: float, like: int) -> int:
        """A floating constant."""
        return self.constant(like, value)

    def fitting(self, place: int) -> int:
        """A tensor of the same dtype that broadcasts with another: one there is, or a new input."""
        fits = [
            other
            for other in self.places
            if self.dtype(other) == self.dtype(place)
            and not isinstance(self.values[other], Const)
            and broadcast(self.shape(other), self.shape(place)) is not None
        ]
        if len(fits) > 1 and self.chance(0.75):
            return int(self.one_of(fits))
        return self.input(self.narrower(self.shape(place)), self.dtype(place))

    def narrower(self, shape: Shape) -> Shape:
        """A shape that broadcasts to this one."""
        style = self.rng.random()
        if style < 0.35:
            return shape
        if style < 0.65:
            return shape[int(self.rng.integers(len(shape) + 1)) :]
        return tuple(extent if self.chance(0.6) else Extent.of(1) for extent in shape)

    def condition(self, like: int) -> int:
        """A boolean tensor that broadcasts to another."""
        shape = self.shape(like)
        fits = [
            other
            for other in self.places
            if self.dtype(other) == "bool" and broadcast(self.shape(other), shape) == shape
        ]
        if fits and self.chance(0.6):
            return int(self.one_of(fits))
        if self.dtype(like) != "bool" and self.chance(0.6):
            return self.call("greater", like, self.constant(like, 0))
        return self.input(self.narrower(shape), "bool")

    def call(self, name: str, *args: Any, **attrs: Any) -> int:
        """A call; places among the arguments are given as they are, lists of them as lists."""
        call = Call(name, tuple(map(_referring, args)), tuple(attrs.items()))
        first = args[0] if args and isinstance(args[0], int) else None
        if first is not None and (name, self.dtype(first)) in BEYOND_TVM:
            raise Skip
        try:
            typed = self._blocks.normalize(self._builder.call(call)).ty
        except Exception as error:  # TVM's inference has its own view of what is allowed
            raise Skip(f"{name}: {error}") from None
        if isinstance(typed, relax.TupleType):
            return self._add(call, None, relax.Var("results", typed))
        return self._add(call, self._type(typed))

    def items(self, call: int) -> list[int]:
        """Each result of a call that has several."""
        count = len(self.numbers[call])
        return [self.item(call, number) for number in range(count)]

    def item(self, call: int, number: int) -> int:
        """One result of a call that has several."""
        item = Item(Ref(call), number)
        expr = relax.TupleGetItem(self._builder.built[call], number)
        return self._add(item, self._type(self._blocks.normalize(expr).ty))

    def _type(self, typed: Any) -> Type:
        if not isinstance(typed, relax.TensorType) or not isinstance(typed.shape, relax.ShapeExpr):
            raise Skip("its shape is not known")
        shape = [extent_of(extent) for extent in typed.shape.values]
        known = tuple(extent for extent in shape if extent is not None)
        if len(known) < len(shape) or len(known) > 5:
            raise Skip("its shape is no polynomial")
        return Type(known, str(typed.dtype))

    def _add(self, value: Value, typed: Type | None, built: Any = None) -> int:
        if typed is not None:
            self._check_size(typed)
        numbers = self.evaluate(value, len(self.values), self.numbers)
        if typed is not None:
            self._check(value, typed, numbers)
        if isinstance(value, Const):
            built = constant(value)
        elif typed is not None:
            shape = [self._builder.extent(extent) for extent in typed.shape]
            built = relax.Var(f"v{len(self.values)}", relax.TensorType(shape, typed.dtype))
        self.values.append(value)
        self.types.append(typed)
        self.numbers.append(numbers)
        self._builder.built.append(built)
        return len(self.values) - 1

    def _check_size(self, typed: Type) -> None:
        for sizes in self.bindings:
            size = elements(typed.shape, sizes)
            others = (elements(known.shape, sizes) for known in self.types if known is not None)
            if size > LARGEST_VALUE or size + sum(others) > LARGEST_GRAPH:
                raise Skip("too large")

    def _check(self, value: Value, typed: Type, number: Number) -> None:
        """Whether there is something left to judge."""
        sizes = self.bindings[0]
        shape = tuple(extent.size(sizes) for extent in typed.shape)
        if (number.value.shape, number.dtype) != (shape, typed.dtype):
            raise AssertionError(
                f"{value} is {typed.dtype}{shape}, NumPy says {number.dtype}{number.value.shape}"
            )
        if isinstance(value, Input | Const) or not number.value.size:
            return
        wild = float(np.mean(np.isinf(number.bound)))
        if wild > (0.5 if self.extreme else 0):
            raise Skip("nothing can be said of it")
        if typed.dtype not in FLOATS:
            if typed.dtype == "bool" and np.mean(number.bound) > 0.2:
                raise Skip("it may as well be otherwise")
            return
        finite = np.isfinite(number.value) & np.isfinite(number.bound)
        if not self.extreme and not finite.all():
            raise Skip("it is no number")
        size, off = np.abs(number.value[finite]), number.bound[finite]
        largest = min(1e6, LARGEST[typed.dtype] / 30)
        if not self.extreme and size.size and size.max() > largest:
            raise Skip("it is large")
        if size.size and off.mean() > 0.1 * size.mean() and off.any():
            raise Skip("it is little but rounding")


def elements(shape: Shape, sizes: Mapping[str, int]) -> int:
    """How many elements a shape has."""
    return int(np.prod([extent.size(sizes) for extent in shape], dtype="int64"))


def broadcast(left: Shape, right: Shape) -> Shape | None:
    """The shape that two broadcast to, None where they do not."""
    rank = max(len(left), len(right))
    one = Extent.of(1)
    found = []
    for a, b in zip(_padded(left, rank), _padded(right, rank), strict=True):
        if a != b and one not in (a, b):
            return None
        found.append(b if a == one else a)
    return tuple(found)


def _padded(shape: Shape, rank: int) -> Shape:
    return (Extent.of(1),) * (rank - len(shape)) + tuple(shape)


def _referring(argument: Any) -> Any:
    """Places as references: bare integers are places, never attributes."""
    if isinstance(argument, bool):
        return argument
    if isinstance(argument, int):
        return Ref(argument)
    if isinstance(argument, list):
        return [_referring(part) for part in argument]
    return argument
