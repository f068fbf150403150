"""Element by element: functions of one value, of two, of three, comparisons, casts."""

from __future__ import annotations

from tests.outside.graphs.families.elementwise_meanings import MEANINGS as MEANINGS
from tests.outside.graphs.families.functions import (
    ARITHMETIC,
    BITWISE,
    COMPARED,
    EXACT,
    FLOATING,
    LOGICAL,
)
from tests.outside.graphs.writer import Skip, Writer


def _one(w: Writer) -> None:
    x = w.pick(floating=True)
    names = (*FLOATING, *EXACT, "nn.gelu", "nn.softplus", "nn.leakyrelu", "clip")
    name = str(w.rng.choice(names))
    if name in ("log", "sqrt", "rsqrt"):
        x = w.call("add", w.call("abs", x), w.number(0.5, x))
    elif name in ("asin", "acos", "atanh"):
        x = w.call("multiply", w.call("tanh", x), w.number(0.75, x))
    elif name == "acosh":
        x = w.call("add", w.call("abs", x), w.number(1.5, x))
    elif name in ("exp", "sinh", "cosh", "tan") and w.chance(0.6):
        x = w.call("negative", w.call("abs", x)) if name == "exp" else w.call("sin", x)
    if name == "clip":
        w.call("clip", x, float(w.one_of((-1.0, 0.0, -0.5))), float(w.one_of((0.25, 1.0, 6.0))))
    else:
        w.call(name, x)


def _two(w: Writer) -> None:
    x = w.pick(numeric=True)
    names = [*ARITHMETIC] if w.chance(0.8) or not w.floating(x) else ["log_add_exp", "atan2"]
    name = str(w.rng.choice(names))
    operands = [x, w.fitting(x)]
    if w.chance(0.3):
        operands.reverse()
    w.call(name, *operands)


def _divided(w: Writer) -> None:
    x = w.pick(numeric=True)
    if not w.floating(x):
        y = w.constant(x, int(w.one_of((1, 2, 3, 5, 7))))
        w.call(str(w.one_of(("floor_divide", "floor_mod", "mod"))), x, y)
        return
    y = w.fitting(x)
    name = str(w.one_of(("divide", "divide", "divide", "power", "floor_divide", "floor_mod")))
    if name == "power":
        x = w.call("add", w.call("abs", x), w.number(0.25, x))
        y = w.number(float(w.one_of((2.0, 3.0, 0.5, -1.0, 1.5))), x) if w.chance(0.6) else y
    elif not (w.extreme and w.chance(0.3)):
        y = w.call("add", w.call("abs", y), w.number(0.5, y))
    w.call(name, x, y)


def _constant_operand(w: Writer) -> None:
    x = w.pick(numeric=True)
    number = w.one_of((0.5, 2.0, -1.0, 0.1, 3.0, 1e-3)) if w.floating(x) else w.one_of((1, 2, 3))
    if str(w.dtype(x)).startswith("u"):
        name = str(w.one_of(("add", "multiply", "maximum", "minimum")))
    else:
        name = str(w.rng.choice([*ARITHMETIC]))
    y = w.constant(x, number)
    w.call(name, *((x, y) if w.chance(0.7) else (y, x)))


def _compare(w: Writer) -> None:
    x = w.pick(numeric=True)
    w.call(str(w.rng.choice([*COMPARED])), x, w.fitting(x))


def _booleans(w: Writer) -> None:
    x = w.pick(dtypes=("bool",))
    if w.chance(0.25):
        w.call("logical_not", x)
    else:
        w.call(str(w.rng.choice([*LOGICAL])), x, w.fitting(x))


def _bits(w: Writer) -> None:
    x = w.pick(integer=True)
    name = str(w.rng.choice(["bitwise_not", *BITWISE]))
    if name == "bitwise_not":
        w.call(name, x)
    elif name in ("left_shift", "right_shift"):
        w.call(name, x, w.constant(x, int(w.rng.integers(0, 4))))
    else:
        w.call(name, x, w.fitting(x))


def _select(w: Writer) -> None:
    x = w.pick(numeric=True)
    y = w.fitting(x)
    condition = w.condition(x)
    if w.chance(0.75):
        w.call("where", condition, x, y)
    elif w.shape(condition) == w.shape(x):
        low = -1e4 if w.floating(x) else 1
        w.call("masked_fill", x, condition, w.constant(x, low if not w.extreme else 0))
    else:
        raise Skip


def _three(w: Writer) -> None:
    x = w.pick(floating=True)
    same = [place for place in w.places if w.type(place) == w.type(x)]
    w.call("ewise_fma", x, w.one_of(same), w.one_of(same))


def _cast(w: Writer) -> None:
    x = w.pick()
    dtype = str(w.rng.choice(w.dtypes))
    if dtype == w.dtype(x):
        raise Skip
    w.call("astype", x, dtype=dtype)


def _tests(w: Writer) -> None:
    x = w.pick(floating=True)
    w.call(str(w.one_of(("isnan", "isinf", "isfinite"))), x)


def _prelu_rule(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=1)
    axis = int(w.rng.integers(w.rank(x)))
    w.call("nn.prelu", x, w.input((w.shape(x)[axis],), w.dtype(x)), axis=axis)


RULES = [
    (_one, 14), (_two, 12), (_divided, 4), (_constant_operand, 5), (_compare, 2), (_booleans, 2),
    (_bits, 2), (_select, 3), (_three, 0.2), (_cast, 5), (_tests, 0.5), (_prelu_rule, 0.5),
]  # fmt: skip
