"""Extents that topi spells in another way than operators do: functions are merged all the same."""

import numpy as np
import tvm
from check import check, stitched
from tvm import tirx
from tvm.relax import op
from zoo import Case, gelu64, graph

from tvm_stitch.graph.front.spelling import OneSpelling


def doubled(function, expected) -> Case:
    """A function of two times n rows and another one: what GELU's erf is written for, as n + n."""

    def build(emit, x, y):
        return emit(function(emit(op.concat([x, x, y], axis=0))))

    def wanted(x, y):
        return expected(np.concatenate([x, x, y]))

    return graph("float32", [((tirx.Var("n", "int64"), 5), 33), (1, 33)], build, wanted)


def legalized(case: Case) -> tvm.IRModule:
    """The module as the pass gets it."""
    return stitched(case.module, before="OneSpelling")


def test_erf_of_extents_that_are_simplified_later():
    case = doubled(op.nn.gelu, gelu64)
    before = legalized(case)
    assert not OneSpelling()(before).same_as(before)
    check(case)


def test_modules_of_one_spelling_are_left_alone():
    before = legalized(doubled(op.tanh, np.tanh))
    assert OneSpelling()(before).same_as(before)
