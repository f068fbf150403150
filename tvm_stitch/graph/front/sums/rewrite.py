"""The pass: each tree of additions by its terms, some of them together.

In: a Relax module. Out: the same sums of fewer terms.
"""

from __future__ import annotations

from functools import partial

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from tvm_stitch.graph.front.dataflow import (
    block_pass,
    bound,
    definitions,
    name_of,
    only_readers,
)
from tvm_stitch.graph.front.decompose.stages import has_shape
from tvm_stitch.graph.front.sums.products import one_product
from tvm_stitch.graph.front.sums.slices import one_concatenation
from tvm_stitch.graph.front.sums.terms import Known

ADD = "add"


def LongSums() -> tvm.transform.Pass:
    """Terms that are products, or slices, as one."""

    def gains(operators: frozenset[str]) -> bool:
        return ADD in operators and not operators.isdisjoint(("matmul", "where"))

    return block_pass("LongSums", gains, _rewritten)


def _rewritten(block: relax.DataflowBlock) -> relax.DataflowBlock:
    known = Known(definitions(block.bindings), only_readers(block.bindings))
    inner: set[relax.Var] = set()  # additions whose terms are a larger sum's
    found: dict[relax.Var, list[Expr]] = {}
    for binding in reversed(block.bindings):
        if _adds(binding.value) and binding.var not in inner:
            found[binding.var] = _terms(binding, known, inner)
    bindings: list[relax.Binding] = []
    for binding in block.bindings:
        terms = found.get(binding.var, ())
        bindings += _summed(binding, terms, known) if len(terms) > 1 else [binding]
    return relax.DataflowBlock(bindings)


def _adds(value: Expr) -> bool:
    """Whether two tensors of the same type are added."""
    return (
        name_of(value) == ADD
        and all(has_shape(arg) for arg in value.args)
        and all(tvm_ffi.structural_equal(arg.ty, value.ty) for arg in value.args)
    )


def _terms(binding: relax.VarBinding, known: Known, inner: set[relax.Var]) -> list[Expr]:
    """What a sum is of, in order; additions that only it reads are taken apart."""
    pending, terms = list(reversed(binding.value.args)), []
    while pending:
        term = pending.pop()
        value = known.definition(term)
        if value is not None and _adds(value) and known.is_read_once(term):
            inner.add(term)
            pending += reversed(value.args)
        else:
            terms.append(term)
    return terms


def _summed(binding: relax.VarBinding, terms: list[Expr], known: Known) -> list[relax.Binding]:
    """The sum of what is left, and of what is now together."""
    made: list[relax.Binding] = []
    emit = partial(bound, made, f"{binding.var.name}_part")
    shorter = terms
    for together in (one_product, one_concatenation):
        shorter = together(shorter, known, emit)
    if len(shorter) == len(terms):
        return [binding]
    whole = shorter[0]
    for term in shorter[1:]:
        whole = emit(op.add(whole, term))
    return [*made, relax.VarBinding(binding.var, whole)]
