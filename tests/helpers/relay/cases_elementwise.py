"""Cases of element-wise operators."""

import math

import numpy as np

from relay.case import Case, Generator, Random, case

_ERF = np.vectorize(math.erf)


def _half_away(x):
    return np.trunc(x) + np.sign(x) * (np.abs(x - np.trunc(x)) >= 0.5)


_FLOAT_UNARY = {
    "abs": (np.abs, -2, 2),
    "acos": (np.arccos, -0.9, 0.9),
    "acosh": (np.arccosh, 1.1, 4),
    "asin": (np.arcsin, -0.9, 0.9),
    "asinh": (np.arcsinh, -2, 2),
    "atan": (np.arctan, -2, 2),
    "atanh": (np.arctanh, -0.9, 0.9),
    "ceil": (np.ceil, -5, 5),
    "cos": (np.cos, -4, 4),
    "cosh": (np.cosh, -2, 2),
    "erf": (_ERF, -2, 2),
    "exp": (np.exp, -2, 2),
    "fast_erf": (_ERF, -2, 2),
    "fast_exp": (np.exp, -2, 2),
    "fast_tanh": (np.tanh, -2, 2),
    "floor": (np.floor, -5, 5),
    "log": (np.log, 0.1, 5),
    "log10": (np.log10, 0.1, 5),
    "log2": (np.log2, 0.1, 5),
    "negative": (np.negative, -2, 2),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 5),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -4, 4),
    "sign": (np.sign, -2, 2),
    "sin": (np.sin, -4, 4),
    "sinh": (np.sinh, -2, 2),
    "sqrt": (np.sqrt, 0.1, 5),
    "tan": (np.tan, -1, 1),
    "tanh": (np.tanh, -2, 2),
    "trunc": (np.trunc, -5, 5),
}
_FLOAT_BINARY = {
    "add": np.add,
    "divide": np.divide,
    "floor_divide": lambda a, b: np.floor(a / b),
    "floor_mod": lambda a, b: a - np.floor(a / b) * b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": lambda a, b: a - np.trunc(a / b) * b,
    "multiply": np.multiply,
    "power": lambda a, b: np.power(np.abs(a), b),
    "subtract": np.subtract,
    "trunc_divide": lambda a, b: np.trunc(a / b),
    "trunc_mod": lambda a, b: a - np.trunc(a / b) * b,
}
_COMPARISONS = {
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "not_equal": np.not_equal,
}
_INTEGER_BINARY = {
    "add": np.add,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "divide": lambda a, b: np.trunc(a / b).astype(a.dtype),
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.fmod,
    "multiply": np.multiply,
    "subtract": np.subtract,
    "trunc_divide": lambda a, b: np.trunc(a / b).astype(a.dtype),
    "trunc_mod": np.fmod,
}
_LOGICAL = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
_SHIFTS = {"left_shift": np.left_shift, "right_shift": np.right_shift}
_MARKS = {
    "annotation.checkpoint": "",
    "annotation.stop_fusion": "",
    "annotation.cast_hint": ', dtype="int8"',
    "compiler_begin": ', compiler="dnnl"',
    "compiler_end": ', compiler="dnnl"',
    "copy": "",
    "device_copy": "",
    "on_device": ", constrain_result=False",
}


def _unary(name: str) -> Generator:
    reference, low, high = _FLOAT_UNARY[name]

    def generate(r: Random) -> Case:
        x = r.floats(r.shape(0, 4), low, high)
        return case(f"{name}(%x)", reference(x.astype("float64")).astype("float32"), x=x)

    return generate


def _binary(name: str) -> Generator:
    def floats(r: Random) -> Case:
        left, right = r.broadcast()
        a, b = r.floats(left, 0.5, 4) * r.pick(-1, 1), r.floats(right, 0.5, 4)
        a = np.abs(a) if name == "power" else a
        a = a.astype("float32")
        # Quotients near a whole number round one way or the other.
        if "mod" in name or "_divide" in name:
            a = (np.floor(a * 8) / 8 + 0.03).astype("float32")
            b = (np.ceil(b)).astype("float32")
        return case(f"{name}(%a, %b)", _FLOAT_BINARY[name](a, b).astype("float32"), a=a, b=b)

    def integers(r: Random) -> Case:
        left, right = r.broadcast()
        dtype = r.pick("int8", "int32", "int64")
        a, b = r.ints(left, dtype=dtype), r.ints(right, 1, 6, dtype) * r.pick(-1, 1)
        b = b.astype(dtype)
        return case(f"{name}(%a, %b)", _INTEGER_BINARY[name](a, b).astype(dtype), a=a, b=b)

    def generate(r: Random) -> Case:
        has_both = name in _FLOAT_BINARY and name in _INTEGER_BINARY
        use_floats = r.flag() if has_both else name in _FLOAT_BINARY
        return floats(r) if use_floats else integers(r)

    return generate


def _comparison(name: str) -> Generator:
    def generate(r: Random) -> Case:
        left, right = r.broadcast()
        a, b = r.ints(left, 0, 3), r.ints(right, 0, 3)
        dtype = r.pick("int32", "float32")
        a, b = a.astype(dtype), b.astype(dtype)
        return case(f"{name}(%a, %b)", _COMPARISONS[name](a, b), a=a, b=b)

    return generate


def _logical(name: str) -> Generator:
    def generate(r: Random) -> Case:
        left, right = r.broadcast()
        a, b = r.bools(left), r.bools(right)
        return case(f"{name}(%a, %b)", _LOGICAL[name](a, b), a=a, b=b)

    return generate


def _shift(name: str) -> Generator:
    def generate(r: Random) -> Case:
        left, right = r.broadcast()
        a, b = r.ints(left, 0, 500), r.ints(right, 0, 7)
        return case(f"{name}(%a, %b)", _SHIFTS[name](a, b), a=a, b=b)

    return generate


def _mark(name: str) -> Generator:
    def generate(r: Random) -> Case:
        x = r.floats()
        return case(f"{name}(%x{_MARKS[name]})", x, x=x)

    return generate


def _round(r: Random) -> Case:
    x = np.concatenate([r.floats((5,), -5, 5), np.arange(-3, 4, dtype="float32") + 0.5])
    return case("round(%x)", _half_away(x).astype("float32"), x=x.astype("float32"))


def _not_finite(name: str) -> Generator:
    reference = getattr(np, name)

    def generate(r: Random) -> Case:
        x = r.floats(r.shape(1, 3))
        x.reshape(-1)[:: r.int(2, 4)] = r.pick(np.inf, -np.inf, np.nan)
        return case(f"{name}(%x)", reference(x), x=x)

    return generate


def _clip(r: Random) -> Case:
    low, high = round(r.int(-20, 0) / 16, 4), round(r.int(1, 20) / 16, 4)
    if r.flag():
        x = r.floats()
        want = np.clip(x, low, high).astype("float32")
        return case(f"clip(%x, a_min={low}f, a_max={high}f)", want, x=x)
    x = r.ints(low=-100, high=100, dtype=r.pick("int8", "int32"))
    return case("clip(%x, a_min=-3f, a_max=7f)", np.clip(x, -3, 7), x=x)


def _cast(r: Random) -> Case:
    to = r.pick("float32", "int32", "int64", "float16", "bool", "float64", "uint8", "int8")
    x = r.floats(low=0, high=9) if to == "uint8" else r.floats(low=-9, high=9)
    x = r.pick(x, np.trunc(x).astype("int32"))
    want = x != 0 if to == "bool" else x.astype(to)
    return case(f'cast(%x, dtype="{to}")', want, x=x, tolerance=1e-3)


def _cast_like(r: Random) -> Case:
    x, y = r.floats(low=-9, high=9), r.ints((2,), dtype=r.pick("int32", "int8"))
    return case("cast_like(%x, %y)", x.astype(y.dtype), x=x, y=y)


def _reinterpret(r: Random) -> Case:
    x = r.floats()
    return case('reinterpret(%x, dtype="int32")', x.view("int32"), x=x)


def _where(r: Random) -> Case:
    left, right = r.broadcast()
    condition, a, b = r.bools(left), r.floats(right), r.floats(left)
    if condition.ndim == 1 and a.ndim > 1:
        return _where(r)
    want = np.where(condition, a, b)
    return case("where(%c, %a, %b)", want, c=condition, a=a, b=b)


def _where_rows(r: Random) -> Case:
    condition, a = r.bools((3,)), r.floats((3, 5))
    b = r.floats((3, 5))
    return case("where(%c, %a, %b)", np.where(condition[:, None], a, b), c=condition, a=a, b=b)


def fixed(value: np.ndarray, multiplier: int, shift: int) -> np.ndarray:
    """Relay's fixed-point multiplication, halves upwards."""
    wide = value.astype("int64") << max(shift, 0)
    right = 31 - min(shift, 0)
    return ((wide * multiplier + (1 << (right - 1))) >> right).astype("int32")


def _fixed_point_multiply(r: Random) -> Case:
    x, m, s = r.ints(low=-1000, high=1000), r.int(1 << 30, (1 << 31) - 1), r.int(-6, 3)
    attrs = f"multiplier={m}, shift={s}"
    return case(f"fixed_point_multiply(%x, {attrs})", fixed(x, m, s), x=x)


def _fixed_point_per_axis(r: Random) -> Case:
    x = r.ints((3, 4), -1000, 1000)
    m = r.ints((4,), 1 << 30, (1 << 31) - 1)
    left, right = r.ints((4,), 0, 2), r.ints((4,), 0, 5)
    wide = (x.astype("int64") << left) * m.astype("int64")
    total = right.astype("int64") + 31
    want = ((wide + (np.int64(1) << (total - 1))) >> total).astype("int32")
    attrs = "is_lshift_required=True, is_rshift_required=True, axes=[1]"
    body = f"fixed_point_multiply_per_axis(%x, %m, %l, %r, {attrs})"
    return case(body, want, x=x, m=m, l=left, r=right)


def _bitwise_not(r: Random) -> Case:
    x = r.ints()
    return case("bitwise_not(%x)", ~x, x=x)


def _logical_not(r: Random) -> Case:
    x = r.bools()
    return case("logical_not(%x)", ~x, x=x)


GENERATORS: dict[str, list[Generator]] = {
    **{name: [_unary(name)] for name in _FLOAT_UNARY},
    **{name: [_binary(name)] for name in {**_FLOAT_BINARY, **_INTEGER_BINARY}},
    **{name: [_comparison(name)] for name in _COMPARISONS},
    **{name: [_logical(name)] for name in _LOGICAL},
    **{name: [_shift(name)] for name in _SHIFTS},
    **{name: [_mark(name)] for name in _MARKS},
    **{name: [_not_finite(name)] for name in ("isfinite", "isinf", "isnan")},
    "bitwise_not": [_bitwise_not],
    "cast": [_cast],
    "cast_like": [_cast_like],
    "clip": [_clip],
    "fixed_point_multiply": [_fixed_point_multiply],
    "fixed_point_multiply_per_axis": [_fixed_point_per_axis],
    "logical_not": [_logical_not],
    "reinterpret": [_reinterpret],
    "round": [_round],
    "where": [_where, _where_rows],
}
