"""What is known of a block's variables where its sums are taken apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import relax
from tvm.ir import Expr

from tvm_stitch.graph.front.decompose.view import Definition

Emit = Callable[[Expr], Expr]
"""Binds a value to a variable in front of the sum."""


@dataclass(frozen=True)
class Known:
    """What variables are bound to, and who alone reads them."""

    definition: Definition
    only_reader: Mapping[relax.Var, relax.VarBinding]

    def is_read_once(self, value: Expr) -> bool:
        """Whether a variable has one reader, with which it may go."""
        return value in self.only_reader
