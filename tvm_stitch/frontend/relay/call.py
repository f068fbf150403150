"""One operator call on its way from Relay to Relax.

An operator is a function from ``OpCall`` to the Relax expression of its result. It finds here its
arguments (Relax expressions), its attributes, what is known of the arguments' values, and the
means to emit intermediate results. It knows neither the reader nor the rest of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GenericConst

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay.arrays import dtype_of as numpy_dtype
from tvm_stitch.frontend.relay.attributes import Attributes

Expr = Any
"""A Relax expression. TVM's classes carry no types that a checker could use."""
Dim = Any
"""An int where the extent is known, else a TIR expression."""


def is_tensor(value: Expr) -> bool:
    """Whether a value is one tensor."""
    return isinstance(value.ty, relax.TensorType)


def is_tuple(value: Expr) -> bool:
    """Whether a value is a tuple."""
    return isinstance(value, relax.Tuple) or type(value.ty).__name__ == "TupleType"


def dims(value: Expr) -> list[Dim]:
    """A tensor's shape."""
    if not is_tensor(value):
        raise RelayError(f"a tensor is needed here, not {describe(value)}")
    if value.ty.shape is None:
        raise RelayError("the shape of an argument is only known at run time, which is not read")
    return [int(dim) if isinstance(dim, tirx.IntImm) else dim for dim in value.ty.shape]


def dtype(value: Expr) -> str:
    """A tensor's element type."""
    if not is_tensor(value):
        raise RelayError(f"a tensor is needed here, not {describe(value)}")
    return str(value.ty.dtype)


def rank(value: Expr) -> int:
    """How many dimensions a tensor has."""
    return len(dims(value))


def is_float(name: str) -> bool:
    """Whether a dtype is a floating-point one."""
    return name.startswith(("float", "bfloat"))


def same_dim(left: Dim, right: Dim) -> bool:
    """Whether two extents are provably one."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    if isinstance(left, int) or isinstance(right, int):
        return False
    return bool(tvm_ffi.structural_equal(left, right))


def axis_of(axis: int, ndim: int, what: str = "axis") -> int:
    """A non-negative axis; an error where it does not exist."""
    if not -ndim <= axis < ndim:
        raise RelayError(f"{what} {axis} is outside a tensor of rank {ndim}")
    return axis % ndim


def describe(value: Expr) -> str:
    """A value's type, for messages."""
    text = str(value.ty)
    return text.replace("R.", "") if len(text) < 200 else text[:200] + "..."


@dataclass(frozen=True)
class OpCall:
    """The call of one operator, as the operator's function sees it."""

    name: str
    args: Sequence[Expr]
    attrs: Attributes
    known_values: Sequence[np.ndarray | None]
    """For each argument its value, where the module itself determines it."""
    builder: relax.BlockBuilder

    def __getitem__(self, index: int) -> Expr:
        if index >= len(self.args):
            raise RelayError(f"needs at least {index + 1} arguments, has {len(self.args)}")
        return self.args[index]

    def __len__(self) -> int:
        return len(self.args)

    def expect(self, least: int, most: int | None = None) -> None:
        """Refuse a wrong number of arguments."""
        most = least if most is None else most
        if not least <= len(self.args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise RelayError(f"needs {wanted} arguments, has {len(self.args)}")

    def emit(self, value: Expr) -> Expr:
        """Bind an intermediate result."""
        return self.builder.emit(value)

    def te(self, compute: Callable[..., Any], *args: Any, name: str | None = None) -> Expr:
        """A result that a tensor expression computes."""
        hint = name or self.name.replace(".", "_")
        return self.builder.emit_te(compute, *args, primfunc_name_hint=hint)

    def constant(self, value: Any, dtype_name: str) -> Expr:
        """A constant."""
        return constant(np.asarray(value, numpy_dtype(dtype_name)))

    def like(self, value: float, tensor: Expr) -> Expr:
        """A scalar constant of a tensor's dtype."""
        return self.constant(value, dtype(tensor))

    def cast(self, value: Expr, to: str) -> Expr:
        """A value in another dtype."""
        return value if dtype(value) == to else self.emit(relax.op.astype(value, to))

    def fields(self, index: int = 0) -> list[Expr]:
        """The fields of a tuple argument."""
        value = self[index]
        if isinstance(value, relax.Tuple):
            return list(value.fields)
        if not is_tuple(value):
            raise RelayError(f"a tuple is needed here, not {describe(value)}")
        return [self.emit(relax.TupleGetItem(value, i)) for i in range(len(value.ty.fields))]

    def known(self, index: int, what: str) -> np.ndarray:
        """The value of an argument that has to be known before the model runs."""
        self[index]
        value = self.known_values[index]
        if value is None:
            raise RelayError(
                f"{what} is computed from the model's inputs; it must be a constant, or follow "
                "from shapes, for the result's shape to be known"
            )
        return value

    def known_integers(self, index: int, what: str) -> list[Dim]:
        """A known argument as a list of integers (or symbolic extents)."""
        value = self.known(index, what)
        if value.dtype == object:
            return list(value.reshape(-1))
        if value.dtype.kind not in "iub":
            raise RelayError(f"{what} must be integers, not {value.dtype}")
        return [int(item) for item in value.reshape(-1)]

    def scalar(self, index: int, what: str) -> float:
        """A known argument that is one number."""
        value = self.known(index, what)
        if value.size != 1 or value.dtype == object:
            raise RelayError(f"{what} must be one number, not an array of shape {value.shape}")
        return float(value.reshape(-1)[0])


OperatorFunction = Callable[[OpCall], Expr]


def constant(value: np.ndarray) -> Expr:
    """A Relax constant of the array's own dtype (left alone, Relax narrows 64 bits to 32)."""
    return relax.const(np.ascontiguousarray(value).reshape(value.shape), value.dtype.name)


def is_constant(value: Expr) -> bool:
    """Whether an expression is a constant."""
    return isinstance(value, GenericConst)
