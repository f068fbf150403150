"""What a saved Relay module says, as plain data.

Both readers (``text`` and ``json_reader``) give these nodes and ``convert`` takes them. A node
used twice is one object: identity is sharing, as it was in Relay. Nothing here knows TVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

AttributeValue = Any
"""None, bool, int, float, str, or a (nested) list of these."""


@dataclass(frozen=True)
class TensorType:
    """A tensor's shape (None stands for Relay's ``?``) and element type."""

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"Tensor[({dims}), {self.dtype}]"


@dataclass(frozen=True)
class TupleType:
    """A tuple of types."""

    fields: tuple[Type, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.fields)) + ")"


@dataclass(frozen=True)
class OtherType:
    """A type that Relax has no counterpart for; an error only where a value of it is used."""

    text: str

    def __str__(self) -> str:
        return self.text


Type = TensorType | TupleType | OtherType


# Expressions compare and hash by identity: two equal calls are two computations.
@dataclass(eq=False, frozen=True)
class Var:
    """A function parameter or a let-bound name."""

    name: str
    type: Type | None = None
    where: str = ""


@dataclass(eq=False, frozen=True)
class Constant:
    """A tensor written into the module."""

    value: np.ndarray
    where: str = ""


@dataclass(eq=False, frozen=True)
class Operator:
    """The name of a Relay operator, as a call's callee."""

    name: str


@dataclass(eq=False, frozen=True)
class Global:
    """The name of a global function, as a call's callee."""

    name: str


@dataclass(eq=False, frozen=True)
class Call:
    """An operator, a global function or a function literal, applied to arguments."""

    callee: Expr
    args: tuple[Expr, ...]
    attrs: dict[str, AttributeValue] = field(default_factory=dict)
    type: Type | None = None
    where: str = ""


@dataclass(eq=False, frozen=True)
class Tuple:
    """A tuple of expressions."""

    fields: tuple[Expr, ...]
    where: str = ""


@dataclass(eq=False, frozen=True)
class Field:
    """One field of a tuple-valued expression."""

    value: Expr
    index: int
    where: str = ""


@dataclass(eq=False, frozen=True)
class Let:
    """``let var = value; body``."""

    var: Var
    value: Expr
    body: Expr
    where: str = ""


@dataclass(eq=False, frozen=True)
class If:
    """A choice between two expressions by a boolean scalar."""

    condition: Expr
    then: Expr
    otherwise: Expr
    where: str = ""


@dataclass(eq=False, frozen=True)
class Function:
    """A global function or a function literal."""

    params: tuple[Var, ...]
    body: Expr
    result_type: Type | None = None
    attrs: dict[str, AttributeValue] = field(default_factory=dict)
    where: str = ""


@dataclass(eq=False, frozen=True)
class Unsupported:
    """Something Relay had and Relax has not; an error only if the program needs it."""

    what: str
    where: str = ""


Expr = Var | Constant | Operator | Global | Call | Tuple | Field | Let | If | Function | Unsupported


@dataclass(frozen=True)
class Module:
    """A saved module: its global functions by name, and what else it was found to hold."""

    functions: dict[str, Expr]
    source: str
    """How to call this module in an error message: its path, or "the given text"."""


def children(node: Expr) -> Iterator[Expr]:
    """The expressions a node is made of, in the order Relay evaluates them."""
    if isinstance(node, Call):
        yield node.callee
        yield from node.args
    elif isinstance(node, Tuple):
        yield from node.fields
    elif isinstance(node, Field):
        yield node.value
    elif isinstance(node, Let):
        yield node.value
        yield node.body
    elif isinstance(node, If):
        yield node.condition
        yield node.then
        yield node.otherwise
    elif isinstance(node, Function):
        yield node.body
