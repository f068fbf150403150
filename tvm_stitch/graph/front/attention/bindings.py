"""What the bindings of a dataflow block say of each other: definitions and readers.

In: a dataflow block. Out: Bindings. Knows no operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tvm import relax
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.dataflow import definitions, name_of, readers_of
from tvm_stitch.graph.front.decompose.view import Definition


class Bindings:
    """A block's variables: what each is bound to, and by whom it is read."""

    def __init__(self, block: relax.DataflowBlock) -> None:
        self.ordered = [each for each in block.bindings if isinstance(each, relax.VarBinding)]
        self.definition: Definition = definitions(block.bindings)
        self._others = [each for each in block.bindings if not isinstance(each, relax.VarBinding)]

    def call(self, value: Expr, *names: str) -> Call | None:
        """The call that a variable is bound to, if it is of one of these operators, or of any."""
        found = self.definition(value)
        name = name_of(found)
        return found if name and (not names or name in names) else None

    def readers(self, var: Expr) -> Sequence[relax.VarBinding]:
        """The bindings of the block that read a variable."""
        return self._readers.get(var, ())

    def are_private(self, members: frozenset[relax.Var], result: relax.Var) -> bool:
        """Whether nobody but they themselves and what is made of them reads these variables."""
        allowed = members | {result}
        return all(
            isinstance(var, relax.DataflowVar)
            and var not in self._read_otherwise
            and all(reader.var in allowed for reader in self.readers(var))
            for var in members
        )

    @cached_property
    def _readers(self) -> dict[relax.Var, list[relax.VarBinding]]:
        return readers_of(self.ordered)

    @cached_property
    def _read_otherwise(self) -> frozenset[relax.Var]:
        others = (relax.analysis.free_vars(each.value) for each in self._others)
        return frozenset(var for found in others for var in found)
